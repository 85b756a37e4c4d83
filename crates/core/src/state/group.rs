//! One group of a topic: its cursors, and the acks that can be repeated; and the names of topics and of what belongs to them.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence};
use crate::limits;
use crate::row::{CountersRow, DeliveryRow, QueueRow, Role};
use crate::state::{Core, Lane, QueueState};
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Cursors by log, of logs that something was handed out of.
    pub(crate) cursors: BTreeMap<QueueNumber, QueueNumber>,
    /// Acks of the last minutes, oldest first.
    acked: VecDeque<(Timestamp, Sequence)>,
    acked_as: BTreeMap<Sequence, (LeaseGeneration, Timestamp)>,
}

impl Group {
    /// A lease was acked. At most `most` acks are remembered.
    pub(crate) fn note_ack(&mut self, row: &DeliveryRow, now: Timestamp, most: usize) {
        let old = |at: Timestamp| at.plus(limits::ACK_REMEMBERED_FOR) <= now;
        while let Some(&(at, sequence)) = self.acked.front()
            && (old(at) || self.acked.len() >= most)
        {
            self.acked.pop_front();
            self.acked_as.remove(&sequence);
        }
        self.acked.push_back((now, row.sequence));
        self.acked_as.insert(row.sequence, (row.lease_generation, now));
    }

    /// Whether a delivery was acked lately under this generation.
    pub(crate) fn was_acked(&self, delivery: Sequence, generation: LeaseGeneration, now: Timestamp) -> bool {
        let acked = self.acked_as.get(&delivery).filter(|(own, _)| *own == generation);
        acked.is_some_and(|(_, at)| at.plus(limits::ACK_REMEMBERED_FOR) > now)
    }
}

