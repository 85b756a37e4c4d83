//! Triggers in memory: who pushes what, and whose policies lie over a group's.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Included, Unbounded};

use crate::command::Trouble;
use crate::id::QueueNumber;
use crate::outcome::TriggerView;
use crate::planted;
use crate::row::{QueueRow, Role, TriggerRow};
use crate::state::{Core, Named, QueueState};

#[derive(Debug, Default)]
pub(crate) struct Triggers {
    rows: BTreeMap<Box<str>, TriggerRow>,
    by_group: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
    troubles: BTreeMap<Box<str>, Trouble>,
    /// The deployment that was made last.
    current: Option<Box<str>>,
}

impl Triggers {
    pub(crate) fn stored(rows: Vec<TriggerRow>) -> Self {
        let mut triggers = Self::default();
        rows.into_iter().for_each(|row| triggers.insert(row));
        if planted!(TriggersForgotten) {
            triggers.by_group.clear();
        }
        triggers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The deployment that was made last.
    pub(crate) fn current(&self) -> Option<&str> {
        self.current.as_deref()
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn get(&self, id: &str) -> Option<&TriggerRow> {
        self.rows.get(id)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &TriggerRow> {
        self.rows.values()
    }

    pub(crate) fn next_number(&self) -> u64 {
        self.rows.values().map(|row| row.number).max().unwrap_or(0) + 1
    }

    /// Takes a trigger in, in the place of one of the same id.
    pub(crate) fn insert(&mut self, row: TriggerRow) {
        self.remove(&row.id.clone());
        self.by_group.entry(row.group.clone()).or_default().insert(row.id.clone());
        self.rows.insert(row.id.clone(), row);
        self.find_current();
    }

    pub(crate) fn remove(&mut self, id: &str) -> Option<TriggerRow> {
        let row = self.rows.remove(id)?;
        self.troubles.remove(id);
        if let Some(ids) = self.by_group.get_mut(&row.group) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_group.remove(&row.group);
            }
        }
        self.find_current();
        Some(row)
    }

    fn find_current(&mut self) {
        let deployed = self.rows.values().filter(|row| row.deployment.is_some());
        self.current = deployed.max_by_key(|row| row.number).and_then(|row| row.deployment.clone());
    }

    pub(crate) fn of_deployment<'a>(&'a self, deployment: &'a str) -> impl Iterator<Item = &'a TriggerRow> {
        self.rows.values().filter(move |row| row.deployment.as_deref() == Some(deployment))
    }

    /// Whether a deployment has triggers: it may be handed messages of no partition.
    pub(crate) fn has_deployment(&self, deployment: &str) -> bool {
        self.of_deployment(deployment).next().is_some()
    }

    /// Those of a group that are for a topic.
    pub(crate) fn feeding<'a>(
        &'a self,
        topic: &'a str,
        group: &str,
    ) -> impl Iterator<Item = &'a TriggerRow> + use<'a> {
        let ids = self.by_group.get(group).into_iter().flatten();
        ids.filter_map(|id| self.rows.get(id)).filter(move |row| row.matches(topic))
    }

    pub(crate) fn any_for_topic(&self, topic: &str) -> bool {
        self.rows.values().any(|row| row.matches(topic))
    }

    /// The one that answers for the messages of a partition, or of none, of a topic in a group.
    pub(crate) fn for_messages<'a>(
        &'a self,
        topic: &'a str,
        group: &str,
        partition: Option<&'a str>,
    ) -> Option<&'a TriggerRow> {
        let deployment = partition.or(self.current.as_deref());
        let own = |row: &&'a TriggerRow| deployment.is_some() && row.deployment.as_deref() == deployment;
        let common = |row: &&'a TriggerRow| row.deployment.is_none();
        self.feeding(topic, group).find(own).or_else(|| self.feeding(topic, group).find(common))
    }

    pub(crate) fn trouble(&self, id: &str) -> Option<&Trouble> {
        self.troubles.get(id)
    }

    pub(crate) fn set_trouble(&mut self, id: &str, trouble: Option<Trouble>) {
        match trouble {
            Some(trouble) if self.rows.contains_key(id) => {
                self.troubles.insert(id.into(), trouble);
            }
            _ => {
                self.troubles.remove(id);
            }
        }
    }

    pub(crate) fn view(&self, row: &TriggerRow) -> TriggerView {
        TriggerView {
            trigger: row.clone(),
            current: row.deployment.is_some() && row.deployment == self.current,
            trouble: self.troubles.get(&row.id).cloned(),
        }
    }
}

