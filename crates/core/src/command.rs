//! Everything that can happen to an environment, as data.

use std::sync::Arc;
use std::time::Duration;

use crate::external::External;
use crate::id::{Incarnation, LeaseGeneration, MessageId, Sequence, Uid, UploadId};
use crate::outcome::Tally;
use crate::row::{DeliveryState, DueKey, MessageContent, ReadyKey};
use crate::spec::{QueueSpec, TriggerSpec};
use crate::time::Timestamp;

/// An input of the core. Each has its file under `apply/`; what undoes or ends another stands with that.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Store the next part of an upload's data.
    AppendUpload(AppendUpload),
    /// Begin to send a message whose data comes in parts.
    BeginUpload(BeginUpload),
    /// Look at a page of a queue's messages in one state. Nothing is leased or counted.
    Browse(Browse),
    /// Give an upload up; nobody will finish it.
    CancelUpload(UploadId),
    /// Forget a call that waits; its caller is gone.
    CancelWait(WaiterId),
    /// Who asked for data in chunks has read it, or reads no more.
    CloseData(PinId),
    /// Make a queue.
    CreateQueue(CreateQueue),
    /// Remove one message that is not leased.
    DeleteMessage(MessageRef),
    /// Remove a queue and all that is in it.
    DeleteQueue(DeleteQueue),
    /// Remove triggers.
    DeleteTriggers(TriggersOf),
    /// Make the message whose data was uploaded.
    FinishUpload(FinishUpload),
    /// Look at one message.
    GetMessage(MessageRef),
    /// Look at a queue.
    GetQueue {
        /// Its name.
        queue: Box<str>,
    },
    /// Take messages to work on.
    Lease(Lease),
    /// Take one message of a topic to work on, named by its id.
    LeaseMessage(LeaseMessage),
    /// Ask whether a lease is held, and until when.
    LeaseState {
        /// Name of the queue or group that it was taken from.
        queue: Box<str>,
        /// The lease.
        lease: LeaseRef,
    },
    /// Look at queues, topics, or what belongs to a topic, in the order of their names.
    ListQueues {
        /// Which.
        listed: Listed,
        /// Begin behind this name, which need not be a queue's; `None`: at the beginning.
        after: Option<Box<str>>,
        /// From the last name to the first.
        descending: bool,
        /// At most so many: 1 to [`crate::limits::LISTED_QUEUES_MAX`].
        limit: usize,
    },
    /// Look at triggers, all of them, in the order of their ids.
    ListTriggers,
    /// Move dead letters to another queue, to start afresh there.
    MoveMessages(MoveMessages),
    /// Do something at most once: the same key again gets the first answer.
    Once(Once),
    /// Read the data of one message, leased or not.
    OpenData(OpenData),
    /// Stop handing messages out.
    PauseQueue {
        /// Its name.
        queue: Box<str>,
    },
    /// Remove many messages at once, none of them leased.
    PurgeQueue {
        /// Its name.
        queue: Box<str>,
        /// Which.
        target: PurgeTarget,
    },
    /// Make triggers.
    PutTriggers(PutTriggers),
    /// Say how a trigger's target is doing, for [`crate::outcome::Why`]; forgotten when the environment is closed.
    ReportTrigger {
        /// The trigger.
        id: Box<str>,
        /// Its identity: what is said of another that had the id before is passed over.
        uid: Uid,
        /// What is wrong with it; `None`: nothing.
        trouble: Option<Trouble>,
    },
    /// Hand messages out again.
    ResumeQueue {
        /// Its name.
        queue: Box<str>,
    },
    /// Make dead letters of a queue's own set ready again, in place.
    Revive(Revive),
    /// Put messages into a queue.
    Send(Send),
    /// Set what pushes are signed with.
    SetSecret(SetSecret),
    /// Whether the store has room; while it has none, sends are refused and all else goes on.
    SetSpace {
        /// It has none.
        low: bool,
    },
    /// End or extend leases and send, all in one.
    Settle(Settle),
    /// Take in a page of what was written beside the owner, in its order.
    TakeExternal(Vec<External>),
    /// Time has passed: work off what is due.
    Tick,
    /// Take grants back whose answer nobody got (design-holes B13).
    Undo(Vec<LeaseRef>),
    /// Give a queue other policies or annotations.
    UpdateQueue(UpdateQueue),
}

