//! Compares memory with a full scan of what is stored. For the simulator and tests; never in a request path.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::{LogNumber, QueueNumber, Sequence};
use crate::row::{CountersRow, DeliveryRow, DeliveryState, ReadyKey, Role, UploadRow};
use crate::state::{Core, QueueState, Totals};

/// Something that must never be.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation(pub String);

macro_rules! demand {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(Violation(format!($($message)*)));
        }
    };
}

/// Counts a delivery in what its queue's counters have to be.
fn count(counters: &mut CountersRow, row: &DeliveryRow) {
    let (number, bytes) = match row.state {
        DeliveryState::Cancelled => (&mut counters.cancelled, &mut counters.finished_bytes),
        DeliveryState::Completed => (&mut counters.completed, &mut counters.finished_bytes),
        DeliveryState::Dead => (&mut counters.dead, &mut counters.dead_bytes),
        DeliveryState::Delayed => (&mut counters.delayed, &mut counters.waiting_bytes),
        DeliveryState::Leased => (&mut counters.leased, &mut counters.leased_bytes),
        DeliveryState::Ready => (&mut counters.ready, &mut counters.waiting_bytes),
    };
    *number += 1;
    *bytes += row.size_bytes;
}

impl Core {
    /// Checks that memory knows every stored row of an upload that it has to know.
    ///
    /// # Errors
    /// A [`Violation`]: chunks that nobody would ever remove.
    pub fn check_uploads(&self, stored: &[UploadRow]) -> Result<(), Violation> {
        let unknown = self.unknown_upload(stored);
        demand!(unknown.is_none(), "the chunks of {unknown:?} are nobody's, and nobody will remove them");
        Ok(())
    }

    /// Checks the invariants against all deliveries of the environment, as they are after every applied command:
    /// those stored, with everything laid over them that is not committed yet.
    ///
    /// # Errors
    /// The first [`Violation`] found.
    pub fn check(&self, stored: &BTreeMap<Sequence, DeliveryRow>) -> Result<(), Violation> {
        let rows = self.overlaid(stored);
        let mut counters: BTreeMap<QueueNumber, CountersRow> = BTreeMap::new();
        for row in rows.values() {
            if row.queue == QueueNumber::NONE {
                demand!(row.state == DeliveryState::Cancelled, "{} is in no queue", row.sequence);
                continue;
            }
            let Some(queue) = self.queues.get(&row.queue) else {
                return Err(Violation(format!("{} is in queue {}, which is not", row.sequence, row.queue)));
            };
            if queue.is_gone(row) {
                demand!(queue.row.sweep_owed, "{} is gone and nobody will remove it", row.sequence);
                continue;
            }
            count(counters.entry(row.queue).or_default(), row);
            let covered = match row.state {
                DeliveryState::Ready if queue.row.role.is_log() => {
                    queue.log().is_some_and(|log| log.covers(row.log_number()))
                }
                DeliveryState::Ready => queue.ready.owes(&row.ready_key()),
                DeliveryState::Delayed => queue.delayed.owes(&row.due_key()),
                DeliveryState::Leased => queue.leased.owes(&row.due_key()),
                _ => false,
            };
            demand!(
                covered == queue.holds(row),
                "{} in state {:?} of {} is {} the window's edge but {}inside",
                row.sequence,
                row.state,
                queue.row.name,
                if covered { "before" } else { "behind" },
                if covered { "not " } else { "" },
            );
            demand!(
                !queue.holds(row) || self.rows.live(row.sequence) == Some(row),
                "{} is in a window without its row",
                row.sequence
            );
        }
        let mut totals = Totals::default();
        for (number, queue) in &self.queues {
            if !queue.row.deleted {
                let counted = counters.remove(number).unwrap_or_default();
                check_counts(&queue.row.name, &queue.counters, &counted)?;
                if !queue.row.role.is_cursor() {
                    totals.add(Totals::of(&counted));
                }
                demand!(
                    queue.ready.iter().all(|key| rows.contains_key(&key.sequence)),
                    "the ready window of {} holds a row that is not",
                    queue.row.name
                );
            }
        }
        self.check_logs(&rows)?;
        self.check_groups(&rows)?;
        self.check_waiting()?;
        demand!(totals == self.totals, "the environment counts {:?}, a scan finds {totals:?}", self.totals);
        Ok(())
    }

    /// The bits of a log's segments are those of its ready messages, each of which has a number of its own.
    fn check_logs(&self, rows: &BTreeMap<Sequence, DeliveryRow>) -> Result<(), Violation> {
        let mut ready: BTreeMap<QueueNumber, BTreeSet<LogNumber>> = BTreeMap::new();
        for row in rows.values().filter(|row| row.state == DeliveryState::Ready) {
            let Some(queue) = self.queues.get(&row.queue).filter(|queue| queue.row.role.is_log()) else {
                continue;
            };
            if queue.is_gone(row) {
                continue;
            }
            let number = row.log_number();
            demand!(
                ready.entry(row.queue).or_default().insert(number),
                "two messages have the number {number}"
            );
            demand!(number <= queue.counters.position, "{number} lies behind the end of {}", queue.row.name);
        }
        for queue in self.queues.values().filter(|queue| !queue.row.deleted) {
            let Some(log) = queue.log() else { continue };
            let numbers = ready.remove(&queue.number()).unwrap_or_default();
            let unseen = numbers.iter().find(|number| !log.is_live(**number));
            demand!(unseen.is_none(), "{unseen:?} of {} is there, but not in its segment", queue.row.name);
            let live = log.live_within(LogNumber(1), queue.counters.position);
            let scanned = numbers.len();
            demand!(
                usize::try_from(live) == Ok(scanned),
                "the segments of {} count {live}, a scan finds {scanned}",
                queue.row.name
            );
        }
        Ok(())
    }

