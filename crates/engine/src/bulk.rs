//! Replay and redrive: verbs over any number of dead letters, as walks through pages, each page one bounded command.
//!
//! A walk is a machine without threads, like an environment: a command out, its outcome in. Whoever stops asking it stops
//! it; what was done by then stays done, and the verb can be called again.
//!
//! Invariant: a walk works on what was dead when it began and on nothing that died later, so that it ends although what it
//! brings back may die again at once.

use std::collections::VecDeque;

use millpond_core::command::{Browse, Cursor, MoveMessages, Revive, WaiterId};
use millpond_core::id::MessageId;
use millpond_core::limits::{BROWSE_MESSAGES_MAX, MOVE_MESSAGES_MAX};
use millpond_core::outcome::Browsed;
use millpond_core::row::{DeliveryRow, DeliveryState};
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Rejection};

/// Which dead letters a bulk verb works on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those that died in a range of time; all of them without one.
    Died {
        /// At or after this time.
        from: Option<Timestamp>,
        /// Before this time.
        until: Option<Timestamp>,
    },
    /// These, in chunks of at most 1,000.
    Messages(Vec<MessageId>),
}

/// What a bulk verb did.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BulkDone {
    /// Messages that were brought back or moved.
    pub done: u64,
    /// Messages that it met, or that were named, and that could not be.
    pub skipped: u64,
}

/// What a walk wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BulkStep {
    /// Submit this, and come back with its outcome.
    Submit(Command),
    /// Nothing: it is at its end, or was refused.
    Done(Result<BulkDone, Rejection>),
}

#[derive(Clone, Debug)]
enum Verb {
    Replay,
    Redrive { to: Option<Box<str>> },
}

/// What is walked through.
#[derive(Clone, Debug)]
enum Way {
    Orders(Orders),
    Named(VecDeque<MessageId>),
}

/// A range of time through the orders of several states.
#[derive(Clone, Debug)]
struct Orders {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    /// The states still to walk through, the present one first.
    states: VecDeque<DeliveryState>,
    after: Option<Cursor>,
    /// When the first page was seen: what dies later is not meant.
    began_at: Option<Timestamp>,
}

/// A bulk verb under way.
#[derive(Clone, Debug)]
pub struct BulkWalk {
    queue: Box<str>,
    verb: Verb,
    way: Way,
    totals: BulkDone,
}

impl BulkWalk {
    /// See [`crate::Engine::replay`].
    #[must_use]
    pub fn replay(queue: &str, which: Which) -> Self {
        Self::new(queue, Verb::Replay, which, &[DeliveryState::Dead])
    }

    /// See [`crate::Engine::redrive`].
    #[must_use]
    pub fn redrive(queue: &str, to: Option<&str>, which: Which) -> Self {
        // Delayed before ready: what becomes ready meanwhile is met there.
        let states = [DeliveryState::Dead, DeliveryState::Delayed, DeliveryState::Ready];
        Self::new(queue, Verb::Redrive { to: to.map(Into::into) }, which, &states)
    }

    fn new(queue: &str, verb: Verb, which: Which, states: &[DeliveryState]) -> Self {
        let way = match which {
            Which::Died { from, until } => {
                let states = states.iter().copied().collect();
                Way::Orders(Orders { from, until, states, after: None, began_at: None })
            }
            Which::Messages(messages) => Way::Named(messages.into()),
        };
        Self { queue: queue.into(), verb, way, totals: BulkDone::default() }
    }

    /// The first step: with no messages it only checks that the verb can be done.
    pub fn begin(&mut self) -> BulkStep {
        let first = match &mut self.way {
            Way::Orders(_) => Vec::new(),
            Way::Named(messages) => take_chunk(messages),
        };
        BulkStep::Submit(self.act(first))
    }

    /// The next step, after the outcome of the one before.
    pub fn go_on(&mut self, outcome: Outcome) -> BulkStep {
        let page = match outcome {
            Outcome::Browsed(page) => Some(page),
            Outcome::Moved { moved, skipped } => {
                self.count(moved.len(), skipped.len());
                None
            }
            Outcome::Revived { revived, skipped } => {
                self.count(revived.len(), skipped.len());
                None
            }
            Outcome::Rejected(rejection) => return BulkStep::Done(Err(rejection)),
            // No command of a walk has another outcome.
            _ => return BulkStep::Done(Ok(self.totals)),
        };
        let messages = match (&mut self.way, page) {
            (Way::Orders(orders), Some(page)) => orders.take_in(&page),
            (Way::Orders(_), None) => Vec::new(),
            (Way::Named(messages), _) => take_chunk(messages),
        };
        if !messages.is_empty() {
            return BulkStep::Submit(self.act(messages));
        }
        match &self.way {
            Way::Orders(orders) => match orders.states.front() {
                Some(&state) => BulkStep::Submit(orders.look(&self.queue, state)),
                None => BulkStep::Done(Ok(self.totals)),
            },
            Way::Named(_) => BulkStep::Done(Ok(self.totals)),
        }
    }

    fn count(&mut self, done: usize, skipped: usize) {
        self.totals.done += u64::try_from(done).unwrap_or(u64::MAX);
        self.totals.skipped += u64::try_from(skipped).unwrap_or(u64::MAX);
    }

    fn act(&self, messages: Vec<MessageId>) -> Command {
        let queue = self.queue.clone();
        match &self.verb {
            Verb::Replay => Command::Revive(Revive { queue, messages }),
            Verb::Redrive { to } => Command::MoveMessages(MoveMessages { queue, messages, to: to.clone() }),
        }
    }
}

impl Orders {
    fn look(&self, queue: &str, state: DeliveryState) -> Command {
        let is_dead = state == DeliveryState::Dead;
        Command::Browse(Browse {
            queue: queue.into(),
            state,
            after: self.after,
            from: self.from.filter(|_| is_dead),
            until: self.until.filter(|_| is_dead),
            limit: BROWSE_MESSAGES_MAX,
            contents: false,
            waiter: WaiterId(0),
        })
    }

    /// The messages of a page that are meant. What follows is read behind it, or in the next order.
    fn take_in(&mut self, page: &Browsed) -> Vec<MessageId> {
        let began_at = *self.began_at.get_or_insert(page.at);
        let is_meant = |row: &&DeliveryRow| {
            let died_at = row.dead_letter.as_ref().map(|dead| dead.at);
            died_at.is_some_and(|at| {
                at <= began_at
                    && self.from.is_none_or(|from| at >= from)
                    && self.until.is_none_or(|until| at < until)
            })
        };
        let meant = page.deliveries.iter().filter(is_meant).map(DeliveryRow::message_id).collect();
        // Dead letters come in the order of their deaths.
        let too_young = page
            .deliveries
            .last()
            .is_some_and(|row| row.state == DeliveryState::Dead && row.due_at > began_at);
        self.after = page.next.filter(|_| !too_young);
        if self.after.is_none() {
            self.states.pop_front();
        }
        meant
    }
}

fn take_chunk(messages: &mut VecDeque<MessageId>) -> Vec<MessageId> {
    let most = messages.len().min(MOVE_MESSAGES_MAX);
    messages.drain(..most).collect()
}