/// See [`Command::PutTriggers`]. All are made in one commit, or none. For one group and deployment, topics must not overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PutTriggers {
    /// The deployment that they belong to, whose triggers they replace, and which is the current one from then on. `None`: they belong
    /// to none, and their ids must be new.
    pub deployment: Option<Box<str>>,
    /// Which; at least one.
    pub triggers: Vec<NewTrigger>,
    /// Check everything and store nothing.
    pub validate_only: bool,
}

/// A trigger to be made; see [`crate::row::TriggerRow`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTrigger {
    /// Its id.
    pub id: Box<str>,
    /// The topic, or a prefix followed by `*`.
    pub topic: Box<str>,
    /// The group.
    pub group: Box<str>,
    /// Where to: 1 to 2,048 bytes.
    pub target: Box<str>,
    /// Its policies.
    pub spec: TriggerSpec,
}

/// Some triggers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TriggersOf {
    /// The one of this id.
    Id(Box<str>),
    /// All of a deployment.
    Deployment(Box<str>),
}

/// Why a trigger's target gets nothing for the time being.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trouble {
    /// Since when.
    pub since: Timestamp,
    /// What the last try said; at most 1,024 bytes are kept.
    pub error: Box<str>,
    /// When it is tried again.
    pub next_try: Timestamp,
}

/// See [`Command::SetSecret`].
#[derive(Clone, PartialEq, Eq)]
pub struct SetSecret {
    /// The secret, drawn by the caller: 1 to 256 bytes.
    pub secret: Box<str>,
    /// How long the one before goes on signing: 0 to 30 days.
    pub grace: Duration,
    /// Only if there is none. The answer is the one that there is.
    pub only_if_none: bool,
}

impl std::fmt::Debug for SetSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SetSecret").field("grace", &self.grace).finish_non_exhaustive()
    }
}

/// Names a call that waits; chosen by the engine, ascending, never reused while the environment is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct WaiterId(pub u64);

/// See [`Command::Browse`]. Shows what is neither expired nor purged, as of one moment for each page of the store that it
/// takes; so a message that changes its place meanwhile may be missed or, in another call, seen twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Browse {
    /// Name of the queue.
    pub queue: Box<str>,
    /// The state. Ready messages come in the order in which they would be handed out, others by due time.
    pub state: DeliveryState,
    /// Begin behind this place: [`crate::outcome::Browsed::next`] of the page before, for the same state.
    pub after: Option<Cursor>,
    /// Due at or after this time; for dead letters, the time of death. Not for ready ones.
    pub from: Option<Timestamp>,
    /// Due before this time, likewise.
    pub until: Option<Timestamp>,
    /// At most so many messages: 1 to 1,000.
    pub limit: usize,
    /// Their contents too, as far as they fit into [`crate::limits::CoreSettings::browse_bytes`].
    pub contents: bool,
    /// Names this call while it waits for what it reads.
    pub waiter: WaiterId,
}

/// A place in the order of a queue's messages in one state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Cursor {
    /// In the order of ready messages.
    Ready(ReadyKey),
    /// In the order by due time of any other state.
    Due(DueKey),
}

/// What a list shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Listed {
    /// The environment's queues.
    Queues,
    /// Its topics.
    Topics,
    /// The groups of the topic of this name.
    Groups(Box<str>),
    /// The partitions of the topic of this name.
    Partitions(Box<str>),
}

/// Where a new group begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Start {
    /// At the oldest message that is there.
    #[default]
    Earliest,
    /// Behind all messages that are visible by now.
    Latest,
}

/// See [`Command::CreateQueue`]. Makes also topics, and groups and partitions of topics that are there, by their names
/// ([`crate::row::QueueRow::name`]); the ids of these are 1 to 255 of `A-Z`, `a-z`, `0-9`, `_`, `-`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateQueue {
    /// Its name, unique in the environment: of a queue 1 to 63 of `a-z`, `0-9`, `-`, neither first nor last a `-`.
    pub name: Box<str>,
    /// Where it begins, if it is a group.
    pub start: Start,
    /// Its policies. A partition has those of its topic instead.
    pub spec: QueueSpec,
    /// Labels, annotations and display name as JSON, opaque to the core; at most 16 KiB.
    pub annotations: Box<str>,
    /// Check everything and store nothing.
    pub validate_only: bool,
}

/// See [`Command::DeleteQueue`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeleteQueue {
    /// Its name.
    pub name: Box<str>,
    /// Only if its etag is this.
    pub etag: Option<Box<str>>,
    /// A missing queue is no error.
    pub allow_missing: bool,
    /// Also if another queue names it as its dead-letter queue.
    pub force: bool,
    /// Check everything and store nothing.
    pub validate_only: bool,
}

