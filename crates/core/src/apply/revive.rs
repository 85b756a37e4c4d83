//! Makes dead letters ready again where they are. Checks in order: queue, where its dead letters go, number of messages.
//!
//! A dead letter that is to expire soon gets a minute: whoever brings it back wants it to be delivered (design-holes C8).

use std::collections::BTreeSet;

use crate::apply::Stop;
use crate::apply::retry::start_afresh;
use crate::command::Revive;
use crate::id::MessageId;
use crate::limits;
use crate::outcome::{Outcome, Rejection};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState};
use crate::spec::AtLimit;
use crate::stamp::Stamp;
use crate::state::Core;
use crate::time::Timestamp;

impl Core {
    pub(super) fn revive(&mut self, revive: &Revive, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing_queue(&revive.queue)?;
        let Some(queue) = self.queues.get(&number) else { return Ok(nothing()) };
        if let AtLimit::MoveTo { queue: to, .. } = &queue.row.spec.at_limit {
            let (queue, to) = (revive.queue.clone(), to.clone());
            return Err(Rejection::DeadLettersElsewhere { queue, to }.into());
        }
        check_messages(&revive.messages)?;
        self.demand_messages(&revive.messages)?;
        let (mut revived, mut skipped) = (Vec::new(), Vec::new());
        for message in distinct(&revive.messages) {
            let row = self.shown(number, message, stamp.now);
            if let Some(row) = row.filter(|row| row.state == DeliveryState::Dead).cloned() {
                self.revive_row(row, stamp.now);
                revived.push(message);
            } else {
                skipped.push(message);
            }
        }
        Ok(Outcome::Revived { revived, skipped })
    }

    fn revive_row(&mut self, mut row: DeliveryRow, now: Timestamp) {
        let before = row.entered;
        let entered = self.draw_sequence();
        let Some(queue) = self.queues.get(&row.queue) else { return };
        start_afresh(&mut row, &queue.row.spec, entered, now);
        if planted!(ReviveKeepsEntered) {
            row.entered = before;
        }
        row.dead_letter = None;
        row.expires_at = row.expires_at.max(now.plus(limits::RETENTION_MIN));
        self.write_row(row);
    }
}

fn nothing() -> Outcome {
    Outcome::Revived { revived: Vec::new(), skipped: Vec::new() }
}

/// Whether one commit can move so many messages.
pub(super) fn check_messages(messages: &[MessageId]) -> Result<(), Rejection> {
    if messages.len() <= limits::MOVE_MESSAGES_MAX {
        return Ok(());
    }
    let limit = format!("at most {}", limits::MOVE_MESSAGES_MAX);
    Err(Rejection::out_of_range("message_ids", messages.len(), limit))
}

/// Each message once, in the order in which they are named first.
pub(super) fn distinct(messages: &[MessageId]) -> impl Iterator<Item = MessageId> + '_ {
    let mut seen = BTreeSet::new();
    messages.iter().copied().filter(move |message| seen.insert(*message))
}
