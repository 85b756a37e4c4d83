//! What the core answers. Refusals are values; nothing in the core fails.

use std::time::Duration;

use crate::command::{Cursor, LeaseRef, PinId, Trouble, WaiterId};
use crate::id::{LeaseGeneration, MessageId, QueueNumber, Sequence, UploadId};
use crate::row::{CountersRow, DeadLetter, DeliveryRow, QueueRow, SecretRow, TriggerRow};
use crate::time::Timestamp;

/// The answer to a command.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The data of a message can be read.
    Data(DataView),
    /// A page of messages.
    Browsed(Browsed),
    /// Nothing to report.
    Done,
    /// The lease is held until then; `None`: it is not.
    LeaseHeld(Option<Timestamp>),
    /// Messages granted, perhaps none.
    Leased(Vec<Grant>),
    /// One message.
    Message(Box<DeliveryRow>),
    /// The message is gone.
    MessageDeleted,
    /// Dead letters moved.
    Moved {
        /// Those that were moved, each with the queue that took it.
        moved: Vec<(MessageId, QueueNumber)>,
        /// Those that were not.
        skipped: Vec<MessageId>,
    },
    /// The messages that a purge removed, leased ones not among them.
    Purged(u64),
    /// A queue as it is now, or would be.
    Queue(Box<QueueView>),
    /// A page of queues as they are now, in the order asked for.
    Queues {
        /// The queues.
        views: Vec<QueueView>,
        /// Others lie behind them.
        more: bool,
    },
    /// The queue is gone; `false`: it was not there.
    QueueDeleted(bool),
    /// The same key was seen before: this was the answer, and nothing was done now.
    Repeated(Box<Outcome>),
    /// Refused; nothing was changed.
    Rejected(Rejection),
    /// Dead letters made ready again.
    Revived {
        /// Those that were dead.
        revived: Vec<MessageId>,
        /// Those that were not.
        skipped: Vec<MessageId>,
    },
    /// What pushes are signed with.
    Secret(SecretRow),
    /// Sent, in request order.
    Sent(Sent),
    /// Settled, but for the stale leases listed in request order.
    Settled {
        /// Leases that were not held any more; nothing was done about them.
        stale: Vec<Stale>,
        /// Answers to the sends, in order.
        sent: Vec<Sent>,
    },
    /// What all steps of a call did. Only as the answer that is repeated.
    Tallied(Tally),
    /// Triggers, in the order of their ids.
    Triggers(Vec<TriggerView>),
    /// So many of the grants were taken back.
    Undone(u64),
    /// The upload may begin. `None`: its idempotency key is remembered, so nothing of it will be stored, and its end tells
    /// whether it is the same send.
    UploadBegun(Option<UploadId>),
    /// The call waits; its answer comes as [`crate::Effect::Answered`].
    Waiting,
}

/// A lease that is not held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stale {
    /// The lease.
    pub lease: LeaseRef,
    /// Why not.
    pub why: WhyStale,
}

/// Why a lease is not held. Only told of groups; of queues it is always [`WhyStale::Over`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyStale {
    /// Under it the message was acked lately.
    Acked,
    /// It ran out, or its holder gave it back.
    Over,
    /// It was of an earlier hold than the last, and nobody has the message by now; or it is a look, which holds nothing.
    Returned,
    /// Somebody settles it in a transaction beside the owner: that is open, or is about to be taken in. Told of queues as well.
    Settling,
    /// Somebody else has the message by now.
    Taken,
    /// There is no such delivery, or it is another's.
    Unknown,
}

/// What became of messages that were to be revived or moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Those that were.
    pub done: u64,
    /// Those that could not be.
    pub skipped: u64,
}

impl Tally {
    /// This and so many more.
    #[must_use]
    pub fn and(self, done: usize, skipped: usize) -> Self {
        let more = |count| u64::try_from(count).unwrap_or(u64::MAX);
        Self { done: self.done + more(done), skipped: self.skipped + more(skipped) }
    }
}

/// A page of a queue's messages in one state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Browsed {
    /// The time as of which the last of them was seen.
    pub at: Timestamp,
    /// Their deliveries, in order.
    pub deliveries: Vec<DeliveryRow>,
    /// Where to go on; `None`: nothing lies behind them.
    pub next: Option<Cursor>,
    /// Their contents were asked for.
    pub contents: bool,
}

/// The answer to a send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sent {
    /// One id a message.
    pub ids: Vec<MessageId>,
    /// The same key was sent before: these are the first answer's ids, and nothing was sent now.
    pub repeated: bool,
}

/// What a reader of data has to know; the content comes with it, as with a grant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DataView {
    /// The message.
    pub message: MessageId,
    /// Its chunks stay until [`crate::Command::CloseData`]; `None`: the data is part of the content.
    pub pin: Option<PinId>,
    /// Bytes of each chunk but the last.
    pub chunk_bytes: u64,
}

