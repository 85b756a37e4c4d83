//! Calls that look at messages. Each takes pages of a stored order, lays over them what memory knows better, and goes on
//! while what it found is gone or over: a bounded step at a time, between other commands.
//!
//! Memory holds everything that changed since the page was asked for, because the read holds its settling up: what is
//! `unsettled` and the batch being applied is all that a page can lack.

use std::collections::BTreeMap;

use crate::change::{Page, Scan};
use crate::command::{Browse, Cursor, WaiterId};
use crate::id::QueueNumber;
use crate::outcome::{Browsed, Effect, Outcome, Rejection};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState, DueKey};
use crate::stamp::Stamp;
use crate::state::reads::{ScanTicket, WantedScan};
use crate::state::{Core, QueueState};
use crate::time::Timestamp;

/// A call that waits for its next page.
#[derive(Debug)]
pub(crate) struct Browsing {
    queue: QueueNumber,
    browse: Browse,
    /// The page begins behind this.
    after: Option<Cursor>,
    found: Vec<DeliveryRow>,
}

impl Browsing {
    pub(crate) fn new(queue: QueueNumber, browse: Browse) -> Self {
        // Sequences start at 1: this lies before all that is due at that time.
        let from = browse.from.map(|due_at| Cursor::Due(DueKey { due_at, ..DueKey::default() }));
        let after = browse.after.max(from);
        Self { queue, browse, after, found: Vec::new() }
    }

    fn scan(&self, limit: usize) -> Scan {
        let (queue, state) = (self.queue, self.browse.state);
        let ready = self.after.and_then(|after| match after {
            Cursor::Ready(key) => Some(key),
            Cursor::Due(_) => None,
        });
        let due = self.after.and_then(|after| match after {
            Cursor::Ready(_) => None,
            Cursor::Due(key) => Some(key),
        });
        match state {
            DeliveryState::Ready => Scan::Ready { queue, after: ready, limit },
            _ => Scan::Due { queue, state, after: due, limit },
        }
    }

    /// Whether a row belongs to the page that ends with `edge`; `None`: with the order.
    fn is_on_page(&self, row: &DeliveryRow, edge: Option<Cursor>) -> bool {
        let place = Cursor::of(row);
        row.queue == self.queue
            && row.state == self.browse.state
            && self.after.is_none_or(|after| place > after)
            && edge.is_none_or(|edge| place <= edge)
    }

    fn is_wanted(&self, row: &DeliveryRow, queue: &QueueState, now: Timestamp) -> bool {
        let gone = !queue.shows(row, now) && !planted!(BrowseShowsGone);
        !gone
            && self.browse.until.is_none_or(|until| row.due_at < until)
            // It was met on an earlier page and has changed its place since.
            && !self.found.iter().any(|found| found.sequence == row.sequence)
    }

    /// Whether nothing behind this place is wanted.
    fn ends_before(&self, place: Cursor) -> bool {
        match (place, self.browse.until) {
            (Cursor::Due(key), Some(until)) => key.due_at >= until,
            _ => false,
        }
    }
}

impl Cursor {
    /// The place of a delivery in the order of its state.
    #[must_use]
    pub fn of(row: &DeliveryRow) -> Self {
        match row.state {
            DeliveryState::Ready => Self::Ready(row.ready_key()),
            _ => Self::Due(row.due_key()),
        }
    }
}

impl Core {
    /// Asks for the next page of a call.
    pub(crate) fn read_on(&mut self, waiter: WaiterId, browsing: Browsing, limit: usize) {
        let scan = browsing.scan(limit);
        self.batch.scans.push(WantedScan { ticket: ScanTicket::Browse(waiter), scan });
        self.browses.insert(waiter, browsing);
    }

    /// A page of a call came: answers it, or asks for the next.
    pub(super) fn absorb_browsed(&mut self, waiter: WaiterId, page: Page, stamp: &Stamp) {
        let Some(mut browsing) = self.browses.remove(&waiter) else { return };
        let last = page.deliveries.last().map(Cursor::of).filter(|_| !page.end);
        let rows = self.lay_over(page, &browsing, last);
        let queue = self.queues.get(&browsing.queue).filter(|queue| !queue.row.deleted);
        let Some(queue) = queue else {
            let name = browsing.browse.queue;
            let outcome = Outcome::Rejected(Rejection::QueueNotFound { name });
            self.batch.effects.push(Effect::Answered { waiter, outcome });
            return;
        };
        let mut wanted: Vec<_> =
            rows.into_values().filter(|row| browsing.is_wanted(row, queue, stamp.now)).collect();
        let room = browsing.browse.limit - browsing.found.len();
        let behind = last.filter(|&last| !browsing.ends_before(last));
        let is_full = wanted.len() >= room;
        let more = wanted.len() > room || behind.is_some();
        wanted.truncate(room);
        browsing.found.append(&mut wanted);
        if !is_full && behind.is_some() {
            browsing.after = behind;
            let limit = self.page_rows(false);
            self.read_on(waiter, browsing, limit);
            return;
        }
        let next = browsing.found.last().map(Cursor::of).filter(|_| more);
        let contents = browsing.browse.contents;
        let page = Browsed { at: stamp.now, deliveries: browsing.found, next, contents };
        self.batch.effects.push(Effect::Answered { waiter, outcome: Outcome::Browsed(page) });
    }

    /// The rows of a page as they are now, in order.
    fn lay_over(
        &self,
        page: Page,
        browsing: &Browsing,
        edge: Option<Cursor>,
    ) -> BTreeMap<Cursor, DeliveryRow> {
        let mut rows = BTreeMap::new();
        for read in page.deliveries {
            let row = match self.rows.get(read.sequence) {
                Some(known) => known.row.clone(),
                None => Some(read),
            };
            if let Some(row) = row.filter(|row| browsing.is_on_page(row, edge)) {
                rows.insert(Cursor::of(&row), row);
            }
        }
        let changed = self.rows.unsettled.iter().map(|(_, sequence)| sequence).chain(&self.batch.rows);
        for &sequence in changed {
            if let Some(row) = self.rows.live(sequence).filter(|row| browsing.is_on_page(row, edge)) {
                rows.insert(Cursor::of(row), row.clone());
            }
        }
        rows
    }
}