/// See [`Command::UpdateQueue`]. Spec and annotations are whole: what is to stay is given again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateQueue {
    /// Its name.
    pub name: Box<str>,
    /// Its policies from now on. A partition keeps those of its topic.
    pub spec: QueueSpec,
    /// Labels, annotations and display name as JSON, opaque to the core; at most 16 KiB.
    pub annotations: Box<str>,
    /// Only if its etag is this.
    pub etag: Option<Box<str>>,
    /// A missing queue is made, unless an etag is given.
    pub allow_missing: bool,
    /// Check everything and store nothing.
    pub validate_only: bool,
}

/// See [`Command::Send`]. All messages are taken or none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Send {
    /// Name of the queue.
    pub queue: Box<str>,
    /// What to send: 1 to 100.
    pub messages: Vec<NewMessage>,
    /// Makes the send repeatable: the same key again gets the first answer.
    pub idempotency: Option<Idempotency>,
}

/// A message to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewMessage {
    /// What is sent.
    pub content: Arc<MessageContent>,
    /// How long it stays hidden; `None`: the queue's delay.
    pub delay: Option<Duration>,
    /// Higher is handed out first.
    pub priority: i32,
    /// Lives at most so long; `None`: the queue's retention alone counts.
    pub time_to_live: Option<Duration>,
}

/// An idempotency key with the digest of what it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Idempotency {
    /// 1 to 255 bytes.
    pub key: Box<str>,
    /// Digest of the call; another digest under the same key is refused.
    pub digest: u128,
}

/// See [`Command::BeginUpload`]. Nothing is stored yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BeginUpload {
    /// Name of the queue.
    pub queue: Box<str>,
    /// What will be sent, with [`Data::Chunked`](crate::row::Data) of as many bytes as were announced, or of none.
    pub message: NewMessage,
    /// The idempotency key of the send to come.
    pub key: Option<Box<str>>,
    /// How long to wait for other uploads to end: 0 to 20 s.
    pub wait: Duration,
    /// Names this call while it waits.
    pub waiter: WaiterId,
}

/// See [`Command::AppendUpload`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppendUpload {
    /// To which upload.
    pub upload: UploadId,
    /// Which chunk, from 0, in order.
    pub number: u32,
    /// A whole chunk; only the last may be shorter, but not empty.
    pub data: Arc<[u8]>,
}

/// See [`Command::FinishUpload`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FinishUpload {
    /// What [`Outcome::UploadBegun`](crate::Outcome) said.
    pub upload: Option<UploadId>,
    /// One message, with [`Data::Chunked`](crate::row::Data) of as many bytes as were stored.
    pub send: Send,
}

/// Names a reader's hold on the chunks of a message, for as long as the environment is open.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PinId {
    /// The message.
    pub sequence: Sequence,
    /// The opening: in the next one the sequence may be another message's.
    pub incarnation: Incarnation,
}

/// See [`Command::OpenData`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenData {
    /// Name of the queue in which the message is.
    pub queue: Box<str>,
    /// The message.
    pub message: MessageId,
    /// The reader's lease on it; `None`: it has to be one that nobody holds.
    pub generation: Option<LeaseGeneration>,
}

/// A message, as it is named by whoever looks for it in a queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MessageRef {
    /// Name of the queue.
    pub queue: Box<str>,
    /// The message.
    pub message: MessageId,
}

/// See [`Command::MoveMessages`]. Moved are dead letters of the queue's own set, and messages that came to it as dead
/// letters and are ready or delayed. All in one commit; what cannot be moved is skipped and listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveMessages {
    /// Name of the queue that they are in.
    pub queue: Box<str>,
    /// Which: at most 1,000; none at all only checks the queues. One named twice is moved once.
    pub messages: Vec<MessageId>,
    /// Name of the queue that takes them, another one than `queue`; `None`: each goes back to the queue that it came from
    /// as a dead letter. One that has no such queue, or whose queue is gone, is skipped.
    pub to: Option<Box<str>>,
    /// What earlier steps of the same call did: remembered along with what this one does, if it is done once.
    pub before: Tally,
}

/// Which messages a purge removes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PurgeTarget {
    /// Those that are ready or delayed.
    Waiting,
    /// Those in the queue's own dead-letter set.
    DeadLetters,
    /// Both.
    All,
}

