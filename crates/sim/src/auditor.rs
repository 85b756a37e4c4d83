//! What clients may see: a naive model that is fed with commands and answers only, and says which answer broke a promise.
//!
//! It knows nothing of windows, commits or counters. All answers but those with contents leave in the order in which
//! their commands were applied, so what they change is changed here in that order too; a lease call was applied at some
//! time between its submission and its answer, and so was a look at messages, whose contents may take a while. The time of an application is known as a range: the last stamp before
//! the submission, and the last one before the answer. After a failure the model is settled by what is stored
//! (`auditor/stored.rs`), within the limits of what the lost commands could have done.

mod afresh;
mod by_id;
mod call;
mod copies;
mod dedup;
mod doubt;
mod group_lease;
mod group_order;
mod group_purge;
mod group_settle;
mod hold;
mod lease;
mod marks;
mod message;
mod order;
mod policies;
mod queue;
mod quota;
mod reach;
mod reader;
mod settle;
mod stored;
mod stored_queues;
mod triggers;
mod uploads;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use millpond_core::command::Send;
use millpond_core::id::{CommitSequence, LeaseGeneration, MessageId, QueueNumber, Sequence, UploadId};
use millpond_core::row::{DeliveryRow, MessageContent};
use millpond_core::time::Timestamp;
use millpond_core::{Command, CoreSettings, Outcome};
use millpond_engine::environment::Ticket;

use group_settle::Acked;

pub use call::RememberedCall;
pub use copies::CopyModel;
pub use dedup::Remembered;
pub(crate) use doubt::is_gone;
pub use hold::Hold;
pub use message::{Ended, Grant, Life, Message, Token, attributes_of, token_of};
pub use queue::QueueModel;
pub use reader::Reader;
pub use triggers::{TriggersModel, is_for};
pub use uploads::UploadModel;

/// A promise that was broken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Breach(pub String);

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a check says.
pub type Verdict = Result<(), Breach>;

macro_rules! demand {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err($crate::auditor::Breach(format!($($message)*)));
        }
    };
}
pub(crate) use demand;

/// A command on its way.
#[derive(Clone, Debug)]
pub struct Submitted {
    /// Its ticket.
    pub ticket: Ticket,
    /// The command.
    pub command: Command,
    /// Its place in the order of submissions and answers.
    pub index: u64,
    /// The last stamp before it.
    pub stamp: Timestamp,
}

/// A command and its answer.
#[derive(Debug)]
pub struct Answered<'a> {
    /// The command.
    pub submitted: &'a Submitted,
    /// What came.
    pub outcome: &'a Outcome,
    /// The contents of what was granted.
    pub contents: &'a [Arc<MessageContent>],
    /// Its place in the order of submissions and answers.
    pub index: u64,
    /// The last stamp before it.
    pub stamp: Timestamp,
}

impl Answered<'_> {
    /// An answer of a kind that the command cannot have.
    pub fn out_of_place(&self) -> Verdict {
        Err(Breach(format!("{:?} was answered {:?}", self.submitted.command, self.outcome)))
    }
}

