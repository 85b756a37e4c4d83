//! Everything that is persisted, as typed rows. The stores turn them into bytes and know nothing of the rules.
//!
//! A message is two rows under one sequence: [`MessageRow`], immutable, and [`DeliveryRow`], which every
//! state change rewrites and which is therefore small. Data that is too large for the former is in [`ChunkRow`]s.

use std::sync::Arc;

use crate::change::ProgressKey;
use crate::id::{Incarnation, LeaseGeneration, LogNumber, MessageId, QueueNumber, Sequence, Uid};
use crate::remembered::Remembered;
use crate::spec::{QueueSpec, TriggerSpec};
use crate::time::Timestamp;

/// The one row of an environment; rewritten by each commit.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnvironmentRow {
    /// The opening that wrote this row.
    pub incarnation: Incarnation,
    /// Stamp of the last commit: time never runs backwards from here.
    pub stamp: Timestamp,
    /// The next message's sequence.
    pub next_sequence: Sequence,
    /// The next queue's number.
    pub next_queue: QueueNumber,
    /// Live rows of [`DedupRow`].
    pub dedup_count: u64,
    /// Leases of a lower generation belong to nobody: they were found in a restored copy (design-holes A3).
    /// Zero: there are none. A store that settles the lineage of such a copy writes [`LeaseGeneration::HIGHEST`]
    /// along with it, so that an owner that dies before its first commit leaves its successor the same.
    pub leases_void_below: LeaseGeneration,
}

/// What a [`QueueRow`] stands for: all that holds deliveries has a number, counts, orders and sweeps alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Role {
    /// A queue: its messages leave when they are settled.
    #[default]
    Queue,
    /// A topic: the log of those of its messages that were sent to no partition, in the order in which they became visible.
    Topic,
    /// The log of one partition of a topic.
    Partition {
        /// The topic.
        topic: QueueNumber,
    },
    /// A group: one reader of a topic. Its deliveries are those of its cursors.
    Group {
        /// The topic.
        topic: QueueNumber,
    },
    /// How far a group is with one log: all up to its position was handed out, and what of it is not settled has a delivery.
    Cursor {
        /// The group.
        group: QueueNumber,
        /// The log.
        log: QueueNumber,
        /// Up to this number the group begins behind: handed out only by id.
        start: LogNumber,
    },
}

impl Role {
    /// Whether its ready deliveries are a log: they stay when they are handed out.
    #[must_use]
    pub fn is_log(self) -> bool {
        matches!(self, Self::Topic | Self::Partition { .. })
    }

    /// Whether its deliveries are a group's progress with messages of a log, which counts them.
    #[must_use]
    pub fn is_cursor(self) -> bool {
        matches!(self, Self::Cursor { .. })
    }
}

/// A queue, or another [`Role`]: what it is called and what it promises.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueRow {
    /// Its number; rows refer to it by this.
    pub number: QueueNumber,
    /// What it stands for.
    pub role: Role,
    /// Its name within the environment: a queue's id, `topics/{topic}`, `topics/{topic}/groups/{group}`,
    /// `topics/{topic}/partitions/{partition}`, or nothing for a cursor.
    pub name: Box<str>,
    /// Its identity for ever.
    pub uid: Uid,
    /// Rises with each change of the spec, from 1.
    pub generation: u64,
    /// Rises with each change of anything in this row; the etag is made of it.
    pub revision: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was last changed.
    pub updated_at: Timestamp,
    /// Labels, annotations and display name as JSON, opaque to the core.
    pub annotations: Box<str>,
    /// Its policies.
    pub spec: QueueSpec,
    /// Since when nothing is handed out by order of an operator.
    pub paused_at: Option<Timestamp>,
    /// Ready and delayed rows that entered at or before this are gone, whether or not they are removed yet; leased ones
    /// leave when their lease ends.
    pub purged_through: Sequence,
    /// The same for dead rows, which entered when they died.
    pub dead_purged_through: Sequence,
    /// The queue is deleted: it has no name any more and its rows are being removed in steps.
    pub deleted: bool,
    /// Rows that are gone may still be stored: the sweeper has work.
    pub sweep_owed: bool,
    /// Leases may be settled from beside the owner, which therefore claims those that it ends. Never unset.
    pub settled_by_sql: bool,
}

