//! The seam between the engine and what keeps its rows: the [`Store`] trait, its errors, and the memory store.
//!
//! A store knows no queue rules: it keeps typed rows ([`millpond_core::row`]), writes one
//! [`ChangeSet`](millpond_core::ChangeSet) atomically, and reads by key or in order. A backend is right when
//! `millpond-store-conformance` says so.
//!
//! Contract:
//! - **One owner.** [`Store`] is the right to write one environment. Whoever opens later deposes it: from then on its
//!   commits answer `Fenced`.
//! - **Atomic and durable.** After `Ok`, a commit survives the loss of power; after an error other than `Unknown` nothing
//!   of it is there.
//! - **In order.** Commit n follows n − 1; any other number answers `Fenced` (design-holes A4).
//! - **Reads see whole commits.** An answer's `snapshot` names the last commit that it saw: all of it and nothing later.
//!   A reader sees every commit that was finished before the read began.
//! - **Changes fit the rows.** An inserted delivery or chunk is new, an updated or removed one is there; anything else
//!   answers `Corrupt` and nothing happened. Queues, counters, remembered calls, uploads, segments, runs, triggers and the
//!   secret are written over what is there, and removing one that is not there does nothing. Logs are cleared before
//!   segments are removed, segments, runs and triggers are removed before any is written, and with a queue leave its
//!   counters, segments and runs, those written by the same commit too.
//! - **A copy is a message like others.** It has the content of one that is stored when the commit begins, chunks included, also if
//!   the commit removes that one. Unless that one and its chunks are there, and none of the copy's, it answers `Corrupt`.
//! - **Progress is a delivery like others**, in all orders, and can be read by its cursor and message. It has no message
//!   under its sequence: none leaves with it.
//! - **Chunks are rows of their own.** A message leaves with its delivery, its chunks do not.
//! - **External commands are taken once.** A commit that names one that is not committed, or that was taken, answers `Corrupt` and
//!   nothing happened. Until one is taken every read shows it, of whichever owner.
//! - **Claims are final.** Whoever stores the key of a lease first, the owner or a transaction beside it, has it; a transaction that
//!   is open has it until it ends, and no reader waits for that. A claim that is removed may be stored on: it must be for as long as
//!   a transaction is open that might still see the lease as held.
//! - **Bytes come back as they came**, names and keys included, whatever they hold.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod backup;
mod error;
mod memory;
mod outage;
pub mod persisted;
mod snapshot;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::{
    CountersRow, EnvironmentRow, MessageContent, QueueRow, RunRow, SecretRow, SegmentRow, TriggerRow,
};
use millpond_core::{ChangeSet, External, LowWater, Page, RowKey, Rows, Scan};

pub use backup::{BackedUp, Backup, CopyProgress};
pub use error::{StoreError, StoreErrorKind};
pub use memory::{BesideError, MemoryBeside, MemoryDisk, MemoryDump, MemoryStore};
pub use outage::Outage;
pub use snapshot::{PAGE_BYTES, PAGE_ROWS, RowCounts, RowKind, Snapshot, SnapshotHead, Snapshots, StoredRow};

/// What an owner finds when it opens an environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opened {
    /// The last commit.
    pub commit: CommitSequence,
    /// The environment's row; `Default` if there was none.
    pub environment: EnvironmentRow,
    /// All queues with their counters, deleted ones that are not swept yet included.
    pub queues: Vec<(QueueRow, CountersRow)>,
    /// All segments of all logs, in the order of their keys.
    pub segments: Vec<SegmentRow>,
    /// All runs of all cursors, in the order of their keys.
    pub runs: Vec<RunRow>,
    /// All triggers, in the order of their ids.
    pub triggers: Vec<TriggerRow>,
    /// What pushes are signed with; `Default` if it was never set.
    pub secret: SecretRow,
    /// The low-water marks of queues that are there and of the environment, in the order of their orders; or none, of a store that
    /// does not keep them.
    pub low_water: Vec<LowWater>,
    /// Whether this is the same data that the last owner left.
    pub lineage: Lineage,
}

/// Whether the data that was opened is what the last owner left (design-holes A3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lineage {
    /// There was none.
    New,
    /// The same data: leases live on.
    Restarted,
    /// An older copy, or a copy of another place: leases found in it belong to nobody. The same step that takes this
    /// data for this place's own sets [`EnvironmentRow::leases_void_below`] to the highest value.
    Restored,
}

/// What became of a commit whose outcome was unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// It happened.
    Happened,
    /// It did not, and now never can.
    Lost,
}

/// Room of a store, as it sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StoreStats {
    /// Bytes that the environment takes.
    pub used_bytes: u64,
    /// New messages should be refused: room is short, or the reserve had to be given up.
    pub space_low: bool,
}

/// What waits in the intake.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExternalPage {
    /// The commit that the read saw, all of it and nothing later.
    pub snapshot: CommitSequence,
    /// The first of what waits, in order.
    pub commands: Vec<External>,
    /// There is more behind these.
    pub more: bool,
}

/// Called with the name of an environment in which external commands wait. It may be called by any thread, for no reason, and while
/// the store is at work: it does nothing that could wait for the store.
pub type Wake = Arc<dyn Fn(&str) + Send + Sync>;

/// The right to write one environment.
pub trait Store: Send {
    /// Writes all of `changes` and makes it durable.
    ///
    /// # Errors
    /// `Fenced`, `Conflict`, `Unavailable`, `Full`, `Corrupt`, `Closed`: nothing happened. `Unknown`: ask
    /// [`Store::resolve`].
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError>;

    /// How long the last commit that went through waited for its changes to reach the medium, the rest of it having been
    /// work of the processor; `None`: the store cannot tell.
    fn last_flush(&self) -> Option<Duration> {
        None
    }

