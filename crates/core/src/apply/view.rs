//! Shows a queue: its row, its exact counts, and why it hands nothing out.

use std::time::Duration;

use crate::apply::Stop;
use crate::id::QueueNumber;
use crate::outcome::{Outcome, QueueView, Rejection, Why};
use crate::stamp::Stamp;
use crate::state::{Core, QueueState};

/// A consumer that asked within this time is taken to be there.
const CONSUMER_ABSENT_AFTER: Duration = Duration::from_secs(60);

impl Core {
    pub(super) fn get_queue(&self, name: &str, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Some(&number) = self.names.get(name) else {
            return Err(Rejection::QueueNotFound { name: name.into() }.into());
        };
        self.view(number, stamp)
    }

    pub(super) fn view(&self, number: QueueNumber, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Some(view) = self.view_of(number, stamp) else {
            return Err(Rejection::QueueNotFound { name: number.to_string().into() }.into());
        };
        Ok(Outcome::Queue(Box::new(view)))
    }

    pub(super) fn view_of(&self, number: QueueNumber, stamp: &Stamp) -> Option<QueueView> {
        let queue = self.queues.get(&number)?;
        Some(QueueView {
            queue: queue.row.clone(),
            counters: queue.counters,
            waiting: u64::try_from(queue.waiters.len()).unwrap_or(u64::MAX),
            why: why(queue, stamp),
        })
    }
}

/// The first reason that applies, from what an operator did to what simply is.
fn why(queue: &QueueState, stamp: &Stamp) -> Why {
    if let Some(since) = queue.row.paused_at {
        return Why::Paused { since };
    }
    let counters = &queue.counters;
    let lease_end = || queue.leased.first().map(|key| key.due_at);
    if counters.ready > 0 {
        if let Some(limit) = queue.row.spec.concurrency_max
            && counters.leased >= u64::from(limit)
        {
            return Why::ConcurrencyFull { limit, until: lease_end() };
        }
        let limit = queue.row.spec.leased_max;
        if counters.leased >= u64::from(limit) {
            return Why::LeasedLimit { limit };
        }
        let seen = queue.consumer_seen_at;
        let present = !queue.waiters.is_empty()
            || seen.is_some_and(|seen| stamp.now.since(seen) < CONSUMER_ABSENT_AFTER);
        return if present { Why::Delivering } else { Why::NoConsumer { since: seen } };
    }
    if counters.delayed > 0 {
        return Why::AllDelayed { until: queue.delayed.first().map(|key| key.due_at) };
    }
    if counters.leased > 0 {
        return Why::AllLeased { until: lease_end() };
    }
    if counters.dead > 0 { Why::AllDead } else { Why::Empty }
}