    /// What a group has before it is what it never had: no delivery, not in a run, behind its position.
    fn check_groups(&self, rows: &BTreeMap<Sequence, DeliveryRow>) -> Result<(), Violation> {
        for group in self.queues.values().filter(|queue| !queue.row.deleted) {
            let Role::Group { topic } = group.row.role else { continue };
            let mut ready = 0u64;
            for row in rows.values().filter(|row| row.state == DeliveryState::Ready) {
                let Some(queue) = self.queues.get(&row.queue).filter(|queue| !queue.is_gone(row)) else {
                    continue;
                };
                match queue.row.role {
                    Role::Cursor { group: own, .. } if own == group.number() => ready += 1,
                    Role::Topic if row.queue == topic => ready += u64::from(self.is_fresh(group, row)),
                    Role::Partition { topic: own } if own == topic => {
                        ready += u64::from(self.is_fresh(group, row))
                    }
                    _ => {}
                }
            }
            let counted = self.counters_of(group).ready;
            demand!(counted == ready, "{} counts {counted} ready, a scan finds {ready}", group.row.name);
        }
        Ok(())
    }

    /// No call waits for what is there. What a batch could not finish, the next tick goes on with.
    fn check_waiting(&self) -> Result<(), Violation> {
        let now = self.environment.stamp;
        for queue in self.queues.values() {
            let number = queue.number();
            if self.more_due || self.restir.contains(&number) || queue.row.paused_at.is_some() {
                continue;
            }
            for (id, waiter) in queue.waiters.iter() {
                let most = usize::try_from(waiter.max_messages).unwrap_or(usize::MAX);
                let found = if queue.group().is_some() {
                    let room = self.group_room(number, waiter.reading.in_flight_max);
                    let room = if waiter.reading.look { u64::MAX } else { room };
                    let lanes = self.lanes_read(number, &waiter.reading);
                    let most = most.min(usize::try_from(room).unwrap_or(usize::MAX));
                    self.picks(&lanes, queue.row.spec.order, most, now).picks.len()
                } else {
                    let most = most.min(usize::try_from(queue.room()).unwrap_or(usize::MAX));
                    let ready = queue.ready.iter().take(most);
                    let lives = |key: &&ReadyKey| {
                        self.rows.live(key.sequence).is_some_and(|row| row.expires_at > now)
                    };
                    ready.take_while(lives).count()
                };
                let enough = if waiter.reading.look { 1 } else { waiter.min_messages };
                let wanted = usize::try_from(enough).unwrap_or(usize::MAX).max(1);
                demand!(
                    found < wanted,
                    "call {} waits for {wanted} of {} and {found} are there",
                    id.0,
                    queue.row.name
                );
            }
        }
        Ok(())
    }

    /// Whether a group never had a message of a log.
    fn is_fresh(&self, group: &QueueState, row: &DeliveryRow) -> bool {
        let cursor = group.group().and_then(|group| group.cursors.get(&row.queue));
        let Some(state) = cursor.and_then(|cursor| self.queues.get(cursor)) else { return true };
        let number = row.log_number();
        number > state.counters.position && !state.cursor().is_some_and(|cursor| cursor.in_run(number))
    }

    fn overlaid(&self, stored: &BTreeMap<Sequence, DeliveryRow>) -> BTreeMap<Sequence, DeliveryRow> {
        let mut rows = stored.clone();
        for (&sequence, resident) in &self.rows.map {
            match &resident.row {
                Some(row) => rows.insert(sequence, row.clone()),
                None => rows.remove(&sequence),
            };
        }
        rows
    }

    /// Delivery rows in memory.
    #[must_use]
    pub fn resident_rows(&self) -> usize {
        self.rows.map.len()
    }

    /// Remembered calls in memory, and those known not to be.
    #[must_use]
    pub fn resident_calls(&self) -> usize {
        self.dedup.len()
    }

    /// Walks that are owed to remove what is gone.
    #[must_use]
    pub fn owed_walks(&self) -> usize {
        self.sweeps.owed_walks()
    }
}

fn check_counts(name: &str, known: &CountersRow, counted: &CountersRow) -> Result<(), Violation> {
    let pairs = [
        ("ready", known.ready, counted.ready),
        ("delayed", known.delayed, counted.delayed),
        ("leased", known.leased, counted.leased),
        ("dead", known.dead, counted.dead),
        ("completed", known.completed, counted.completed),
        ("cancelled", known.cancelled, counted.cancelled),
        ("bytes that wait", known.waiting_bytes, counted.waiting_bytes),
        ("bytes leased", known.leased_bytes, counted.leased_bytes),
        ("bytes dead", known.dead_bytes, counted.dead_bytes),
        ("bytes finished", known.finished_bytes, counted.finished_bytes),
    ];
    for (what, known, counted) in pairs {
        demand!(known == counted, "queue {name} counts {known} {what}, a scan finds {counted}");
    }
    Ok(())
}
