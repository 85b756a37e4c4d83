//! Shows a queue: its row, its exact counts, and why it hands nothing out.

use std::time::Duration;

use crate::apply::Stop;
use crate::id::QueueNumber;
use crate::outcome::{Outcome, QueueView, Rejection, Why};
use crate::row::CountersRow;
use crate::stamp::Stamp;
use crate::state::{Core, QueueState};
use crate::time::Timestamp;

/// A consumer that asked within this time is taken to be there.
const CONSUMER_ABSENT_AFTER: Duration = Duration::from_secs(60);
/// A transaction that holds a lease for so long beyond its end is told of.
const HELD_LONG: Duration = Duration::from_secs(10);

impl Core {
    pub(super) fn get_queue(&self, name: &str, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(name)?;
        self.view(number, stamp)
    }

    /// The queue, or other part, of a name.
    pub(super) fn existing(&self, name: &str) -> Result<QueueNumber, Rejection> {
        self.number_of(name).ok_or_else(|| Rejection::QueueNotFound { name: name.into() })
    }

    /// The queue of a name, and no topic nor part of one.
    pub(super) fn existing_queue(&self, name: &str) -> Result<QueueNumber, Rejection> {
        let number = self.existing(name)?;
        if name.contains('/') {
            return Err(Rejection::Unsuited { name: name.into(), wanted: "a queue" });
        }
        Ok(number)
    }

    pub(super) fn view(&self, number: QueueNumber, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Some(view) = self.view_of(number, stamp) else {
            return Err(Rejection::QueueNotFound { name: number.to_string().into() }.into());
        };
        Ok(Outcome::Queue(Box::new(view)))
    }

    pub(super) fn view_of(&self, number: QueueNumber, stamp: &Stamp) -> Option<QueueView> {
        let queue = self.queues.get(&number)?;
        let counters = self.counters_of(queue);
        Some(QueueView {
            queue: queue.row.clone(),
            counters,
            waiting: u64::try_from(queue.waiters.len()).unwrap_or(u64::MAX),
            why: self.why(queue, &counters, stamp),
        })
    }
}

impl Core {
    /// The first reason that applies, from what an operator did to what simply is.
    fn why(&self, queue: &QueueState, counters: &CountersRow, stamp: &Stamp) -> Why {
        if let Some(since) = queue.row.paused_at {
            return Why::Paused { since };
        }
        let first = |window: fn(&QueueState) -> Option<Timestamp>| {
            let lanes = self.lanes(queue.number(), None);
            let parts = lanes.iter().flat_map(|lane| [Some(lane.log), lane.cursor]).flatten();
            let parts = parts.filter_map(|part| self.queues.get(&part)).chain([queue]);
            parts.filter_map(window).min()
        };
        let held = self.claims.held_since(queue.number(), stamp.now, HELD_LONG);
        let lease_end = || first(|part| part.leased.first().map(|key| key.due_at));
        if counters.ready > 0 {
            let limit = self.group_limit(queue);
            if counters.leased >= limit {
                if let Some(since) = held {
                    return Why::HeldByTransactions { since };
                }
                let leased_max = queue.row.spec.leased_max;
                if limit == u64::from(leased_max) && queue.row.spec.concurrency_max != Some(leased_max) {
                    return Why::LeasedLimit { limit: leased_max };
                }
                let limit = u32::try_from(limit).unwrap_or(u32::MAX);
                return Why::ConcurrencyFull { limit, until: lease_end() };
            }
            // A log hands nothing out itself.
            if queue.row.role.is_log() {
                return Why::Delivering;
            }
            let seen = queue.consumer_seen_at;
            if queue.waiters.iter().any(|(_, waiter)| !waiter.reading.pushes) {
                return Why::Delivering;
            }
            let not_pushed = self.why_not_pushed(queue, stamp);
            let polled = queue.polled_at.is_some_and(|at| stamp.now.since(at) < CONSUMER_ABSENT_AFTER);
            if polled && !matches!(not_pushed, Some(Why::TargetDown { .. })) {
                return Why::Delivering;
            }
            return not_pushed.unwrap_or(Why::NoConsumer { since: seen });
        }
        if counters.delayed > 0 {
            return Why::AllDelayed { until: first(|part| part.delayed.first().map(|key| key.due_at)) };
        }
        if let Some(since) = held {
            return Why::HeldByTransactions { since };
        }
        if counters.leased > 0 {
            return Why::AllLeased { until: lease_end() };
        }
        if counters.dead > 0 { Why::AllDead } else { Why::Empty }
    }

    /// Why the triggers of a group that has something ready push nothing, or that they do; `None`: it is no group, or nobody is to
    /// push what is ready.
    fn why_not_pushed(&self, group: &QueueState, stamp: &Stamp) -> Option<Why> {
        let ready: Vec<_> = self.ready_lanes(group);
        let pushers: Vec<_> =
            ready.iter().filter_map(|log| self.trigger_over(group.number(), *log)).collect();
        for trigger in &pushers {
            if let Some(trouble) = self.triggers.trouble(&trigger.id) {
                return Some(Why::TargetDown { trigger: trigger.id.clone(), trouble: trouble.clone() });
            }
        }
        if !pushers.is_empty() {
            let starts = pushers.iter().min_by_key(|trigger| trigger.starts_at())?;
            let waits = starts.starts_at() > stamp.now;
            let waiting = Why::TriggerStarts { trigger: starts.id.clone(), at: starts.starts_at() };
            return Some(if waits { waiting } else { Why::Delivering });
        }
        // Messages of none are the current deployment's to push, if the group is fed at all.
        let current = self.triggers.current().filter(|_| self.is_fed(group));
        let owners: Option<Vec<_>> = ready.iter().map(|log| self.partition_of(*log).or(current)).collect();
        let deployment = owners?.first().copied()?;
        Some(Why::NoDeployment { deployment: deployment.into() })
    }
}
