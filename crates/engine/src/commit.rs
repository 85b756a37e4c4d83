//! Makes a commit durable, and finds out what became of it when the store cannot say.

use millpond_core::{ChangeSet, planted};
use millpond_store::{Resolution, Store, StoreError, StoreErrorKind};

/// A commit that did not go through. The environment has to be opened again.
#[derive(Debug)]
pub struct CommitFailure {
    /// It may have happened all the same.
    pub unknown: bool,
    /// The store's error.
    pub error: StoreError,
}

/// Commits; after `Unknown` asks the store whether it happened.
///
/// # Errors
/// [`CommitFailure`].
pub fn commit(store: &mut dyn Store, changes: &ChangeSet) -> Result<(), CommitFailure> {
    let error = match store.commit(changes) {
        Ok(()) => return Ok(()),
        Err(error) => error,
    };
    if error.kind != StoreErrorKind::Unknown {
        return Err(CommitFailure { unknown: false, error });
    }
    match store.resolve(changes.commit) {
        Ok(Resolution::Happened) => Ok(()),
        Ok(Resolution::Lost) => Err(CommitFailure { unknown: false, error }),
        Err(_) if planted!(UnknownTakenForDone) => Ok(()),
        Err(_) => Err(CommitFailure { unknown: true, error }),
    }
}
