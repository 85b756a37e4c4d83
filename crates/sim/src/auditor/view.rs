//! What those who look see: messages one by one, or pages of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use millpond_core::command::{Browse, Cursor};
use millpond_core::id::{LeaseGeneration, QueueNumber};
use millpond_core::outcome::Browsed;
use millpond_core::row::{DeliveryRow, DeliveryState, DueKey, MessageContent, ReadyKey, Role};
use millpond_core::time::Timestamp;

use crate::auditor::doubt::Doubt;
use crate::auditor::queue::within;
use crate::auditor::{Answered, Auditor, Breach, Life, Message, QueueModel, Verdict, demand};

impl Auditor {
    /// A message is shown as one of queue `number`. What was answered about it since the look was asked for may have
    /// happened after the look.
    pub fn seen(
        &mut self,
        number: QueueNumber,
        row: &DeliveryRow,
        content: Option<&Arc<MessageContent>>,
        answered: &Answered<'_>,
    ) -> Verdict {
        let id = row.message_id();
        let Some(message) = self.message(&id) else {
            return Err(Breach(format!("{id} is shown and was never sent")));
        };
        demand!(self.is_within(row.queue, number), "{id} of queue {} is shown in queue {number}", row.queue);
        demand!(row.priority == message.priority, "{id} is shown with priority {}", row.priority);
        demand!(
            content.is_none_or(|content| *content == message.content),
            "{id} is shown with other content than was sent"
        );
        let held = row.state == DeliveryState::Leased;
        demand!(
            held || row.expires_at > answered.submitted.stamp,
            "{id} is shown and expired at {:?}",
            row.expires_at
        );
        if message.changed >= answered.submitted.index {
            return Ok(());
        }
        let finished = row.state == DeliveryState::Completed;
        let expected = if finished { Life::Acked } else { Life::Alive };
        demand!(message.life == expected, "{id} is shown as {:?}, it was {:?}", row.state, message.life);
        if finished {
            return Ok(());
        }
        let doubt = Doubt::about(&[], self);
        self.check_row(message, row, &doubt)?;
        let home = row.dead_letter.as_ref().map(|dead| dead.queue.clone());
        let queue = self.queues.get(&number);
        // Its answer waited for contents, and a purge was answered meanwhile.
        if queue.is_none_or(|queue| queue.dead_emptied >= answered.submitted.index) {
            return Ok(());
        }
        let name = queue.map(|queue| queue.name.clone());
        if let Some(message) = self.by_id.get(&id).and_then(|token| self.messages.get_mut(token))
            && message.queue == row.queue
        {
            message.dead_at = (row.state == DeliveryState::Dead).then_some(row.due_at);
            message.home = home.filter(|home| Some(home) != name.as_ref());
        }
        Ok(())
    }

    /// Whether what is in one queue is in another: messages of partitions are in their topic, too.
    fn is_within(&self, own: QueueNumber, number: QueueNumber) -> bool {
        let is_part = |queue: &QueueModel| queue.role == Role::Partition { topic: number };
        own == number || self.queues.get(&own).is_some_and(is_part)
    }

    /// Whether a message certainly was in a queue, and in the same state, all the time since a look was asked for.
    pub fn is_certain(&self, message: &Message, number: QueueNumber, answered: &Answered<'_>) -> bool {
        let unleased = message.grants.is_empty() && message.base.generation == LeaseGeneration(0);
        // A purge may have met it.
        let unleased = unleased && !message.moved;
        message.life == Life::Alive
            && self.is_within(message.queue, number)
            && self.queues.get(&message.queue).is_some_and(|queue| queue.alive)
            && message.changed < answered.submitted.index
            && message.expires.0 > answered.stamp
            && message.purged.is_none()
            && self.unseen_of(message.reader, message.id).is_none()
            && message.dead_at.map_or(unleased, |at| at < answered.submitted.stamp)
    }

    /// Whether a message that was found may have been taken out of the answer: contents are read after the look, and
    /// who removed the message meanwhile may be answered later.
    pub fn may_be_taken_out(&self, message: &Message, answered: &Answered<'_>) -> bool {
        let removed = self.removals.get(&message.id.sequence);
        removed.is_some_and(|&index| index >= answered.submitted.index)
    }