/// Exact counts of one queue, rewritten by each commit that changes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CountersRow {
    /// The queue.
    pub queue: QueueNumber,
    /// Deliveries in state ready.
    pub ready: u64,
    /// Deliveries in state delayed.
    pub delayed: u64,
    /// Deliveries in state leased.
    pub leased: u64,
    /// Deliveries in the queue's own dead-letter set.
    pub dead: u64,
    /// Stored deliveries in state completed.
    pub completed: u64,
    /// Stored deliveries in state cancelled.
    pub cancelled: u64,
    /// Bytes of the contents of ready and delayed deliveries, which a purge removes together.
    pub waiting_bytes: u64,
    /// Bytes of leased deliveries.
    pub leased_bytes: u64,
    /// Bytes of dead deliveries.
    pub dead_bytes: u64,
    /// Bytes of completed and cancelled deliveries.
    pub finished_bytes: u64,
    /// Ever sent or moved in.
    pub total_sent: u64,
    /// Leases ever granted.
    pub total_delivered: u64,
    /// Of those, taken back because nobody got the answer (design-holes B13).
    pub total_undone: u64,
    /// Ever acked.
    pub total_acked: u64,
    /// Ever put out of attempts: dead-lettered, moved or dropped.
    pub total_dead: u64,
    /// Ever removed because their time was over.
    pub total_expired: u64,
    /// When a consumer last asked, as of the last commit that wrote this row; of a log, when somebody last sent.
    pub consumer_seen_at: Timestamp,
    /// Of a log: the number of its last message. Of a cursor: everything up to this number was handed out.
    pub position: LogNumber,
}

impl CountersRow {
    /// Deliveries in any state.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.ready + self.delayed + self.leased + self.dead + self.completed + self.cancelled
    }

    /// Bytes of deliveries in any state.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.waiting_bytes + self.leased_bytes + self.dead_bytes + self.finished_bytes
    }
}

/// How `data` is to be shown; the bytes are kept as they came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DataKind {
    /// There is no data.
    None,
    /// JSON text.
    Json,
    /// Unicode text.
    Text,
    /// Any bytes.
    Binary,
}

/// What was sent. Opaque to the core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageContent {
    /// The attributes, as a flat JSON object.
    pub attributes: Box<str>,
    /// How the data is to be shown.
    pub data_kind: DataKind,
    /// The data.
    pub data: Data,
}

impl MessageContent {
    /// Bytes that count against limits, wherever they are.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        self.attributes.len().saturating_add(usize::try_from(self.data.size_bytes()).unwrap_or(usize::MAX))
    }

    /// Bytes that are in memory with this value.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.attributes.len() + self.data.held().len()
    }
}

/// The data of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Data {
    /// So many bytes, too many to be held at once: they are in chunks and read one by one.
    Chunked {
        /// In all.
        bytes: u64,
    },
    /// All of it, exactly as sent.
    Whole(Box<[u8]>),
}

impl Data {
    /// Its length.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        match self {
            Self::Chunked { bytes } => *bytes,
            Self::Whole(data) => u64::try_from(data.len()).unwrap_or(u64::MAX),
        }
    }

    /// The bytes that are at hand: all or none.
    #[must_use]
    pub fn held(&self) -> &[u8] {
        match self {
            Self::Chunked { .. } => &[],
            Self::Whole(data) => data,
        }
    }
}

impl From<Box<[u8]>> for Data {
    fn from(data: Box<[u8]>) -> Self {
        Self::Whole(data)
    }
}

