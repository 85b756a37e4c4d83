//! The end of an environment's memory: a commit failed, so what was applied after it is void. Nothing is guessed; the
//! driver opens the store again and goes on with what is left over.

use std::collections::BTreeSet;

use millpond_core::command::LeaseRef;
use millpond_core::id::Incarnation;
use millpond_core::outcome::Grant;
use millpond_core::{Command, Outcome};

use crate::environment::answers::Held;
use crate::environment::{Environment, Mail, Ticket};

/// Which of the commits under way the store may have, now or soon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doubt {
    /// The first failed, so the later ones never reach the store.
    First,
    /// A read failed: nobody waited for the commits.
    All,
}

/// What a failed environment leaves behind.
#[derive(Debug, Default)]
pub struct Leftovers {
    /// Commands of commits that are in doubt: applied or not, as the commit happened or not.
    pub doubtful: Vec<Ticket>,
    /// Commands of later commits, which never reached the store: not applied.
    pub later: Vec<Ticket>,
    /// Grants of the commits in doubt that nobody got; to be taken back if they happened.
    pub grants: Vec<LeaseRef>,
    /// The opening that ends. None of its generations may be given again, not even those that were never committed:
    /// a grant that is yet to be taken back must not name another one.
    incarnation: Incarnation,
    pub(crate) mails: Vec<Mail>,
}

impl Leftovers {
    /// A command that came while there is no environment.
    pub(crate) fn keep(&mut self, ticket: Option<Ticket>, command: Command) {
        self.mails.push(Mail { ticket, command, rounds: 0 });
    }

    /// The opening that ended.
    pub(crate) fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// Callers whose commands will be applied by a successor.
    pub(crate) fn tickets(&self) -> BTreeSet<Ticket> {
        self.mails.iter().filter_map(|mail| mail.ticket).collect()
    }

    /// A caller has left: its command is not worth applying any more, unless it sends.
    pub(crate) fn abandon(&mut self, ticket: Ticket) {
        let waits = |mail: &Mail| {
            matches!(mail.command, Command::BeginUpload(_) | Command::Browse(_) | Command::Lease(_))
        };
        self.mails.retain(|mail| mail.ticket != Some(ticket) || !waits(mail));
    }

    /// Nobody waits for an answer any more; what was nobody's from the beginning is kept.
    pub(crate) fn forget_callers(&mut self) {
        self.mails.retain(|mail| mail.ticket.is_none());
    }
}

impl Environment {
    /// Ends this environment's memory.
    #[must_use]
    pub fn fail(self, doubt: Doubt) -> Leftovers {
        let incarnation = self.core.environment().incarnation;
        let mut left = Leftovers { incarnation, ..Leftovers::default() };
        for (index, commit) in self.commits.into_iter().enumerate() {
            for held in commit.answers {
                if index == 0 || doubt == Doubt::All {
                    left.doubtful.push(held.ticket);
                    left.grants.extend(grants(&held));
                } else {
                    left.later.push(held.ticket);
                }
            }
        }
        // Answers that are durable and only lack contents: their grants go back.
        for read in self.content_reads.into_values() {
            for held in read.held {
                left.grants.extend(grants(&held));
                left.later.push(held.ticket);
            }
        }
        let waiting = self.waiters.into_values();
        left.mails.extend(waiting.map(|(ticket, command)| Mail { ticket: Some(ticket), command, rounds: 0 }));
        left.mails.extend(self.parked.into_values().flatten());
        left.mails.extend(self.held_back);
        left.mails.extend(self.mailbox);
        left.mails.extend(self.chunks);
        // The intake has it still, and is read again.
        left.mails.retain(|mail| !matches!(mail.command, Command::TakeExternal(_)));
        left
    }

    /// Goes on with what a predecessor left over. The grants are taken back first.
    pub fn resume(&mut self, left: Leftovers) {
        self.core.begin_after(left.incarnation);
        if !left.grants.is_empty() {
            self.notify(Command::Undo(left.grants));
        }
        for mut mail in left.mails {
            mail.rounds = 0;
            self.mailbox.push_back(mail);
        }
    }
}

fn grants(held: &Held) -> Vec<LeaseRef> {
    match &held.outcome {
        Outcome::Leased(grants) => grants.iter().map(Grant::lease).collect(),
        _ => Vec::new(),
    }
}
