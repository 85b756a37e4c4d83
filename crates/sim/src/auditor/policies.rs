//! Which policies count for a message: those of its queue, or those of its group with what a trigger lays over them.

use std::borrow::Cow;

use millpond_core::id::QueueNumber;
use millpond_core::outcome::{QueueView, Why};
use millpond_core::row::{Role, TriggerRow};
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, QueueSpec, TriggerSpec};
use millpond_core::time::Timestamp;

use crate::auditor::triggers::{Triggers, is_for, over};
use crate::auditor::{Auditor, Message, QueueModel, Verdict, demand};
use crate::names::{Kind, id_of, kind_of, topic_of};

fn laid_over(trigger: &TriggerSpec, group: &QueueSpec) -> QueueSpec {
    let queue = trigger.dead_letter_queue.clone();
    let wait = trigger.retry_after;
    QueueSpec {
        at_limit: queue.map_or(AtLimit::Drop, |queue| AtLimit::MoveTo { queue, otherwise: Gone::Drop }),
        attempt_limit: trigger.max_deliveries.map(|max| AttemptLimit { max, counts: Counted::Deliveries }),
        backoff: Some(Backoff {
            initial: wait,
            factor_permille: 1_000,
            max: wait,
            jitter_permille: (1_000, 1_000),
        }),
        ..group.clone()
    }
}

/// The ids of the topic and the group of a group's name.
fn ids_of(group: &str) -> (&str, &str) {
    (topic_of(group).map(id_of).unwrap_or_default(), id_of(group))
}

/// Those of a group.
pub(super) fn feeding<'a>(rows: &'a Triggers, group: &str) -> impl Iterator<Item = &'a TriggerRow> {
    let (topic, id) = ids_of(group);
    let (topic, id) = (topic.to_owned(), id.to_owned());
    rows.values().filter(move |row| *row.group == *id && is_for(&row.topic, &topic))
}

/// The smallest limit of a group's triggers.
fn least(rows: &Triggers, group: &str) -> u32 {
    feeding(rows, group).filter_map(|row| row.spec.max_concurrency).min().unwrap_or(u32::MAX)
}

impl Auditor {
    /// The policies that counted for a message, where it is known to be, at some time since.
    pub(super) fn policies_since(&self, message: &Message, index: u64) -> Vec<Cow<'_, QueueSpec>> {
        let Some(queue) = self.queues.get(&message.queue) else { return Vec::new() };
        if message.reader.is_none() {
            return queue.specs_since(index).map(Cow::Borrowed).collect();
        }
        let triggers = self.triggers_over(queue, message, index);
        let policies = queue.specs_since(index).flat_map(|spec| {
            triggers.iter().map(move |trigger| match trigger {
                Some(trigger) => Cow::Owned(laid_over(trigger, spec)),
                None => Cow::Borrowed(spec),
            })
        });
        policies.collect()
    }

    fn triggers_over(&self, group: &QueueModel, message: &Message, index: u64) -> Vec<Option<&TriggerSpec>> {
        let log = self.message(&message.id).and_then(|sent| self.queues.get(&sent.queue));
        let log = log.map(|log| &*log.name).unwrap_or_default();
        let partition = (kind_of(log) == Kind::Partition).then(|| id_of(log));
        let mut found: Vec<Option<&TriggerSpec>> = Vec::new();
        for rows in self.triggers.since(index) {
            let trigger = over(rows, ids_of(&group.name), partition).map(|row| &row.spec);
            if !found.contains(&trigger) {
                found.push(trigger);
            }
        }
        found
    }

    /// The limits of leases that triggers set a group, as they were at some time since; `u32::MAX`: none.
    pub(super) fn trigger_limits_since(&self, queue: &QueueModel, index: u64) -> Vec<u32> {
        if !matches!(queue.role, Role::Group { .. }) {
            return vec![u32::MAX];
        }
        self.triggers.since(index).map(|rows| least(rows, &queue.name)).collect()
    }

    /// Whether all the time since a deployment's trigger answered for what a group reads of a log.
    pub(super) fn is_of_a_deployment(&self, group: &str, log: QueueNumber, index: u64) -> bool {
        let log = self.queues.get(&log).map(|log| &*log.name).unwrap_or_default();
        let partition = (kind_of(log) == Kind::Partition).then(|| id_of(log));
        let theirs = |rows: &Triggers| {
            over(rows, ids_of(group), partition).is_some_and(|trigger| trigger.deployment.is_some())
        };
        self.triggers.since(index).all(theirs)
    }

    /// Whether a trigger feeds a group.
    #[must_use]
    pub fn is_fed(&self, group: &str) -> bool {
        feeding(&self.triggers.rows, group).next().is_some()
    }

    /// Whether a group says why nothing is handed out as its triggers have it.
    pub fn check_why_of_group(&self, view: &QueueView, stamps: (Timestamp, Timestamp)) -> Verdict {
        let (name, counters) = (&view.queue.name, &view.counters);
        if kind_of(name) != Kind::Group {
            return Ok(());
        }
        let rows = &self.triggers.rows;
        let spec = &view.queue.spec;
        let limit = spec.concurrency_max.unwrap_or(u32::MAX).min(spec.leased_max).min(least(rows, name));
        let full = counters.ready > 0 && counters.leased >= u64::from(limit);
        let says_full = match &view.why {
            Why::ConcurrencyFull { limit: told, .. } | Why::LeasedLimit { limit: told } => {
                demand!(*told == limit, "{name} says {:?}, its limit is {limit}", view.why);
                true
            }
            Why::Paused { .. } => return Ok(()),
            _ => false,
        };
        demand!(says_full == full, "{name} says {:?} with {counters:?}, limit {limit}", view.why);
        let feeds = |id: &str| feeding(rows, name).find(|row| *row.id == *id);
        match &view.why {
            Why::TargetDown { trigger, trouble } => {
                let known = self.triggers.trouble(trigger).filter(|_| feeds(trigger).is_some());
                demand!(known == Some(trouble), "{name} says {:?}, known is {known:?}", view.why);
            }
            Why::TriggerStarts { trigger, at } => {
                let starts = feeds(trigger).map(|row| row.created_at.plus(row.spec.initial_delay));
                demand!(starts == Some(*at) && *at > stamps.0, "{name} says {:?}", view.why);
            }
            Why::NoDeployment { deployment } => {
                let pushed = over(rows, ids_of(name), Some(deployment));
                demand!(pushed.is_none(), "{name} says {:?}, known is {pushed:?}", view.why);
            }
            Why::NoConsumer { .. } => {
                // Somebody pushes everything.
                let common = feeding(rows, name).find(|row| row.deployment.is_none());
                demand!(common.is_none(), "{name} says {:?}, known is {common:?}", view.why);
            }
            _ => {}
        }
        Ok(())
    }
}