    /// A page is shown.
    pub fn browsed(&mut self, browse: &Browse, page: &Browsed, answered: &Answered<'_>) -> Verdict {
        let (rows, name) = (&page.deliveries, &browse.queue);
        demand!(rows.len() <= browse.limit, "{} messages are shown, asked for {}", rows.len(), browse.limit);
        demand!(page.contents == browse.contents, "contents are shown: {}", page.contents);
        let contents = if page.contents { rows.len() } else { 0 };
        demand!(answered.contents.len() == contents, "{} contents are shown", answered.contents.len());
        demand!(
            within(page.at, (answered.submitted.stamp, answered.stamp)),
            "a page is shown as of {:?}, not between {:?} and {:?}",
            page.at,
            answered.submitted.stamp,
            answered.stamp
        );
        let most = self.settings.browse_bytes;
        let bytes: usize = answered.contents.iter().map(|content| content.held_bytes()).sum();
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        demand!(
            rows.len() <= 1 || bytes <= most,
            "{bytes} bytes of messages are shown at once, limit {most}"
        );
        check_places(browse, page)?;
        if !self.name_is_stable(name, answered.submitted.index) {
            return Ok(());
        }
        let Some(&number) = self.names.get(name) else {
            return Err(Breach(format!("messages of {name} are shown, which is not there")));
        };
        self.check_complete(number, browse, page, answered)?;
        for (index, row) in rows.iter().enumerate() {
            self.seen(number, row, answered.contents.get(index), answered)?;
        }
        Ok(())
    }

    /// Nothing is left out that certainly belongs on the page.
    fn check_complete(
        &self,
        number: QueueNumber,
        browse: &Browse,
        page: &Browsed,
        answered: &Answered<'_>,
    ) -> Verdict {
        let shown: BTreeSet<_> = page.deliveries.iter().map(DeliveryRow::message_id).collect();
        let is_log = self.queues.get(&number).is_some_and(|queue| queue.role.is_log());
        let whole = browse.after.is_none() && page.next.is_none();
        let own = |one: &&Message| one.queue == number && self.is_certain(one, number, answered);
        for message in self.messages.values().filter(own) {
            let Some(place) = place_of(message, browse.state) else { continue };
            let taken_out = browse.contents && self.may_be_taken_out(message, answered);
            // In a log its place is a number that nobody is told.
            if is_log {
                let left_out = whole && !taken_out && !shown.contains(&message.id);
                demand!(!left_out, "{} is {:?} and is left out of a whole log", message.id, browse.state);
                continue;
            }
            let in_time = match place {
                Cursor::Ready(_) => true,
                Cursor::Due(key) => {
                    browse.from.is_none_or(|from| key.due_at >= from)
                        && browse.until.is_none_or(|until| key.due_at < until)
                }
            };
            let on_page = in_time
                && browse.after.is_none_or(|after| place > after)
                && page.next.is_none_or(|next| place <= next);
            demand!(
                !on_page || shown.contains(&message.id) || taken_out,
                "{} is {:?} and is left out of a page",
                message.id,
                browse.state
            );
        }
        Ok(())
    }
}

/// Where a message is in the order of a state, if it certainly is in that state.
fn place_of(message: &Message, state: DeliveryState) -> Option<Cursor> {
    let sequence = message.id.sequence;
    match state {
        DeliveryState::Dead => Some(Cursor::Due(DueKey { due_at: message.dead_at?, sequence })),
        DeliveryState::Ready => {
            let untouched = message.dead_at.is_none() && !message.moved && !message.revived;
            (untouched && message.was_ready_at_once()).then(|| {
                Cursor::Ready(ReadyKey {
                    priority_descending: -i64::from(message.priority),
                    retried: false,
                    order_at: message.id.sent_at,
                    sequence,
                })
            })
        }
        _ => None,
    }
}

/// The rows of a page are in their state, in their order, and within what was asked for.
fn check_places(browse: &Browse, page: &Browsed) -> Verdict {
    let mut last = browse.after;
    for row in &page.deliveries {
        let (id, place) = (row.message_id(), Cursor::of(row));
        demand!(row.state == browse.state, "{id} is shown among {:?} as {:?}", browse.state, row.state);
        demand!(last.is_none_or(|last| place > last), "{id} is shown out of order");
        let in_time = browse.from.is_none_or(|from: Timestamp| row.due_at >= from)
            && browse.until.is_none_or(|until| row.due_at < until);
        demand!(
            in_time,
            "{id} of {:?} is shown, asked from {:?} until {:?}",
            row.due_at,
            browse.from,
            browse.until
        );
        last = Some(place);
    }
    let Some(next) = page.next else { return Ok(()) };
    // Messages that went while their contents were read are taken out: all of them, it may be.
    let whole = !page.contents;
    demand!(last.is_none_or(|last| last <= next), "a page ends before its last message");
    demand!(browse.after.is_none_or(|after| after < next), "a page leads back to where it began");
    demand!(!whole || last == Some(next), "a page ends behind its last message");
    demand!(!whole || page.deliveries.len() == browse.limit, "a short page says that there is more");
    Ok(())
}