    /// After `Unknown`: claims the number of the lost commit, so that either it is found to have happened or it
    /// never can. After `Lost` the owner has to open again.
    ///
    /// # Errors
    /// As [`Store::commit`]; the outcome stays unknown.
    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError>;

    /// A reader, which may be used from another thread while commits go on. It may outlive the store; what it reads
    /// then is whatever is committed.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError>;

    /// Room left.
    ///
    /// # Errors
    /// `Unavailable`, `Closed`.
    fn stats(&mut self) -> Result<StoreStats, StoreError>;

    /// Begins a copy of all rows in a new file, which [`Store::copy_on`] carries on while commits go on. It ends up as of its last
    /// step. One that is under way is given up.
    ///
    /// # Errors
    /// `Unavailable`: also if this store makes no copies of itself. `Full`, `Corrupt`, `Closed`.
    fn begin_copy(&mut self, _to: &Path) -> Result<(), StoreError> {
        Err(no_copies())
    }

    /// Copies so many pages more, between two commits.
    ///
    /// # Errors
    /// As [`Store::begin_copy`], also if there is no copy under way; the copy is given up.
    fn copy_on(&mut self, _pages: u32) -> Result<CopyProgress, StoreError> {
        Err(no_copies())
    }

    /// Gives up a copy that is under way, if there is one.
    fn end_copy(&mut self) {
        // There is none.
    }

    /// Puts everything in order and lets go. Dropping a store without this is a crash, which loses nothing.
    ///
    /// # Errors
    /// Any; the store is closed all the same.
    fn close(self: Box<Self>) -> Result<(), StoreError>;
}

/// Reads of one environment. No read holds a snapshot for longer than the call.
pub trait StoreReader: Send {
    /// Reads deliveries, progress and remembered calls by key, all from one snapshot, each kind in the order asked for. Claims are
    /// asked for in the same way but are no part of the snapshot: a free one is stored for the owner if its lease is held as of the last
    /// commit, and nothing waits for one that an open transaction holds.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn read(&mut self, keys: &[RowKey]) -> Result<Rows, StoreError>;

    /// Reads contents of messages, in the order asked for; `None` where there is none. Data in the row or in one chunk comes
    /// whole, data in more chunks is named by its length.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn contents(&mut self, messages: &[Sequence]) -> Result<Vec<Option<Arc<MessageContent>>>, StoreError>;

    /// Reads one chunk; `None` if there is none.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn chunk(&mut self, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, StoreError>;

    /// Reads commands that were written beside the owner, are committed and not taken: the first `limit` in the order of the intake, and
    /// what else the transactions wrote that these are of, up to [`EXTERNAL_REST_COMMANDS`] and [`EXTERNAL_REST_BYTES`]. A transaction
    /// that committed before another began comes first, and a transaction's own come together and in order.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn external(&mut self, limit: usize) -> Result<ExternalPage, StoreError> {
        let _ = limit;
        Ok(ExternalPage::default())
    }

    /// Reads one page of an ordered scan. `end` is exact: it is set if and only if nothing lies behind the page.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`, `Closed`.
    fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError>;
}

/// A transaction of which more than this lies behind a page of external commands may come in parts.
pub const EXTERNAL_REST_COMMANDS: usize = 4_096;
/// As [`EXTERNAL_REST_COMMANDS`], of data.
pub const EXTERNAL_REST_BYTES: usize = 32 << 20;

/// Environments of one place: opens them, and remembers what a closed one waits for.
pub trait StoreFactory: Send + Sync {
    /// Takes ownership of an environment. Whoever held it is fenced. One that is not known becomes known: who must
    /// not create it asks [`StoreFactory::has_environment`] first.
    ///
    /// From now until the next [`StoreFactory::set_next_due`] its next due time is the smallest there is, so that what
    /// an owner that died was waiting for is opened again at once.
    ///
    /// # Errors
    /// `Unavailable`, `Full`, `Corrupt`.
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError>;

    /// Makes an environment known; it is opened on first use. `false`: it was known.
    ///
    /// # Errors
    /// `Unavailable`, `Full`.
    fn create_environment(&self, environment: &str) -> Result<bool, StoreError>;

    /// Whether an environment is known.
    ///
    /// # Errors
    /// `Unavailable`.
    fn has_environment(&self, environment: &str) -> Result<bool, StoreError>;

    /// Stores when a closed environment has to be opened again by itself, in Unix milliseconds; `None`: never.
    /// Called by its owner, last, before or after it closes.
    ///
    /// # Errors
    /// `Unavailable` (also if it is not known), `Full`.
    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError>;

    /// Counts how often this process came to own the place; `None`: it does not own it right now, or has not made sure of that in
    /// time. What was read or opened under another hold may be of the past, and is told to nobody (design-holes A7).
    fn hold(&self) -> Option<u64> {
        Some(0)
    }

    /// From now on `wake` is called whenever the store learns that external commands wait in an environment, open or not: after each
    /// commit that adds some at the latest when the next could be read, and at once for what waits already. It replaces the `wake`
    /// before it.
    fn watch(&self, wake: Wake) {
        drop(wake);
    }

    /// Environments that have no open store of this factory and have to be opened at or before `now`, in Unix
    /// milliseconds; at most `limit`, those due first in front.
    ///
    /// # Errors
    /// `Unavailable`.
    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError>;

    /// Begins a backup in a directory that is not there yet.
    ///
    /// # Errors
    /// `Unavailable`: also if this place makes no backups. `Full`.
    fn begin_backup(&self, _to: &Path) -> Result<Box<dyn Backup>, StoreError> {
        Err(no_copies())
    }
}

fn no_copies() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "this store makes no copies of itself")
}