impl From<Vec<u8>> for Data {
    fn from(data: Vec<u8>) -> Self {
        Self::Whole(data.into())
    }
}

impl From<&[u8]> for Data {
    fn from(data: &[u8]) -> Self {
        Self::Whole(data.into())
    }
}

/// The immutable part of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageRow {
    /// Key.
    pub sequence: Sequence,
    /// What was sent. Where its data is whole, the store writes it into the row, or, if `chunks` is 1, into chunk 0
    /// along with the row; where it is chunked, the chunks are stored already.
    pub content: Arc<MessageContent>,
    /// Chunks that hold the data; 0: the row does.
    pub chunks: u32,
}

/// A part of a message's data, or of what becomes one. All of a message's chunks have the same length, but for the last,
/// which may be shorter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkRow {
    /// Key: the message's sequence.
    pub sequence: Sequence,
    /// Key: its place, from 0.
    pub number: u32,
    /// The bytes, never none.
    pub data: Arc<[u8]>,
}

/// Says that chunks belong to no message: those of an upload under way, or what a message left that is gone. What is found
/// when an environment is opened is garbage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UploadRow {
    /// Key: the sequence of the chunks.
    pub sequence: Sequence,
    /// Chunks 0 to this one, exclusive, are stored and nobody's.
    pub chunks: u32,
}

/// States of a delivery: `delayed → ready → leased → completed | dead | cancelled`, back from leased to ready
/// or delayed, and from dead to ready.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DeliveryState {
    /// Waits for its visible time.
    Delayed,
    /// Could be handed out.
    Ready,
    /// Held by a consumer until its lease ends.
    Leased,
    /// Finished; kept for the queue's finished retention.
    Completed,
    /// Out of attempts; in the queue's dead-letter set.
    Dead,
    /// Ended before it was done.
    Cancelled,
}

/// Why and whence a message was put out of attempts, or cancelled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeadLetter {
    /// When.
    pub at: Timestamp,
    /// Why.
    pub reason: DeadReason,
    /// Name of the queue in which it happened, or that was to take it.
    pub queue: Box<str>,
}

/// Why a message was put out of attempts, or cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadReason {
    /// The queue's attempt limit was reached.
    AttemptsSpent,
    /// Its lease ran out too often in a row.
    LeasesLost,
    /// Somebody cancelled it.
    Cancelled,
    /// Its idempotency key was remembered when it was taken in.
    Deduplicated,
    /// There was no such queue when it was taken in.
    QueueDeleted,
    /// What it asks for is beyond what its queue allowed when it was taken in.
    Refused,
}

/// What is known of a lease beyond its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hold {
    /// Its end is that of its grant.
    #[default]
    Granted,
    /// Its holder asked for another end.
    Extended,
    /// Nobody was told of it: whoever takes the message by its id gets this very lease.
    Reserved,
}

