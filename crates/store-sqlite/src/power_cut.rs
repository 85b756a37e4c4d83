//! A disk in memory that can lose power, under the real SQLite (design-holes A1). For tests only.
//!
//! SIGKILL keeps the page cache, so it says nothing about flushes. This file layer keeps, for each file, what is durable
//! and what was written since its last flush. A power cut keeps any part of the latter: each sector of each write by
//! itself, in any order. Names of new and deleted files are as uncertain until they are flushed.
//!
//! It is deterministic in one thread: the randomness of a cut is the caller's, and checkpoints run on the writer.
//!
//! Not modelled: sectors that go bad, writes that reach the disk before they are asked for, and flushes that lie.

mod dump;
mod handle;
mod image;
mod locks;
mod medium;
mod shared_memory;
mod vfs;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_core::id::CommitSequence;
use millpond_store::{StoreError, StoreErrorKind};

use crate::catalogue::Catalogue;
use crate::checkpoint::Checkpointer;
use crate::connection::{Database, Missing};
use crate::factory::{Place, SqliteFactory};
use crate::lineage::{Mark, Witnesses};
use crate::settings::SqliteSettings;
use crate::space::{Known, Space};

use medium::Medium;

/// A disk in memory. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub struct Disk {
    number: u64,
    medium: Arc<Mutex<Medium>>,
}

/// All files at one moment; marks of lineages are not among them.
#[derive(Clone, Debug)]
pub struct Backup(BTreeMap<String, Vec<u8>>);

impl Disk {
    /// An empty disk.
    ///
    /// # Errors
    /// `Unavailable`: SQLite takes no file layer.
    pub fn new() -> Result<Self, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let disk = Self { number: NEXT.fetch_add(1, Ordering::Relaxed), medium: Arc::default() };
        vfs::register(disk.number, &disk.medium)
            .map_err(|code| StoreError::new(StoreErrorKind::Unavailable, format!("code {code}")))?;
        Ok(disk)
    }

    /// A factory over what the disk holds now. After a power cut everything that came of it only fails: drop it and
    /// ask for another one.
    ///
    /// # Errors
    /// Those of opening the catalogue.
    pub fn factory(&self, settings: SqliteSettings) -> Result<SqliteFactory, StoreError> {
        let catalogue = Database {
            path: format!("/{}/catalogue.sqlite", self.number).into(),
            vfs: Some(vfs::NAME.to_owned()),
            synchronous: settings.synchronous,
        };
        Ok(SqliteFactory::over(Place {
            witnesses: Box::new(self.clone()),
            space: Box::new(self.clone()),
            checkpointer: Checkpointer::inline(&settings),
            catalogue: Catalogue::open(&catalogue, Missing::Create)?,
            environments: format!("/{}/environments", self.number).into(),
            vfs: Some(vfs::NAME.to_owned()),
            open: Mutex::default(),
            unresolved: Mutex::default(),
            _lock: None,
            settings,
        }))
    }

    /// Cuts the power and turns it on again. What was not flushed is kept, lost or torn as `random` says.
    pub fn power_cut(&self, random: &mut dyn FnMut() -> u64) {
        self.medium().power_cut(random);
    }

    /// Everything fails after so many further writes, truncations, deletions and flushes, as if the power had gone in
    /// the middle of the next one; until [`Disk::power_cut`].
    pub fn fail_after(&self, operations: u64) {
        self.medium().operations_left = Some(operations);
    }

    /// Whether the power that [`Disk::fail_after`] takes away is gone.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.medium().operations_left == Some(0)
    }

    /// The next flushes fail, so many of them. What they should have flushed is durable or not, and a later flush
    /// does not make up for it, as on Linux.
    pub fn fail_flushes(&self, count: u64) {
        self.medium().failing_flushes = count;
    }

    /// So many flushes are still to fail.
    #[must_use]
    pub fn failing_flushes(&self) -> u64 {
        self.medium().failing_flushes
    }

    /// Room for files, in bytes; `None`: any.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.medium().capacity = bytes;
    }

    /// Bytes of capacity that are held back until the store gives them up.
    pub fn set_reserve(&self, bytes: u64) {
        self.medium().reserve = bytes;
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.medium().used_bytes()
    }

    /// Writes, truncations, deletions and flushes so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.medium().operations
    }

    /// Copies all files as they are now.
    #[must_use]
    pub fn back_up(&self) -> Backup {
        Backup(self.medium().back_up())
    }

    /// Puts the files of a backup in place of those that are there. Handles of before only fail.
    pub fn restore(&self, backup: &Backup) {
        self.medium().restore(&backup.0);
    }

    fn medium(&self) -> MutexGuard<'_, Medium> {
        lock(&self.medium)
    }
}

fn lock(medium: &Mutex<Medium>) -> MutexGuard<'_, Medium> {
    medium.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Marks outlive every cut, so that a lost commit shows as a restore.
impl Witnesses for Disk {
    fn load(&self, file: &str) -> Option<Mark> {
        let medium = self.medium();
        let (lineage, commit) = medium.marks.get(file)?;
        Some(Mark { lineage: lineage.clone(), commit: CommitSequence(*commit) })
    }

    fn begin(&self, file: &str, mark: &Mark) -> Result<(), StoreError> {
        self.note(file, mark);
        Ok(())
    }

    fn note(&self, file: &str, mark: &Mark) {
        self.medium().marks.insert(file.to_owned(), (mark.lineage.clone(), mark.commit.0));
    }

    fn interval(&self) -> Duration {
        Duration::ZERO
    }
}

impl Space for Disk {
    fn give_up_reserve(&self) -> bool {
        std::mem::take(&mut self.medium().reserve) > 0
    }

    fn is_low(&self, _: &Known) -> bool {
        let medium = self.medium();
        medium.capacity.is_some() && medium.reserve == 0
    }

    fn is_tight(&self, _: &Known) -> bool {
        false
    }
}
