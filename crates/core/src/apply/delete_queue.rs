//! Removes a queue at once; its rows leave in steps. Checks in order: there, etag, in use.

use crate::apply::Stop;
use crate::command::DeleteQueue;
use crate::id::QueueNumber;
use crate::outcome::{Effect, Outcome, Rejection, etag};
use crate::row::Role;
use crate::spec::AtLimit;
use crate::state::{Core, Part};

impl Core {
    pub(super) fn delete_queue(&mut self, delete: &DeleteQueue) -> Result<Outcome, Stop> {
        let Some(queue) = self.queue_named(&delete.name) else {
            if delete.allow_missing {
                return Ok(Outcome::QueueDeleted(false));
            }
            return Err(Rejection::QueueNotFound { name: delete.name.clone() }.into());
        };
        let number = queue.number();
        let current = etag(&queue.row);
        if delete.etag.as_ref().is_some_and(|etag| **etag != *current) {
            return Err(Rejection::EtagMismatch { current }.into());
        }
        let names_it =
            |spec: &AtLimit| matches!(spec, AtLimit::MoveTo { queue, .. } if *queue == delete.name);
        let user = self.names.values().find_map(|number| {
            let user = self.queues.get(number)?;
            names_it(&user.row.spec.at_limit).then(|| user.row.name.clone())
        });
        let trigger =
            self.triggers.iter().find(|row| row.spec.dead_letter_queue.as_ref() == Some(&delete.name));
        let user = user.or_else(|| trigger.map(|row| format!("triggers/{}", row.id).into()));
        if let Some(by) = user
            && !delete.force
        {
            return Err(Rejection::QueueInUse { by }.into());
        }
        if delete.validate_only {
            return Ok(Outcome::QueueDeleted(true));
        }
        self.forget_queue(number);
        Ok(Outcome::QueueDeleted(true))
    }

    /// Removes what a name names and all that belongs to it. Only its own row is written: what belongs to something that is deleted is
    /// deleted, and leaves the store in steps like all that is in it.
    pub(super) fn forget_queue(&mut self, number: QueueNumber) {
        for part in self.household(number) {
            self.forget_part(part);
        }
        self.touch_queue(number);
        // What groups had leased of a partition is leased no more, and what they waited to read of it is not there.
        if let Some(Role::Partition { topic }) = self.queues.get(&number).map(|queue| queue.row.role) {
            self.batch.stirred.push(topic);
        }
    }

    fn forget_part(&mut self, number: QueueNumber) {
        let not_before = self.next_commit();
        let Some(row) = self.queues.get(&number).map(|queue| queue.row.clone()) else { return };
        self.leave_name(&row);
        let Some(queue) = self.queues.get_mut(&number) else { return };
        self.totals.remove(queue.totals());
        queue.row.deleted = true;
        queue.row.sweep_owed = true;
        queue.overdue.clear();
        let wake = queue.next_wake.take();
        let waiters = queue.waiters.drain();
        let mut sequences: Vec<_> = queue.ready.reset_to_nothing().map(|key| key.sequence).collect();
        sequences.extend(queue.delayed.reset_to_nothing().map(|key| key.sequence));
        sequences.extend(queue.leased.reset_to_nothing().map(|key| key.sequence));
        match &mut queue.part {
            Part::Log(log) => sequences.extend(log.clear()),
            Part::Cursor(cursor) => cursor.reset_page(),
            Part::Group(_) | Part::None => {}
        }
        if let Some(wake) = wake {
            self.wakes.remove(&(wake, number));
        }
        for (waiter, waiting) in waiters {
            self.deadlines.remove(&(waiting.deadline, waiter));
            self.waiting_in.remove(&waiter);
            self.pushes_waiting -= usize::from(waiting.reading.pushes);
            let outcome = Outcome::Rejected(Rejection::QueueNotFound { name: row.name.clone() });
            self.batch.effects.push(Effect::Answered { waiter, outcome });
        }
        self.rows.release_gone(&sequences);
        self.sweeps.begin_deleted(number, not_before);
    }
}
