//! First answers, as they are remembered under idempotency keys. Typed, so that every surface can render them.

use crate::command::{Command, LeaseRef};
use crate::id::{MessageId, Sequence};
use crate::outcome::{Outcome, QueueView, Sent, Stale, Tally, WhyStale};
use crate::stamp::nonce;
use crate::time::Timestamp;

/// The first answer to what a key stands for. Persisted; a variant more is a matter of the stores.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Remembered {
    /// [`Outcome::Done`].
    Done,
    /// [`Outcome::MessageDeleted`].
    MessageDeleted,
    /// [`Outcome::Purged`].
    Purged(u64),
    /// [`Outcome::Queue`].
    Queue(Box<QueueView>),
    /// [`Outcome::QueueDeleted`].
    QueueDeleted(bool),
    /// [`Outcome::Sent`], from which its ids follow.
    Sent(SentIds),
    /// [`Outcome::Settled`].
    Settled {
        /// Leases that were not held any more.
        stale: Vec<LeaseRef>,
        /// Answers to the sends, in order.
        sent: Vec<Sent>,
    },
    /// [`Outcome::Tallied`]: [`Outcome::Moved`] or [`Outcome::Revived`] of all steps of a call.
    Tallied(Tally),
}

/// What the ids of one send are made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SentIds {
    /// When the send was applied.
    pub sent_at: Timestamp,
    /// Sequence of its first message; the others follow.
    pub first_sequence: Sequence,
    /// How many messages it sent; 0: one, that was sent beside the owner.
    pub count: u32,
    /// Seed of its messages' nonces; of one that was sent beside the owner, its nonce itself.
    pub nonce_seed: u64,
}

impl SentIds {
    /// What is remembered of a message that was sent beside the owner.
    pub(crate) fn of_external(message: MessageId) -> Self {
        Self {
            sent_at: message.sent_at,
            first_sequence: message.sequence,
            count: 0,
            nonce_seed: message.nonce,
        }
    }

    /// Whether it is of a message that was sent beside the owner: its key stands for whatever is sent under it.
    #[must_use]
    pub fn is_external(&self) -> bool {
        self.count == 0
    }

    /// The ids, in request order.
    #[must_use]
    pub fn ids(&self) -> Vec<MessageId> {
        let first = self.first_sequence.0;
        if self.is_external() {
            let (sent_at, sequence) = (self.sent_at, self.first_sequence);
            return vec![MessageId { sent_at, sequence, nonce: self.nonce_seed }];
        }
        let id = |sequence| MessageId {
            sent_at: self.sent_at,
            sequence: Sequence(sequence),
            nonce: nonce(self.nonce_seed, sequence),
        };
        (first..first + u64::from(self.count)).map(id).collect()
    }
}

impl Remembered {
    /// What is to be remembered of a command that was answered so, if anything. Sends see to themselves.
    pub(crate) fn of(command: &Command, outcome: &Outcome) -> Option<Self> {
        let stored_nothing = match command {
            Command::CreateQueue(create) => create.validate_only,
            Command::DeleteQueue(delete) => delete.validate_only,
            Command::UpdateQueue(update) => update.validate_only,
            Command::Browse(_)
            | Command::CloseData(_)
            | Command::GetMessage(_)
            | Command::GetQueue { .. }
            | Command::OpenData(_)
            | Command::PutTriggers(_)
            | Command::ReportTrigger { .. }
            | Command::SetSecret(_) => true,
            _ => false,
        };
        if stored_nothing {
            return None;
        }
        let before = match command {
            Command::MoveMessages(moves) => moves.before,
            Command::Revive(revive) => revive.before,
            _ => Tally::default(),
        };
        match outcome {
            Outcome::Done => Some(Self::Done),
            Outcome::MessageDeleted => Some(Self::MessageDeleted),
            Outcome::Moved { moved, skipped } => Some(Self::Tallied(before.and(moved.len(), skipped.len()))),
            Outcome::Revived { revived, skipped } => {
                Some(Self::Tallied(before.and(revived.len(), skipped.len())))
            }
            Outcome::Tallied(tally) => Some(Self::Tallied(*tally)),
            Outcome::Purged(count) => Some(Self::Purged(*count)),
            Outcome::Queue(view) => Some(Self::Queue(view.clone())),
            Outcome::QueueDeleted(was_there) => Some(Self::QueueDeleted(*was_there)),
            Outcome::Settled { stale, sent } => {
                let stale = stale.iter().map(|stale| stale.lease).collect();
                Some(Self::Settled { stale, sent: sent.clone() })
            }
            Outcome::Browsed(_)
            | Outcome::Data(_)
            | Outcome::LeaseHeld(_)
            | Outcome::Leased(_)
            | Outcome::Message(_)
            | Outcome::Queues { .. }
            | Outcome::Rejected(_)
            | Outcome::Repeated(_)
            | Outcome::Secret(_)
            | Outcome::Sent(_)
            | Outcome::Triggers(_)
            | Outcome::Undone(_)
            | Outcome::UploadBegun(_)
            | Outcome::Waiting => None,
        }
    }

    /// The answer as it was given.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Done => Outcome::Done,
            Self::MessageDeleted => Outcome::MessageDeleted,
            Self::Purged(count) => Outcome::Purged(*count),
            Self::Queue(view) => Outcome::Queue(view.clone()),
            Self::QueueDeleted(was_there) => Outcome::QueueDeleted(*was_there),
            Self::Sent(sent) => Outcome::Sent(Sent { ids: sent.ids(), repeated: true }),
            Self::Tallied(tally) => Outcome::Tallied(*tally),
            Self::Settled { stale, sent } => {
                // Why they were stale is not remembered.
                let stale = stale.iter().map(|&lease| Stale { lease, why: WhyStale::Over }).collect();
                Outcome::Settled { stale, sent: sent.clone() }
            }
        }
    }
}
