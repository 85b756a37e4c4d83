//! Begins to send a message whose data comes in parts, or waits for its turn. Checks in order: queue, room, message, wait,
//! idempotency key, key seen before, number of keys, quotas, uploads under way.
//!
//! First come first served: who does not fit into the bound on bytes waits in line, and nobody passes.

use std::time::Duration;

use crate::apply::Stop;
use crate::apply::create_queue::check_duration;
use crate::apply::idempotency::check_key;
use crate::apply::send::{Form, check_message};
use crate::command::{BeginUpload, WaiterId};
use crate::limits;
use crate::outcome::{Effect, Outcome, Rejection};
use crate::stamp::Stamp;
use crate::state::{Core, InLine, Totals};

impl Core {
    pub(super) fn begin_upload(&mut self, begin: &BeginUpload, stamp: &Stamp) -> Result<Outcome, Stop> {
        let queue = self.destination(&begin.queue)?;
        if self.space_low {
            return Err(Rejection::StorageFull.into());
        }
        check_message(&begin.message, &queue.row, &self.settings, Form::Announced)?;
        check_duration("wait", begin.wait, Duration::ZERO, limits::WAIT_MAX)?;
        if self.is_remembered(begin, stamp)? {
            return Ok(Outcome::UploadBegun(None));
        }
        // What others announced is about to be there: who has no room beside it is told before a byte of it came.
        let mut held = self.totals;
        held.bytes += self.uploads.reserved_bytes();
        self.check_room(held, Totals::of_content(&begin.message.content))?;
        let limit = u64::try_from(self.settings.uploads).unwrap_or(u64::MAX);
        if self.uploads.open_len() + self.uploads.line.len() >= self.settings.uploads {
            return Err(Rejection::UploadLimit { what: "uploads", limit }.into());
        }
        let bytes = begin.message.content.data.size_bytes();
        if self.uploads.line.is_empty() && self.fits(bytes) {
            return Ok(Outcome::UploadBegun(Some(self.open_upload(bytes, stamp))));
        }
        if begin.wait.is_zero() {
            return Err(self.too_many_bytes().into());
        }
        let deadline = stamp.now.plus(begin.wait);
        self.uploads.line.push_back(InLine { waiter: begin.waiter, deadline, bytes });
        self.deadlines.insert((deadline, begin.waiter));
        Ok(Outcome::Waiting)
    }

    fn is_remembered(&self, begin: &BeginUpload, stamp: &Stamp) -> Result<bool, Stop> {
        let Some(key) = &begin.key else { return Ok(false) };
        check_key(key)?;
        let Some(key) = self.dedup_key_of(&begin.queue, key) else { return Ok(false) };
        Ok(self.remembered_under(&key, stamp)?.is_some())
    }

    fn fits(&self, bytes: u64) -> bool {
        self.uploads.has_room(bytes, self.uploads.open_len() > 0, self.settings.upload_bytes)
    }

    pub(super) fn too_many_bytes(&self) -> Rejection {
        Rejection::UploadLimit { what: "bytes", limit: self.settings.upload_bytes }
    }

    /// An upload has ended: those in line begin, as many as fit.
    pub(super) fn serve_line(&mut self, stamp: &Stamp) {
        while let Some(&InLine { waiter, deadline, bytes }) = self.uploads.line.front()
            && self.fits(bytes)
        {
            self.uploads.line.pop_front();
            self.deadlines.remove(&(deadline, waiter));
            let outcome = Outcome::UploadBegun(Some(self.open_upload(bytes, stamp)));
            self.batch.effects.push(Effect::Answered { waiter, outcome });
        }
    }

    /// A call leaves the line. `true`: it was there.
    pub(super) fn leave_line(&mut self, id: WaiterId, stamp: &Stamp) -> bool {
        let Some(place) = self.uploads.line.iter().position(|one| one.waiter == id) else { return false };
        if let Some(gone) = self.uploads.line.remove(place) {
            self.deadlines.remove(&(gone.deadline, id));
        }
        // It may have been what kept the others.
        self.serve_line(stamp);
        true
    }
}
