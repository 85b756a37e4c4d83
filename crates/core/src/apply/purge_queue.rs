//! Removes many messages at once: a watermark makes them gone, their rows leave in steps. Leased messages that entered
//! before a purge of what waits leave when their lease ends.
//!
//! A purge of a topic or a partition concerns its groups too: what they would have tried again is gone with it. A purge of a group
//! skips what lies before the group, and leaves the topic as it is.

use crate::apply::Stop;
use crate::command::PurgeTarget;
use crate::id::{LogNumber, QueueNumber, Sequence};
use crate::outcome::Outcome;
use crate::planted;
use crate::row::{DeliveryState, Role};
use crate::stamp::Stamp;
use crate::state::{Core, Part, QueueState, Totals};

impl PurgeTarget {
    fn states(self) -> &'static [DeliveryState] {
        match self {
            Self::Waiting => &[DeliveryState::Ready, DeliveryState::Delayed],
            Self::DeadLetters => &[DeliveryState::Dead],
            Self::All => &[DeliveryState::Ready, DeliveryState::Delayed, DeliveryState::Dead],
        }
    }
}

impl Core {
    pub(super) fn purge_queue(
        &mut self,
        name: &str,
        target: PurgeTarget,
        stamp: &Stamp,
    ) -> Result<Outcome, Stop> {
        let number = self.existing(name)?;
        let role = self.queues.get(&number).map(|queue| queue.row.role).unwrap_or_default();
        let through = Sequence(self.environment.next_sequence.0.saturating_sub(1));
        let states = target.states();
        let purged = match role {
            Role::Queue | Role::Cursor { .. } => self.purge_part(number, states, through, stamp),
            // Nothing of a topic is ever dead.
            _ if target == PurgeTarget::DeadLetters => 0,
            Role::Partition { .. } => self.purge_log(number, through, stamp),
            Role::Topic => {
                let partitions = self.followers(number);
                let logs = partitions.into_iter().chain([number]);
                logs.map(|log| self.purge_log(log, through, stamp)).sum()
            }
            Role::Group { .. } => self.purge_group(number, stamp),
        };
        Ok(Outcome::Purged(purged))
    }

    /// Removes the rows in these states that entered at or before a watermark: all that there are by now. Answers how many.
    fn purge_part(
        &mut self,
        number: QueueNumber,
        states: &[DeliveryState],
        through: Sequence,
        stamp: &Stamp,
    ) -> u64 {
        let not_before = self.next_commit();
        let Some(queue) = self.queues.get_mut(&number) else { return 0 };
        let messages = states.iter().map(|&state| std::mem::take(queue.count_mut(state))).sum();
        let mut bytes = 0;
        let mut sequences: Vec<_> = Vec::new();
        if states.contains(&DeliveryState::Ready) {
            queue.row.purged_through = through;
            bytes += std::mem::take(&mut queue.counters.waiting_bytes);
            if !planted!(PurgeMissesWindow) {
                sequences.extend(queue.ready.reset_to_nothing().map(|key| key.sequence));
            }
            sequences.extend(queue.delayed.reset_to_nothing().map(|key| key.sequence));
            if let Part::Log(log) = &mut queue.part {
                sequences.extend(log.clear());
                self.batch.logs_cleared.push(number);
            }
        }
        if states.contains(&DeliveryState::Dead) {
            queue.row.dead_purged_through = through;
            bytes += std::mem::take(&mut queue.counters.dead_bytes);
        }
        queue.row.sweep_owed = true;
        queue.row.revision += 1;
        queue.row.updated_at = stamp.now;
        if !queue.row.role.is_cursor() {
            self.totals.remove(Totals { messages, bytes });
        }
        self.rows.release_gone(&sequences);
        self.touch_queue(number);
        self.sweeps.begin_purged(number, states, not_before);
        self.batch.stirred.push(number);
        self.refresh_wake(number);
        messages
    }

    fn purge_log(&mut self, log: QueueNumber, through: Sequence, stamp: &Stamp) -> u64 {
        let states = PurgeTarget::Waiting.states();
        let last = self.log_of(log).map(|(_, last)| last).unwrap_or_default();
        for cursor in self.cursors_over(log) {
            self.purge_part(cursor, states, Sequence(last.0), stamp);
        }
        self.purge_part(log, states, through, stamp)
    }

    /// Nothing that is there by now is handed out to a group any more, but for what it has in hand.
    fn purge_group(&mut self, group: QueueNumber, stamp: &Stamp) -> u64 {
        let states = PurgeTarget::Waiting.states();
        let before = self.waiting_for(group);
        for lane in self.lanes(group, None) {
            let last = self.log_of(lane.log).map(|(_, last)| last).unwrap_or_default();
            if last == LogNumber::default() {
                continue;
            }
            let cursor = self.cursor_of(group, lane, stamp);
            self.purge_part(cursor, states, Sequence(last.0), stamp);
            if self.queues.get(&cursor).is_some_and(|state| state.counters.position < last) {
                self.move_position(cursor, last);
            }
            if let Some(cursor) = self.queues.get_mut(&cursor).and_then(QueueState::cursor_mut) {
                cursor.reset_page();
            }
        }
        before - self.waiting_for(group)
    }

    fn waiting_for(&self, group: QueueNumber) -> u64 {
        let counters = self.queues.get(&group).map(|group| self.counters_of(group));
        counters.map_or(0, |counters| counters.ready + counters.delayed)
    }
}
