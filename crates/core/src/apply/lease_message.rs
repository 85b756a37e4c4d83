//! Takes one message of a topic to work on, by its id. Checks in order: group, timeout, the call's limit, message, whether it is
//! visible, the group's progress with it, whether the group is paused, the group's limits, runs.

use crate::apply::Stop;
use crate::apply::claim::LOOK_AGAIN_AFTER;
use crate::apply::create_queue::check_duration;
use crate::apply::lease::check_reading;
use crate::change::{Claim, ProgressKey, RowKey};
use crate::command::{LeaseMessage, Reading};
use crate::id::{LeaseGeneration, LogNumber, QueueNumber};
use crate::limits;
use crate::outcome::{Grant, Outcome, Rejection};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState, Hold, Role};
use crate::stamp::Stamp;
use crate::state::{Core, Lane, Pick, Picked, QueueState, RunChange};
use crate::time::Timestamp;

impl Core {
    pub(super) fn lease_message(&mut self, lease: &LeaseMessage, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(&lease.queue)?;
        let Some(Role::Group { .. }) = self.queues.get(&number).map(|queue| queue.row.role) else {
            return Err(unsuited(&lease.queue).into());
        };
        if let Some(timeout) = lease.visibility_timeout {
            check_duration("visibility_timeout", timeout, limits::LEASE_MIN, limits::LEASE_MAX)?;
        }
        check_reading(&lease.reading)?;
        let message = lease.message;
        let not_found = || Stop::Rejected(Rejection::MessageNotFound { message });
        self.demand_messages(std::slice::from_ref(&message))?;
        let lanes = self.lanes_read(number, &self.reading_by_id(&lease.reading));
        let row = self.rows.live(message.sequence).filter(|row| row.message_id() == message);
        let lane = row.and_then(|row| lanes.iter().find(|lane| lane.log == row.queue).copied());
        let (Some(row), Some(lane)) = (row.cloned(), lane) else { return Err(not_found()) };
        if !self.queues.get(&lane.log).is_some_and(|log| log.shows(&row, stamp.now)) {
            return Err(not_found());
        }
        if row.state == DeliveryState::Delayed && row.due_at > stamp.now {
            return Err(Rejection::MessageDelayed { message, until: row.due_at }.into());
        }
        self.seen(number, stamp);
        if !self.run_due_for(number, stamp) {
            self.serve_again(number);
        }
        let row = self.visible_by_now(row);
        let pick = match self.progress_with(lane, &row)? {
            None => {
                self.polled(number, stamp.now);
                Pick { lane, what: Picked::Fresh(Box::new(row)) }
            }
            Some(None) => return Err(Rejection::AlreadySettled { message }.into()),
            Some(Some(own)) if self.is_reserved(&own, stamp.now) => {
                return Ok(Outcome::Leased(vec![self.hand_over(own, lease, stamp)]));
            }
            Some(Some(own)) => {
                self.polled(number, stamp.now);
                Pick { lane, what: self.take_again(own, stamp)? }
            }
        };
        if lease.reading.look {
            return Ok(Outcome::Leased(self.show(&pick, stamp.now).into_iter().collect()));
        }
        self.check_in_flight(number, lease)?;
        let until = stamp.now.plus(self.lease_timeout(number, lease.visibility_timeout));
        let pick = match pick.what {
            Picked::Fresh(row) => Pick { what: self.take_ahead(number, lane, *row, stamp)?, ..pick },
            Picked::Again(_) => pick,
        };
        Ok(Outcome::Leased(self.hand_out(number, pick, until, stamp).into_iter().collect()))
    }

    /// A handler of a deployment may have been told of a message of no partition.
    fn reading_by_id(&self, reading: &Reading) -> Reading {
        let deployed = reading.partition.as_deref().is_some_and(|id| self.triggers.has_deployment(id));
        Reading { unpinned: reading.unpinned || deployed, pushes: false, ..reading.clone() }
    }

    /// A message whose delay is over is promoted before anybody has it.
    fn visible_by_now(&mut self, row: DeliveryRow) -> DeliveryRow {
        if row.state == DeliveryState::Delayed {
            self.promote(row.sequence);
        }
        self.rows.live(row.sequence).cloned().unwrap_or(row)
    }

