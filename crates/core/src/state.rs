//! The memory of one environment, and how it follows what is applied, committed and read.
//!
//! `apply/` decides; this file keeps the books: every change of a delivery goes through [`Core::write_row`] and
//! [`Core::erase_row`], which move it between orders and counters, so that no command can forget one of them.

mod browsing;
mod check;
mod claims;
mod cursor;
mod group;
mod hash;
mod lanes;
mod log;
mod queue;
mod reads;
mod rows;
mod seal;
mod survey;
mod timed;
mod totals;
mod triggers;
mod uploads;
mod waiters;
mod window;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::change::{ChunkRange, LeaseKey, LowWater, MessageCopy};
use crate::command::WaiterId;
use crate::external::ExternalId;
use crate::id::{CommitSequence, Incarnation, LogNumber, QueueNumber, Sequence};
use crate::limits::CoreSettings;
use crate::outcome::Effect;
use crate::planted;
use crate::row::{
    ChunkRow, CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, EnvironmentRow, Hold,
    MessageContent, QueueRow, RunRow, SecretRow, SegmentRow, TriggerRow,
};
use crate::stamp::Stamp;
use crate::time::Timestamp;

use crate::apply::Retirement;
pub(crate) use browsing::Browsing;
pub use check::Violation;
use claims::Claims;
pub(crate) use cursor::RunChange;
pub(crate) use group::Named;
use hash::NumberMap;
pub(crate) use lanes::{Lane, Pick, Picked};
pub(crate) use queue::{Part, QueueState};
use reads::Sweeps;
pub use reads::{ScanTicket, WantedScan};
pub(crate) use rows::Resident;
use rows::Rows;
pub use survey::QueueReading;
pub(crate) use totals::Totals;
pub(crate) use triggers::Triggers;
pub(crate) use uploads::InLine;
use uploads::Uploads;
pub(crate) use waiters::Waiter;

/// What the core starts from.
#[derive(Clone, Debug)]
pub struct OpenState {
    /// The last commit of the store.
    pub commit: CommitSequence,
    /// The environment's row, `Default` if there is none.
    pub environment: EnvironmentRow,
    /// All queues with their counters.
    pub queues: Vec<(QueueRow, CountersRow)>,
    /// All segments of all logs.
    pub segments: Vec<SegmentRow>,
    /// All runs of all cursors.
    pub runs: Vec<RunRow>,
    /// All triggers.
    pub triggers: Vec<TriggerRow>,
    /// What pushes are signed with, `Default` if there is nothing yet.
    pub secret: SecretRow,
    /// The beginnings of orders that the store has kept.
    pub low_water: Vec<LowWater>,
    /// The data is an older copy: leases found in it belong to nobody.
    pub restored: bool,
    /// The wall clock.
    pub now: Timestamp,
}

/// The state of one environment, and the rules that change it.
#[derive(Debug)]
pub struct Core {
    pub(crate) settings: CoreSettings,
    pub(crate) environment: EnvironmentRow,
    pub(crate) queues: NumberMap<QueueNumber, QueueState>,
    /// Queues by name.
    pub(crate) names: BTreeMap<Box<str>, QueueNumber>,
    /// Topics by id.
    pub(crate) topics: BTreeMap<Box<str>, QueueNumber>,
    /// When unused groups and partitions are looked for again, and behind which topic.
    pub(crate) retirement: Retirement,
    pub(crate) triggers: Triggers,
    pub(crate) secret: SecretRow,
    pub(crate) rows: Rows,
    /// What all queues hold together.
    pub(crate) totals: Totals,
    pub(crate) dedup: BTreeMap<DedupKey, ResidentDedup>,
    dedup_unsettled: VecDeque<(CommitSequence, DedupKey)>,
    /// When which queue has to be looked at.
    pub(crate) wakes: BTreeSet<(Timestamp, QueueNumber)>,
    /// When which waiting call has to be answered.
    pub(crate) deadlines: BTreeSet<(Timestamp, WaiterId)>,
    pub(crate) waiting_in: BTreeMap<WaiterId, QueueNumber>,
    /// Those of them that wait for what they push.
    pub(crate) pushes_waiting: usize,
    /// Calls that look at messages and wait for a page.
    pub(crate) browses: BTreeMap<WaiterId, Browsing>,
    pub(crate) sweeps: Sweeps,
    pub(crate) uploads: Uploads,
    pub(crate) claims: Claims,
    /// Leases do not end by time: what was written beside the owner before it came is not taken in yet.
    pub(crate) leases_wait: bool,
    pub(crate) space_low: bool,
    busy: bool,
    /// The last batch left due rows over.
    pub(crate) more_due: bool,
    /// Queues whose waiters the last batch could not serve to the end.
    pub(crate) restir: Vec<QueueNumber>,
    /// The last sealed commit; the batch that is being applied becomes the next.
    sealed: CommitSequence,
    pub(crate) batch: Batch,
}

