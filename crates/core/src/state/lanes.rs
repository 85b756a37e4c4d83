//! Where a group reads: each log of its topic, and how far the group is with it.
//!
//! Messages that were never handed out come from the logs, in the order of their numbers; those that came back come from the ready
//! windows of the group's cursors. They are merged by class, time, and place.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::iter::Peekable;

use crate::change::{Page, Scan};
use crate::command::Reading;
use crate::id::{LogNumber, QueueNumber, Sequence};
use crate::row::{DeliveryRow, DeliveryState, ReadyKey, Role};
use crate::spec::Order;
use crate::state::cursor::Cursor;
use crate::state::log::Log;
use crate::state::{Core, QueueState, ScanTicket, WantedScan};
use crate::time::Timestamp;

/// A log, and the group's cursor over it once something of it was handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lane {
    pub(crate) log: QueueNumber,
    pub(crate) cursor: Option<QueueNumber>,
}

/// A message that can be handed out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pick {
    pub(crate) lane: Lane,
    pub(crate) what: Picked,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Picked {
    /// It came back: the group's delivery.
    Again(Sequence),
    /// It was never handed out: the topic's delivery.
    Fresh(Box<DeliveryRow>),
}

/// What a group could be handed out.
#[derive(Debug, Default)]
pub(crate) struct Picks {
    /// In order.
    pub(crate) picks: Vec<Pick>,
    /// One that came back and whose time is over: it has to leave before more can be seen.
    pub(crate) expired: Option<Sequence>,
    /// Lanes whose next page has to be read.
    pub(crate) unread: Vec<Lane>,
}

/// The place of a message among those of other lanes: what came back uncounted goes before what became visible with it.
type Place = (bool, Timestamp, bool, u64);

/// Messages of one log behind a position.
struct Fresh<'a> {
    core: &'a Core,
    log: &'a QueueState,
    cursor: Option<&'a Cursor>,
    now: Timestamp,
    page: std::collections::vec_deque::Iter<'a, DeliveryRow>,
    tail: Option<Box<dyn Iterator<Item = (LogNumber, Sequence)> + 'a>>,
    unread: bool,
}

impl<'a> Fresh<'a> {
    fn is_wanted(&self, row: &DeliveryRow) -> bool {
        row.state == DeliveryState::Ready
            && row.expires_at > self.now
            && !self.log.is_gone(row)
            && !self.cursor.is_some_and(|cursor| cursor.in_run(row.log_number()))
    }
}

impl<'a> Iterator for Fresh<'a> {
    type Item = &'a DeliveryRow;

    fn next(&mut self) -> Option<&'a DeliveryRow> {
        while let Some(row) = self.page.next() {
            // What memory says of it counts.
            let known = self.core.rows.get(row.sequence).map(|resident| resident.row.as_ref());
            let row = known.unwrap_or(Some(row));
            if let Some(row) = row.filter(|row| self.is_wanted(row)) {
                return Some(row);
            }
        }
        loop {
            let (_, sequence) = self.tail.as_mut()?.next()?;
            if let Some(row) = self.core.rows.live(sequence).filter(|row| self.is_wanted(row)) {
                return Some(row);
            }
        }
    }
}

/// The heads of one lane.
struct Heads<'a> {
    lane: Lane,
    again: Peekable<Box<dyn Iterator<Item = &'a ReadyKey> + 'a>>,
    fresh: Peekable<Fresh<'a>>,
    /// Behind what is known of the log lies what is not.
    unread: bool,
}

/// Rows of the pages that a group that is far behind holds, shared by its lanes.
const LOG_PAGE_ROWS: usize = 256;
/// But at least so many of each.
const LOG_PAGE_ROWS_MIN: usize = 16;

const NO_ROWS: &VecDeque<DeliveryRow> = &VecDeque::new();

impl Core {
    /// The log of a number, and its last number.
    pub(crate) fn log_of(&self, number: QueueNumber) -> Option<(&Log, LogNumber)> {
        let queue = self.queues.get(&number)?;
        Some((queue.log()?, queue.counters.position))
    }

