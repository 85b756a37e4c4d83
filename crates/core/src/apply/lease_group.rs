//! Hands messages of a topic out to a group. A message that was never handed out moves the group's position and gets a delivery of
//! the group's own; one that came back has one.

use crate::apply::create_queue::draw_uid;
use crate::command::Reading;
use crate::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence};
use crate::outcome::Grant;
use crate::row::{CountersRow, DeliveryRow, DeliveryState, Hold, QueueRow, Role};
use crate::stamp::Stamp;
use crate::state::{Core, Lane, Pick, Picked, QueueState, Waiter};
use crate::time::Timestamp;

impl Core {
    /// Leases of a group that are held.
    pub(super) fn group_leased(&self, number: QueueNumber) -> u64 {
        let lanes = self.queues.get(&number).and_then(QueueState::group).map(|group| &group.cursors);
        let cursors = lanes.into_iter().flat_map(|cursors| cursors.values());
        cursors.filter_map(|cursor| self.queues.get(cursor)).map(|cursor| cursor.counters.leased).sum()
    }

    /// How many more leases a group's limits allow, and those of a call.
    pub(crate) fn group_room(&self, number: QueueNumber, in_flight_max: Option<u32>) -> u64 {
        let Some(group) = self.queues.get(&number) else { return 0 };
        let limit = self.group_limit(group).min(in_flight_max.map_or(u64::MAX, u64::from));
        limit.saturating_sub(self.group_leased(number))
    }

    /// Grants what a call wants and the group has; nothing if that is less than it wants.
    pub(super) fn try_grant_group(
        &mut self,
        number: QueueNumber,
        waiter: &Waiter,
        stamp: &Stamp,
    ) -> Vec<Grant> {
        let Some(group) = self.queues.get(&number) else { return Vec::new() };
        if group.row.paused_at.is_some() {
            return Vec::new();
        }
        let order = group.row.spec.order;
        let room = self.group_room(number, waiter.reading.in_flight_max);
        let most = usize::try_from(room.min(u64::from(waiter.max_messages))).unwrap_or(usize::MAX);
        let most = if waiter.reading.look { usize::try_from(waiter.max_messages).unwrap_or(1) } else { most };
        let picks = loop {
            let lanes = self.lanes_read(number, &waiter.reading);
            let found = self.picks(&lanes, order, most, stamp.now);
            for lane in found.unread {
                let cursor = Some(self.cursor_of(number, lane, stamp));
                self.read_log(Lane { cursor, ..lane }, lanes.len());
            }
            let Some(expired) = found.expired else { break found.picks };
            if !self.take_due() {
                self.serve_again(number);
                return Vec::new();
            }
            self.expire_row(expired, stamp.now);
        };
        let wanted = usize::try_from(waiter.min_messages).unwrap_or(usize::MAX);
        if picks.is_empty() || picks.len() < wanted && !waiter.reading.look {
            return Vec::new();
        }
        let until = stamp.now.plus(self.lease_timeout(number, waiter.visibility_timeout));
        let grants = picks.into_iter().filter_map(|pick| {
            if waiter.reading.look {
                self.show(&pick, stamp.now)
            } else {
                self.hand_out(number, pick, until, stamp)
            }
        });
        let grants: Vec<_> = grants.collect();
        if !waiter.reading.look {
            let (leased, limit) =
                (self.group_leased(number), self.queues.get(&number).map(|group| self.group_limit(group)));
            assert!(
                grants.is_empty() || Some(leased) <= limit,
                "{leased} leases held after a grant, limit {limit:?}"
            );
        }
        grants
    }

    /// A message as it would be handed out, under a generation that settles nothing.
    pub(super) fn show(&self, pick: &Pick, now: Timestamp) -> Option<Grant> {
        let row = match &pick.what {
            Picked::Again(sequence) => self.rows.live(*sequence)?,
            Picked::Fresh(row) => row,
        };
        Some(Grant {
            delivery: row.sequence,
            message: row.message_id(),
            generation: LeaseGeneration::default(),
            delivery_count: row.delivery_count + 1,
            leased_at: now,
            lease_until: now,
            sent_at: row.sent_at,
            expires_at: row.expires_at,
            dead_letter: None,
        })
    }

    /// Leases a message to a group.
    pub(super) fn hand_out(
        &mut self,
        group: QueueNumber,
        pick: Pick,
        until: Timestamp,
        stamp: &Stamp,
    ) -> Option<Grant> {
        let mut row = match pick.what {
            Picked::Again(sequence) => self.rows.live(sequence).cloned()?,
            Picked::Fresh(message) => {
                let cursor = self.cursor_of(group, pick.lane, stamp);
                self.move_position(cursor, message.log_number());
                self.first_delivery(cursor, &message)
            }
        };
        row.lease_generation = self.next_generation(&row);
        row.state = DeliveryState::Leased;
        row.leased_at = stamp.now;
        row.hold = Hold::Granted;
        row.due_at = until;
        row.delivery_count += 1;
        let grant = Grant {
            delivery: row.sequence,
            message: row.message_id(),
            generation: row.lease_generation,
            delivery_count: row.delivery_count,
            leased_at: stamp.now,
            lease_until: until,
            sent_at: row.sent_at,
            expires_at: row.expires_at,
            dead_letter: None,
        };
        if let Some(cursor) = self.queues.get_mut(&row.queue) {
            cursor.counters.total_delivered += 1;
        }
        self.write_row(row);
        Some(grant)
    }

