//! Looks at one message. Checks in order: queue, message.

use crate::apply::Stop;
use crate::change::RowKey;
use crate::command::MessageRef;
use crate::id::{MessageId, QueueNumber, Sequence};
use crate::outcome::{Outcome, Rejection};
use crate::row::{DeliveryRow, Role};
use crate::stamp::Stamp;
use crate::state::Core;
use crate::time::Timestamp;

impl Core {
    pub(super) fn get_message(&self, wanted: &MessageRef, stamp: &Stamp) -> Result<Outcome, Stop> {
        let (_, row) = self.find_message(wanted, stamp)?;
        Ok(Outcome::Message(Box::new(row.clone())))
    }

    /// A message of a queue, with the queue.
    pub(super) fn find_message(
        &self,
        wanted: &MessageRef,
        stamp: &Stamp,
    ) -> Result<(QueueNumber, &DeliveryRow), Stop> {
        let message = wanted.message;
        if message.sequence.is_external() {
            self.demand_messages(std::slice::from_ref(&message))?;
            if let Some(row) = self.refused(wanted, stamp.now) {
                return Ok((row.queue, row));
            }
        }
        let number = self.existing(&wanted.queue)?;
        self.demand_messages(std::slice::from_ref(&message))?;
        let row = self.shown(number, message, stamp.now);
        let number = row.map_or(number, |row| row.queue);
        Ok((number, row.ok_or(Rejection::MessageNotFound { message })?))
    }

    /// Stops unless memory knows all of these messages, or knows that they are not.
    pub(super) fn demand_messages(&self, messages: &[MessageId]) -> Result<(), Stop> {
        let missing: Vec<_> = self.rows_of(messages.iter()).filter(|key| self.lacks(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Stop::Needs(missing)) }
    }

    /// Deliveries of these messages, as far as there can be any.
    pub(super) fn rows_of<'a>(
        &self,
        messages: impl Iterator<Item = &'a MessageId>,
    ) -> impl Iterator<Item = RowKey> {
        let end = self.environment.next_sequence;
        let sequences = messages.map(|message| message.sequence);
        let known = move |sequence: &Sequence| *sequence < end || sequence.is_external();
        sequences.filter(known).map(RowKey::Delivery)
    }

    /// A message of a queue or topic that is neither gone nor over.
    pub(super) fn shown(
        &self,
        number: QueueNumber,
        message: MessageId,
        now: Timestamp,
    ) -> Option<&DeliveryRow> {
        let row = self.rows.live(message.sequence).filter(|row| row.message_id() == message)?;
        let queue = self.queues.get(&row.queue)?;
        let within = row.queue == number || queue.row.role == Role::Partition { topic: number };
        (within && queue.shows(row, now)).then_some(row)
    }
}
