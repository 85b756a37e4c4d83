//! Time has passed: ends of leases and delays, waits that are over, uploads that stall, sweeps. Bounded; what is left over is due at once.
//!
//! Nothing depends on when this runs: due times are stored, and every lease call works off its own queue first.

use crate::outcome::Outcome;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn tick(&mut self, stamp: &Stamp) -> Outcome {
        self.more_due = false;
        while let Some(&(due, number)) = self.wakes.first() {
            if due > stamp.now || !self.run_due(number, stamp) {
                break;
            }
            self.end_fills(number, stamp.now);
            self.refresh_wake(number);
        }
        while let Some(&(deadline, waiter)) = self.deadlines.first() {
            if deadline > stamp.now {
                break;
            }
            self.deadlines.pop_first();
            self.end_wait(waiter, stamp);
        }
        self.retire(stamp);
        self.drop_stalled_uploads(stamp);
        self.remove_owed_chunks();
        let again = std::mem::take(&mut self.restir);
        self.batch.stirred.extend(again);
        self.start_sweeps(stamp.now);
        Outcome::Done
    }
}
