//! Commands that others write into the store, beside the owner and in transactions of their own; the owner takes them in once they
//! are committed.
//!
//! Who writes one has its answer already and is not there any more when it is taken in. So nothing of it is lost silently: a
//! message that cannot be taken keeps its id and is shown as cancelled, with the reason (design-holes A13).

use std::fmt;
use std::time::Duration;

use crate::command::{LeaseRef, MessageRef, NewMessage};
use crate::id::{MessageId, Sequence};
use crate::time::Timestamp;

/// The intake's number of a command, by which it is taken. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct ExternalId(pub u64);

impl fmt::Display for ExternalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A command that waits in the intake.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct External {
    /// Its number.
    pub id: ExternalId,
    /// What it says.
    pub command: ExternalCommand,
}

/// What can be said from beside the owner.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExternalCommand {
    /// Put a message into a queue or topic.
    Send(Box<ExternalSend>),
    /// End a lease, in one transaction with what its holder wrote.
    Settle(ExternalSettle),
    /// A lease lasts longer. Does nothing if it is not held any more.
    Extend {
        /// Name of the queue or group that it was taken from.
        queue: Box<str>,
        /// The lease.
        lease: LeaseRef,
        /// How long from the intake on, within the limits of [`SettleAction::Extend`](crate::command::SettleAction::Extend).
        by: Duration,
    },
    /// End a message before it is done, leased or not. Does nothing if it is done, or while an open transaction holds its lease.
    Cancel(MessageRef),
    /// Leases of a queue or group may be settled from beside the owner from now on: sets
    /// [`QueueRow::settled_by_sql`](crate::row::QueueRow::settled_by_sql).
    AllowSettle {
        /// Its name.
        queue: Box<str>,
    },
}

/// A message whose sender knows its id already.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalSend {
    /// Name of a queue, a topic or a partition.
    pub queue: Box<str>,
    /// Id of the topic's partition, which is made if there is none; `None`: what `queue` names itself.
    pub partition: Option<Box<str>>,
    /// Its id: the sequence is drawn by the store from [`Sequence::FIRST_EXTERNAL`] on.
    pub message: MessageId,
    /// What is sent. A delay counts from the send.
    pub content: NewMessage,
    /// When it becomes visible, in place of a delay.
    pub visible_at: Option<Timestamp>,
    /// Idempotency key: 1 to 255 bytes. What it stands for is not compared.
    pub key: Option<Box<str>>,
}

impl ExternalSend {
    /// The name of what takes it.
    #[must_use]
    pub fn destination(&self) -> Box<str> {
        match &self.partition {
            Some(partition) => format!("{}/partitions/{partition}", self.queue).into(),
            None => self.queue.clone(),
        }
    }
}

/// The end of a lease, by its holder. Its key is held from the moment at which it was written, committed or not: nobody ends this
/// lease in another way (design-holes A5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ExternalSettle {
    /// The lease.
    pub lease: LeaseRef,
    /// How it ended.
    pub action: ExternalAction,
}

/// How a lease ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ExternalAction {
    /// The work is done.
    Complete {
        /// What came of it, as JSON text.
        output: Option<Box<str>>,
    },
    /// The work failed.
    Fail {
        /// Why, as JSON text.
        output: Option<Box<str>>,
        /// When it is tried again; `None`: after the queue's backoff.
        delay: Option<Duration>,
    },
}

impl Sequence {
    /// Sequences from this one on are drawn by stores, for messages that are sent beside the owner; the owner draws below.
    pub const FIRST_EXTERNAL: Self = Self(1 << 47);

    /// Whether a store drew it.
    #[must_use]
    pub const fn is_external(self) -> bool {
        self.0 >= Self::FIRST_EXTERNAL.0
    }
}
