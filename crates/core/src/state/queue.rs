//! One queue in memory: its row, its counters, its windows and who waits.

use std::collections::BTreeSet;

use crate::change::{LowWater, StoredOrder};
use crate::command::WaiterId;
use crate::id::{QueueNumber, Sequence};
use crate::planted;
use crate::row::{CountersRow, DeliveryRow, DeliveryState, DueKey, QueueRow, ReadyKey, Role};
use crate::state::Totals;
use crate::state::cursor::Cursor;
use crate::state::group::Group;
use crate::state::log::Log;
use crate::state::waiters::Waiters;
use crate::state::window::{OrderKey, Window};
use crate::time::Timestamp;

/// What a queue's state holds beyond that of a queue, by its role.
#[derive(Debug)]
pub(crate) enum Part {
    None,
    Log(Box<Log>),
    Group(Box<Group>),
    Cursor(Box<Cursor>),
}

#[derive(Debug)]
pub(crate) struct QueueState {
    pub(crate) part: Part,
    pub(crate) row: QueueRow,
    pub(crate) counters: CountersRow,
    pub(crate) ready: Window<ReadyKey>,
    pub(crate) delayed: Window<DueKey>,
    pub(crate) leased: Window<DueKey>,
    pub(crate) waiters: Waiters,
    /// Waiters past their deadline that a page under way may still serve.
    pub(crate) overdue: BTreeSet<WaiterId>,
    /// When it has to be looked at; may be earlier than needed, never later.
    pub(crate) next_wake: Option<Timestamp>,
    /// When a lease call last came; later than the counters' copy, which is only written along with them.
    pub(crate) consumer_seen_at: Option<Timestamp>,
    /// The same of calls that were not for pushes; after an opening, of any.
    pub(crate) polled_at: Option<Timestamp>,
    /// Deliveries whose leases ran out, and that wait for an answer to their claims.
    pub(crate) claims_asked: BTreeSet<Sequence>,
    pub(crate) row_touched: bool,
    pub(crate) counters_touched: bool,
}

impl QueueState {
    /// A queue that was just made.
    pub(crate) fn new(row: QueueRow) -> Self {
        let counters = CountersRow { queue: row.number, ..CountersRow::default() };
        Self::stored(row, counters)
    }

    /// A queue as it was stored. An order with nothing in it is known without reading.
    pub(crate) fn stored(row: QueueRow, mut counters: CountersRow) -> Self {
        if planted!(CounterNotRestored) {
            counters.ready = 0;
        }
        fn window<K: OrderKey>(count: u64) -> Window<K> {
            if count == 0 { Window::of_nothing() } else { Window::unread() }
        }
        let seen = counters.consumer_seen_at;
        let part = match row.role {
            Role::Queue => Part::None,
            Role::Topic | Role::Partition { .. } => Part::Log(Box::new(Log::stored(counters.position))),
            Role::Group { .. } => Part::Group(Box::default()),
            Role::Cursor { .. } => Part::Cursor(Box::default()),
        };
        Self {
            part,
            ready: if row.role.is_log() { Window::of_nothing() } else { window(counters.ready) },
            delayed: window(counters.delayed),
            leased: if planted!(LeaseEndLost) { Window::of_nothing() } else { window(counters.leased) },
            waiters: Waiters::default(),
            overdue: BTreeSet::new(),
            next_wake: None,
            consumer_seen_at: (seen > Timestamp::ZERO).then_some(seen),
            polled_at: (seen > Timestamp::ZERO).then_some(seen),
            claims_asked: BTreeSet::new(),
            row_touched: false,
            counters_touched: false,
            row,
            counters,
        }
    }

    pub(crate) fn number(&self) -> QueueNumber {
        self.row.number
    }

    pub(crate) fn log(&self) -> Option<&Log> {
        if let Part::Log(log) = &self.part { Some(log) } else { None }
    }

    pub(crate) fn log_mut(&mut self) -> Option<&mut Log> {
        if let Part::Log(log) = &mut self.part { Some(log) } else { None }
    }

    pub(crate) fn group(&self) -> Option<&Group> {
        if let Part::Group(group) = &self.part { Some(group) } else { None }
    }

