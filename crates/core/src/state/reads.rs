//! What memory asks the store for, and how an answer that is older than memory is laid under it.
//!
//! Windows read on when they run low. Sweeps walk an order once and remove what is over: expired messages, expired
//! idempotency keys, rows of purged and deleted queues, leases of a restored copy.

use std::collections::VecDeque;

use crate::change::{LowWater, Page, Rows as ReadRows, Scan, StoredOrder};
use crate::command::WaiterId;
use crate::id::{CommitSequence, QueueNumber, Sequence};
use crate::row::{DedupRow, DeliveryRow, DeliveryState, DueKey, ReadyKey};
use crate::stamp::Stamp;
use crate::state::Core;
use crate::state::timed::TimedSweep;
use crate::time::Timestamp;

/// Rows of the first page of a window that nothing was read of; a queue that is only counted stays small.
const FIRST_PAGE_ROWS: usize = 64;
/// Rows of every later page, at most.
const PAGE_ROWS: usize = 1_000;

/// A page that memory asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WantedScan {
    /// To be handed back with the page.
    pub ticket: ScanTicket,
    /// What to read.
    pub scan: Scan,
}

/// What a page is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanTicket {
    /// The window of a queue's deliveries in a state.
    Window {
        /// The queue.
        queue: QueueNumber,
        /// The state.
        state: DeliveryState,
        /// Tells a page that was asked for before the window was reset.
        era: u32,
    },
    /// Expired messages.
    Expiry,
    /// Expired idempotency keys.
    DedupExpiry,
    /// The first of the owed sweeps.
    Owed,
    /// A call that looks at messages.
    Browse(WaiterId),
    /// Chunks of nobody.
    Uploads,
    /// The log before a group's position.
    Log {
        /// The cursor.
        cursor: QueueNumber,
        /// Tells a page that was asked for before the position was set anew.
        era: u32,
    },
}

impl ScanTicket {
    /// A sweep can wait while commands do not.
    #[must_use]
    pub fn is_sweep(&self) -> bool {
        !matches!(self, Self::Window { .. } | Self::Browse(_) | Self::Log { .. })
    }
}

/// A walk through one queue.
#[derive(Debug)]
struct OwedSweep {
    queue: QueueNumber,
    kind: OwedKind,
    /// The states still to walk through, the present one first.
    states: Vec<DeliveryState>,
    after_ready: Option<ReadyKey>,
    after_due: Option<DueKey>,
    /// Reads must see this commit: the one that made the rows gone.
    not_before: CommitSequence,
    /// Its first page was asked for.
    begun: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum OwedKind {
    /// Rows that a purge or a deletion left.
    Gone,
    /// Leases that a restored copy brought.
    Void,
}

#[derive(Debug)]
pub(crate) struct Sweeps {
    expiry: TimedSweep,
    dedup: TimedSweep,
    owed: VecDeque<OwedSweep>,
    owed_scanning: bool,
}

const ALL_STATES: [DeliveryState; 6] = [
    DeliveryState::Ready,
    DeliveryState::Delayed,
    DeliveryState::Leased,
    DeliveryState::Dead,
    DeliveryState::Completed,
    DeliveryState::Cancelled,
];

impl Sweeps {
    pub(crate) fn new() -> Self {
        Self {
            expiry: TimedSweep::new(StoredOrder::Expiry),
            dedup: TimedSweep::new(StoredOrder::DedupExpiry),
            owed: VecDeque::new(),
            owed_scanning: false,
        }
    }

    /// The store has this for the beginning of an order.
    pub(crate) fn begin_at(&mut self, order: StoredOrder, after: ReadyKey) {
        match order {
            StoredOrder::Expiry => self.expiry.begin_at(after.into()),
            StoredOrder::DedupExpiry => self.dedup.begin_at(after.into()),
            StoredOrder::Ready(_) | StoredOrder::Due(..) => {}
        }
    }

    /// Every page sees these commits.
    pub(crate) fn settle(&mut self, settled: CommitSequence) {
        self.expiry.settle(settled);
        self.dedup.settle(settled);
    }

    /// The beginnings of orders that the store has to write; they are looked for once so many rows have left.
    pub(crate) fn moved_marks(&mut self, pace: usize) -> impl Iterator<Item = LowWater> + use<> {
        [self.expiry.moved_mark(pace), self.dedup.moved_mark(pace)].into_iter().flatten()
    }

    /// A message has left.
    pub(crate) fn note_message_left(&mut self, pace: usize) {
        self.expiry.note_left(pace);
    }

