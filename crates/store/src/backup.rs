//! A backup that is being made: copies of environments, which become a backup at once and as a whole, or not at all.

use std::path::PathBuf;

use millpond_core::id::CommitSequence;

use crate::{RowCounts, StoreError};

/// How far a copy is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CopyProgress {
    /// Pages that there are, as of the last step.
    pub pages: u64,
    /// Pages that are not copied yet; none: the copy is whole.
    pub pages_left: u64,
}

/// An environment in a backup.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BackedUp {
    /// Its name.
    pub environment: String,
    /// The last commit that is in it.
    pub commit: CommitSequence,
    /// Rows of each kind.
    pub counts: RowCounts,
    /// Bytes of the copy.
    pub bytes: u64,
}

/// A backup that is being made. Dropped before [`Backup::finish`], nothing of it is left.
pub trait Backup: Send {
    /// The names of all environments of the place, in their order.
    ///
    /// # Errors
    /// `Unavailable`.
    fn environments(&self) -> Result<Vec<String>, StoreError>;

    /// Where the next copy of an environment has to be put, which [`Backup::add`] then takes.
    fn next_file(&self) -> PathBuf;

    /// Copies an environment that nobody has open, to where [`Backup::next_file`] says.
    ///
    /// # Errors
    /// `Unavailable`: also if there is none of this name. `Full`, `Corrupt`.
    fn copy_closed(
        &mut self,
        environment: &str,
        progress: &mut dyn FnMut(CopyProgress),
    ) -> Result<(), StoreError>;

    /// Checks the copy at [`Backup::next_file`], makes it durable and takes it in under this name.
    ///
    /// # Errors
    /// `Unavailable`, `Full`. `Corrupt`: the copy contradicts itself, and so does what it was made of.
    fn add(&mut self, environment: &str) -> Result<BackedUp, StoreError>;

    /// Makes a backup of what was taken in.
    ///
    /// # Errors
    /// `Unavailable`, `Full`; nothing of it is left.
    fn finish(self: Box<Self>) -> Result<(), StoreError>;
}