#[derive(Debug)]
pub(crate) struct ResidentDedup {
    pub(crate) row: Option<DedupRow>,
    pub(crate) changed_in: CommitSequence,
    pub(crate) touched: bool,
}

impl ResidentDedup {
    /// It is as the store has it.
    pub(crate) fn is_clean(&self) -> bool {
        !self.touched && self.changed_in == CommitSequence::default()
    }
}

/// What the commands since the last seal changed.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) rows: Vec<Sequence>,
    /// New messages, with the number of their chunks.
    pub(crate) messages: Vec<(Sequence, Arc<MessageContent>, u32)>,
    pub(crate) queues: Vec<QueueNumber>,
    pub(crate) queues_removed: Vec<QueueNumber>,
    pub(crate) dedup: Vec<DedupKey>,
    pub(crate) uploads: Vec<Sequence>,
    pub(crate) chunks: Vec<ChunkRow>,
    pub(crate) chunks_removed: Vec<ChunkRange>,
    pub(crate) effects: Vec<Effect>,
    /// Queues whose waiters may be served.
    pub(crate) stirred: Vec<QueueNumber>,
    /// Pages that memory asks for.
    pub(crate) scans: Vec<WantedScan>,
    /// Logs that are empty from now on.
    pub(crate) logs_cleared: Vec<QueueNumber>,
    pub(crate) runs_put: BTreeMap<(QueueNumber, LogNumber), LogNumber>,
    pub(crate) runs_removed: BTreeSet<(QueueNumber, LogNumber)>,
    pub(crate) copies: Vec<MessageCopy>,
    /// Triggers made or removed.
    pub(crate) triggers: BTreeSet<Box<str>>,
    pub(crate) secret_touched: bool,
    /// Commands of others that were taken in.
    pub(crate) external_taken: Vec<ExternalId>,
    /// Leases that ended, where they could be settled from beside.
    pub(crate) claims_removed: Vec<LeaseKey>,
    /// Leases that ran out and can end once these are known.
    pub(crate) claims_wanted: Vec<LeaseKey>,
    /// The environment's row changed by itself.
    pub(crate) environment_touched: bool,
    /// Due rows worked off so far.
    pub(crate) due_done: usize,
}

impl Core {
    /// Takes over an environment. Nothing is written yet: the first commit carries the new incarnation, before any
    /// lease of it is answered.
    #[must_use]
    pub fn open(settings: CoreSettings, open: OpenState) -> Self {
        let mut environment = open.environment;
        environment.incarnation = environment.incarnation.next().max(Incarnation::by_clock(open.now));
        // Sequences start at 1: a watermark of 0 means that nothing was purged.
        environment.next_sequence = environment.next_sequence.max(Sequence(1));
        // What a store marked when it found a restored copy ends at the first opening that commits.
        let floor = environment.incarnation.generation_floor();
        let restored =
            (open.restored || environment.leases_void_below > floor) && !planted!(RestoreForgotten);
        if restored {
            environment.leases_void_below = floor;
        }
        let mut core = Self {
            settings,
            environment,
            queues: NumberMap::default(),
            names: BTreeMap::new(),
            topics: BTreeMap::new(),
            retirement: Retirement::soon(open.now),
            triggers: Triggers::stored(open.triggers),
            secret: open.secret,
            rows: Rows::settled_at(open.commit),
            totals: Totals::default(),
            dedup: BTreeMap::new(),
            dedup_unsettled: VecDeque::new(),
            wakes: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            waiting_in: BTreeMap::new(),
            pushes_waiting: 0,
            browses: BTreeMap::new(),
            sweeps: Sweeps::new(),
            uploads: Uploads::new(),
            claims: Claims::default(),
            leases_wait: false,
            space_low: false,
            busy: false,
            more_due: false,
            restir: Vec::new(),
            sealed: open.commit,
            batch: Batch { environment_touched: restored, ..Batch::default() },
        };
        if !core.triggers.is_empty() {
            core.batch.effects.push(Effect::TriggersChanged);
        }
        core.admit_queues(open.queues, open.low_water);
        for segment in &open.segments {
            if let Some(log) = core.queues.get_mut(&segment.log).and_then(QueueState::log_mut) {
                log.admit_segment(segment);
            }
        }
        for run in &open.runs {
            if let Some(cursor) = core.queues.get_mut(&run.cursor).and_then(QueueState::cursor_mut) {
                cursor.admit_run(run.first, run.last);
            }
        }
        core
    }

