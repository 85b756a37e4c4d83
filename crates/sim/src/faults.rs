//! What can break, and the store that breaks it.

use std::sync::{Arc, Mutex, PoisonError};

use millpond_core::ChangeSet;
use millpond_core::id::CommitSequence;
use millpond_store::{Resolution, Store, StoreError, StoreErrorKind, StoreReader, StoreStats};

use crate::random::Random;

/// Everything that is made to break. `ALL` is what a run has to have seen, `OF_DISK` along with it one with power cuts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Fault {
    /// A caller stopped waiting for its answer.
    Abandoned,
    /// The wall clock jumped an hour back.
    ClockBack,
    /// The wall clock jumped an hour ahead.
    ClockForward,
    /// Nothing ran for ten seconds or more.
    ClockFrozen,
    /// A commit failed and nothing happened.
    CommitFailed,
    /// A commit found no room.
    CommitFull,
    /// A commit's outcome was unknown, and it turned out that it had happened.
    CommitUnknownHappened,
    /// A commit's outcome was unknown, and it turned out that it had not happened.
    CommitUnknownLost,
    /// A commit happened, and nobody could say so.
    CommitUnresolvedHappened,
    /// A commit did not happen, and nobody could say so.
    CommitUnresolvedLost,
    /// The process died with whatever was not written yet.
    Crash,
    /// A flush failed: what it should have flushed is durable or not.
    FlushFailed,
    /// The power went in the middle of a write or a flush.
    PowerLost,
    /// An older copy of the data was put back.
    Restore,
    /// Another owner opened the environment.
    Takeover,
    /// An answer with grants never reached its caller.
    Undelivered,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::Abandoned,
        Self::ClockBack,
        Self::ClockForward,
        Self::ClockFrozen,
        Self::CommitFailed,
        Self::CommitFull,
        Self::CommitUnknownHappened,
        Self::CommitUnknownLost,
        Self::CommitUnresolvedHappened,
        Self::CommitUnresolvedLost,
        Self::Crash,
        Self::Restore,
        Self::Takeover,
        Self::Undelivered,
    ];

    /// Kinds that only a disk under SQLite has.
    pub const OF_DISK: [Self; 2] = [Self::FlushFailed, Self::PowerLost];
}

/// Faults that a commit can meet.
const COMMIT_FAULTS: [Fault; 6] = [
    Fault::CommitFailed,
    Fault::CommitFull,
    Fault::CommitUnknownHappened,
    Fault::CommitUnknownLost,
    Fault::CommitUnresolvedHappened,
    Fault::CommitUnresolvedLost,
];

/// One of the faults of commits.
pub fn draw_commit_fault(random: &mut Random) -> Option<Fault> {
    random.pick(&COMMIT_FAULTS).copied()
}

/// What the next commit will meet; shared with the store that meets it.
#[derive(Clone, Debug, Default)]
pub struct NextFault(Arc<Mutex<Option<Fault>>>);

impl NextFault {
    /// Plans a fault for the next commit.
    pub fn set(&self, fault: Option<Fault>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    fn get(&self) -> Option<Fault> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> Option<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A store whose commits fail as planned.
pub struct FaultyStore {
    inner: Box<dyn Store>,
    next: NextFault,
}

impl FaultyStore {
    /// Puts faults in front of a store.
    #[must_use]
    pub fn new(inner: Box<dyn Store>, next: NextFault) -> Self {
        Self { inner, next }
    }
}

fn failure(kind: StoreErrorKind) -> StoreError {
    StoreError::new(kind, "simulated")
}

impl Store for FaultyStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        match self.next.get() {
            Some(Fault::CommitFailed) => {
                self.next.take();
                Err(failure(StoreErrorKind::Unavailable))
            }
            Some(Fault::CommitFull) => {
                self.next.take();
                Err(failure(StoreErrorKind::Full))
            }
            Some(Fault::CommitUnknownHappened | Fault::CommitUnresolvedHappened) => {
                self.inner.commit(changes)?;
                Err(failure(StoreErrorKind::Unknown))
            }
            Some(_) => Err(failure(StoreErrorKind::Unknown)),
            None => self.inner.commit(changes),
        }
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        match self.next.take() {
            Some(Fault::CommitUnresolvedHappened | Fault::CommitUnresolvedLost) => {
                Err(failure(StoreErrorKind::Unavailable))
            }
            _ => self.inner.resolve(commit),
        }
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.inner.reader()
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        self.inner.stats()
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.inner.close()
    }
}