    /// A group's delivery of a message; `None`: it never had the message; `Some(None)`: it settled it, or it was purged.
    fn progress_with(&self, lane: Lane, row: &DeliveryRow) -> Result<Option<Option<DeliveryRow>>, Stop> {
        let number = row.log_number();
        let Some((key, state)) = lane.cursor.and_then(|key| Some((key, self.queues.get(&key)?))) else {
            return Ok(None);
        };
        let Role::Cursor { start, .. } = state.row.role else { return Ok(None) };
        // What was there when the group was purged counts as if it had been handed out.
        let purged = LogNumber(state.row.purged_through.0);
        let passed = number <= state.counters.position && (number > start || number <= purged);
        if !passed && !state.cursor().is_some_and(|cursor| cursor.in_run(number)) {
            return Ok(None);
        }
        let key = ProgressKey { cursor: key, message: row.sequence };
        match self.rows.progress(&key) {
            Some(known) => Ok(Some(known.filter(|own| !state.is_gone(own)).cloned())),
            None => Err(Stop::Needs(vec![RowKey::Progress(key)])),
        }
    }

    /// A delivery that the group has: it can be taken if it is ready.
    fn take_again(&mut self, own: DeliveryRow, stamp: &Stamp) -> Result<Picked, Stop> {
        let (message, sequence) = (own.message_id(), own.sequence);
        if own.state == DeliveryState::Leased {
            if own.due_at > stamp.now {
                return Err(Rejection::MessageLeased { message, until: own.due_at }.into());
            }
            if let Some(key) = self.claim_needed(&own) {
                match self.claims.get(key) {
                    None => return Err(Stop::Needs(vec![RowKey::Claim(key)])),
                    Some(Claim::Free) => {}
                    Some(Claim::Held | Claim::Settled) => {
                        let until = stamp.now.plus(LOOK_AGAIN_AFTER);
                        return Err(Rejection::MessageLeased { message, until }.into());
                    }
                }
            }
            self.end_due_lease(sequence, stamp);
        }
        // Its lease may have been the last that it had, or it waits after it.
        match self.rows.live(sequence).map(|row| (row.state, row.due_at)) {
            Some((DeliveryState::Delayed, until)) if until > stamp.now => {
                Err(Rejection::MessageDelayed { message, until }.into())
            }
            Some((DeliveryState::Delayed, _)) => {
                self.promote(sequence);
                Ok(Picked::Again(sequence))
            }
            Some((DeliveryState::Ready, _)) => Ok(Picked::Again(sequence)),
            _ => Err(Rejection::AlreadySettled { message }.into()),
        }
    }

    /// A lease that nobody was told of goes to whoever asks for the message: the same hold, counted once.
    fn hand_over(&mut self, mut row: DeliveryRow, lease: &LeaseMessage, stamp: &Stamp) -> Grant {
        // A look holds nothing: it is of now.
        let leased_at = if lease.reading.look { stamp.now } else { row.leased_at };
        if !lease.reading.look {
            row.hold = Hold::Granted;
            row.delivery_count += u32::from(planted!(ReservedCountedTwice));
            if planted!(ReservedLeasedAnew) {
                row.lease_generation = self.next_generation(&row);
            }
            row.due_at = stamp.now.plus(self.lease_timeout(row.queue, lease.visibility_timeout));
            self.write_row(row.clone());
        }
        Grant {
            delivery: row.sequence,
            message: row.message_id(),
            generation: if lease.reading.look { LeaseGeneration::default() } else { row.lease_generation },
            delivery_count: row.delivery_count,
            leased_at,
            lease_until: if lease.reading.look { stamp.now } else { row.due_at },
            sent_at: row.sent_at,
            expires_at: row.expires_at,
            dead_letter: None,
        }
    }

    /// Whether a delivery is held by a lease that nobody was told of.
    fn is_reserved(&self, row: &DeliveryRow, now: Timestamp) -> bool {
        row.state == DeliveryState::Leased
            && row.hold == Hold::Reserved
            && row.lease_generation >= self.environment.leases_void_below
            && row.due_at > now
    }

    fn check_in_flight(&self, number: QueueNumber, lease: &LeaseMessage) -> Result<(), Rejection> {
        if self.queues.get(&number).is_some_and(|group| group.row.paused_at.is_some()) {
            return Err(Rejection::Paused { name: lease.queue.clone() });
        }
        let own = self.queues.get(&number).map_or(u64::MAX, |group| self.group_limit(group));
        let limit = lease.reading.in_flight_max.map_or(own, |most| own.min(u64::from(most)));
        let in_flight = self.group_leased(number);
        if in_flight >= limit {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            return Err(Rejection::ConcurrencyReached { in_flight, limit });
        }
        Ok(())
    }

