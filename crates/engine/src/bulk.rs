//! Replay and redrive: verbs over any number of dead letters, as walks through pages, each page one bounded command.
//!
//! A walk is a machine without threads, like an environment: a command out, its outcome in. Whoever stops asking it stops
//! it; what was done by then stays done, and the verb can be called again.
//!
//! With an idempotency key the first step asks whether the key is known, and the last one is done once, so that what all
//! steps did is remembered in the commit of the last page. A walk that is cut off before leaves the key free.
//!
//! Invariant: a walk works on what was dead when it began and on nothing that died later, so that it ends although what it
//! brings back may die again at once.

use std::collections::VecDeque;

use millpond_core::command::{Browse, Cursor, Idempotency, MoveMessages, Once, Revive, WaiterId};
use millpond_core::id::MessageId;
use millpond_core::limits::{BROWSE_MESSAGES_MAX, MOVE_MESSAGES_MAX};
use millpond_core::outcome::{Browsed, Tally};
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
    /// Messages that were brought back or moved, and those that it met, or that were named, and that could not be.
    pub tally: Tally,
    /// The same key was seen before: this was the answer, and nothing was done now.
    pub repeated: bool,
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
    totals: Tally,
    idempotency: Option<Idempotency>,
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
        Self { queue: queue.into(), verb, way, totals: Tally::default(), idempotency: None }
    }

    /// Does it at most once under this key.
    #[must_use]
    pub fn once(mut self, idempotency: Option<Idempotency>) -> Self {
        self.idempotency = idempotency;
        self
    }

    /// The first step.
    pub fn begin(&mut self) -> BulkStep {
        match &self.idempotency {
            // A look, which is not remembered.
            Some(idempotency) => BulkStep::Submit(Command::Once(Once {
                idempotency: idempotency.clone(),
                command: Box::new(Command::GetQueue { queue: self.queue.clone() }),
            })),
            None => self.begin_work(),
        }
    }

    /// With no messages this only checks that the verb can be done.
    fn begin_work(&mut self) -> BulkStep {
        let first = match &mut self.way {
            Way::Orders(_) => Vec::new(),
            Way::Named(messages) => take_chunk(messages),
        };
        BulkStep::Submit(self.act(first))
    }

    /// The next step, after the outcome of the one before.
    pub fn go_on(&mut self, outcome: Outcome) -> BulkStep {
        match outcome {
            Outcome::Browsed(page) => return self.go_through(&page),
            Outcome::Moved { moved, skipped } => self.totals = self.totals.and(moved.len(), skipped.len()),
            // The key is free.
            Outcome::Queue(_) => return self.begin_work(),
            Outcome::Rejected(rejection) => return BulkStep::Done(Err(rejection)),
            Outcome::Repeated(first) => {
                let tally = if let Outcome::Tallied(tally) = *first { tally } else { Tally::default() };
                return BulkStep::Done(Ok(BulkDone { tally, repeated: true }));
            }
            Outcome::Revived { revived, skipped } => {
                self.totals = self.totals.and(revived.len(), skipped.len());
            }
            // No command of a walk has another outcome.
            _ => return self.end(),
        }
        match &mut self.way {
            Way::Orders(orders) => match orders.states.front() {
                Some(&state) => BulkStep::Submit(orders.look(&self.queue, state)),
                None => self.end(),
            },
            Way::Named(messages) => {
                let chunk = take_chunk(messages);
                if chunk.is_empty() { self.end() } else { BulkStep::Submit(self.act(chunk)) }
            }
        }
    }

    fn go_through(&mut self, page: &Browsed) -> BulkStep {
        let Way::Orders(orders) = &mut self.way else { return self.end() };
        let meant = orders.take_in(page);
        match orders.states.front() {
            Some(&state) if meant.is_empty() => BulkStep::Submit(orders.look(&self.queue, state)),
            // The last step is taken in any case where it has to be remembered.
            None if meant.is_empty() && self.idempotency.is_none() => self.end(),
            _ => BulkStep::Submit(self.act(meant)),
        }
    }

    fn end(&self) -> BulkStep {
        BulkStep::Done(Ok(BulkDone { tally: self.totals, repeated: false }))
    }

    fn act(&self, messages: Vec<MessageId>) -> Command {
        let (queue, before) = (self.queue.clone(), self.totals);
        let command = match &self.verb {
            Verb::Replay => Command::Revive(Revive { queue, messages, before }),
            Verb::Redrive { to } => {
                Command::MoveMessages(MoveMessages { queue, messages, to: to.clone(), before })
            }
        };
        let is_last = match &self.way {
            Way::Orders(orders) => orders.states.is_empty(),
            Way::Named(messages) => messages.is_empty(),
        };
        match &self.idempotency {
            Some(idempotency) if is_last => {
                Command::Once(Once { idempotency: idempotency.clone(), command: Box::new(command) })
            }
            _ => command,
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
