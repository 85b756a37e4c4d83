//! What one commit writes, and what reads and scans answer: the words that core and stores share.

use crate::id::{CommitSequence, QueueNumber, Sequence};
use crate::row::{
    CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, DueKey, EnvironmentRow, MessageRow,
    QueueRow, ReadyKey,
};
use crate::time::Timestamp;

/// All changes of one commit. At most one change a row; the order of the lists carries no meaning, except that
/// each list is in the order in which its rows were first touched.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ChangeSet {
    /// This commit; the store holds `commit − 1` before it.
    pub commit: CommitSequence,
    /// The environment's row after it.
    pub environment: EnvironmentRow,
    /// Queues written.
    pub queues_put: Vec<QueueRow>,
    /// Queues whose last row is gone; their counters go too.
    pub queues_removed: Vec<QueueNumber>,
    /// Counters written.
    pub counters: Vec<CountersRow>,
    /// New messages; each has its delivery among `deliveries`.
    pub messages: Vec<MessageRow>,
    /// Deliveries written or removed.
    pub deliveries: Vec<DeliveryChange>,
    /// Remembered calls written, sends among them.
    pub dedup_put: Vec<DedupRow>,
    /// Remembered calls forgotten.
    pub dedup_removed: Vec<DedupKey>,
}

/// A change of one delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryChange {
    /// A row that the store does not have.
    Insert(DeliveryRow),
    /// A row that the store has.
    Update(DeliveryRow),
    /// The delivery and its message leave.
    Remove(Sequence),
}

impl ChangeSet {
    /// Rows written or removed, as a measure of its work.
    #[must_use]
    pub fn row_count(&self) -> usize {
        self.queues_put.len()
            + self.queues_removed.len()
            + self.counters.len()
            + self.messages.len()
            + self.deliveries.len()
            + self.dedup_put.len()
            + self.dedup_removed.len()
    }
}

/// A row that a command needs and memory lacks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowKey {
    /// A remembered call.
    Dedup(DedupKey),
    /// A delivery.
    Delivery(Sequence),
}

/// Answers to a batch of point reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Rows {
    /// The commit that the reads saw, all of it and nothing later.
    pub snapshot: CommitSequence,
    /// The deliveries asked for, `None` where the store has none.
    pub deliveries: Vec<(Sequence, Option<DeliveryRow>)>,
    /// The remembered calls asked for, `None` where the store has none.
    pub dedup: Vec<(DedupKey, Option<DedupRow>)>,
}

/// An ordered scan. `after` is exclusive; results ascend.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Scan {
    /// Ready deliveries of a queue in ready order.
    Ready {
        /// The queue.
        queue: QueueNumber,
        /// Begin behind this key.
        after: Option<ReadyKey>,
        /// At most so many rows.
        limit: usize,
    },
    /// Deliveries of a queue in one state other than ready, by `due_at`.
    Due {
        /// The queue.
        queue: QueueNumber,
        /// The state.
        state: DeliveryState,
        /// Begin behind this key.
        after: Option<DueKey>,
        /// At most so many rows.
        limit: usize,
    },
    /// Deliveries of the environment by `expires_at`.
    Expiry {
        /// Begin behind this key.
        after: Option<DueKey>,
        /// At most so many rows.
        limit: usize,
    },
    /// Remembered calls of the environment by `expires_at`, those up to `until`.
    DedupExpiry {
        /// Inclusive.
        until: Timestamp,
        /// At most so many rows.
        limit: usize,
    },
}

/// One page of a scan.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Page {
    /// The commit that the scan saw, all of it and nothing later.
    pub snapshot: CommitSequence,
    /// Rows of a scan over deliveries.
    pub deliveries: Vec<DeliveryRow>,
    /// Rows of a scan over remembered calls.
    pub dedup: Vec<DedupRow>,
    /// Nothing lies behind this page.
    pub end: bool,
}
