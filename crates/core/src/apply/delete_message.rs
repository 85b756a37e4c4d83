//! Removes one message. Checks in order: queue, message, leased.

use crate::apply::Stop;
use crate::command::MessageRef;
use crate::id::QueueNumber;
use crate::outcome::{Outcome, Rejection};
use crate::row::DeliveryState;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn delete_message(&mut self, wanted: &MessageRef, stamp: &Stamp) -> Result<Outcome, Stop> {
        let (number, row) = self.find_message(wanted, stamp)?;
        if self.queues.get(&number).is_some_and(|queue| queue.row.role.is_log()) {
            // Groups may be reading it already.
            let wanted = Rejection::Unsuited { name: wanted.queue.clone(), wanted: "a queue" };
            return Err(wanted.into());
        }
        if row.state == DeliveryState::Leased {
            return Err(Rejection::MessageLeased { message: wanted.message, until: row.due_at }.into());
        }
        self.erase_row(wanted.message.sequence, true);
        if number != QueueNumber::NONE {
            self.batch.stirred.push(number);
        }
        Ok(Outcome::MessageDeleted)
    }
}
