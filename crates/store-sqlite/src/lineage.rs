//! Tells a restart from a restored copy (design-holes A3).
//!
//! A database holds a random lineage, and a file beside it holds the same lineage, the highest commit that was seen
//! durable, and which file it is itself: its inode and when it was made, which a copy cannot have. A database copied
//! back alone is behind that commit; one copied back with its file finds that the file is another one, or, if it was
//! written over in place, that the kernel saw it change at another time than it says. Written without a flush at most once a second: a mark that lags only makes
//! a copy of the last second look like a restart, which the fence bears (A2).

use std::fs::{File, Metadata, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millpond_core::id::CommitSequence;
use millpond_store::{Lineage, StoreError};

use crate::connection::sync_directory;
use crate::error::of_file;

/// How far the time of writing that a mark states may be from when its file changed. After a loss of power content and
/// inode may be of different moments.
const WRITING_SECONDS: u64 = 60;

/// What is remembered of a database outside of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) lineage: String,
    pub(crate) commit: CommitSequence,
}

/// Where marks are kept; `file` is the random name of an environment.
pub(crate) trait Witnesses: Send + Sync + std::fmt::Debug {
    /// The mark, if there is one that can be trusted.
    fn load(&self, file: &str) -> Option<Mark>;
    /// Begins a mark anew, durably, in a place of its own: one that is copied back over this one names another place.
    fn begin(&self, file: &str, mark: &Mark) -> Result<(), StoreError>;
    /// Remembers a durable commit. A failure is no one's business: the mark lags.
    fn note(&self, file: &str, mark: &Mark);
    /// How often a commit is worth a note.
    fn interval(&self) -> Duration;
}

/// What a database with this lineage and commit is.
pub(crate) fn judge(mark: Option<&Mark>, lineage: &str, commit: CommitSequence) -> Lineage {
    match mark {
        Some(mark) if mark.lineage == lineage && mark.commit <= commit => Lineage::Restarted,
        _ => Lineage::Restored,
    }
}

/// Marks in files, one an environment: `lineage commit written inode born`, each of fixed width.
#[derive(Debug)]
pub(crate) struct WitnessFiles {
    directory: PathBuf,
}

impl WitnessFiles {
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory }
    }

    fn text(file: &File, mark: &Mark) -> std::io::Result<String> {
        let written = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let identity = identity(&file.metadata()?);
        Ok(format!("{} {:020} {written:020} {identity}\n", mark.lineage, mark.commit.0))
    }
}

/// Whether the file changed when its content says. A copy cannot set the time that the kernel notes.
fn is_written_at(file: &Metadata, written: u64) -> bool {
    let changed = u64::try_from(file.ctime()).unwrap_or(0);
    changed.abs_diff(written) <= WRITING_SECONDS
}

/// Which file it is. Inodes are used again, so the time of its making belongs to it, where it is known.
fn identity(file: &Metadata) -> String {
    let born = file.created().ok().and_then(|born| born.duration_since(UNIX_EPOCH).ok());
    format!("{:020} {:020}", file.ino(), born.unwrap_or_default().as_nanos())
}

impl Witnesses for WitnessFiles {
    fn load(&self, file: &str) -> Option<Mark> {
        let path = self.directory.join(file);
        let text = std::fs::read_to_string(&path).ok()?;
        let (lineage, rest) = text.strip_suffix('\n')?.split_once(' ')?;
        let (commit, rest) = rest.split_once(' ')?;
        let (written, itself) = rest.split_once(' ')?;
        let mark = Mark { lineage: lineage.to_owned(), commit: CommitSequence(commit.parse().ok()?) };
        let found = std::fs::metadata(&path).ok()?;
        (itself == identity(&found) && is_written_at(&found, written.parse().ok()?)).then_some(mark)
    }

    fn begin(&self, file: &str, mark: &Mark) -> Result<(), StoreError> {
        let write = || {
            let (path, begun) = (self.directory.join(file), self.directory.join(format!("{file}.new")));
            let mut file = File::create(&begun)?;
            let text = Self::text(&file, mark)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(begun, path)?;
            sync_directory(&self.directory)
        };
        write().map_err(of_file("writing a lineage"))
    }

    fn note(&self, file: &str, mark: &Mark) {
        let write = || {
            let file = OpenOptions::new().write(true).open(self.directory.join(file))?;
            file.write_all_at(Self::text(&file, mark)?.as_bytes(), 0)
        };
        // A mark that lags is safe, and there is nobody to tell: the commit itself is durable.
        let _: std::io::Result<()> = write();
    }

    fn interval(&self) -> Duration {
        Duration::from_secs(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(commit: u64) -> Mark {
        Mark { lineage: "0123456789abcdef".to_owned(), commit: CommitSequence(commit) }
    }

    #[test]
    fn a_mark_is_read_back_and_a_copied_or_damaged_one_is_not() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let witnesses = WitnessFiles::new(directory.path().to_owned());
        assert_eq!(witnesses.load("a"), None);
        witnesses.begin("a", &mark(0)).expect("it is written");
        witnesses.note("a", &mark(u64::MAX));
        assert_eq!(witnesses.load("a"), Some(mark(u64::MAX)));
        witnesses.note("a", &mark(7));
        assert_eq!(witnesses.load("a"), Some(mark(7)));

        std::fs::copy(directory.path().join("a"), directory.path().join("b")).expect("it is copied");
        assert_eq!(witnesses.load("b"), None, "a copy is not the file that it names");
        std::fs::write(directory.path().join("a"), "0123").expect("it is damaged");
        assert_eq!(witnesses.load("a"), None);
    }

    #[test]
    fn a_mark_that_is_written_over_by_an_older_copy_of_itself_is_not_trusted() {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let witnesses = WitnessFiles::new(directory.path().to_owned());
        witnesses.begin("a", &mark(1)).expect("it is written");
        let older = std::fs::read(directory.path().join("a")).expect("it is there");
        witnesses.begin("a", &mark(2)).expect("it is written");
        std::fs::write(directory.path().join("a"), older).expect("it is written over");
        assert_eq!(witnesses.load("a"), None);
    }

    #[test]
    fn a_database_behind_its_mark_was_restored() {
        let judged = |commit| judge(Some(&mark(5)), &mark(0).lineage, CommitSequence(commit));
        assert_eq!(
            (judged(4), judged(5), judged(6)),
            (Lineage::Restored, Lineage::Restarted, Lineage::Restarted)
        );
        assert_eq!(judge(Some(&mark(5)), "another", CommitSequence(9)), Lineage::Restored);
        assert_eq!(judge(None, "any", CommitSequence(9)), Lineage::Restored);
    }
}
