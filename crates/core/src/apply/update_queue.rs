//! Gives a queue other policies or annotations. Checks in order: name, annotations, spec, there, etag, dead-letter queue if
//! it is another; where the queue is made, those of making one.
//!
//! A change concerns what happens from now on (docs/decisions/0006, design-holes C7): leases that are held end when they
//! were to end, a lower limit ends none of them, and messages keep the place in the order and the end of their life that
//! they have. So no row and no window changes here; only calls that wait may find that there is room for them now.

use crate::apply::Stop;
use crate::apply::create_queue::check_queue;
use crate::command::{CreateQueue, Start, UpdateQueue};
use crate::id::QueueNumber;
use crate::outcome::{Outcome, QueueView, Rejection, etag};
use crate::row::QueueRow;
use crate::spec::QueueSpec;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn update_queue(&mut self, update: &UpdateQueue, stamp: &Stamp) -> Result<Outcome, Stop> {
        check_queue(&update.name, &update.annotations, &update.spec)?;
        let Some(number) = self.number_of(&update.name) else { return self.update_missing(update, stamp) };
        let Some(current) = self.view_of(number, stamp) else { return self.update_missing(update, stamp) };
        let etag = etag(&current.queue);
        if update.etag.as_ref().is_some_and(|given| **given != *etag) {
            return Err(Rejection::EtagMismatch { current: etag }.into());
        }
        // A dead-letter queue that was deleted since may stay named: other policies can be changed even so.
        if current.queue.spec.at_limit != update.spec.at_limit {
            self.check_dead_letter_queue(&update.name, &update.spec)?;
        }
        let spec = self.policies_of(current.queue.role, &update.spec);
        let Some(row) = updated(&current.queue, spec, &update.annotations, stamp) else {
            return Ok(Outcome::Queue(Box::new(current)));
        };
        if update.validate_only {
            return Ok(Outcome::Queue(Box::new(QueueView { queue: row, ..current })));
        }
        self.put_queue(number, row);
        self.view(number, stamp)
    }

    fn update_missing(&mut self, update: &UpdateQueue, stamp: &Stamp) -> Result<Outcome, Stop> {
        // An etag names a queue that was seen: one that is made now is another.
        if !update.allow_missing || update.etag.is_some() {
            return Err(Rejection::QueueNotFound { name: update.name.clone() }.into());
        }
        let create = CreateQueue {
            name: update.name.clone(),
            start: Start::default(),
            spec: update.spec.clone(),
            annotations: update.annotations.clone(),
            validate_only: update.validate_only,
        };
        self.create_queue(&create, stamp)
    }

    fn put_queue(&mut self, number: QueueNumber, row: QueueRow) {
        if let Some(queue) = self.queue_mut(number) {
            queue.row = row;
        }
        for part in self.followers(number) {
            self.follow(part);
        }
        self.touch_queue(number);
        self.batch.stirred.push(number);
    }
}

/// The row as it will be, or `None` if it stays as it is.
fn updated(row: &QueueRow, spec: QueueSpec, annotations: &str, stamp: &Stamp) -> Option<QueueRow> {
    let same_spec = row.spec == spec;
    if same_spec && *row.annotations == *annotations {
        return None;
    }
    Some(QueueRow {
        generation: row.generation + u64::from(!same_spec),
        revision: row.revision + 1,
        updated_at: stamp.now,
        annotations: annotations.into(),
        spec,
        ..row.clone()
    })
}