    /// Gives no generation that the opening `before` could have given. Called before the first command.
    pub fn begin_after(&mut self, before: Incarnation) {
        self.environment.incarnation = self.environment.incarnation.max(before.next());
    }

    fn admit_queues(&mut self, mut queues: Vec<(QueueRow, CountersRow)>, low_water: Vec<LowWater>) {
        let mut marks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for mark in low_water {
            marks.entry(mark.order.queue()).or_default().push(mark);
        }
        for mark in marks.remove(&None).unwrap_or_default() {
            self.sweeps.begin_at(mark.order, mark.after);
        }
        // What belongs to another was made after it.
        queues.sort_unstable_by_key(|(row, _)| row.number);
        for (row, counters) in queues {
            let mut queue = QueueState::stored(row, counters);
            for mark in marks.remove(&Some(queue.number())).unwrap_or_default() {
                queue.begin_at(mark.order, mark.after);
            }
            self.admit_queue(queue);
        }
    }

    fn admit_queue(&mut self, mut queue: QueueState) {
        let number = queue.number();
        queue.row.deleted |= self.is_orphan(&queue.row);
        queue.row.sweep_owed |= queue.row.deleted;
        if !queue.row.deleted {
            self.totals.add(queue.totals());
        }
        if queue.row.deleted || queue.row.sweep_owed {
            self.sweeps.begin_gone(number);
        }
        let void = self.environment.leases_void_below.0 > 0 && queue.counters.leased > 0;
        if void && !queue.row.deleted {
            self.sweeps.begin_void(number);
        }
        self.insert_queue(queue);
        self.follow(number);
        self.refresh_wake(number);
    }

    /// The environment's row as the next commit will write it.
    #[must_use]
    pub fn environment(&self) -> &EnvironmentRow {
        &self.environment
    }

    /// The commit that the batch being applied will be.
    #[must_use]
    pub fn next_commit(&self) -> CommitSequence {
        self.sealed.next()
    }

    /// The queue of a name.
    pub(crate) fn queue_named(&self, name: &str) -> Option<&QueueState> {
        self.queues.get(&self.number_of(name)?)
    }

    pub(crate) fn queue_mut(&mut self, number: QueueNumber) -> Option<&mut QueueState> {
        self.queues.get_mut(&number)
    }

    /// Draws a sequence.
    pub(crate) fn draw_sequence(&mut self) -> Sequence {
        let drawn = self.environment.next_sequence;
        self.environment.next_sequence = drawn.next();
        drawn
    }

    /// The row of a queue will be written.
    pub(crate) fn touch_queue(&mut self, number: QueueNumber) {
        if let Some(queue) = self.queues.get_mut(&number) {
            if !queue.row_touched && !queue.counters_touched {
                self.batch.queues.push(number);
            }
            queue.row_touched = true;
            queue.counters_touched = true;
        }
    }

    fn touch_counters(queue: &mut QueueState, batch: &mut Batch) {
        if !queue.row_touched && !queue.counters_touched {
            batch.queues.push(queue.row.number);
        }
        queue.counters_touched = true;
    }