    /// The group takes a message that it never had: its position moves, if it is the next; otherwise a run remembers it. The answer
    /// is the group's own delivery, written and ready.
    fn take_ahead(
        &mut self,
        group: QueueNumber,
        lane: Lane,
        row: DeliveryRow,
        stamp: &Stamp,
    ) -> Result<Picked, Stop> {
        let number = row.log_number();
        let cursor = lane.cursor.and_then(|cursor| self.queues.get(&cursor));
        let position = cursor.map(|cursor| cursor.counters.position).unwrap_or_default();
        let is_next = number > position && !self.anything_fresh(lane, position, number);
        if !is_next && self.runs_over(lane) >= self.settings.runs {
            self.forget_dead_runs(lane);
            if self.runs_over(lane) >= self.settings.runs {
                return Err(Rejection::RunLimit { limit: self.settings.runs }.into());
            }
        }
        let key = self.cursor_of(group, lane, stamp);
        if is_next {
            self.move_position(key, number);
        } else {
            self.join_run(key, number);
        }
        let mut own = self.first_delivery(key, &row);
        own.state = DeliveryState::Ready;
        own.due_at = own.order_at;
        let sequence = own.sequence;
        self.write_row(own);
        Ok(Picked::Again(sequence))
    }

    fn runs_over(&self, lane: Lane) -> usize {
        let cursor = lane.cursor.and_then(|cursor| self.queues.get(&cursor));
        cursor.and_then(QueueState::cursor).map_or(0, |cursor| cursor.runs_len())
    }

    /// Whether a message that the group never had lies between its position and a number.
    fn anything_fresh(&self, lane: Lane, position: LogNumber, number: LogNumber) -> bool {
        let Some((log, _)) = self.log_of(lane.log) else { return false };
        let last = LogNumber(number.0.saturating_sub(1));
        let cursor = lane.cursor.and_then(|cursor| self.queues.get(&cursor)).and_then(QueueState::cursor);
        let runs = cursor.into_iter().flat_map(|cursor| cursor.runs());
        let taken = runs.filter(|(first, _)| *first > position && *first <= last);
        let taken: u64 = taken.map(|(first, until)| log.live_within(first, until.min(last))).sum();
        log.live_within(position.next(), last) > taken
    }

    /// Runs of which nothing is left in the log need not be remembered.
    fn forget_dead_runs(&mut self, lane: Lane) {
        let Some((log, _)) = self.log_of(lane.log) else { return };
        let Some(key) = lane.cursor else { return };
        let cursor = self.queues.get(&key).and_then(QueueState::cursor);
        let runs = cursor.into_iter().flat_map(|cursor| cursor.runs());
        let dead = runs.filter(|(first, last)| !log.any_within(*first, *last)).map(|(first, _)| first);
        let change = RunChange { removed: dead.collect(), put: None };
        let Some(cursor) = self.queues.get_mut(&key).and_then(QueueState::cursor_mut) else { return };
        cursor.change_runs(&change);
        for first in change.removed {
            self.batch.runs_put.remove(&(key, first));
            self.batch.runs_removed.insert((key, first));
        }
    }

    fn join_run(&mut self, key: QueueNumber, number: LogNumber) {
        let Some(cursor) = self.queues.get_mut(&key).and_then(QueueState::cursor_mut) else { return };
        let change = cursor.run_with(number);
        cursor.change_runs(&change);
        for first in change.removed {
            self.batch.runs_put.remove(&(key, first));
            self.batch.runs_removed.insert((key, first));
        }
        if let Some((first, last)) = change.put {
            self.batch.runs_put.insert((key, first), last);
        }
    }

    /// Somebody asked for messages who is no trigger.
    pub(super) fn polled(&mut self, number: QueueNumber, now: Timestamp) {
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.polled_at = Some(now);
        }
    }

    /// A consumer of a queue or group was here.
    pub(super) fn seen(&mut self, number: QueueNumber, stamp: &Stamp) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.consumer_seen_at = Some(stamp.now);
        // A group that is only looked at for messages must not seem unused: that it is read is stored once a day.
        let is_group = queue.group().is_some();
        if is_group && stamp.now.since(queue.counters.consumer_seen_at) >= SEEN_STORED_EVERY {
            self.touch_counters_of(number);
        }
    }
}

const SEEN_STORED_EVERY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

fn unsuited(name: &str) -> Rejection {
    Rejection::Unsuited { name: name.into(), wanted: "a group" }
}