    /// A remembered call is forgotten.
    pub(crate) fn note_dedup_left(&mut self, pace: usize) {
        self.dedup.note_left(pace);
    }

    fn begin(
        &mut self,
        queue: QueueNumber,
        kind: OwedKind,
        states: &[DeliveryState],
        not_before: CommitSequence,
    ) {
        // One that has not begun can take this in: a queue that is purged every second owes one walk and not one a second.
        let waiting =
            self.owed.iter_mut().find(|owed| owed.queue == queue && owed.kind == kind && !owed.begun);
        if let Some(owed) = waiting {
            owed.not_before = owed.not_before.max(not_before);
            let more = states.iter().filter(|state| !owed.states.contains(state)).copied();
            let more: Vec<_> = more.collect();
            owed.states.extend(more);
            return;
        }
        let states = states.to_vec();
        self.owed.push_back(OwedSweep {
            queue,
            kind,
            states,
            after_ready: None,
            after_due: None,
            not_before,
            begun: false,
        });
    }

    pub(crate) fn begin_gone(&mut self, queue: QueueNumber) {
        self.begin(queue, OwedKind::Gone, &ALL_STATES, CommitSequence::default());
    }

    /// A purge made rows in these states gone.
    pub(crate) fn begin_purged(
        &mut self,
        queue: QueueNumber,
        states: &[DeliveryState],
        not_before: CommitSequence,
    ) {
        self.begin(queue, OwedKind::Gone, states, not_before);
    }

    pub(crate) fn begin_deleted(&mut self, queue: QueueNumber, not_before: CommitSequence) {
        self.begin(queue, OwedKind::Gone, &ALL_STATES, not_before);
    }

    pub(crate) fn begin_void(&mut self, queue: QueueNumber) {
        self.begin(queue, OwedKind::Void, &[DeliveryState::Leased], CommitSequence::default());
    }

    pub(crate) fn owed_walks(&self) -> usize {
        self.owed.len()
    }

    /// `walks`: those through queues may begin.
    pub(crate) fn next_due(&self, settled: CommitSequence, walks: bool) -> Option<Timestamp> {
        let timed = [&self.expiry, &self.dedup]
            .into_iter()
            .filter(|sweep| !sweep.scanning && sweep.next_check < Timestamp::NEVER)
            .map(|sweep| sweep.next_check);
        let owed =
            self.owed.front().filter(|owed| walks && !self.owed_scanning && owed.not_before <= settled);
        timed.chain(owed.map(|_| Timestamp::ZERO)).min()
    }

    /// A message written by `commit` expires then.
    pub(crate) fn note_expiry(&mut self, at: Timestamp, commit: CommitSequence) {
        self.expiry.note(at, commit);
    }

    /// An idempotency key written by `commit` expires then.
    pub(crate) fn note_dedup_expiry(&mut self, at: Timestamp, commit: CommitSequence) {
        self.dedup.note(at, commit);
    }
}

impl Core {
    pub(super) fn page_rows(&self, first: bool) -> usize {
        let most = if first { FIRST_PAGE_ROWS } else { PAGE_ROWS };
        most.min(self.settings.window_entries.max(1))
    }

    /// An order's mark is raised once so many rows have left it: a scan that begins at the mark passes over about so many.
    pub(crate) fn mark_pace(&self) -> usize {
        (self.settings.window_entries / 10).max(1)
    }

    /// The beginning of an order over all queues is looked for once so many rows have left it.
    pub(crate) fn wide_mark_pace(&self) -> usize {
        self.settings.window_entries.saturating_mul(10).max(1)
    }

    fn low_water(&self) -> usize {
        (self.settings.window_entries / 2).max(1)
    }

    /// Reads on if few ready messages are left in memory.
    pub(crate) fn refill_ready(&mut self, number: QueueNumber) {
        let low = self.low_water();
        let Some(queue) = self.queues.get_mut(&number) else { return };
        if queue.ready.len() >= low {
            return;
        }
        let first = queue.ready.is_unread();
        let Some((after, era)) = queue.ready.begin_scan() else { return };
        let limit = self.page_rows(first);
        let ticket = ScanTicket::Window { queue: number, state: DeliveryState::Ready, era };
        self.batch.scans.push(WantedScan { ticket, scan: Scan::Ready { queue: number, after, limit } });
    }

