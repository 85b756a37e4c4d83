//! Removes many messages at once: a watermark makes them gone, their rows leave in steps. Leased messages that entered
//! before a purge of what waits leave when their lease ends.

use crate::apply::Stop;
use crate::command::PurgeTarget;
use crate::id::Sequence;
use crate::outcome::Outcome;
use crate::planted;
use crate::row::DeliveryState;
use crate::stamp::Stamp;
use crate::state::{Core, Totals};

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
        let number = self.existing_queue(name)?;
        let not_before = self.next_commit();
        let through = Sequence(self.environment.next_sequence.0.saturating_sub(1));
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(Outcome::Purged(0)) };
        let states = target.states();
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
        }
        if states.contains(&DeliveryState::Dead) {
            queue.row.dead_purged_through = through;
            bytes += std::mem::take(&mut queue.counters.dead_bytes);
        }
        queue.row.sweep_owed = true;
        queue.row.revision += 1;
        queue.row.updated_at = stamp.now;
        self.totals.remove(Totals { messages, bytes });
        self.rows.release_gone(&sequences);
        self.touch_queue(number);
        self.sweeps.begin_purged(number, states, not_before);
        self.batch.stirred.push(number);
        self.refresh_wake(number);
        Ok(Outcome::Purged(messages))
    }
}
