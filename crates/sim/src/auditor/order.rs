//! Who may be handed out before whom. A message that was ready all along must not be passed over: when it is first
//! granted, everything handed out meanwhile must have had a better place.

use millpond_core::id::Sequence;
use millpond_core::spec::Order;
use millpond_core::time::Timestamp;

use crate::auditor::{Auditor, Breach, Message, QueueModel, Verdict};

/// What a lease call got.
#[derive(Clone, Debug)]
pub(super) struct Handed {
    /// When, or the latest time at which it can have been.
    pub(super) at: Timestamp,
    /// When the call was submitted.
    pub(super) asked: u64,
    /// `None`: nothing.
    pub(super) place: Option<Place>,
}

/// A place in the ready order, as far as clients can tell.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) priority: i32,
    pub(super) retried: bool,
    /// Time in the order and sequence; unknown for a retried message in visible order.
    pub(super) key: Option<(Timestamp, Sequence)>,
}

impl Place {
    pub(super) fn of(message: &Message, queue: &QueueModel, retried: bool) -> Self {
        let sent_at = message.id.sent_at;
        let at = match queue.spec.order {
            Order::Sent => Some(sent_at),
            Order::Visible => (!retried).then(|| sent_at.plus(message.delay)),
        };
        let known = at.filter(|_| !message.moved && !message.revived && !message.may_be_later);
        Self { priority: message.priority, retried, key: known.map(|at| (at, message.id.sequence)) }
    }

    /// Certainly behind `other`.
    fn is_behind(&self, other: &Self, fresh_first: bool) -> bool {
        if self.priority != other.priority {
            return self.priority < other.priority;
        }
        if fresh_first && self.retried != other.retried {
            return self.retried;
        }
        matches!((self.key, other.key), (Some(own), Some(other)) if own > other)
    }
}

impl Auditor {
    /// A message is granted for the first time, at `at`: was it passed over before?
    pub(super) fn check_not_passed_over(&self, message: &Message, at: Timestamp) -> Verdict {
        let Some(queue) = self.queues.get(&message.queue) else { return Ok(()) };
        let known = message.sent_era == self.era && message.sent_index > queue.order_changed;
        if !known || message.moved || message.revived || !message.was_ready_at_once() {
            return Ok(());
        }
        let own = Place::of(message, queue, false);
        for handed in &queue.handed {
            if handed.asked <= message.sent_index || handed.at >= at {
                continue;
            }
            let wrong = match &handed.place {
                None => queue.pause_changed < message.sent_index,
                Some(place) => place.is_behind(&own, queue.spec.fresh_first),
            };
            if wrong {
                let what = if handed.place.is_some() { "a message behind it" } else { "nothing" };
                let (name, id) = (&queue.name, message.id);
                return Err(Breach(format!(
                    "{id} of {name} was ready at {:?} when a call got {what}; it was granted at {at:?}",
                    handed.at
                )));
            }
        }
        Ok(())
    }
}