    /// Reads on if few due times are left in memory.
    pub(crate) fn refill_due(&mut self, number: QueueNumber) {
        let low = self.low_water();
        for state in [DeliveryState::Delayed, DeliveryState::Leased] {
            let Some(queue) = self.queues.get_mut(&number) else { return };
            let window = if state == DeliveryState::Delayed { &mut queue.delayed } else { &mut queue.leased };
            if window.len() >= low.clamp(1, FIRST_PAGE_ROWS / 2) {
                continue;
            }
            let first = window.is_unread();
            let Some((after, era)) = window.begin_scan() else { continue };
            let limit = self.page_rows(first);
            let ticket = ScanTicket::Window { queue: number, state, era };
            let scan = Scan::Due { queue: number, state, after, limit };
            self.batch.scans.push(WantedScan { ticket, scan });
        }
    }

    /// Asks for the next page of each sweep that has work.
    pub(crate) fn start_sweeps(&mut self, now: Timestamp) {
        let limit = self.due_allowance();
        let settled = self.rows.settled;
        let sweeps = &mut self.sweeps;
        if !sweeps.expiry.scanning && sweeps.expiry.next_check <= now {
            let scan = Scan::Expiry { after: sweeps.expiry.begin(), limit };
            self.batch.scans.push(WantedScan { ticket: ScanTicket::Expiry, scan });
        }
        if !sweeps.dedup.scanning && sweeps.dedup.next_check <= now {
            let from = sweeps.dedup.begin().map_or(Timestamp::ZERO, |after| after.due_at);
            let scan = Scan::DedupExpiry { from, limit };
            self.batch.scans.push(WantedScan { ticket: ScanTicket::DedupExpiry, scan });
        }
        if let Some(after) = self.uploads.begin_scan() {
            let limit = PAGE_ROWS.min(self.settings.window_entries.max(1));
            let scan = Scan::Uploads { after, limit };
            self.batch.scans.push(WantedScan { ticket: ScanTicket::Uploads, scan });
        }
        if let Some(owed) = sweeps.owed.front_mut()
            && !self.leases_wait
            && !sweeps.owed_scanning
            && owed.not_before <= settled
            && let Some(&state) = owed.states.first()
        {
            let queue = owed.queue;
            owed.begun = true;
            let scan = match state {
                DeliveryState::Ready => Scan::Ready { queue, after: owed.after_ready, limit },
                _ => Scan::Due { queue, state, after: owed.after_due, limit },
            };
            sweeps.owed_scanning = true;
            self.batch.scans.push(WantedScan { ticket: ScanTicket::Owed, scan });
        }
    }

    /// Rows that were read by key. Memory wins where it has them.
    pub fn absorb_rows(&mut self, rows: ReadRows) {
        for (sequence, row) in rows.deliveries {
            self.rows.admit(sequence, row);
            self.rows.cache(sequence);
        }
        for (key, row) in rows.dedup {
            self.admit_dedup(key, row);
        }
        for (key, row) in rows.progress {
            if let Some(row) = row {
                let sequence = row.sequence;
                self.rows.admit(sequence, Some(row));
                self.rows.cache(sequence);
            }
            self.rows.looked_up.insert(key);
        }
        for (key, claim) in rows.claims {
            self.admit_claim(key, claim);
        }
    }

    /// A page came. It is part of the batch being applied.
    pub fn absorb(&mut self, ticket: ScanTicket, page: Page, stamp: &Stamp) {
        self.set_stamp(stamp);
        match ticket {
            ScanTicket::Window { queue, state, era } => {
                self.absorb_window(queue, state, era, page);
                self.batch.stirred.push(queue);
            }
            ScanTicket::Expiry => self.absorb_expired(page, stamp.now),
            ScanTicket::DedupExpiry => self.absorb_expired_dedup(page, stamp.now),
            ScanTicket::Owed => self.absorb_owed(page, stamp),
            ScanTicket::Browse(waiter) => self.absorb_browsed(waiter, page, stamp),
            ScanTicket::Uploads => self.absorb_uploads(page),
            ScanTicket::Log { cursor, era } => self.absorb_log(cursor, era, page),
        }
        self.serve_stirred(stamp);
    }

    fn absorb_window(&mut self, number: QueueNumber, state: DeliveryState, era: u32, page: Page) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let wanted = match state {
            DeliveryState::Ready => queue.ready.end_scan(era),
            DeliveryState::Delayed => queue.delayed.end_scan(era),
            _ => queue.leased.end_scan(era),
        };
        if !wanted {
            return;
        }
        let last = page.deliveries.last();
        match state {
            DeliveryState::Ready => queue.ready.advance(last.map(DeliveryRow::ready_key), page.end),
            DeliveryState::Delayed => queue.delayed.advance(last.map(DeliveryRow::due_key), page.end),
            _ => queue.leased.advance(last.map(DeliveryRow::due_key), page.end),
        }
        for row in page.deliveries {
            let sequence = row.sequence;
            if self.rows.get(sequence).is_none() {
                if queue.is_gone(&row) {
                    continue;
                }
                self.rows.admit(sequence, Some(row));
            }
            // What memory says of the row counts: it may have left this order since the page was read.
            let Some(row) = self.rows.live(sequence) else { continue };
            if row.queue == number && row.state == state && !queue.is_gone(row) {
                queue.keep_aside(row);
            }
        }
        self.refresh_wake(number);
    }