/// A queue's progress with one message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeliveryRow {
    /// Key; the message's sequence, or, for a group's progress with a message of a topic, one of its own.
    pub sequence: Sequence,
    /// The message's sequence.
    pub message: Sequence,
    /// The queue it is in; [`QueueNumber::NONE`]: it was cancelled when it was taken in, and is in none.
    pub queue: QueueNumber,
    /// Chunks of its message's data, as in its [`MessageRow`].
    pub chunks: u32,
    /// Its nonce; with `sent_at` and `sequence` the message id.
    pub nonce: u64,
    /// When the message was sent.
    pub sent_at: Timestamp,
    /// Bytes of its content: attributes and data.
    pub size_bytes: u64,
    /// Sequence drawn when it entered this queue, its dead-letter set, or its ready messages from there: its own, or a
    /// later one. What a purge makes gone is told by it. Of a group's progress: the message's [`LogNumber`].
    pub entered: Sequence,
    /// Its state; never derived from a comparison with the time.
    pub state: DeliveryState,
    /// Higher is handed out first.
    pub priority: i32,
    /// Delivered before; sorts behind fresh ones where the queue says so.
    pub retried: bool,
    /// The time in the ready order, kept while leased so that an undone lease finds its old place. In a log, its
    /// [`LogNumber`] in place of a time.
    pub order_at: Timestamp,
    /// Delayed: visible then. Leased: the lease ends then. Dead, completed, cancelled: since then.
    /// Ready: since when.
    pub due_at: Timestamp,
    /// When its present or last lease began; bounds the hold of a lease that is extended.
    pub leased_at: Timestamp,
    /// Removed from then on, unless leased.
    pub expires_at: Timestamp,
    /// Generation of the present or last lease.
    pub lease_generation: LeaseGeneration,
    /// Of the present lease; otherwise [`Hold::Granted`].
    pub hold: Hold,
    /// Leases granted.
    pub delivery_count: u32,
    /// Attempts spent.
    pub failure_count: u32,
    /// Leases that ran out in a row.
    pub lost_lease_count: u32,
    /// Set once it was put out of attempts, here or in the queue it came from, or cancelled.
    pub dead_letter: Option<Box<DeadLetter>>,
}

/// Sort key of the ready order: priority descending, class, order time, sequence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ReadyKey {
    /// Minus the priority, so that ascending order hands out the highest first.
    pub priority_descending: i64,
    /// Fresh before retried, where the queue wants it.
    pub retried: bool,
    /// The time in the order.
    pub order_at: Timestamp,
    /// Last tie-break.
    pub sequence: Sequence,
}

/// Sort key of the orders by due time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct DueKey {
    /// The row's `due_at`, or `expires_at` in the expiry order.
    pub due_at: Timestamp,
    /// Tie-break.
    pub sequence: Sequence,
}

impl From<DueKey> for ReadyKey {
    fn from(key: DueKey) -> Self {
        Self { priority_descending: 0, retried: false, order_at: key.due_at, sequence: key.sequence }
    }
}

impl From<ReadyKey> for DueKey {
    fn from(key: ReadyKey) -> Self {
        Self { due_at: key.order_at, sequence: key.sequence }
    }
}

impl DeliveryRow {
    /// The id that the sender got.
    #[must_use]
    pub fn message_id(&self) -> MessageId {
        MessageId { sent_at: self.sent_at, sequence: self.message, nonce: self.nonce }
    }

    /// Whether it is a group's progress with a message that has a delivery of its own.
    #[must_use]
    pub fn is_progress(&self) -> bool {
        self.message != self.sequence
    }

    /// What it is found by, if it is a group's progress with a message.
    #[must_use]
    pub fn progress_key(&self) -> Option<ProgressKey> {
        self.is_progress().then_some(ProgressKey { cursor: self.queue, message: self.message })
    }

    /// Its number in the log that it is in, or that it is a group's progress over.
    #[must_use]
    pub fn log_number(&self) -> LogNumber {
        let number =
            if self.is_progress() { self.entered.0 } else { self.order_at.as_millis().unsigned_abs() };
        LogNumber(number)
    }

    /// Most bytes of its content that are in memory when that is read: data in more than one chunk, all but the last of which
    /// have so many bytes, stays where it is.
    #[must_use]
    pub fn held_bytes(&self, chunk_bytes: u64) -> u64 {
        let elsewhere = u64::from(self.chunks.saturating_sub(1)).saturating_mul(chunk_bytes);
        self.size_bytes.saturating_sub(elsewhere)
    }

    /// Its place in the ready order. `retried` is only ever set where the queue is `fresh_first`.
    #[must_use]
    pub fn ready_key(&self) -> ReadyKey {
        ReadyKey {
            priority_descending: -i64::from(self.priority),
            retried: self.retried,
            order_at: self.order_at,
            sequence: self.sequence,
        }
    }

