//! Moves dead letters to another queue in one commit. Checks in order: queue, the queue that takes them, number of messages.
//!
//! They arrive as if they had just been sent, with the id and the generations that they had (design-holes A2), and are
//! dead letters no more.

use crate::apply::Stop;
use crate::apply::revive::{check_messages, distinct};
use crate::command::MoveMessages;
use crate::id::QueueNumber;
use crate::outcome::{Outcome, Rejection};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState};
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn move_messages(&mut self, moves: &MoveMessages, stamp: &Stamp) -> Result<Outcome, Stop> {
        let find = |name: &str| self.existing_queue(name);
        let number = find(&moves.queue)?;
        let to = moves.to.as_deref().map(find).transpose()?;
        if to == Some(number) {
            let limit = "another queue than the one that is redriven";
            return Err(Rejection::out_of_range("destination", &moves.queue, limit).into());
        }
        check_messages(&moves.messages)?;
        self.demand_messages(&moves.messages)?;
        let (mut moved, mut skipped) = (Vec::new(), Vec::new());
        for message in distinct(&moves.messages) {
            let row = self.shown(number, message, stamp.now).filter(|row| is_dead_letter(row)).cloned();
            let target = row.as_ref().and_then(|row| to.or_else(|| self.home(row)));
            let (Some(mut row), Some(target)) = (row, target) else {
                skipped.push(message);
                continue;
            };
            row.dead_letter = None;
            if planted!(MoveLosesGeneration) {
                row.lease_generation = crate::id::LeaseGeneration::default();
            }
            self.move_row(row, target, stamp.now);
            moved.push((message, target));
        }
        self.batch.stirred.push(number);
        Ok(Outcome::Moved { moved, skipped })
    }

    /// The queue from which a dead letter came. One that died where it is came from nowhere.
    fn home(&self, row: &DeliveryRow) -> Option<QueueNumber> {
        let home = *self.names.get(&row.dead_letter.as_ref()?.queue)?;
        (home != row.queue).then_some(home)
    }
}

/// Of the own set, or come as one and not in anybody's hands.
fn is_dead_letter(row: &DeliveryRow) -> bool {
    match row.state {
        DeliveryState::Dead => true,
        DeliveryState::Delayed | DeliveryState::Ready => row.dead_letter.is_some(),
        DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Leased => false,
    }
}
