//! One queue as its operators know it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::{PurgeTarget, Start};
use millpond_core::id::{MessageId, QueueNumber, Sequence};
use millpond_core::row::{QueueRow, Role};
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;

use crate::auditor::group_order::HandedOfLog;
use crate::auditor::order::Handed;
use crate::auditor::{Answered, Auditor, Token, Verdict, demand};
use crate::names::{id_of, topic_of};

/// One queue.
#[derive(Clone, Debug)]
pub struct QueueModel {
    /// Its number.
    pub number: QueueNumber,
    /// What it stands for.
    pub role: Role,
    /// Its name.
    pub name: Box<str>,
    /// Its policies.
    pub spec: QueueSpec,
    /// Those that it had before, each with the time at which its end was known.
    former: Vec<(u64, QueueSpec)>,
    /// When the order of its messages last changed.
    pub(super) order_changed: u64,
    /// Labels and the like.
    pub annotations: Box<str>,
    /// How often its policies changed.
    pub generation: u64,
    /// Its etag; empty: it has changed since it was seen.
    pub etag: String,
    /// It was not deleted.
    pub alive: bool,
    /// Nothing is handed out.
    pub paused: bool,
    /// When that last changed.
    pub pause_changed: u64,
    /// The last purge or deletion.
    pub emptied: u64,
    /// Highest sequence that a purge is known to have met.
    pub purged_through: Sequence,
    /// The last purge of its dead letters, or its deletion.
    pub dead_emptied: u64,
    /// Highest sequence that such a purge is known to have met.
    pub dead_purged_through: Sequence,
    /// What was handed out in this era.
    pub(super) handed: Vec<Handed>,
    /// The same of a group.
    pub(super) handed_of_logs: Vec<HandedOfLog>,
    /// Of a group: where it began, if somebody heard of that.
    pub(super) begun: Option<Begun>,
    /// Of a group: messages that it began behind, at the last look at what is stored, and when that was.
    pub(super) behind: Option<(u64, BTreeSet<Token>)>,
    /// Of a group: messages that it may have skipped in a purge since, each with the time by which that was.
    pub(super) perhaps_skipped: BTreeMap<Token, Timestamp>,
    /// Of a group: most runs in one log, at that look, and messages that were taken by their ids since.
    pub(super) runs: (usize, BTreeSet<MessageId>),
}

/// Where a group began.
#[derive(Clone, Copy, Debug)]
pub(super) enum Begun {
    /// Before all that was there.
    Earliest,
    /// Behind what was visible when it was made: that was told then, and had happened by this time.
    Latest(u64, Timestamp),
}

impl QueueModel {
    pub(super) fn new(row: &QueueRow, index: u64) -> Self {
        Self {
            number: row.number,
            role: row.role,
            name: row.name.clone(),
            spec: row.spec.clone(),
            former: Vec::new(),
            order_changed: 0,
            annotations: row.annotations.clone(),
            generation: row.generation,
            etag: millpond_core::outcome::etag(row),
            alive: true,
            paused: row.paused_at.is_some(),
            pause_changed: index,
            emptied: 0,
            purged_through: row.purged_through,
            dead_emptied: 0,
            dead_purged_through: row.dead_purged_through,
            handed: Vec::new(),
            handed_of_logs: Vec::new(),
            begun: None,
            behind: None,
            perhaps_skipped: BTreeMap::new(),
            runs: (0, BTreeSet::new()),
        }
    }

    /// Whether its etag may be this.
    #[must_use]
    pub fn may_have(&self, etag: &str) -> bool {
        self.etag.is_empty() || self.etag == etag
    }

    /// The policies that counted at some time since.
    pub fn specs_since(&self, index: u64) -> impl Iterator<Item = &QueueSpec> {
        let former = self.former.iter().filter(move |(until, _)| *until >= index).map(|(_, spec)| spec);
        former.chain(std::iter::once(&self.spec))
    }

    /// It may have had these policies for a while, unseen.
    pub(super) fn may_have_had(&mut self, spec: &QueueSpec, index: u64) {
        self.order_changed = index;
        self.former.push((index, spec.clone()));
    }

    /// It has these policies from now on.
    fn take_policies(&mut self, spec: &QueueSpec, index: u64) {
        if self.spec != *spec {
            if self.spec.order != spec.order || self.spec.fresh_first != spec.fresh_first {
                self.order_changed = index;
            }
            self.former.push((index, std::mem::replace(&mut self.spec, spec.clone())));
        }
    }

    /// It has this row from now on.
    pub(super) fn take_over(&mut self, row: &QueueRow, index: u64) {
        self.take_policies(&row.spec, index);
        self.annotations = row.annotations.clone();
        self.generation = row.generation;
        self.etag = millpond_core::outcome::etag(row);
    }
}

impl Auditor {
    /// A queue was made.
    pub fn created(&mut self, row: &QueueRow, start: Start, answered: &Answered<'_>) -> Verdict {
        let index = answered.index;
        demand!(!self.names.contains_key(&row.name), "{} was made twice", row.name);
        demand!(!self.queues.contains_key(&row.number), "queue number {} was given twice", row.number);
        self.names.insert(row.name.clone(), row.number);
        self.name_changes.insert(row.name.clone(), index);
        if row.role == Role::Topic {
            self.topic_made(id_of(&row.name));
        }
        let mut made = QueueModel::new(row, index);
        made.begun = match (row.role, start) {
            (Role::Group { .. }, Start::Latest) => Some(Begun::Latest(index, answered.stamp)),
            (Role::Group { .. }, Start::Earliest) => Some(Begun::Earliest),
            _ => None,
        };
        self.queues.insert(row.number, made);
        Ok(())
    }

