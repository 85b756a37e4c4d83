//! Stops and starts handing out. A pause is a stored flag, not a limit of zero: sends, settles and expiry go on.

use crate::apply::Stop;
use crate::outcome::{Outcome, Rejection};
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn pause_queue(&mut self, name: &str, stamp: &Stamp) -> Result<Outcome, Stop> {
        self.set_paused(name, true, stamp)
    }

    pub(super) fn resume_queue(&mut self, name: &str, stamp: &Stamp) -> Result<Outcome, Stop> {
        self.set_paused(name, false, stamp)
    }

    fn set_paused(&mut self, name: &str, paused: bool, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(name)?;
        if self.queues.get(&number).is_some_and(|queue| queue.row.role.is_log()) {
            return Err(Rejection::Unsuited { name: name.into(), wanted: "a queue or a group" }.into());
        }
        if let Some(queue) = self.queue_mut(number)
            && queue.row.paused_at.is_some() != paused
        {
            queue.row.paused_at = paused.then_some(stamp.now);
            queue.row.revision += 1;
            queue.row.updated_at = stamp.now;
            self.touch_queue(number);
            self.batch.stirred.push(number);
        }
        self.view(number, stamp)
    }
}