/// See [`Command::Revive`]. All in one commit; what is not dead is skipped and listed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Revive {
    /// Name of the queue.
    pub queue: Box<str>,
    /// Which: at most 1,000; none at all only checks the queue. One named twice is revived once.
    pub messages: Vec<MessageId>,
    /// As in [`MoveMessages`].
    pub before: Tally,
}

/// See [`Command::Once`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Once {
    /// What the call is remembered under, in the whole environment and apart from the keys of sends.
    pub idempotency: Idempotency,
    /// What is done. Its answer is remembered for 24 hours unless it is a refusal or nothing is stored. Reads, and sends,
    /// which have keys of their own, are just carried out; a call that waits is refused.
    pub command: Box<Command>,
}

/// See [`Command::Lease`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Name of the queue.
    pub queue: Box<str>,
    /// At most so many messages: 1 to 100.
    pub max_messages: u32,
    /// Wait until so many are there, as long as `wait` allows: 1 to `max_messages`.
    pub min_messages: u32,
    /// How long the leases last; `None`: the queue's timeout. 1 s to 12 h.
    pub visibility_timeout: Option<Duration>,
    /// How long to wait for a message: 0 to 20 s.
    pub wait: Duration,
    /// Once something is there, how long to go on waiting for `min_messages`: 0 to 20 s, and no longer than `wait` in
    /// all; `None`: as long as `wait` allows.
    pub max_wait: Option<Duration>,
    /// Names this call while it waits.
    pub waiter: WaiterId,
    /// How a group is read.
    pub reading: Reading,
}

/// How a group is read; only for groups.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Reading {
    /// Only messages of this partition; `None`: of any, and those of none.
    pub partition: Option<Box<str>>,
    /// Beside those of the partition, those of none.
    pub unpinned: bool,
    /// For pushes of a trigger: its limits are kept, and it is no sign of a consumer that polls.
    pub pushes: bool,
    /// At most so many messages of the group leased at once, this call's included: at least 1; `None`: as many as the group
    /// allows. Refused if there are as many already.
    pub in_flight_max: Option<u32>,
    /// Nothing is leased: the messages that would be are shown, under a generation that settles nothing. Never waits for messages.
    pub look: bool,
}

/// See [`Command::LeaseMessage`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LeaseMessage {
    /// Name of the group.
    pub queue: Box<str>,
    /// The message.
    pub message: MessageId,
    /// How long the lease lasts; `None`: the group's timeout. 1 s to 12 h.
    pub visibility_timeout: Option<Duration>,
    /// How the group is read.
    pub reading: Reading,
}

/// A hold on a delivery, as its holder names it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseRef {
    /// The delivery: of a queue, the message's sequence.
    pub delivery: Sequence,
    /// The message.
    pub message: MessageId,
    /// The generation granted.
    pub generation: LeaseGeneration,
}

/// See [`Command::Settle`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settle {
    /// What to do with which leases: at most 100. A lease named twice is settled once, by what comes first.
    pub settlements: Vec<Settlement>,
    /// What to send in the same commit; each may name another queue.
    pub sends: Vec<Send>,
    /// What one stale lease means for the rest.
    pub require: Require,
}

/// One lease's settlement.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Settlement {
    /// Name of the queue that the lease was taken from.
    pub queue: Box<str>,
    /// The lease.
    pub lease: LeaseRef,
    /// What to do.
    pub action: SettleAction,
    /// What else the holder says.
    pub holder: Holder,
}

/// What the holder of a lease on a topic's message says beside the lease itself.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holder {
    /// When it asked, by its own clock. Of two calls on one lease, one that was asked earlier does nothing if it comes later, as long
    /// as memory knows of the other.
    pub asked_at: Option<Timestamp>,
    /// The partition that the message has to be of; `None`: any or none.
    pub partition: Option<Box<str>>,
}

/// What is done with a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettleAction {
    /// The work is done: the message leaves.
    Ack,
    /// The lease lasts so long from now, or as long as the queue's leases: 1 s to 12 h, in all at most 12 h from its grant.
    Extend(Option<Duration>),
    /// The work failed: the message comes back after the delay, or the queue's backoff.
    Nack(Option<Duration>),
    /// The holder's call ended well. If it asked for another end of its lease, the message comes back then, and is not in flight until
    /// then; if not, the lease goes on.
    EndCall,
    /// Nobody was told of the lease: whoever takes the message by its id gets it. Only for groups.
    Reserve,
}

/// What one stale lease means for a settle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Require {
    /// Nothing is applied. A settle with sends always means this (design-holes A11).
    All,
    /// The others are applied; stale ones are listed.
    Fresh,
}