    pub(crate) fn group_mut(&mut self) -> Option<&mut Group> {
        if let Part::Group(group) = &mut self.part { Some(group) } else { None }
    }

    pub(crate) fn cursor(&self) -> Option<&Cursor> {
        if let Part::Cursor(cursor) = &self.part { Some(cursor) } else { None }
    }

    pub(crate) fn cursor_mut(&mut self) -> Option<&mut Cursor> {
        if let Part::Cursor(cursor) = &mut self.part { Some(cursor) } else { None }
    }

    /// One more message was sent to it.
    pub(crate) fn note_sent(&mut self, now: Timestamp) {
        self.counters.total_sent += 1;
        if self.row.role.is_log() {
            self.consumer_seen_at = Some(now);
        }
    }

    /// What it adds to the environment's totals.
    pub(crate) fn totals(&self) -> Totals {
        if self.row.role.is_cursor() { Totals::default() } else { Totals::of(&self.counters) }
    }

    /// Whether a stored row is gone by a purge or because the queue is: it is only waiting to be removed.
    pub(crate) fn is_gone(&self, row: &DeliveryRow) -> bool {
        let purged = match row.state {
            DeliveryState::Ready | DeliveryState::Delayed => row.entered <= self.row.purged_through,
            DeliveryState::Dead => row.entered <= self.row.dead_purged_through,
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Leased => false,
        };
        self.row.deleted || purged
    }

    /// Whether a row is there for those who look: not gone, and not over unless somebody holds it.
    pub(crate) fn shows(&self, row: &DeliveryRow, now: Timestamp) -> bool {
        !self.is_gone(row) && (row.state == DeliveryState::Leased || row.expires_at > now)
    }

    /// The counter of a state.
    pub(crate) fn count_mut(&mut self, state: DeliveryState) -> &mut u64 {
        match state {
            DeliveryState::Cancelled => &mut self.counters.cancelled,
            DeliveryState::Completed => &mut self.counters.completed,
            DeliveryState::Dead => &mut self.counters.dead,
            DeliveryState::Delayed => &mut self.counters.delayed,
            DeliveryState::Leased => &mut self.counters.leased,
            DeliveryState::Ready => &mut self.counters.ready,
        }
    }

    /// The bytes among which those of a state are counted.
    fn bytes_mut(&mut self, state: DeliveryState) -> &mut u64 {
        match state {
            DeliveryState::Cancelled | DeliveryState::Completed => &mut self.counters.finished_bytes,
            DeliveryState::Dead => &mut self.counters.dead_bytes,
            DeliveryState::Delayed | DeliveryState::Ready => &mut self.counters.waiting_bytes,
            DeliveryState::Leased => &mut self.counters.leased_bytes,
        }
    }

    /// Puts a row into the order of its state. Answers the time at which it is due, if memory must remember that.
    pub(crate) fn link(&mut self, row: &DeliveryRow) -> Option<Timestamp> {
        *self.count_mut(row.state) += 1;
        *self.bytes_mut(row.state) += row.size_bytes;
        match row.state {
            DeliveryState::Ready => {
                match &mut self.part {
                    Part::Log(log) => log.append(row.log_number(), row.sequence),
                    _ => self.ready.insert(row.ready_key()),
                }
                None
            }
            DeliveryState::Delayed => {
                self.delayed.insert(row.due_key());
                Some(row.due_at)
            }
            DeliveryState::Leased => {
                self.leased.insert(row.due_key());
                Some(row.due_at)
            }
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => None,
        }
    }

    /// Takes a row out of the order of its state.
    ///
    /// Invariant: a count never goes below zero; a row is unlinked once for each time it was linked.
    pub(crate) fn unlink(&mut self, row: &DeliveryRow) {
        let count = self.count_mut(row.state);
        assert!(*count > 0, "count of {:?} in queue {} goes below zero", row.state, row.queue);
        *count -= 1;
        let bytes = self.bytes_mut(row.state);
        assert!(*bytes >= row.size_bytes, "bytes of {:?} in queue {} go below zero", row.state, row.queue);
        *bytes -= row.size_bytes;
        match row.state {
            DeliveryState::Ready => match &mut self.part {
                Part::Log(log) => log.remove(row.log_number()),
                _ => self.ready.remove(&row.ready_key()),
            },
            DeliveryState::Delayed if planted!(PromotionTwice) => {}
            DeliveryState::Delayed => self.delayed.remove(&row.due_key()),
            DeliveryState::Leased => {
                self.leased.remove(&row.due_key());
                if let Part::Cursor(cursor) = &mut self.part {
                    cursor.asked.remove(&row.sequence);
                }
            }
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => {}
        }
    }

