//! How far groups are with the logs of their topics, as it is stored, against what they are known to have had. A message that
//! lies behind a group's position, and that the group never had, is lost to it.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::id::{LogNumber, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, Role};
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::doubt::{Doubt, Stored};
use crate::auditor::queue::Begun;
use crate::auditor::{Auditor, Life, Message, QueueModel, Token, Verdict, demand};
use crate::workload::is_poisoned;

/// How far a group is with one log.
#[derive(Clone, Debug, Default)]
pub(super) struct Reach {
    start: LogNumber,
    position: LogNumber,
    /// What was purged of what it had.
    purged_through: Sequence,
    runs: Vec<(LogNumber, LogNumber)>,
}

impl Reach {
    /// Whether what the group had of a message was purged while it was held.
    pub(super) fn is_purged(&self, row: &DeliveryRow) -> bool {
        row.state == DeliveryState::Leased && row.entered <= self.purged_through
    }

    /// Whether a message of this number was handed out.
    fn had(&self, number: LogNumber) -> bool {
        let purged = LogNumber(self.purged_through.0);
        let passed = number <= self.position && (number > self.start || number <= purged);
        passed || self.runs.iter().any(|(first, last)| *first <= number && number <= *last)
    }
}

/// All of them, by group and log.
pub(super) fn reaches(dump: &MemoryDump) -> BTreeMap<(QueueNumber, QueueNumber), Reach> {
    let mut reaches = BTreeMap::new();
    for row in dump.queues.iter().filter(|row| !row.deleted) {
        let Role::Cursor { group, log, start } = row.role else { continue };
        let counters = dump.counters.iter().find(|counters| counters.queue == row.number);
        let position = counters.map(|counters| counters.position).unwrap_or_default();
        let runs = dump.runs.iter().filter(|run| run.cursor == row.number);
        let runs = runs.map(|run| (run.first, run.last)).collect();
        reaches.insert((group, log), Reach { start, position, purged_through: row.purged_through, runs });
    }
    reaches
}

impl Auditor {
    /// The topic of a group or a partition, or a topic itself.
    pub(super) fn topic_number(&self, number: QueueNumber) -> Option<QueueNumber> {
        match self.queues.get(&number)?.role {
            Role::Topic => Some(number),
            Role::Group { topic } | Role::Partition { topic } => Some(topic),
            Role::Queue | Role::Cursor { .. } => None,
        }
    }

    /// Whether the log that a message was sent to is there, and nothing happened to it unseen.
    pub(super) fn is_in_live_log(&self, message: &Message, doubt: &Doubt<'_>) -> bool {
        let log = self.message(&message.id).and_then(|sent| self.queues.get(&sent.queue));
        log.is_some_and(|log| log.alive && !doubt.is_about_name(&log.name))
    }

    /// What there is of each topic, partition and group, as it is stored and as is known of what groups had: ready, delayed and
    /// leased.
    pub fn amounts(&self, dump: &MemoryDump) -> BTreeMap<QueueNumber, [u64; 3]> {
        let stored = Stored::of(dump, self);
        let parts = self.queues.values().filter(|queue| queue.alive && queue.role != Role::Queue);
        parts.map(|queue| (queue.number, self.amounts_of(queue.number, &stored))).collect()
    }

    fn amounts_of(&self, number: QueueNumber, stored: &Stored<'_>) -> [u64; 3] {
        let mut amounts = [0; 3];
        let mut add = |state| match state {
            DeliveryState::Ready => amounts[0] += 1,
            DeliveryState::Delayed => amounts[1] += 1,
            DeliveryState::Leased => amounts[2] += 1,
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => {}
        };
        let role = self.queues.get(&number).map(|queue| queue.role);
        for (token, row) in &stored.rows {
            let is_own = match role {
                Some(Role::Topic) => self.topic_number(row.queue) == Some(number),
                Some(Role::Group { topic }) => {
                    let message = self.messages.get(token);
                    let ahead = |message| self.is_behind(number, message, *token) == Some(false);
                    let fresh = row.state == DeliveryState::Ready
                        && !self.progress.contains_key(&(number, *token))
                        && message.is_some_and(ahead);
                    // What is not visible yet will be before every group.
                    let comes = row.state == DeliveryState::Delayed;
                    self.topic_number(row.queue) == Some(topic) && (fresh || comes)
                }
                _ => row.queue == number,
            };
            if is_own {
                add(row.state);
            }
        }
        let own = (number, Token::MIN)..=(number, Token::MAX);
        stored.progress.range(own).for_each(|(_, row)| add(row.state));
        amounts
    }

    /// Messages that a group did not settle and that can be settled.
    #[must_use]
    pub fn owed(&self, name: &str) -> u64 {
        let Some((group, topic)) =
            self.reader_named(name).and_then(|group| Some((group, self.topic_number(group)?)))
        else {
            return 0;
        };
        let is_owed = |(token, message): &(&Token, &Message)| {
            let own = self.progress.get(&(group, **token));
            let settled = own.is_some_and(|own| own.life != Life::Alive);
            let behind = own.is_none() && self.is_behind(group, message, **token) == Some(true);
            message.life == Life::Alive
                && self.topic_number(message.queue) == Some(topic)
                && !settled
                && !behind
                && !is_poisoned(self, &message.id)
        };
        u64::try_from(self.messages.iter().filter(is_owed).count()).unwrap_or(u64::MAX)
    }