    /// A queue was changed, or a topic and with it its partitions.
    pub fn updated(&mut self, row: &QueueRow, index: u64) {
        if let Some(queue) = self.queues.get_mut(&row.number) {
            queue.take_over(row, index);
        }
        let follows = |queue: &&mut QueueModel| queue.role == Role::Partition { topic: row.number };
        for partition in self.queues.values_mut().filter(follows) {
            partition.take_policies(&row.spec, index);
        }
    }

    /// A queue was deleted, or a topic and all that belongs to it.
    pub fn deleted(&mut self, name: &str, index: u64) {
        let part = |other: &str| topic_of(other) == Some(name);
        let gone = self.names.keys().filter(|other| ***other == *name || part(other));
        for name in gone.cloned().collect::<Vec<_>>() {
            let Some(number) = self.names.remove(&name) else { continue };
            self.name_changes.insert(name, index);
            if let Some(queue) = self.queues.get_mut(&number) {
                queue.alive = false;
                queue.emptied = index;
                queue.dead_emptied = index;
            }
        }
    }

    /// A queue was paused or resumed.
    pub fn paused(&mut self, name: &str, paused: bool, index: u64) {
        let number = self.names.get(name).copied();
        if let Some(queue) = number.and_then(|number| self.queues.get_mut(&number))
            && queue.paused != paused
        {
            queue.paused = paused;
            queue.pause_changed = index;
        }
    }

    /// A queue was purged: what is known to have been in it may not be granted or shown any more.
    pub fn purged(
        &mut self,
        name: &str,
        target: PurgeTarget,
        count: u64,
        answered: &Answered<'_>,
    ) -> Verdict {
        let Some(&number) = self.names.get(name) else { return Ok(()) };
        match self.queues.get(&number).map(|queue| queue.role) {
            Some(Role::Queue) => {}
            _ if target == PurgeTarget::DeadLetters => {
                demand!(count == 0, "{count} dead letters of {name} were removed, which has none");
                return Ok(());
            }
            Some(Role::Group { .. }) => return self.purged_group(number, count, answered),
            _ => return self.purged_logs(number, count, answered),
        }
        let certain = self.messages.values().filter(|message| !self.is_tentative(message));
        let highest = certain.map(|message| message.id.sequence).max().unwrap_or_default();
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(()) };
        queue.etag.clear();
        if target != PurgeTarget::DeadLetters {
            queue.emptied = answered.index;
            for message in self.messages.values_mut() {
                let waits = message.queue == number && message.dead_at.is_none();
                if waits && !message.moved && message.purged.is_none() {
                    message.purged = Some(answered.stamp);
                    message.changed = answered.index;
                    queue.purged_through = queue.purged_through.max(message.id.sequence);
                }
            }
        }
        if target == PurgeTarget::Waiting {
            return Ok(());
        }
        queue.dead_emptied = answered.index;
        queue.dead_purged_through = queue.dead_purged_through.max(highest);
        let mut certain = 0;
        let dead = self.messages.values().filter(|one| one.queue == number && one.dead_at.is_some());
        let dead: Vec<_> = dead.map(|message| message.id).collect();
        for id in dead {
            let unseen = self.unseen_of(None, id).unwrap_or_default();
            let Some(message) = self.by_id.get(&id).and_then(|token| self.messages.get_mut(token)) else {
                continue;
            };
            certain += u64::from(message.expires.0 > answered.stamp);
            message.is_removed(unseen, answered.index);
        }
        demand!(count >= certain, "a purge of {name} removed {count} messages, {certain} were dead");
        Ok(())
    }

    /// A queue was shown; what is seen must be what was done to it.
    pub fn shown(&mut self, row: &QueueRow) -> Verdict {
        let number = self.names.get(&row.name).copied();
        demand!(
            number == Some(row.number),
            "{} is shown with number {}, known with {number:?}",
            row.name,
            row.number
        );
        let Some(queue) = self.queues.get_mut(&row.number) else { return Ok(()) };
        demand!(
            queue.paused == row.paused_at.is_some(),
            "{} is shown paused since {:?}, known paused: {}",
            row.name,
            row.paused_at,
            queue.paused
        );
        demand!(queue.spec == row.spec, "{} is shown with other policies than it was given", row.name);
        demand!(
            queue.annotations == row.annotations && queue.generation == row.generation,
            "{} is shown with {} and generation {}, known are {} and {}",
            row.name,
            row.annotations,
            row.generation,
            queue.annotations,
            queue.generation
        );
        queue.etag = millpond_core::outcome::etag(row);
        Ok(())
    }

    /// The latest time that an answer can speak of.
    #[must_use]
    pub fn is_paused(&self, name: &str) -> bool {
        self.queue(name).is_some_and(|queue| queue.paused)
    }
}

/// Whether a time lies within a range, both ends included.
pub(super) fn within(time: Timestamp, range: (Timestamp, Timestamp)) -> bool {
    range.0 <= time && time <= range.1
}