    /// Where a group reads: one partition, or the topic and all partitions.
    pub(crate) fn lanes_of(
        &self,
        group: &QueueState,
        topic: QueueNumber,
        partition: Option<&str>,
    ) -> Vec<Lane> {
        let (Some(group), Some((log, _))) = (group.group(), self.log_of(topic)) else { return Vec::new() };
        let lane = |log: QueueNumber| Lane { log, cursor: group.cursors.get(&log).copied() };
        match partition {
            Some(id) => log.family.partitions.get(id).map(|number| lane(*number)).into_iter().collect(),
            None => std::iter::once(topic).chain(log.family.partitions.values().copied()).map(lane).collect(),
        }
    }

    /// Where the group of a number reads.
    pub(crate) fn lanes(&self, number: QueueNumber, partition: Option<&str>) -> Vec<Lane> {
        match self.queues.get(&number) {
            Some(group) => match group.row.role {
                Role::Group { topic } => self.lanes_of(group, topic, partition),
                _ => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// Where a call reads the group of a number.
    pub(crate) fn lanes_read(&self, number: QueueNumber, reading: &Reading) -> Vec<Lane> {
        let mut lanes = self.lanes(number, reading.partition.as_deref());
        if reading.pushes && reading.partition.is_none() {
            // A trigger of no deployment leaves to deployments what is theirs.
            let theirs = |lane: &Lane| {
                self.trigger_over(number, lane.log).is_some_and(|trigger| trigger.deployment.is_some())
            };
            lanes.retain(|lane| !theirs(lane));
        }
        if let (true, Some(group)) =
            (reading.unpinned && reading.partition.is_some(), self.queues.get(&number))
            && let (Role::Group { topic }, Some(cursors)) = (group.row.role, group.group())
            && !lanes.iter().any(|lane| lane.log == topic)
        {
            lanes.push(Lane { log: topic, cursor: cursors.cursors.get(&topic).copied() });
        }
        lanes
    }

    fn fresh(&self, lane: Lane, now: Timestamp) -> Option<Fresh<'_>> {
        let log = self.queues.get(&lane.log)?;
        let entries = log.log()?;
        let state = lane.cursor.and_then(|cursor| self.queues.get(&cursor));
        let position = state.map(|state| state.counters.position).unwrap_or_default();
        let cursor = state.and_then(QueueState::cursor);
        let known = cursor.map(|cursor| cursor.known).unwrap_or_default().max(position);
        // What lies between the page and the tail has to be read, if there is anything.
        let reaches = known >= entries.from() || !entries.any_within(known.next(), entries.from());
        Some(Fresh {
            core: self,
            log,
            cursor,
            now,
            page: cursor.map_or(NO_ROWS, |cursor| &cursor.page).iter(),
            tail: reaches.then(|| Box::new(entries.behind(known)) as Box<dyn Iterator<Item = _>>),
            unread: !reaches,
        })
    }

    fn heads(&self, lane: Lane, now: Timestamp) -> Option<Heads<'_>> {
        let cursor = lane.cursor.and_then(|cursor| self.queues.get(&cursor));
        let again: Box<dyn Iterator<Item = &ReadyKey>> = match cursor {
            Some(cursor) => Box::new(cursor.ready.iter()),
            None => Box::new(std::iter::empty()),
        };
        let fresh = self.fresh(lane, now)?;
        let unread = fresh.unread;
        Some(Heads { lane, again: again.peekable(), fresh: fresh.peekable(), unread })
    }

    /// The first messages that could be handed out to a group, at most so many.
    pub(crate) fn picks(&self, lanes: &[Lane], order: Order, most: usize, now: Timestamp) -> Picks {
        let mut heads: Vec<_> = lanes.iter().filter_map(|lane| self.heads(*lane, now)).collect();
        let mut found = Picks::default();
        let mut line = BinaryHeap::new();
        // What is to be read may have to go before all others.
        let mut halted = false;
        for (heads, at) in heads.iter_mut().zip(0usize..) {
            halted |= heads.is_halted();
            line.extend(heads.first(order).map(|first| Reverse((first, at))));
        }
        while found.picks.len() < most
            && !halted
            && let Some(Reverse(((_, is_fresh), at))) = line.pop()
            && let Some(heads) = heads.get_mut(at)
        {
            let lane = heads.lane;
            if is_fresh {
                let Some(row) = heads.fresh.next() else { break };
                found.picks.push(Pick { lane, what: Picked::Fresh(Box::new(row.clone())) });
            } else {
                let Some(sequence) = heads.again.next().map(|key| key.sequence) else { break };
                if self.rows.live(sequence).is_none_or(|row| row.expires_at <= now) {
                    found.expired = Some(sequence);
                    break;
                }
                found.picks.push(Pick { lane, what: Picked::Again(sequence) });
            }
            halted |= heads.is_halted();
            line.extend(heads.first(order).map(|first| Reverse((first, at))));
        }
        if found.picks.len() < most {
            let unread =
                lanes.iter().filter(|lane| self.fresh(**lane, now).is_some_and(|fresh| fresh.unread));
            found.unread.extend(unread);
        }
        found
    }

    /// Asks for the page of the log that lies behind what a cursor knows. `lanes`: among how many the group reads.
    pub(crate) fn read_log(&mut self, lane: Lane, lanes: usize) {
        let share = (LOG_PAGE_ROWS / lanes.max(1)).max(LOG_PAGE_ROWS_MIN);
        let limit = self.page_rows(false).min(share);
        let Some(state) = lane.cursor.and_then(|cursor| self.queues.get_mut(&cursor)) else { return };
        let (number, position) = (state.number(), state.counters.position);
        let Some(cursor) = state.cursor_mut() else { return };
        if cursor.scanning {
            return;
        }
        cursor.scanning = true;
        let known = cursor.known.max(position);
        let after = ReadyKey {
            priority_descending: 0,
            retried: false,
            order_at: Timestamp::from_millis(i64::try_from(known.0).unwrap_or(i64::MAX)),
            sequence: Sequence::LAST,
        };
        let ticket = ScanTicket::Log { cursor: number, era: cursor.era };
        let scan = Scan::Ready { queue: lane.log, after: Some(after), limit };
        self.batch.scans.push(WantedScan { ticket, scan });
    }

    pub(super) fn absorb_log(&mut self, number: QueueNumber, era: u32, page: Page) {
        let Some(state) = self.queues.get_mut(&number) else { return };
        let Role::Cursor { log, .. } = state.row.role else { return };
        let position = state.counters.position;
        let from = self.log_of(log).map(|(log, _)| log.from()).unwrap_or_default();
        let Some(cursor) = self.queues.get_mut(&number).and_then(QueueState::cursor_mut) else { return };
        if cursor.era != era {
            return;
        }
        cursor.scanning = false;
        let last = page.deliveries.last().map(DeliveryRow::log_number).unwrap_or_default();
        // What the page did not see lies in the tail.
        cursor.known = cursor.known.max(if page.end { last.max(from) } else { last });
        cursor.page.extend(page.deliveries);
        cursor.drop_before(position);
        self.batch.stirred.push(number);
    }
}

impl Heads<'_> {
    /// What comes next of its log has to be read.
    fn is_halted(&mut self) -> bool {
        self.unread && self.fresh.peek().is_none()
    }

    /// The place of its first message, and whether that was never handed out.
    fn first(&mut self, order: Order) -> Option<(Place, bool)> {
        let again = self.again.peek().map(|key| ((key.retried, key.order_at, false, key.sequence.0), false));
        let fresh = self.fresh.peek().map(|row| {
            let at = if order == Order::Sent { row.sent_at } else { row.due_at };
            ((false, at, true, row.sequence.0), true)
        });
        [again, fresh].into_iter().flatten().min()
    }
}