    /// Whether a group began behind a message; `None`: nobody can tell.
    pub(super) fn is_behind(&self, group: QueueNumber, message: &Message, token: Token) -> Option<bool> {
        let group = self.queues.get(&group)?;
        if let Some((looked, behind)) = &group.behind
            && message.sent_index <= *looked
        {
            return Some(behind.contains(&token));
        }
        let (index, made_by) = match group.begun? {
            Begun::Earliest => return Some(false),
            Begun::Latest(index, made_by) => (index, made_by),
        };
        if message.sent_index > index || message.id.sent_at.plus(message.delay) > made_by {
            return Some(false);
        }
        message.was_ready_at_once().then_some(true)
    }

    /// Compares what groups had with what is stored, and takes over what could not be known.
    pub(super) fn compare_groups(
        &mut self,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
        (now, index): (Timestamp, u64),
    ) -> Verdict {
        let groups = self.queues.values().filter(|queue| queue.alive);
        let groups: Vec<_> = groups
            .filter_map(|queue| match queue.role {
                Role::Group { topic } => Some((queue.number, topic)),
                _ => None,
            })
            .collect();
        for (group, topic) in groups {
            let of_group = (group, Token::MIN)..=(group, Token::MAX);
            let known = self.progress.range(of_group.clone()).map(|((_, token), _)| *token);
            let mut tokens: BTreeSet<Token> = known.collect();
            tokens.extend(stored.progress.range(of_group).map(|((_, token), _)| *token));
            tokens.extend(
                stored
                    .rows
                    .iter()
                    .filter(|(_, row)| self.topic_number(row.queue) == Some(topic))
                    .map(|(token, _)| *token),
            );
            for token in tokens {
                self.compare_progress(group, token, stored, doubt, (now, index))?;
            }
            self.compare_starts(group, topic, stored, index)?;
        }
        Ok(())
    }

    /// Which messages a group began behind.
    fn compare_starts(
        &mut self,
        group: QueueNumber,
        topic: QueueNumber,
        stored: &Stored<'_>,
        index: u64,
    ) -> Verdict {
        let mut found = BTreeSet::new();
        for (token, row) in stored.rows.iter().filter(|(_, row)| row.state == DeliveryState::Ready) {
            let Some(message) = self.messages.get(token) else { continue };
            if self.topic_number(row.queue) != Some(topic) {
                continue;
            }
            let start = stored.reaches.get(&(group, row.queue)).map(|reach| reach.start).unwrap_or_default();
            let is_behind = row.log_number() <= start;
            let known = self.is_behind(group, message, *token);
            demand!(
                known.is_none_or(|known| known == is_behind),
                "group {group} began behind {}: {is_behind}, number {}, start {start}",
                message.id,
                row.log_number()
            );
            if is_behind {
                found.insert(*token);
            }
        }
        let own = (group, QueueNumber(0))..=(group, QueueNumber(u32::MAX));
        let runs = stored.reaches.range(own).map(|(_, reach)| reach.runs.len()).max().unwrap_or(0);
        let limit = self.settings.runs;
        demand!(runs <= limit, "group {group} has {runs} runs in one log, limit {limit}");
        if let Some(group) = self.queues.get_mut(&group) {
            group.behind = Some((index, found));
            group.runs = (runs, BTreeSet::new());
            group.perhaps_skipped.clear();
        }
        Ok(())
    }

    fn compare_progress(
        &mut self,
        group: QueueNumber,
        token: Token,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
        (now, index): (Timestamp, u64),
    ) -> Verdict {
        let Some(message) = self.messages.get(&token) else { return Ok(()) };
        let row = stored.row(Some(group), token);
        let in_log = stored.rows.get(&token).copied();
        let had = in_log.map(|own| {
            let reach = stored.reaches.get(&(group, own.queue));
            own.state == DeliveryState::Ready && reach.is_some_and(|reach| reach.had(own.log_number()))
        });
        let id = message.id;
        let purged = |queue: &QueueModel| {
            queue.perhaps_skipped.contains_key(&token) || doubt.is_about_name(&queue.name)
        };
        let skipped = self.queues.get(&group).is_some_and(purged);
        let Some(known) = self.progress.get(&(group, token)) else {
            let doubtful = doubt.messages.contains(&(Some(group), id));
            demand!(doubtful || row.is_none(), "{id} is with group {group}, which never got it: {row:?}");
            // What is over may be passed over.
            let over = message.expires.0 <= now;
            demand!(
                doubtful || over || skipped || had != Some(true),
                "group {group} passed over {id}, which it never got"
            );
            if row.is_none() && had != Some(true) {
                return Ok(());
            }
            let delivery = row.map_or(id.sequence, |row: &DeliveryRow| row.sequence);
            let mut made = Message::of_group(message, group, delivery, index);
            if row.is_none() {
                made.life = Life::Gone;
            }
            self.progress.insert((group, token), made);
            return self.compare_delivery(Some(group), token, stored, doubt, now);
        };
        let certain = known.grants.values().any(|grant| !grant.is_as_if_never());
        demand!(row.is_none() || had != Some(false), "{id} is with group {group}, and before it as well");
        if row.is_none() && had == Some(false) {
            demand!(
                !certain && known.purged.is_none(),
                "group {group} had {id}, and is to get it for the first time: {:?}",
                known.grants
            );
            self.progress.remove(&(group, token));
            return Ok(());
        }
        self.compare_delivery(Some(group), token, stored, doubt, now)?;
        if let Some(known) = self.progress.get_mut(&(group, token)) {
            known.changed = index;
        }
        Ok(())
    }
}