/// The topic and the group of a group's name.
pub(crate) fn group_parts(row: &QueueRow) -> Option<(&str, &str)> {
    match Named::of(&row.name) {
        Some(Named::Group { topic, id }) => Some((topic, id)),
        _ => None,
    }
}

impl Core {
    /// The partition that a log is; `None`: the messages of none.
    pub(crate) fn partition_of(&self, log: QueueNumber) -> Option<&str> {
        match Named::of(&self.queues.get(&log)?.row.name) {
            Some(Named::Partition { id, .. }) => Some(id),
            _ => None,
        }
    }

    /// The trigger that answers for what a group reads of a log.
    pub(crate) fn trigger_over(&self, group: QueueNumber, log: QueueNumber) -> Option<&TriggerRow> {
        let (topic, id) = group_parts(&self.queues.get(&group)?.row)?;
        self.triggers.for_messages(topic, id, self.partition_of(log))
    }

    /// Whether a trigger feeds a group.
    pub(crate) fn is_fed(&self, group: &QueueState) -> bool {
        group_parts(&group.row).is_some_and(|(topic, id)| self.triggers.feeding(topic, id).next().is_some())
    }

    /// At most so many leases of a group at once: its own limits and those of its triggers.
    pub(crate) fn group_limit(&self, group: &QueueState) -> u64 {
        let parts = group_parts(&group.row);
        let triggers = parts.into_iter().flat_map(|(topic, id)| self.triggers.feeding(topic, id));
        let limits = triggers.filter_map(|row| row.spec.max_concurrency);
        limits.map(u64::from).fold(group.leased_limit(), u64::min)
    }

    /// Whether there is a topic that is to be pushed.
    pub(crate) fn has_fed_topics(&self) -> bool {
        !self.triggers.is_empty() && self.topics.keys().any(|topic| self.triggers.any_for_topic(topic))
    }

    /// Calls that wait, but for those for pushes.
    pub(crate) fn polls_waiting(&self) -> usize {
        self.waiting_in.len() - self.pushes_waiting
    }

    /// The policies of groups follow triggers that were made or removed.
    pub(crate) fn follow_triggers(&mut self, changed: &[TriggerRow]) {
        let mut groups = BTreeSet::new();
        for row in changed {
            let group =
                |topic: &QueueNumber| self.queues.get(topic)?.log()?.family.groups.get(&row.group).copied();
            match row.topic.strip_suffix('*') {
                Some(prefix) => {
                    let topics = self.topics.range::<str, _>((Included(prefix), Unbounded));
                    let topics = topics.take_while(|(id, _)| id.starts_with(prefix));
                    groups.extend(topics.filter_map(|(_, topic)| group(topic)));
                }
                None => groups.extend(self.topics.get(&row.topic).and_then(group)),
            }
        }
        for group in groups {
            for cursor in self.followers(group) {
                self.follow(cursor);
            }
            self.batch.stirred.push(group);
        }
    }

    /// What a cursor's policies are, given those of its group.
    pub(super) fn overlaid_spec(&self, role: Role, spec: crate::spec::QueueSpec) -> crate::spec::QueueSpec {
        let Role::Cursor { group, log, .. } = role else { return spec };
        self.trigger_over(group, log).map(|trigger| trigger.spec.over(&spec)).unwrap_or(spec)
    }
}