    /// Writes a delivery: takes it out of the order it was in and puts it into that of its new state and queue.
    pub(crate) fn write_row(&mut self, mut row: DeliveryRow) {
        self.number_in_log(&mut row);
        if row.state != DeliveryState::Leased {
            row.hold = Hold::Granted;
        }
        let next = self.next_commit();
        let sequence = row.sequence;
        let resident = self.rows.map.entry(sequence).or_insert_with(|| Resident {
            row: None,
            changed_in: next,
            stored: false,
            touched: false,
            cached: false,
            progress: None,
        });
        if !resident.touched {
            resident.touched = true;
            self.batch.rows.push(sequence);
        }
        resident.changed_in = next;
        if row.expires_at < Timestamp::NEVER {
            self.sweeps.note_expiry(row.expires_at, next);
        }
        let number = row.queue;
        resident.progress = row.progress_key();
        if let Some(key) = resident.progress {
            self.rows.by_message.insert(key, sequence);
        }
        let old = resident.row.replace(row);
        self.note_lease_end(old.as_ref(), sequence);
        if let Some(old) = &old
            && let Some(queue) = self.queues.get_mut(&old.queue)
        {
            queue.unlink(old);
            self.totals.remove(Totals::of_row(old));
            Self::touch_counters(queue, &mut self.batch);
            if old.state == DeliveryState::Leased {
                // A lease that ended leaves room under a limit.
                self.batch.stirred.push(old.queue);
            }
        }
        let (Some(row), Some(queue)) = (self.rows.live(sequence), self.queues.get_mut(&number)) else {
            return;
        };
        let due = queue.link(row);
        self.totals.add(Totals::of_row(row));
        Self::touch_counters(queue, &mut self.batch);
        if row.state == DeliveryState::Ready && self.batch.stirred.last() != Some(&number) {
            self.batch.stirred.push(number);
        }
        if let Some(due) = due {
            self.note_wake(number, due);
        }
    }

    /// A message that becomes visible gets its place at the end of its log, and keeps it.
    fn number_in_log(&mut self, row: &mut DeliveryRow) {
        let Some(queue) = self.queues.get_mut(&row.queue).filter(|queue| queue.row.role.is_log()) else {
            return;
        };
        let old = self.rows.live(row.sequence).map(|old| (old.state, old.order_at));
        match old {
            Some((DeliveryState::Ready, place)) => row.order_at = place,
            Some((_, place)) if planted!(PositionPastDelayed) => row.order_at = place,
            _ if row.state == DeliveryState::Ready || planted!(PositionPastDelayed) => {
                queue.counters.position = queue.counters.position.next();
                let number = i64::try_from(queue.counters.position.0).unwrap_or(i64::MAX);
                row.order_at = Timestamp::from_millis(number);
            }
            _ => {}
        }
    }

    /// Removes a delivery and its message; chunks are owed to be removed. `counted`: it is in its queue's counters.
    pub(crate) fn erase_row(&mut self, sequence: Sequence, counted: bool) {
        let next = self.next_commit();
        let Some(resident) = self.rows.map.get_mut(&sequence) else { return };
        if !resident.touched {
            resident.touched = true;
            self.batch.rows.push(sequence);
        }
        resident.changed_in = next;
        let Some(old) = resident.row.take() else { return };
        self.sweeps.note_message_left(self.wide_mark_pace());
        self.note_lease_end(Some(&old), sequence);
        let Some(resident) = self.rows.map.get(&sequence) else { return };
        // Data that came and went within the batch, other than by an upload, is never written.
        let chunks_stored = resident.stored || self.uploads.knows(sequence);
        if old.chunks > 0 && chunks_stored && !old.is_progress() && !planted!(ChunksForgotten) {
            self.owe_chunks(sequence, old.chunks);
        }
        if counted && let Some(queue) = self.queues.get_mut(&old.queue) {
            queue.unlink(&old);
            self.totals.remove(Totals::of_row(&old));
            Self::touch_counters(queue, &mut self.batch);
            if old.state == DeliveryState::Leased {
                self.batch.stirred.push(old.queue);
            }
        }
    }

    /// A delivery was written or removed that was `old` before. If its lease ended, so did the claims on it.
    fn note_lease_end(&mut self, old: Option<&DeliveryRow>, sequence: Sequence) {
        let Some(old) = old.filter(|old| old.state == DeliveryState::Leased) else { return };
        let key = LeaseKey::of(old);
        let goes_on = |row: &DeliveryRow| row.state == DeliveryState::Leased && LeaseKey::of(row) == key;
        if self.is_settled_by_sql(old.queue) && !self.rows.live(sequence).is_some_and(goes_on) {
            self.end_claim(key);
        }
    }

