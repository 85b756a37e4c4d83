//! Lets somebody read the data of one message. Checks in order: queue, message, lease.
//!
//! Chunks that are being read stay, whatever becomes of the message: who acks while the data is still on its way to
//! him gets all of it.

use crate::apply::Stop;
use crate::command::{LeaseRef, OpenData, PinId};
use crate::outcome::{DataView, Outcome, Rejection};
use crate::row::DeliveryState;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn open_data(&mut self, open: &OpenData, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(&open.queue)?;
        let message = open.message;
        self.demand_messages(std::slice::from_ref(&message))?;
        let Some(row) = self.shown(number, message, stamp.now) else {
            return Err(Rejection::MessageNotFound { message }.into());
        };
        let in_chunks = row.chunks > 1;
        let delivery = message.sequence;
        match open.generation.map(|generation| LeaseRef { delivery, message, generation }) {
            Some(lease) if self.held(&lease, number, stamp.now).is_none() => {
                return Err(Rejection::LeaseStale { stale: vec![lease] }.into());
            }
            None if row.state == DeliveryState::Leased => {
                return Err(Rejection::MessageLeased { message, until: row.due_at }.into());
            }
            _ => {}
        }
        let incarnation = self.environment.incarnation;
        let pin = in_chunks.then_some(PinId { sequence: message.sequence, incarnation });
        if pin.is_some() {
            self.pin_chunks(message.sequence);
        }
        let chunk_bytes = u64::try_from(self.settings.chunk_bytes).unwrap_or(u64::MAX);
        Ok(Outcome::Data(DataView { message, pin, chunk_bytes }))
    }

    pub(super) fn close_data(&mut self, pin: PinId) -> Outcome {
        if pin.incarnation == self.environment.incarnation {
            self.unpin_chunks(pin.sequence);
        }
        Outcome::Done
    }
}
