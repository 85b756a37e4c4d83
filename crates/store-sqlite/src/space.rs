//! Room on the disk (design-holes B15): a reserve that is given up when it is full, so that acks and sweeps go on,
//! and the word that sends should stop.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use crate::settings::SqliteSettings;

/// Room as the store sees it.
pub(crate) trait Space: Send + Sync + std::fmt::Debug {
    /// Gives up the reserve; `false`: there is none.
    fn give_up_reserve(&self) -> bool;
    /// Whether room is short or the reserve is gone. Makes the reserve again when there is room.
    fn is_low(&self, known: &Known) -> bool;
    /// Whether the log should give its room back before it is used again.
    fn is_tight(&self, known: &Known) -> bool;
}

/// Room that the file system does not know of.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Known {
    /// Bytes of the log's file. The log begins anew in them, or gives them back.
    pub(crate) log_bytes: u64,
    /// Bytes that the database will grow by when the log is moved into it.
    pub(crate) owed_bytes: u64,
    /// Bytes of free pages inside the database. New messages can have them; the file system never gets them back.
    pub(crate) reusable_bytes: u64,
}

/// A reserve file, and the free space of its file system.
#[derive(Debug)]
pub(crate) struct FileSpace {
    directory: PathBuf,
    reserve_bytes: u64,
    low_bytes: u64,
    low_permille: u64,
    /// Held while the reserve is made or given up.
    has_reserve: Mutex<bool>,
}

impl FileSpace {
    pub(crate) fn new(directory: PathBuf, settings: &SqliteSettings) -> Self {
        let space = Self {
            directory,
            reserve_bytes: settings.reserve_bytes,
            low_bytes: settings.space_low_bytes,
            low_permille: u64::from(settings.space_low_permille),
            has_reserve: Mutex::new(false),
        };
        let existing = fs::metadata(space.path()).map_or(0, |found| found.len());
        if existing != space.reserve_bytes {
            space.remove();
        }
        let has_reserve = existing == space.reserve_bytes || space.make(&Known::default());
        *space.has_reserve.lock().unwrap_or_else(PoisonError::into_inner) = has_reserve;
        space
    }

    fn path(&self) -> PathBuf {
        self.directory.join("reserve")
    }

    /// Room left and the least that there should be, in bytes; `None`: the file system does not say.
    fn room(&self) -> Option<(u64, u64)> {
        let found = statvfs(&self.directory).ok()?;
        let part = found.f_blocks.saturating_mul(found.f_frsize) / 1_000 * self.low_permille;
        Some((found.f_bavail.saturating_mul(found.f_frsize), part.max(self.low_bytes)))
    }

    /// Whether less room is left than there should be once `wanted` bytes are taken. Free pages of the database count for
    /// at most half of it: the log has to grow on the file system.
    fn is_short(&self, known: &Known, wanted: u64) -> bool {
        self.room().is_some_and(|(free, least)| {
            let free = free.saturating_add(known.log_bytes).saturating_sub(known.owed_bytes);
            free < (least / 2).saturating_add(wanted)
                || free.saturating_add(known.reusable_bytes) < least.saturating_add(wanted)
        })
    }

    /// Makes the reserve out of real blocks, if that leaves enough room.
    fn make(&self, known: &Known) -> bool {
        if self.reserve_bytes == 0 {
            return true;
        }
        if self.is_short(known, self.reserve_bytes) {
            return false;
        }
        let allocate = |file: File| fallocate(file, FallocateFlags::empty(), 0, self.reserve_bytes);
        let is_made = File::create(self.path()).is_ok_and(|file| allocate(file).is_ok());
        if !is_made {
            self.remove();
        }
        is_made
    }

    fn remove(&self) {
        // Whether it was there does not matter: what counts is that it is not any more.
        let _: std::io::Result<()> = fs::remove_file(self.path());
    }
}

impl Space for FileSpace {
    fn give_up_reserve(&self) -> bool {
        let mut has_reserve = self.has_reserve.lock().unwrap_or_else(PoisonError::into_inner);
        let had = std::mem::take(&mut *has_reserve);
        self.remove();
        had && self.reserve_bytes > 0
    }

    fn is_low(&self, known: &Known) -> bool {
        let mut has_reserve = self.has_reserve.lock().unwrap_or_else(PoisonError::into_inner);
        if !*has_reserve {
            *has_reserve = self.make(known);
        }
        !*has_reserve || self.is_short(known, 0)
    }

    fn is_tight(&self, known: &Known) -> bool {
        self.room().is_some_and(|(free, least)| free < least.saturating_add(known.owed_bytes))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt as _;

    use super::*;

    fn space(directory: &tempfile::TempDir, low_bytes: u64) -> FileSpace {
        let settings = SqliteSettings {
            reserve_bytes: 1 << 20,
            space_low_bytes: low_bytes,
            space_low_permille: 0,
            ..SqliteSettings::default()
        };
        FileSpace::new(directory.path().to_owned(), &settings)
    }

    #[test]
    fn the_reserve_is_made_of_blocks_given_up_once_and_made_again() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let space = space(&directory, 0);
        let blocks = || fs::metadata(directory.path().join("reserve")).map(|found| found.blocks() * 512);
        assert!(blocks().expect("it is there") >= 1 << 20);
        assert!(!space.is_low(&Known::default()));
        assert!(space.give_up_reserve());
        assert!(blocks().is_err());
        assert!(!space.give_up_reserve(), "there is only one");
        assert!(!space.is_low(&Known::default()), "there is room, so it is made again");
        assert!(blocks().expect("it is there again") >= 1 << 20);
    }

    #[test]
    fn without_room_there_is_no_reserve_and_room_is_low() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let space = space(&directory, u64::MAX / 2);
        assert!(space.is_low(&Known::default()));
        assert!(!space.give_up_reserve());
        assert!(!directory.path().join("reserve").exists());
    }

    #[test]
    fn a_reserve_of_another_size_is_made_anew() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        fs::write(directory.path().join("reserve"), "short").expect("it is written");
        assert!(!space(&directory, 0).is_low(&Known::default()));
        assert_eq!(
            fs::metadata(directory.path().join("reserve")).map(|found| found.len()).ok(),
            Some(1 << 20)
        );
    }

    #[test]
    fn free_pages_are_room_for_half_of_what_there_should_be_and_a_full_log_takes_room() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let free = space(&directory, 0).room().expect("it says").0;
        // Other tests use the same file system.
        let slack = free / 8;
        let low = |low_bytes: u64, owed_bytes: u64, reusable_bytes: u64| {
            space(&directory, low_bytes).is_short(&Known { log_bytes: 0, owed_bytes, reusable_bytes }, 0)
        };
        assert!(!low(free - slack, 0, 0) && low(free - slack, 2 * slack, 0));
        assert!(low(free + slack, 0, 0) && !low(free + slack, 0, 2 * slack));
        assert!(low(2 * free + 2 * slack, 0, 8 * free), "too little is left for the log");
    }
}
