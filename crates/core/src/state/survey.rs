//! What an operator watches of the queues: counts, ages, who waits. It is a look and not a command: it needs no rows and
//! changes nothing that is stored.

use std::ops::Bound;

use crate::id::QueueNumber;
use crate::row::CountersRow;
use crate::state::{Core, QueueState};
use crate::time::Timestamp;

/// Heads of ready orders that one look has read from the store. What is not known yet is known at a later look.
const HEADS_READ_MAX: usize = 16;

/// What there is to see of one queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueReading {
    /// Its name.
    pub name: Box<str>,
    /// Its counts.
    pub counters: CountersRow,
    /// When it was created.
    pub created_at: Timestamp,
    /// Nothing is handed out by order of an operator.
    pub paused: bool,
    /// Lease calls that wait.
    pub waiting: u64,
    /// The time in the order of the message that is to be handed out next. `None`: none is ready, or the front of the
    /// order was not read since the environment was opened.
    pub ready_since: Option<Timestamp>,
    /// When a lease call last came; `None`: never.
    pub consumer_seen_at: Option<Timestamp>,
}

impl Core {
    /// Readings of at most `most` queues in the order of their names, from the first one behind `after` on. Fewer than
    /// `most`: there are no more.
    #[must_use]
    pub fn readings(&self, after: Option<&str>, most: usize) -> Vec<QueueReading> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let numbers = self.names.range::<str, _>((from, Bound::Unbounded)).map(|(_, number)| number);
        numbers.filter_map(|number| self.queues.get(number)).map(reading).take(most).collect()
    }

    /// As [`Core::readings`]; also asks for the front of a few orders that were not read yet, some 16 KiB of memory each.
    pub fn survey(&mut self, after: Option<&str>, most: usize) -> Vec<QueueReading> {
        let readings = self.readings(after, most);
        let unread = readings.iter().filter(|queue| queue.counters.ready > 0 && queue.ready_since.is_none());
        let unread: Vec<QueueNumber> =
            unread.map(|queue| queue.counters.queue).take(HEADS_READ_MAX).collect();
        for number in unread {
            self.refill_ready(number);
        }
        readings
    }
}

fn reading(queue: &QueueState) -> QueueReading {
    QueueReading {
        name: queue.row.name.clone(),
        counters: queue.counters,
        created_at: queue.row.created_at,
        paused: queue.row.paused_at.is_some(),
        waiting: u64::try_from(queue.waiters.len()).unwrap_or(u64::MAX),
        ready_since: queue.ready.first().map(|key| key.order_at),
        consumer_seen_at: queue.consumer_seen_at,
    }
}