    /// Whether leases end by time. They do not before everything is taken in that was written beside the owner before it came.
    pub fn set_leases_wait(&mut self, wait: bool) {
        if self.leases_wait == wait {
            return;
        }
        self.leases_wait = wait;
        let numbers: Vec<_> = self.queues.keys().copied().collect();
        for number in numbers {
            self.refresh_wake(number);
        }
    }

    /// Something of a queue is due at `due`.
    pub(crate) fn note_wake(&mut self, number: QueueNumber, due: Timestamp) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        if let Some(known) = queue.next_wake {
            if known <= due {
                return;
            }
            self.wakes.remove(&(known, number));
        }
        queue.next_wake = Some(due);
        self.wakes.insert((due, number));
    }

    /// Sets the time at which a queue has to be looked at from what its windows hold; asks for pages where they
    /// hold nothing although the store does.
    pub(crate) fn refresh_wake(&mut self, number: QueueNumber) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        if let Some(known) = queue.next_wake.take() {
            self.wakes.remove(&(known, number));
        }
        if queue.row.deleted {
            return;
        }
        if let Some(due) = queue.first_due(!self.leases_wait) {
            queue.next_wake = Some(due);
            self.wakes.insert((due, number));
        }
        self.refill_due(number);
    }

    /// When [`crate::Command::Tick`] has something to do. A time in the past means at once.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        let wake = self.wakes.first().map(|(due, _)| *due);
        let deadline = self.deadlines.first().map(|(due, _)| *due);
        let sweep = self.sweeps.next_due(self.rows.settled, !self.leases_wait);
        let left = self.more_due.then_some(Timestamp::ZERO);
        let retirement = (!self.topics.is_empty()).then_some(self.retirement.due_at);
        [wake, deadline, sweep, left, retirement, self.uploads.next_due()].into_iter().flatten().min()
    }

    /// When a closed environment has to be opened again by itself: as [`Self::next_due`], without what only
    /// matters while it is open.
    #[must_use]
    pub fn next_due_when_closed(&self) -> Option<Timestamp> {
        let wake = self.wakes.first().map(|(due, _)| *due);
        // Pushes go on by themselves: whoever makes them waits in an environment that is open.
        let pushes = self.has_fed_topics().then_some(Timestamp::ZERO);
        [wake, pushes, self.sweeps.next_due(self.rows.settled, !self.leases_wait), self.uploads.next_due()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Commands wait, or do not: how much of what is due the next batches may work off.
    pub fn set_busy(&mut self, busy: bool) {
        self.busy = busy;
    }

    /// Due rows that one batch may work off.
    pub(crate) fn due_allowance(&self) -> usize {
        if self.busy { self.settings.due_per_busy_batch } else { self.settings.due_per_batch }.max(1)
    }

    /// Whether one more due row may be worked off in this batch.
    pub(crate) fn take_due(&mut self) -> bool {
        if self.batch.due_done >= self.due_allowance() {
            self.more_due = true;
            return false;
        }
        self.batch.due_done += 1;
        true
    }

    /// The counters of a queue will be written.
    pub(crate) fn touch_counters_of(&mut self, number: QueueNumber) {
        if let Some(queue) = self.queues.get_mut(&number) {
            Self::touch_counters(queue, &mut self.batch);
        }
    }

    /// Takes a queue's state in, under its name.
    pub(crate) fn insert_queue(&mut self, queue: QueueState) {
        let number = queue.number();
        if !queue.row.deleted {
            self.enter_name(&queue.row.clone());
        }
        self.queues.insert(number, queue);
    }

    /// The highest generation given so far plus one, at least this incarnation's floor.
    pub(crate) fn next_generation(&self, row: &DeliveryRow) -> crate::id::LeaseGeneration {
        row.lease_generation.next().max(self.environment.incarnation.generation_floor())
    }

    pub(crate) fn set_stamp(&mut self, stamp: &Stamp) {
        assert!(stamp.now >= self.environment.stamp, "the stamp ran backwards");
        self.environment.stamp = stamp.now;
    }
}
