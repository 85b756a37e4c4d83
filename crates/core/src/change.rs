//! What one commit writes, and what reads and scans answer: the words that core and stores share.

use crate::external::ExternalId;
use crate::id::{CommitSequence, LeaseGeneration, LogNumber, QueueNumber, Sequence};
use crate::row::{
    ChunkRow, CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, DueKey, EnvironmentRow,
    MessageRow, QueueRow, ReadyKey, RunRow, SecretRow, SegmentRow, TriggerRow, UploadRow,
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
    /// Queues whose last row is gone; their counters, segments and runs go too.
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
    /// New chunks.
    pub chunks: Vec<ChunkRow>,
    /// Chunks removed; none of them is new.
    pub chunks_removed: Vec<ChunkRange>,
    /// Uploads written.
    pub uploads_put: Vec<UploadRow>,
    /// Uploads that are no more: a message has their chunks, or nobody.
    pub uploads_removed: Vec<Sequence>,
    /// Logs all of whose segments are removed, before any is written.
    pub segments_cleared: Vec<QueueNumber>,
    /// Segments written.
    pub segments_put: Vec<SegmentRow>,
    /// Segments removed, by log and place.
    pub segments_removed: Vec<(QueueNumber, u64)>,
    /// Runs removed, by cursor and first number, before any is written.
    pub runs_removed: Vec<(QueueNumber, LogNumber)>,
    /// Runs written.
    pub runs_put: Vec<RunRow>,
    /// Copies of contents that are stored; made before anything is removed.
    pub copies: Vec<MessageCopy>,
    /// Triggers removed, by id, before any is written.
    pub triggers_removed: Vec<Box<str>>,
    /// Triggers written.
    pub triggers_put: Vec<TriggerRow>,
    /// The secret, if it changed.
    pub secret: Option<SecretRow>,
    /// Commands that were taken in: what they caused is in this commit.
    pub external_taken: Vec<ExternalId>,
    /// Leases that ended: claims on them, and settlements of them, are of no use any more.
    pub claims_removed: Vec<LeaseKey>,
    /// Low-water marks written, one an order at most.
    pub low_water: Vec<LowWater>,
}

/// An order in which a store can walk through its rows.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StoredOrder {
    /// Ready deliveries of a queue.
    Ready(QueueNumber),
    /// Deliveries of a queue in one state other than ready.
    Due(QueueNumber, DeliveryState),
    /// All deliveries, by their expiry.
    Expiry,
    /// Remembered calls, by their expiry.
    DedupExpiry,
}

impl StoredOrder {
    /// The queue whose rows it orders.
    #[must_use]
    pub fn queue(self) -> Option<QueueNumber> {
        match self {
            Self::Ready(queue) | Self::Due(queue, _) => Some(queue),
            Self::Expiry | Self::DedupExpiry => None,
        }
    }
}

/// Where an order begins: as of the commit that wrote it, and until another does, every row that is of use sorts behind it. Rows that
/// wait for their removal may lie before it. A hint for stores in which rows that are gone stay in the way of scans; others need not
/// keep it (design-holes B11).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LowWater {
    /// The order.
    pub order: StoredOrder,
    /// Of an order by time, `order_at` is that time; of remembered calls there may be rows of this very time.
    pub after: ReadyKey,
}

/// A new message with the content of one that is stored: its row, and its chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageCopy {
    /// The message that is there.
    pub from: Sequence,
    /// The new one; its delivery is among the deliveries of the commit.
    pub to: Sequence,
}

/// Chunks of one sequence that follow each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChunkRange {
    /// Whose.
    pub sequence: Sequence,
    /// The first.
    pub from: u32,
    /// The one behind the last.
    pub until: u32,
}

/// A change of one delivery.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeliveryChange {
    /// A row that the store does not have.
    Insert(DeliveryRow),
    /// A row that the store has.
    Update(DeliveryRow),
    /// The delivery and its message leave; chunks stay.
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
            + self.chunks.len()
            + self.chunks_removed.len()
            + self.uploads_put.len()
            + self.uploads_removed.len()
            + self.segments_cleared.len()
            + self.segments_put.len()
            + self.segments_removed.len()
            + self.runs_removed.len()
            + self.runs_put.len()
            + self.copies.len()
            + self.triggers_removed.len()
            + self.triggers_put.len()
            + usize::from(self.secret.is_some())
            + self.external_taken.len()
            + self.claims_removed.len()
            + self.low_water.len()
    }
}

/// A row that a command needs and memory lacks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum RowKey {
    /// A remembered call.
    Dedup(DedupKey),
    /// A delivery.
    Delivery(Sequence),
    /// A group's progress with one message, of which there is one at most.
    Progress(ProgressKey),
    /// The right to end a lease that could be settled from beside the owner. To ask for it is to take it, if it is free.
    Claim(LeaseKey),
}

/// Names a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseKey {
    /// The delivery.
    pub delivery: Sequence,
    /// The generation granted.
    pub generation: LeaseGeneration,
}

/// Who may end a lease (design-holes A5). Whoever stores its key first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// The owner: the key is stored for it now, or was before. Final: nobody settles this lease from beside any more.
    Free,
    /// A transaction that is open. It may commit or roll back.
    Held,
    /// A settlement that is committed. It is in the intake, or was taken in.
    Settled,
}

/// Names a group's progress with one message of a topic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ProgressKey {
    /// The cursor.
    pub cursor: QueueNumber,
    /// The message.
    pub message: Sequence,
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
    /// The progress asked for, `None` where the store has none.
    pub progress: Vec<(ProgressKey, Option<DeliveryRow>)>,
    /// The claims asked for.
    pub claims: Vec<(LeaseKey, Claim)>,
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
    /// Remembered calls of the environment by `expires_at`.
    DedupExpiry {
        /// Begin with this time, inclusive.
        from: Timestamp,
        /// At most so many rows.
        limit: usize,
    },
    /// Uploads of the environment by sequence.
    Uploads {
        /// Begin behind this key.
        after: Option<Sequence>,
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
    /// Rows of a scan over uploads.
    pub uploads: Vec<UploadRow>,
    /// Nothing lies behind this page.
    pub end: bool,
}
