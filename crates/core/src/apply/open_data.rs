//! Lets somebody read the data of one message. Checks in order: queue, message, lease.
//!
//! Chunks that are being read stay, whatever becomes of the message: who acks while the data is still on its way to
//! him gets all of it.

use crate::apply::Stop;
use crate::change::RowKey;
use crate::command::{LeaseRef, OpenData, PinId};
use crate::outcome::{DataView, Outcome, Rejection};
use crate::row::DeliveryState;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn open_data(&mut self, open: &OpenData, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Some(&number) = self.names.get(&open.queue) else {
            return Err(Rejection::QueueNotFound { name: open.queue.clone() }.into());
        };
        let missing: Vec<RowKey> = self.row_of_data(open).filter(|key| self.lacks(key)).collect();
        if !missing.is_empty() {
            return Err(Stop::Needs(missing));
        }
        let message = open.message;
        let row = self.rows.live(message.sequence).filter(|row| {
            let gone = self.queues.get(&number).is_none_or(|queue| queue.is_gone(row));
            let over = row.expires_at <= stamp.now && row.state != DeliveryState::Leased;
            row.queue == number && row.message_id() == message && !gone && !over
        });
        let Some(row) = row else { return Err(Rejection::MessageNotFound { message }.into()) };
        let in_chunks = row.chunks > 1;
        match open.generation.map(|generation| LeaseRef { message, generation }) {
            Some(lease) if self.held(&lease, number, stamp.now).is_none() => {
                return Err(Rejection::LeaseStale { stale: vec![lease] }.into());
            }
            None if row.state == DeliveryState::Leased => {
                return Err(Rejection::MessageLeased { message }.into());
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

    /// The row that has to be known to open data, if there can be one.
    pub(super) fn row_of_data(&self, open: &OpenData) -> impl Iterator<Item = RowKey> + use<> {
        let sequence = open.message.sequence;
        (sequence < self.environment.next_sequence).then_some(RowKey::Delivery(sequence)).into_iter()
    }

    pub(super) fn close_data(&mut self, pin: PinId) -> Outcome {
        if pin.incarnation == self.environment.incarnation {
            self.unpin_chunks(pin.sequence);
        }
        Outcome::Done
    }
}