/// The model.
#[derive(Clone, Debug)]
pub struct Auditor {
    /// Bounds of the core.
    pub settings: CoreSettings,
    /// Queues by name.
    pub names: BTreeMap<Box<str>, QueueNumber>,
    /// When a name last got or lost its queue.
    pub name_changes: BTreeMap<Box<str>, u64>,
    /// All queues that ever were.
    pub queues: BTreeMap<QueueNumber, QueueModel>,
    /// All messages that ever were.
    pub messages: BTreeMap<Token, Message>,
    /// What groups had of messages of topics, by group and message: each as if the group had a message of its own.
    pub progress: BTreeMap<(QueueNumber, Token), Message>,
    /// Copies of messages that groups gave up, by sequence.
    pub copies: BTreeMap<Sequence, CopyModel>,
    /// Copies of messages that nobody was told yet to have been sent, with what they are copies of.
    copies_told: Vec<(Sequence, DeliveryRow, CommitSequence)>,
    /// Triggers, and what pushes are signed with.
    pub triggers: TriggersModel,
    /// Groups and messages that somebody asks for by their ids, and was not answered yet, and since when. Told by the harness.
    taking: BTreeMap<(Box<str>, MessageId), u64>,
    /// Messages by id.
    pub by_id: BTreeMap<MessageId, Token>,
    /// Sends with a key.
    pub dedup: BTreeMap<(QueueNumber, Box<str>), Remembered>,
    /// Other calls with a key.
    pub calls: BTreeMap<Box<str>, RememberedCall>,
    /// Uploads that ever began.
    pub uploads: BTreeMap<UploadId, UploadModel>,
    /// Sends are refused for lack of room.
    pub space_low: bool,
    /// Groups that nobody reads, and partitions that are empty, may go by themselves.
    pub unused_go: bool,
    /// Counts failures; what has to be seen in one piece is only compared within one.
    pub era: u64,
    /// Grants that were made and whose answer did not come yet. Told by the harness; it only ever excuses.
    pub unseen: BTreeSet<(Reader, MessageId, LeaseGeneration)>,
    /// The groups of deliveries that are no queue's. Told by the harness, as is what follows.
    owners: BTreeMap<Sequence, QueueNumber>,
    /// The groups of cursors.
    cursors: BTreeMap<QueueNumber, QueueNumber>,
    /// When messages were last removed by a commit, durable or not. Told by the harness; it only ever excuses.
    pub removals: BTreeMap<Sequence, u64>,
    /// Acks of leases of groups since memory was lost, in order.
    acks: Vec<Acked>,
    /// Every grant ever seen, restores included: generation and time by reader and message.
    pub history: BTreeMap<(Reader, MessageId), BTreeMap<LeaseGeneration, Timestamp>>,
}

impl Auditor {
    /// Nothing happened yet.
    #[must_use]
    pub fn new(settings: CoreSettings) -> Self {
        Self {
            settings,
            names: BTreeMap::new(),
            name_changes: BTreeMap::new(),
            queues: BTreeMap::new(),
            messages: BTreeMap::new(),
            progress: BTreeMap::new(),
            copies: BTreeMap::new(),
            copies_told: Vec::new(),
            triggers: TriggersModel::default(),
            taking: BTreeMap::new(),
            by_id: BTreeMap::new(),
            dedup: BTreeMap::new(),
            calls: BTreeMap::new(),
            uploads: BTreeMap::new(),
            space_low: false,
            unused_go: false,
            era: 0,
            unseen: BTreeSet::new(),
            owners: BTreeMap::new(),
            cursors: BTreeMap::new(),
            removals: BTreeMap::new(),
            acks: Vec::new(),
            history: BTreeMap::new(),
        }
    }

    /// The queue that a name means now.
    #[must_use]
    pub fn queue(&self, name: &str) -> Option<&QueueModel> {
        self.queues.get(self.names.get(name)?)
    }

    /// Whether a name has meant the same since a submission.
    #[must_use]
    pub fn name_is_stable(&self, name: &str, since: u64) -> bool {
        self.name_changes.get(name).is_none_or(|&changed| changed < since)
    }

    /// A message by its id.
    #[must_use]
    pub fn message(&self, id: &MessageId) -> Option<&Message> {
        self.messages.get(self.by_id.get(id)?)
    }

    /// Messages were sent and got these ids.
    pub fn sent(&mut self, send: &Send, ids: &[MessageId], answered: &Answered<'_>) -> Verdict {
        demand!(
            ids.len() == send.messages.len(),
            "{} messages sent, {} ids answered",
            send.messages.len(),
            ids.len()
        );
        let Some(&queue) = self.names.get(&send.queue) else {
            return Err(Breach(format!("sent to {}, which is not there", send.queue)));
        };
        for (message, id) in send.messages.iter().zip(ids) {
            demand!(
                answered.submitted.stamp <= id.sent_at && id.sent_at <= answered.stamp,
                "{id} says it was sent at {:?}, not between {:?} and {:?}",
                id.sent_at,
                answered.submitted.stamp,
                answered.stamp
            );
            self.admit(message, *id, queue, answered.index)?;
        }
        Ok(())
    }

    /// A message exists.
    fn admit(
        &mut self,
        message: &millpond_core::command::NewMessage,
        id: MessageId,
        queue: QueueNumber,
        index: u64,
    ) -> Verdict {
        let Some(model) = self.queues.get(&queue) else { return Ok(()) };
        let token = token_of(&message.content);
        let made = Message::new(message, id, model, index, self.era);
        demand!(self.by_id.insert(id, token).is_none(), "{id} was given twice");
        demand!(self.messages.insert(token, made).is_none(), "message {token} was sent twice");
        Ok(())
    }
}