    /// A group's delivery of a message that it never had.
    pub(super) fn first_delivery(&mut self, cursor: QueueNumber, message: &DeliveryRow) -> DeliveryRow {
        DeliveryRow {
            sequence: self.draw_sequence(),
            message: message.sequence,
            queue: cursor,
            entered: Sequence(message.log_number().0),
            order_at: message.due_at,
            leased_at: Timestamp::ZERO,
            lease_generation: LeaseGeneration::default(),
            hold: Hold::Granted,
            delivery_count: 0,
            failure_count: 0,
            lost_lease_count: 0,
            dead_letter: None,
            ..message.clone()
        }
    }

    /// Everything of a log up to a number was handed out.
    pub(super) fn move_position(&mut self, number: QueueNumber, position: LogNumber) {
        let Some(state) = self.queues.get_mut(&number) else { return };
        let Role::Cursor { start, .. } = state.row.role else { return };
        assert!(position > state.counters.position, "a position only moves on");
        state.counters.position = position;
        let Some(cursor) = state.cursor_mut() else { return };
        // A run that follows at once is passed as well.
        let position = cursor.run_from(position.next()).unwrap_or(position);
        cursor.drop_before(position);
        let passed = cursor.pass_runs(start, position);
        state.counters.position = position;
        for first in passed {
            self.batch.runs_put.remove(&(number, first));
            self.batch.runs_removed.insert((number, first));
        }
    }

    /// The cursor of a group over a log; made if there is none.
    pub(super) fn cursor_of(&mut self, group: QueueNumber, lane: Lane, stamp: &Stamp) -> QueueNumber {
        let known = self.queues.get(&group).and_then(QueueState::group);
        let known = known.and_then(|group| group.cursors.get(&lane.log).copied());
        known.unwrap_or_else(|| self.make_cursor(group, lane.log, LogNumber::default(), stamp))
    }

    pub(super) fn make_cursor(
        &mut self,
        group: QueueNumber,
        log: QueueNumber,
        start: LogNumber,
        stamp: &Stamp,
    ) -> QueueNumber {
        let number = self.environment.next_queue;
        self.environment.next_queue = number.next();
        let spec = self.queues.get(&group).map(|group| group.row.spec.clone()).unwrap_or_default();
        let row = QueueRow {
            number,
            role: Role::Cursor { group, log, start },
            name: Box::default(),
            uid: draw_uid(stamp, u64::from(number.0)),
            generation: 1,
            revision: 1,
            created_at: stamp.now,
            updated_at: stamp.now,
            annotations: "{}".into(),
            spec,
            paused_at: None,
            purged_through: Sequence::default(),
            dead_purged_through: Sequence::default(),
            deleted: false,
            sweep_owed: false,
            settled_by_sql: false,
        };
        let mut state = QueueState::new(row);
        state.counters = CountersRow { position: start, ..state.counters };
        self.insert_queue(state);
        self.follow(number);
        self.touch_queue(number);
        number
    }

    /// Works off what is due where a queue's, or a group's, messages come from. `false`: there is more than this batch may do.
    pub(super) fn run_due_for(&mut self, number: QueueNumber, stamp: &Stamp) -> bool {
        if self.queues.get(&number).is_none_or(|queue| queue.group().is_none()) {
            return self.run_due(number, stamp);
        }
        let lanes = self.lanes(number, None);
        let parts = lanes.into_iter().flat_map(|lane| [Some(lane.log), lane.cursor]).flatten();
        let mut done = true;
        for part in parts {
            done &= self.run_due(part, stamp);
        }
        done
    }

    /// Reads on where a queue's, or a group's, messages come from.
    pub(crate) fn refill_for(&mut self, number: QueueNumber) {
        if self.queues.get(&number).is_none_or(|queue| queue.group().is_none()) {
            return self.refill_ready(number);
        }
        for lane in self.lanes(number, None) {
            if let Some(cursor) = lane.cursor {
                self.refill_ready(cursor);
            }
        }
    }

    /// Whether pages under way, or due rows that were not worked off yet, may bring messages to a call that reads a group like this.
    pub(super) fn group_may_gain(&self, number: QueueNumber, reading: &Reading) -> bool {
        let Some(group) = self.queues.get(&number) else { return false };
        if group.row.paused_at.is_some() || self.group_room(number, reading.in_flight_max) == 0 {
            return false;
        }
        let unread = |part: &QueueState| {
            !part.ready.is_complete()
                || !part.delayed.is_complete() && part.delayed.len() == 0
                || !part.leased.is_complete() && part.leased.len() == 0
                || part.cursor().is_some_and(|cursor| cursor.scanning)
        };
        let lanes = self.lanes_read(number, reading);
        let mut parts = lanes.iter().flat_map(|lane| [Some(lane.log), lane.cursor]).flatten();
        self.restir.contains(&number)
            || parts.any(|part| self.restir.contains(&part) || self.queues.get(&part).is_some_and(unread))
    }

    /// Whether a queue, or a group, has a message that memory knows and its limits allow.
    pub(super) fn has_something(&self, number: QueueNumber, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get(&number) else { return false };
        if queue.group().is_none() {
            return queue.room() > 0 && queue.ready.first().is_some();
        }
        let lanes = self.lanes(number, None);
        self.group_room(number, None) > 0
            && !self.picks(&lanes, queue.row.spec.order, 1, now).picks.is_empty()
    }
}