/// A name, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Named<'a> {
    Queue(&'a str),
    Topic(&'a str),
    Group { topic: &'a str, id: &'a str },
    Partition { topic: &'a str, id: &'a str },
}

impl<'a> Named<'a> {
    /// What a name names, if its parts are such as can be: their ids are not looked at.
    pub(crate) fn of(name: &'a str) -> Option<Self> {
        let mut parts = name.split('/');
        match (parts.next()?, parts.next(), parts.next(), parts.next(), parts.next()) {
            (id, None, ..) => Some(Self::Queue(id)),
            ("topics", Some(topic), None, ..) => Some(Self::Topic(topic)),
            ("topics", Some(topic), Some("groups"), Some(id), None) => Some(Self::Group { topic, id }),
            ("topics", Some(topic), Some("partitions"), Some(id), None) => {
                Some(Self::Partition { topic, id })
            }
            _ => None,
        }
    }
}

impl Core {
    /// The number that a name stands for.
    pub(crate) fn number_of(&self, name: &str) -> Option<QueueNumber> {
        let family = |topic: &str| Some(&self.queues.get(self.topics.get(topic)?)?.log()?.family);
        match Named::of(name)? {
            Named::Queue(id) => self.names.get(id).copied(),
            Named::Topic(id) => self.topics.get(id).copied(),
            Named::Group { topic, id } => family(topic)?.groups.get(id).copied(),
            Named::Partition { topic, id } => family(topic)?.partitions.get(id).copied(),
        }
    }

    /// A queue, or another part, is found by its name from now on.
    pub(super) fn enter_name(&mut self, row: &QueueRow) {
        match (row.role, Named::of(&row.name)) {
            (Role::Queue, Some(Named::Queue(id))) => {
                self.names.insert(id.into(), row.number);
            }
            (Role::Topic, Some(Named::Topic(id))) => {
                self.topics.insert(id.into(), row.number);
            }
            (Role::Partition { topic }, Some(Named::Partition { id, .. })) => {
                if let Some(log) = self.queues.get_mut(&topic).and_then(QueueState::log_mut) {
                    log.family.partitions.insert(id.into(), row.number);
                }
            }
            (Role::Group { topic }, Some(Named::Group { id, .. })) => {
                if let Some(log) = self.queues.get_mut(&topic).and_then(QueueState::log_mut) {
                    log.family.groups.insert(id.into(), row.number);
                }
            }
            (Role::Cursor { group, log, .. }, _) => {
                if let Some(group) = self.queues.get_mut(&group).and_then(QueueState::group_mut) {
                    group.cursors.insert(log, row.number);
                }
            }
            _ => {}
        }
    }

    /// A queue, or another part, is not found by its name any more.
    pub(crate) fn leave_name(&mut self, row: &QueueRow) {
        match (row.role, Named::of(&row.name)) {
            (Role::Queue, Some(Named::Queue(id))) => {
                self.names.remove(id);
            }
            (Role::Topic, Some(Named::Topic(id))) => {
                self.topics.remove(id);
            }
            (Role::Partition { topic }, Some(Named::Partition { id, .. })) => {
                if let Some(log) = self.queues.get_mut(&topic).and_then(QueueState::log_mut) {
                    log.family.partitions.remove(id);
                }
            }
            (Role::Group { topic }, Some(Named::Group { id, .. })) => {
                if let Some(log) = self.queues.get_mut(&topic).and_then(QueueState::log_mut) {
                    log.family.groups.remove(id);
                    log.family.waiting.remove(&row.number);
                }
            }
            (Role::Cursor { group, log, .. }, _) => {
                if let Some(group) = self.queues.get_mut(&group).and_then(QueueState::group_mut) {
                    group.cursors.remove(&log);
                }
            }
            _ => {}
        }
    }

    /// What belongs to a queue, a topic, a partition or a group and goes with it, itself first.
    pub(crate) fn household(&self, number: QueueNumber) -> Vec<QueueNumber> {
        let mut all = vec![number];
        let Some(queue) = self.queues.get(&number) else { return all };
        if let Some(log) = queue.log() {
            let groups = log.family.groups.values().copied();
            all.extend(groups.flat_map(|group| self.household(group)));
            all.extend(log.family.partitions.values().copied());
        }
        if let Some(group) = queue.group() {
            all.extend(group.cursors.values().copied());
        }
        if let Role::Partition { .. } = queue.row.role {
            all.extend(self.cursors_over(number));
        }
        all
    }

    /// The cursors of all groups over a log.
    pub(crate) fn cursors_over(&self, number: QueueNumber) -> Vec<QueueNumber> {
        let topic = match self.queues.get(&number).map(|queue| queue.row.role) {
            Some(Role::Partition { topic }) => topic,
            _ => number,
        };
        let family = self.queues.get(&topic).and_then(QueueState::log).map(|log| &log.family);
        let groups = family.into_iter().flat_map(|family| family.groups.values());
        let cursor = |group: &QueueNumber| self.queues.get(group)?.group()?.cursors.get(&number).copied();
        groups.filter_map(cursor).collect()
    }

    /// Whether what it belongs to is deleted, or gone by now: then it is as well, whatever its own row says.
    pub(super) fn is_orphan(&self, row: &QueueRow) -> bool {
        let lives = |number: QueueNumber| self.queues.get(&number).is_some_and(|queue| !queue.row.deleted);
        match row.role {
            Role::Queue | Role::Topic => false,
            Role::Partition { topic } | Role::Group { topic } => !lives(topic),
            Role::Cursor { group, log, .. } => !lives(group) || !lives(log),
        }
    }

    /// What has the policies of this: a topic's partitions, a group's cursors.
    pub(crate) fn followers(&self, number: QueueNumber) -> Vec<QueueNumber> {
        let Some(queue) = self.queues.get(&number) else { return Vec::new() };
        let partitions = queue.log().into_iter().flat_map(|log| log.family.partitions.values());
        let cursors = queue.group().into_iter().flat_map(|group| group.cursors.values());
        partitions.chain(cursors).copied().collect()
    }

    /// Takes over the policies of what it follows.
    pub(crate) fn follow(&mut self, number: QueueNumber) {
        let leader = match self.queues.get(&number).map(|queue| queue.row.role) {
            Some(Role::Partition { topic }) => topic,
            Some(Role::Cursor { group, .. }) => group,
            _ => return,
        };
        let Some(spec) = self.queues.get(&leader).map(|leader| leader.row.spec.clone()) else { return };
        let role = self.queues.get(&number).map(|queue| queue.row.role).unwrap_or_default();
        let spec = self.overlaid_spec(role, spec);
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.row.spec = spec;
        }
    }

    /// The groups, or the queue, whose waiting calls a change of this concerns.
    pub(crate) fn readers_of(&self, number: QueueNumber) -> Vec<QueueNumber> {
        let Some(queue) = self.queues.get(&number) else { return Vec::new() };
        let waiting = |topic: &QueueNumber| {
            let log = self.queues.get(topic).and_then(QueueState::log);
            log.map(|log| log.family.waiting.iter().copied().collect()).unwrap_or_default()
        };
        match queue.row.role {
            Role::Queue | Role::Group { .. } => vec![number],
            Role::Topic => waiting(&number),
            Role::Partition { topic } => waiting(&topic),
            Role::Cursor { group, .. } => vec![group],
        }
    }

    /// The group that a cursor is of, or the number itself.
    pub(crate) fn reader_of(&self, number: QueueNumber) -> QueueNumber {
        match self.queues.get(&number).map(|queue| queue.row.role) {
            Some(Role::Cursor { group, .. }) => group,
            _ => number,
        }
    }

    /// Whether a number is a cursor of a group, and not one that is deleted.
    pub(crate) fn is_cursor_of(&self, number: QueueNumber, group: QueueNumber) -> bool {
        self.reader_of(number) == group
            && number != group
            && self.queues.get(&number).is_some_and(|cursor| !cursor.row.deleted)
    }

    /// Exact counts: a topic's over all its logs, a group's over all its cursors and what lies before them.
    pub(crate) fn counters_of(&self, queue: &QueueState) -> CountersRow {
        let mut sum = queue.counters;
        match queue.row.role {
            Role::Topic => {
                let partitions = queue.log().into_iter().flat_map(|log| log.family.partitions.values());
                let others = partitions.filter_map(|number| self.queues.get(number));
                others.for_each(|other| add_counters(&mut sum, &other.counters));
            }
            Role::Group { topic } => {
                let cursors = queue.group().into_iter().flat_map(|group| group.cursors.values());
                let cursors = cursors.filter_map(|number| self.queues.get(number));
                cursors.for_each(|cursor| add_counters(&mut sum, &cursor.counters));
                sum.ready += self.fresh_count(queue, topic);
                // What is not visible yet will come to every group.
                let lanes = self.lanes_of(queue, topic, None);
                let logs = lanes.iter().filter_map(|lane| self.queues.get(&lane.log));
                sum.delayed += logs.map(|log| log.counters.delayed).sum::<u64>();
                // A group sends nothing: what was sent to it is what its topic got.
                sum.position = LogNumber::default();
            }
            Role::Queue | Role::Partition { .. } | Role::Cursor { .. } => {}
        }
        sum
    }

    /// Messages of a topic that were never handed out to a group, and lie before it.
    fn fresh_count(&self, group: &QueueState, topic: QueueNumber) -> u64 {
        self.lanes_of(group, topic, None).iter().map(|lane| self.fresh_in(lane)).sum()
    }

    /// Those of one log.
    fn fresh_in(&self, lane: &Lane) -> u64 {
        let Some((log, last)) = self.log_of(lane.log) else { return 0 };
        let all = self.queues.get(&lane.log).map_or(0, |log| log.counters.ready);
        let Some(cursor) = lane.cursor.and_then(|cursor| self.queues.get(&cursor)) else { return all };
        let position = cursor.counters.position;
        let taken = cursor.cursor().into_iter().flat_map(|cursor| cursor.runs());
        let taken: u64 = taken
            .filter(|(first, _)| *first > position)
            .map(|(first, last)| log.live_within(first, last))
            .sum();
        log.live_behind(position, last, all) - taken
    }

    /// The logs in which a group has something ready.
    pub(crate) fn ready_lanes(&self, group: &QueueState) -> Vec<QueueNumber> {
        let Role::Group { topic } = group.row.role else { return Vec::new() };
        let again = |lane: &Lane| {
            let cursor = lane.cursor.and_then(|cursor| self.queues.get(&cursor));
            cursor.map_or(0, |cursor| cursor.counters.ready)
        };
        let lanes = self.lanes_of(group, topic, None).into_iter();
        lanes.filter(|lane| again(lane) + self.fresh_in(lane) > 0).map(|lane| lane.log).collect()
    }
}

fn add_counters(sum: &mut CountersRow, more: &CountersRow) {
    sum.ready += more.ready;
    sum.delayed += more.delayed;
    sum.leased += more.leased;
    sum.dead += more.dead;
    sum.completed += more.completed;
    sum.cancelled += more.cancelled;
    sum.waiting_bytes += more.waiting_bytes;
    sum.leased_bytes += more.leased_bytes;
    sum.dead_bytes += more.dead_bytes;
    sum.finished_bytes += more.finished_bytes;
    sum.total_sent += more.total_sent;
    sum.total_delivered += more.total_delivered;
    sum.total_undone += more.total_undone;
    sum.total_acked += more.total_acked;
    sum.total_dead += more.total_dead;
    sum.total_expired += more.total_expired;
    sum.consumer_seen_at = sum.consumer_seen_at.max(more.consumer_seen_at);
}