/// A message handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The delivery.
    pub delivery: Sequence,
    /// The message.
    pub message: MessageId,
    /// The hold on it.
    pub generation: LeaseGeneration,
    /// How often it was handed out, this time included.
    pub delivery_count: u32,
    /// The hold began then.
    pub leased_at: Timestamp,
    /// The hold ends then.
    pub lease_until: Timestamp,
    /// When it was sent.
    pub sent_at: Timestamp,
    /// Removed from then on, unless it is leased.
    pub expires_at: Timestamp,
    /// Set if it came here as a dead letter.
    pub dead_letter: Option<Box<DeadLetter>>,
}

impl Grant {
    /// The hold, as its holder names it.
    #[must_use]
    pub fn lease(&self) -> LeaseRef {
        LeaseRef { delivery: self.delivery, message: self.message, generation: self.generation }
    }
}

/// A queue with its exact counts and why it delivers nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueView {
    /// The queue.
    pub queue: QueueRow,
    /// Its counts.
    pub counters: CountersRow,
    /// Lease calls that wait.
    pub waiting: u64,
    /// Why nothing is being handed out.
    pub why: Why,
}

impl QueueView {
    /// Changes with every change of the queue.
    #[must_use]
    pub fn etag(&self) -> String {
        etag(&self.queue)
    }
}

/// A trigger, and how it is doing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerView {
    /// The trigger.
    pub trigger: TriggerRow,
    /// Its deployment is the current one.
    pub current: bool,
    /// What is wrong with its target, as was last reported.
    pub trouble: Option<Trouble>,
}

/// The etag of a queue: the low half of its uid and its revision.
#[must_use]
pub fn etag(queue: &QueueRow) -> String {
    format!("{:016x}-{}", queue.uid.0 & u128::from(u64::MAX), queue.revision)
}

/// Why nothing is being handed out, the first that applies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Why {
    /// An operator stopped it.
    Paused {
        /// Since when.
        since: Timestamp,
    },
    /// As many are leased as the queue allows at once.
    ConcurrencyFull {
        /// The limit.
        limit: u32,
        /// When the first of those leases ends, if that is known.
        until: Option<Timestamp>,
    },
    /// As many are leased as memory is given for.
    LeasedLimit {
        /// The limit.
        limit: u32,
    },
    /// The target of the trigger that is to push them cannot be reached.
    TargetDown {
        /// The trigger.
        trigger: Box<str>,
        /// What is wrong.
        trouble: Trouble,
    },
    /// The trigger that is to push them was made lately, and waits.
    TriggerStarts {
        /// The trigger.
        trigger: Box<str>,
        /// It begins then.
        at: Timestamp,
    },
    /// All that is ready is for a deployment that has no trigger for the group: it was sent by it, or by none and this is the current
    /// one. And nobody asks for it.
    NoDeployment {
        /// The deployment.
        deployment: Box<str>,
    },
    /// Messages are ready and nobody asks for them.
    NoConsumer {
        /// When somebody last did; `None`: never.
        since: Option<Timestamp>,
    },
    /// Messages are ready and are being handed out.
    Delivering,
    /// All that is left waits for its time.
    AllDelayed {
        /// When the first is visible, if that is known.
        until: Option<Timestamp>,
    },
    /// All that is left is being worked on.
    AllLeased {
        /// When the first of those leases ends, if that is known.
        until: Option<Timestamp>,
    },
    /// Leases ran out and do not end, because transactions beside the owner that settle them stay open.
    HeldByTransactions {
        /// When the first of them would have ended.
        since: Timestamp,
    },
    /// All that is left is out of attempts.
    AllDead,
    /// There is nothing.
    Empty,
}

