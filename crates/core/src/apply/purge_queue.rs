//! Removes every ready and delayed message at once: a watermark makes them gone, their rows leave in steps. Leased
//! messages that entered before it leave when their lease ends; dead letters stay.

use crate::apply::Stop;
use crate::id::Sequence;
use crate::outcome::{Outcome, Rejection};
use crate::planted;
use crate::stamp::Stamp;
use crate::state::{Core, Totals};

impl Core {
    pub(super) fn purge_queue(&mut self, name: &str, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Some(&number) = self.names.get(name) else {
            return Err(Rejection::QueueNotFound { name: name.into() }.into());
        };
        let not_before = self.next_commit();
        let through = Sequence(self.environment.next_sequence.0.saturating_sub(1));
        let Some(queue) = self.queues.get_mut(&number) else { return Ok(Outcome::Purged(0)) };
        let count = queue.counters.ready + queue.counters.delayed;
        self.totals.remove(Totals { messages: count, bytes: queue.counters.waiting_bytes });
        queue.counters.ready = 0;
        queue.counters.delayed = 0;
        queue.counters.waiting_bytes = 0;
        queue.row.purged_through = through;
        queue.row.sweep_owed = true;
        queue.row.revision += 1;
        queue.row.updated_at = stamp.now;
        let mut sequences: Vec<_> = Vec::new();
        if !planted!(PurgeMissesWindow) {
            sequences.extend(queue.ready.reset_to_nothing().map(|key| key.sequence));
        }
        sequences.extend(queue.delayed.reset_to_nothing().map(|key| key.sequence));
        self.rows.release_gone(&sequences);
        self.touch_queue(number);
        self.sweeps.begin_purged(number, not_before);
        self.refresh_wake(number);
        Ok(Outcome::Purged(count))
    }
}
