//! Removes what nobody uses any more: groups that nobody reads, and partitions that are empty (design-holes A8). Looked for once an
//! hour, a bounded number of topics at a time.

use std::ops::Bound::{Excluded, Unbounded};
use std::time::Duration;

use crate::id::QueueNumber;
use crate::limits;
use crate::stamp::Stamp;
use crate::state::{Core, QueueState};
use crate::time::Timestamp;

/// How often all topics are looked at.
const EVERY: Duration = Duration::from_secs(3600);
/// When they are looked at first: before an environment that is only opened now and then is closed again.
const FIRST: Duration = Duration::from_secs(10);
/// Topics looked at in one batch.
const TOPICS_PER_BATCH: usize = 16;
/// Parts of topics removed in one batch.
const REMOVED_PER_BATCH: usize = 64;
/// A partition that is empty is kept for so long after its last message: for as long as a key of it may be remembered, and a
/// deployment is likely to send again.
const PARTITION_UNUSED_MAX: Duration = limits::GROUP_UNUSED_MAX;

const _: () = assert!(PARTITION_UNUSED_MAX.as_millis() > limits::IDEMPOTENCY_WINDOW_MAX.as_millis());

/// When topics are looked at again, and behind which.
#[derive(Debug)]
pub(crate) struct Retirement {
    pub(crate) due_at: Timestamp,
    after: Option<Box<str>>,
}

impl Retirement {
    /// Of an environment that is opened.
    pub(crate) fn soon(now: Timestamp) -> Self {
        Self { due_at: now.plus(FIRST), after: None }
    }

    fn later(now: Timestamp) -> Self {
        Self { due_at: now.plus(EVERY), after: None }
    }
}

impl Core {
    /// Goes on with it, if it is time.
    pub(super) fn retire(&mut self, stamp: &Stamp) {
        if self.retirement.due_at > stamp.now {
            return;
        }
        let from = self.retirement.after.as_deref().map_or(Unbounded, Excluded);
        let topics = self.topics.range::<str, _>((from, Unbounded)).take(TOPICS_PER_BATCH);
        let topics: Vec<_> = topics.map(|(name, number)| (name.clone(), *number)).collect();
        let mut unused = Vec::new();
        for (name, topic) in topics {
            unused.extend(self.unused_parts(topic, stamp.now).take(REMOVED_PER_BATCH - unused.len()));
            if unused.len() >= REMOVED_PER_BATCH {
                break;
            }
            self.retirement.after = Some(name);
        }
        if unused.is_empty() && self.topics_left() == 0 {
            self.retirement = Retirement::later(stamp.now);
        }
        for part in unused {
            self.forget_queue(part);
        }
    }

    fn topics_left(&self) -> usize {
        let from = self.retirement.after.as_deref().map_or(Unbounded, Excluded);
        self.topics.range::<str, _>((from, Unbounded)).take(1).count()
    }

    fn unused_parts(&self, topic: QueueNumber, now: Timestamp) -> impl Iterator<Item = QueueNumber> + '_ {
        let queue = self.queues.get(&topic);
        let retention = queue.and_then(|queue| queue.row.spec.retention).unwrap_or_default();
        let after = retention.max(limits::GROUP_UNUSED_MAX);
        let seen = |queue: &QueueState| queue.consumer_seen_at.unwrap_or(queue.row.created_at);
        let family = queue.and_then(QueueState::log).map(|log| &log.family);
        let groups = family.into_iter().flat_map(|family| family.groups.values()).filter(move |group| {
            let unused = |group: &QueueState| {
                group.waiters.is_empty() && now.since(seen(group)) > after && !self.is_fed(group)
            };
            self.queues.get(group).is_some_and(unused)
        });
        let partitions = family.into_iter().flat_map(|family| family.partitions.values());
        let partitions = partitions.filter(move |partition| {
            let held = |cursor: QueueNumber| {
                self.queues.get(&cursor).is_some_and(|cursor| cursor.counters.leased > 0)
            };
            let empty = |log: &QueueState| {
                log.counters.messages() == 0
                    && now.since(seen(log)) > PARTITION_UNUSED_MAX
                    && !self.cursors_over(log.number()).into_iter().any(held)
            };
            self.queues.get(partition).is_some_and(empty)
        });
        groups.chain(partitions).copied()
    }
}