    fn absorb_expired(&mut self, page: Page, now: Timestamp) {
        self.sweeps.expiry.end(&page, page.deliveries.iter().map(DeliveryRow::expiry_key), now);
        for row in page.deliveries {
            if row.expires_at > now {
                return;
            }
            let (sequence, queue) = (row.sequence, row.queue);
            self.rows.admit(sequence, Some(row));
            self.expire_row(sequence, now);
            self.rows.cache(sequence);
            if self.batch.stirred.last() != Some(&queue) {
                self.batch.stirred.push(queue);
            }
        }
    }

    /// Removes a message whose time is over, unless it is held.
    pub(crate) fn expire_row(&mut self, sequence: Sequence, now: Timestamp) {
        let Some(row) = self.rows.live(sequence) else { return };
        if row.state == DeliveryState::Leased || row.expires_at > now {
            return;
        }
        let number = row.queue;
        let gone = self.queues.get(&number).is_none_or(|queue| queue.is_gone(row));
        self.erase_row(sequence, !gone);
        if !gone && let Some(queue) = self.queues.get_mut(&number) {
            queue.counters.total_expired += 1;
        }
    }

    fn absorb_expired_dedup(&mut self, page: Page, now: Timestamp) {
        let key = |row: &DedupRow| DueKey { due_at: row.expires_at, sequence: Sequence::default() };
        self.sweeps.dedup.end(&page, page.dedup.iter().map(key), now);
        for row in page.dedup {
            if row.expires_at > now {
                return;
            }
            let renewed = self
                .dedup
                .get(&row.key)
                .is_some_and(|resident| resident.row.as_ref().is_none_or(|live| live.expires_at > now));
            if !renewed {
                self.environment.dedup_count = self.environment.dedup_count.saturating_sub(1);
                self.touch_dedup(row.key, None);
            }
        }
    }

    fn absorb_owed(&mut self, page: Page, stamp: &Stamp) {
        self.sweeps.owed_scanning = false;
        let Some(owed) = self.sweeps.owed.front_mut() else { return };
        let (number, kind) = (owed.queue, owed.kind);
        if page.end {
            owed.states.remove(0);
            owed.after_ready = None;
            owed.after_due = None;
        } else if let Some(last) = page.deliveries.last() {
            owed.after_ready = Some(last.ready_key());
            owed.after_due = Some(last.due_key());
        }
        let done = owed.states.is_empty();
        for row in page.deliveries {
            let sequence = row.sequence;
            self.rows.admit(sequence, Some(row));
            match kind {
                OwedKind::Gone => self.remove_gone(number, sequence),
                OwedKind::Void => self.end_void_lease(sequence, stamp.now),
            }
            self.rows.cache(sequence);
        }
        if done {
            self.sweeps.owed.pop_front();
            self.finish_owed(number, kind);
        }
    }

    fn remove_gone(&mut self, number: QueueNumber, sequence: Sequence) {
        let Some(row) = self.rows.live(sequence) else { return };
        if row.queue != number {
            return;
        }
        if self.queues.get(&number).is_none_or(|queue| queue.is_gone(row)) {
            self.erase_row(sequence, false);
        }
    }

    fn finish_owed(&mut self, number: QueueNumber, kind: OwedKind) {
        if self.sweeps.owed.iter().any(|owed| owed.queue == number && owed.kind == kind) {
            return;
        }
        match kind {
            OwedKind::Gone => {
                let Some(queue) = self.queues.get_mut(&number) else { return };
                if queue.row.deleted {
                    self.queues.remove(&number);
                    self.batch.queues_removed.push(number);
                } else {
                    queue.row.sweep_owed = false;
                    self.touch_queue(number);
                }
            }
            OwedKind::Void => {
                if !self.sweeps.owed.iter().any(|owed| owed.kind == OwedKind::Void) {
                    self.environment.leases_void_below = crate::id::LeaseGeneration::default();
                    self.batch.environment_touched = true;
                }
            }
        }
    }
}