    /// Its place in the due order of its state.
    #[must_use]
    pub fn due_key(&self) -> DueKey {
        DueKey { due_at: self.due_at, sequence: self.sequence }
    }

    /// Its place in the expiry order.
    #[must_use]
    pub fn expiry_key(&self) -> DueKey {
        DueKey { due_at: self.expires_at, sequence: self.sequence }
    }
}

/// Key of a [`DedupRow`].
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DedupKey {
    /// The queue whose sends it deduplicates; `None`: any other call on the environment.
    pub queue: Option<QueueNumber>,
    /// The idempotency key, whole: 1 to 255 bytes.
    pub key: Box<str>,
}

/// A remembered call: the same key again gets the first answer until the row expires.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DedupRow {
    /// Key.
    pub key: DedupKey,
    /// Digest of the call; another one under the same key is an error.
    pub digest: u128,
    /// The first answer.
    pub answer: Remembered,
    /// Forgotten from then on.
    pub expires_at: Timestamp,
}

/// Which messages of a stretch of a log are still there: numbers [`SegmentRow::first`] to [`SegmentRow::last`]. What a group has
/// before it is counted from these, so that neither a send nor an expiry has to visit a group (design-holes A10).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentRow {
    /// Key: the log.
    pub log: QueueNumber,
    /// Key: its place in the log, from 0.
    pub index: u64,
    /// A bit for each number, the lowest of the first word for the first. Never all zero: such a row is removed.
    pub live: [u64; SegmentRow::WORDS],
}

impl SegmentRow {
    /// Words of [`SegmentRow::live`].
    pub const WORDS: usize = 16;
    /// Numbers that one segment covers.
    pub const NUMBERS: u64 = 64 * Self::WORDS as u64;
}

/// A run of messages of a log, from one number to another, that a group took by id beyond its position or behind its start. What
/// of them is not settled has a delivery; the position skips them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RunRow {
    /// Key: the cursor.
    pub cursor: QueueNumber,
    /// Key: the first number.
    pub first: LogNumber,
    /// The last one; not below `first`.
    pub last: LogNumber,
}

/// A push consumer: messages of the topics that it matches are pushed to its target, for a group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerRow {
    /// Key: 1 to 255 of `A-Z`, `a-z`, `0-9`, `_`, `-`.
    pub id: Box<str>,
    /// Above those of all triggers that there were when it was made; the deployment that has the highest is the current one.
    pub number: u64,
    /// Its identity for ever.
    pub uid: Uid,
    /// When it was made.
    pub created_at: Timestamp,
    /// The deployment that it belongs to, which is a partition of its topics. It reads that partition, and if its deployment is the
    /// current one the messages of none too; `None`: it reads all that no deployment's trigger of its group
    /// reads.
    pub deployment: Option<Box<str>>,
    /// The topic, or a prefix of topics' names followed by `*`.
    pub topic: Box<str>,
    /// The group that it consumes for.
    pub group: Box<str>,
    /// Where to, opaque to the core.
    pub target: Box<str>,
    /// Its policies.
    pub spec: TriggerSpec,
}

impl TriggerRow {
    /// Nothing is pushed before this time.
    #[must_use]
    pub fn starts_at(&self) -> Timestamp {
        self.created_at.plus(self.spec.initial_delay)
    }

    /// Whether it is for a topic of this id.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        match self.topic.strip_suffix('*') {
            Some(prefix) => topic.starts_with(prefix),
            None => *self.topic == *topic,
        }
    }
}

/// What the environment's pushes are signed with; none until it is first asked for.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct SecretRow {
    /// The secret.
    pub current: Box<str>,
    /// The one before, which signs too until the time.
    pub previous: Option<(Box<str>, Timestamp)>,
    /// Since when the current one is.
    pub since: Timestamp,
}

impl std::fmt::Debug for SecretRow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretRow").field("since", &self.since).finish_non_exhaustive()
    }
}