    /// The store has this for the beginning of one of its orders.
    pub(crate) fn begin_at(&mut self, order: StoredOrder, after: ReadyKey) {
        match order {
            StoredOrder::Ready(_) => self.ready.begin_at(after),
            StoredOrder::Due(_, DeliveryState::Delayed) => self.delayed.begin_at(after.into()),
            StoredOrder::Due(_, DeliveryState::Leased) => self.leased.begin_at(after.into()),
            StoredOrder::Due(..) | StoredOrder::Expiry | StoredOrder::DedupExpiry => {}
        }
    }

    /// The beginnings of its orders that the store has to write.
    pub(crate) fn moved_marks(&mut self, pace: usize) -> impl Iterator<Item = LowWater> + use<> {
        let number = self.number();
        let due = |state, key: DueKey| (StoredOrder::Due(number, state), ReadyKey::from(key));
        let ready = self.ready.moved_mark(pace).map(|key| (StoredOrder::Ready(number), key));
        let delayed = self.delayed.moved_mark(pace).map(|key| due(DeliveryState::Delayed, key));
        let leased = self.leased.moved_mark(pace).map(|key| due(DeliveryState::Leased, key));
        [ready, delayed, leased].into_iter().flatten().map(|(order, after)| LowWater { order, after })
    }

    /// Whether a row's key is inside the window of its state.
    pub(crate) fn holds(&self, row: &DeliveryRow) -> bool {
        match row.state {
            DeliveryState::Ready => match &self.part {
                Part::Log(log) => log.holds(row.log_number()),
                _ => self.ready.contains(&row.ready_key()),
            },
            DeliveryState::Delayed => self.delayed.contains(&row.due_key()),
            DeliveryState::Leased => self.leased.contains(&row.due_key()),
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => false,
        }
    }

    /// The change of a row behind the edge is durable.
    pub(crate) fn forget_aside(&mut self, row: &DeliveryRow) {
        match row.state {
            DeliveryState::Ready if self.row.role.is_log() => {}
            DeliveryState::Ready => self.ready.forget_aside(&row.ready_key()),
            DeliveryState::Delayed => self.delayed.forget_aside(&row.due_key()),
            DeliveryState::Leased => self.leased.forget_aside(&row.due_key()),
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => {}
        }
    }

    /// A row that a cut window no longer holds, but whose change is not durable yet.
    pub(crate) fn keep_aside(&mut self, row: &DeliveryRow) {
        match row.state {
            // What a log lets go of is durable.
            DeliveryState::Ready if self.row.role.is_log() => {}
            DeliveryState::Ready => self.ready.insert(row.ready_key()),
            DeliveryState::Delayed => self.delayed.insert(row.due_key()),
            DeliveryState::Leased => self.leased.insert(row.due_key()),
            DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Dead => {}
        }
    }

    /// How many leases may be held at once. More are held only after a limit was lowered, until they end.
    pub(crate) fn leased_limit(&self) -> u64 {
        let concurrency = self.row.spec.concurrency_max.map_or(u64::MAX, u64::from);
        concurrency.min(u64::from(self.row.spec.leased_max))
    }

    /// How many more leases the queue's limits allow.
    pub(crate) fn room(&self) -> u64 {
        self.leased_limit().saturating_sub(self.counters.leased)
    }

    /// The earliest time at which a row in memory is due, or a call has waited long enough for more than is there.
    /// `leases`: they end by time.
    pub(crate) fn first_due(&self, leases: bool) -> Option<Timestamp> {
        let delayed = self.delayed.first().map(|key| key.due_at);
        let mut leased = self.leased.iter().filter(|key| !self.claims_asked.contains(&key.sequence));
        let leased = if leases { leased.next().map(|key| key.due_at) } else { None };
        [delayed, leased, self.waiters.filled_at()].into_iter().flatten().min()
    }
}