/// A refusal: nothing was changed. Where several apply, the order of the variants is not the order of the
/// checks; each command's file documents its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// Dead letters of this queue leave it: there is nothing to be revived in place.
    DeadLettersElsewhere {
        /// The queue.
        queue: Box<str>,
        /// The queue that takes them.
        to: Box<str>,
    },
    /// The dead-letter queue is missing, is the queue itself, or leads in a circle.
    DeadLetterQueueInvalid {
        /// Its name.
        name: Box<str>,
        /// What is wrong with it.
        problem: DeadLetterProblem,
    },
    /// The group took this message by its id or otherwise, and settled it.
    AlreadySettled {
        /// The message.
        message: MessageId,
    },
    /// An extension would outlive the message.
    BeyondExpiry {
        /// The message's end.
        expires_at: Timestamp,
        /// The end of the lease that was asked for.
        requested: Timestamp,
    },
    /// As many are leased as the call allows.
    ConcurrencyReached {
        /// Messages leased.
        in_flight: u64,
        /// The limit.
        limit: u32,
    },
    /// The contents of the environment's messages would be too large in all.
    ByteLimit {
        /// Bytes that there are, less what the same call would have taken out.
        held: u64,
        /// Bytes that the call brings.
        more: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Too many remembered calls.
    DedupLimit {
        /// The limit.
        limit: u64,
    },
    /// The queue was changed since.
    EtagMismatch {
        /// The etag it has.
        current: String,
    },
    /// The key stands for another call.
    IdempotencyKeyReused {
        /// The key.
        key: Box<str>,
    },
    /// The environment would have too many messages.
    MessageLimit {
        /// Messages that there are, less what the same call would have taken out.
        held: u64,
        /// Messages that the call brings.
        more: u64,
        /// The limit.
        limit: u64,
    },
    /// The message is not visible yet.
    MessageDelayed {
        /// The message.
        message: MessageId,
        /// It is, from then on.
        until: Timestamp,
    },
    /// The message is leased, and its lease was not named.
    MessageLeased {
        /// The message.
        message: MessageId,
        /// The lease ends then, unless it is extended.
        until: Timestamp,
    },
    /// The queue has no such message.
    MessageNotFound {
        /// The message.
        message: MessageId,
    },
    /// A value is outside its range.
    OutOfRange {
        /// The field, in its JSON name.
        field: &'static str,
        /// What was given.
        value: String,
        /// The range.
        limit: String,
    },
    /// Nothing of it is handed out, by order of an operator.
    Paused {
        /// The group.
        name: Box<str>,
    },
    /// The queue is named as a dead-letter queue by another.
    QueueInUse {
        /// The other.
        by: Box<str>,
    },
    /// The name is taken.
    QueueAlreadyExists {
        /// The name.
        name: Box<str>,
    },
    /// Too many queues, or topics, or groups or partitions of one topic.
    QueueLimit {
        /// Of what: its name's last but one part, or `queues`.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// There is no such queue.
    QueueNotFound {
        /// The name.
        name: Box<str>,
    },
    /// Leases are no longer held, and the settle is all or nothing.
    LeaseStale {
        /// Which.
        stale: Vec<LeaseRef>,
    },
    /// The store has no room.
    StorageFull,
    /// The id is taken.
    TriggerAlreadyExists {
        /// The id.
        id: Box<str>,
    },
    /// Too many triggers.
    TriggerLimit {
        /// The limit.
        limit: usize,
    },
    /// There is no such trigger, or no trigger of such a deployment.
    TriggerNotFound {
        /// Which.
        of: crate::command::TriggersOf,
    },
    /// Another trigger of the same group and deployment is for topics that this one would be for as well.
    TriggerOverlaps {
        /// This one.
        id: Box<str>,
        /// The other.
        other: Box<str>,
    },
    /// A group took too many messages by id that are not in a row.
    RunLimit {
        /// The limit.
        limit: usize,
    },
    /// What is named does not do this: a group is not sent to, a topic is not leased from.
    Unsuited {
        /// What was named.
        name: Box<str>,
        /// What is wanted.
        wanted: &'static str,
    },
    /// Too many uploads are under way, or too many bytes of them.
    UploadLimit {
        /// What there is too much of: `uploads` or `bytes`.
        what: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The upload is not under way: it was given up because nothing came, or memory was lost.
    UploadLost,
    /// Too many lease calls wait.
    WaiterLimit {
        /// The limit.
        limit: usize,
    },
}

/// What is wrong with a dead-letter queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeadLetterProblem {
    /// There is no such queue.
    Missing,
    /// It is the queue itself.
    Itself,
    /// Its own dead letters come back, or the chain is longer than is followed.
    Circle,
}

/// What the engine must do after a batch, once it is durable; all of it can be lost and is then derived anew.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Effect {
    /// A call that waited has its answer.
    Answered {
        /// The call.
        waiter: WaiterId,
        /// [`Outcome::Leased`], [`Outcome::Browsed`], [`Outcome::UploadBegun`], or [`Outcome::Rejected`].
        outcome: Outcome,
    },
    /// Triggers were made or removed.
    TriggersChanged,
    /// A topic was made, for which there are triggers.
    TopicMade {
        /// Its id.
        topic: Box<str>,
    },
}

impl Rejection {
    /// Shorthand for a duration or count outside its range.
    #[must_use]
    pub fn out_of_range(field: &'static str, value: impl ToString, limit: impl ToString) -> Self {
        Self::OutOfRange { field, value: value.to_string(), limit: limit.to_string() }
    }
}

/// A duration as the wire shows it: seconds with as many decimals as it needs.
#[must_use]
pub fn show_duration(duration: Duration) -> String {
    format!("{}s", duration.as_secs_f64())
}
