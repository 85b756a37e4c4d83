//! Takes messages to work on, or waits for them. Checks in order: queue or group, numbers, timeout, waits, how a group is read,
//! waiting calls, what the call allows in flight.
//!
//! A call that finds too little waits; whoever changes a queue calls [`Core::serve_stirred`], which serves the waiting
//! calls in order. So the rule who gets a message is in one place, whether it came before or after the call.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::apply::Stop;
use crate::apply::create_queue::check_duration;
use crate::command::{Lease, Reading, WaiterId};
use crate::id::QueueNumber;
use crate::limits;
use crate::outcome::{Effect, Grant, Outcome, Rejection};
use crate::row::{DeliveryState, Hold, ReadyKey, Role};
use crate::stamp::Stamp;
use crate::state::{Core, QueueState, Waiter};
use crate::time::Timestamp;

impl Core {
    pub(super) fn lease(&mut self, lease: &Lease, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(&lease.queue)?;
        let role = self.queues.get(&number).map(|queue| queue.row.role).unwrap_or_default();
        if role.is_log() || role == Role::Queue && lease.reading != Reading::default() {
            let wanted = "a queue or a group, the latter if it is read in a way that only groups have";
            return Err(Rejection::Unsuited { name: lease.queue.clone(), wanted }.into());
        }
        check_lease(lease)?;
        // Calls for pushes are bounded by triggers and topics, and take no place from those who poll.
        let is_bounded = !lease.wait.is_zero() && !lease.reading.pushes;
        if is_bounded && self.polls_waiting() >= self.settings.waiters {
            return Err(Rejection::WaiterLimit { limit: self.settings.waiters }.into());
        }
        if !self.run_due_for(number, stamp) {
            self.serve_again(number);
        }
        if let Some(limit) = lease.reading.in_flight_max {
            let in_flight = self.group_leased(number);
            if in_flight >= u64::from(limit) {
                return Err(Rejection::ConcurrencyReached { in_flight, limit }.into());
            }
        }
        self.seen(number, stamp);
        if !lease.reading.pushes {
            self.polled(number, stamp.now);
        }
        // Whoever waits already goes first, with what has just become due.
        self.serve(number, stamp);
        let fills_for = lease.max_wait.unwrap_or(lease.wait).min(lease.wait);
        let waiter = Waiter {
            max_messages: lease.max_messages,
            min_messages: if fills_for.is_zero() { 1 } else { lease.min_messages },
            visibility_timeout: lease.visibility_timeout,
            fills_for,
            asked_at: stamp.now,
            deadline: stamp.now.plus(lease.wait),
            reading: lease.reading.clone(),
        };
        let grants = self.try_grant(number, &waiter, stamp);
        if !grants.is_empty() {
            self.refill_for(number);
            self.watch_fill(number, stamp.now);
            return Ok(Outcome::Leased(grants));
        }
        let at_once = lease.wait.is_zero() || lease.reading.look;
        if at_once && !self.may_gain(number, &waiter.reading) {
            return Ok(Outcome::Leased(Vec::new()));
        }
        self.wait(number, lease.waiter, waiter, at_once);
        self.watch_fill(number, stamp.now);
        Ok(Outcome::Waiting)
    }

    fn wait(&mut self, number: QueueNumber, id: WaiterId, waiter: Waiter, overdue: bool) {
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let (deadline, pushes) = (waiter.deadline, waiter.reading.pushes);
        queue.waiters.add(id, waiter);
        self.pushes_waiting += usize::from(pushes);
        self.waiting_in.insert(id, number);
        if overdue {
            queue.overdue.insert(id);
        } else {
            self.deadlines.insert((deadline, id));
        }
        self.note_waiting(number);
        self.refill_for(number);
    }

    /// A topic knows which of its groups have calls that wait.
    fn note_waiting(&mut self, number: QueueNumber) {
        let Some(queue) = self.queues.get(&number) else { return };
        let Role::Group { topic } = queue.row.role else { return };
        let waits = !queue.waiters.is_empty();
        let Some(log) = self.queues.get_mut(&topic).and_then(QueueState::log_mut) else { return };
        if waits {
            log.family.waiting.insert(number);
        } else {
            log.family.waiting.remove(&number);
        }
    }

    pub(super) fn cancel_wait(&mut self, id: WaiterId, stamp: &Stamp) -> Outcome {
        if !self.leave_line(id, stamp) {
            self.take_waiter(id);
            self.browses.remove(&id);
        }
        Outcome::Done
    }

    fn take_waiter(&mut self, id: WaiterId) -> Option<Waiter> {
        let number = self.waiting_in.remove(&id)?;
        let queue = self.queues.get_mut(&number)?;
        queue.overdue.remove(&id);
        let waiter = queue.waiters.remove(id)?;
        self.pushes_waiting -= usize::from(waiter.reading.pushes);
        self.deadlines.remove(&(waiter.deadline, id));
        self.note_waiting(number);
        Some(waiter)
    }

    /// Whether a page under way, or due rows that were not worked off yet, may bring messages that could be granted to a call.
    fn may_gain(&self, number: QueueNumber, reading: &Reading) -> bool {
        let Some(queue) = self.queues.get(&number) else { return false };
        if queue.group().is_some() {
            return self.group_may_gain(number, reading);
        }
        if queue.row.paused_at.is_some() || queue.room() == 0 {
            return false;
        }
        let unread = |complete: bool, len: usize| !complete && len == 0;
        self.restir.contains(&number)
            || !queue.ready.is_complete()
            || unread(queue.delayed.is_complete(), queue.delayed.len())
            || unread(queue.leased.is_complete(), queue.leased.len())
    }

    /// Serves the waiting calls of every queue that changed.
    pub(crate) fn serve_stirred(&mut self, stamp: &Stamp) {
        while let Some(number) = self.batch.stirred.pop() {
            for reader in self.readers_of(number) {
                self.serve(reader, stamp);
            }
        }
    }

    /// This batch has done enough for a queue; the next tick goes on with it.
    pub(super) fn serve_again(&mut self, number: QueueNumber) {
        if !self.restir.contains(&number) {
            self.restir.push(number);
        }
    }

    fn serve(&mut self, number: QueueNumber, stamp: &Stamp) {
        loop {
            let Some(queue) = self.queues.get(&number) else { return };
            if queue.waiters.is_empty() {
                return;
            }
            if queue.group().is_some() {
                self.serve_group(number, stamp);
                break;
            }
            let available = queue.room().min(u64::try_from(queue.ready.len()).unwrap_or(u64::MAX));
            let available = u32::try_from(available).unwrap_or(u32::MAX);
            let paused = queue.row.paused_at.is_some();
            let id = queue.waiters.first_served_by(available).filter(|_| !paused);
            let Some(id) = id else { break };
            let Some(waiter) = queue.waiters.get(id).cloned() else { break };
            let grants = self.try_grant(number, &waiter, stamp);
            if grants.is_empty() {
                // What was there had expired; look again at what is left, unless this batch has done enough.
                if self.restir.contains(&number) {
                    break;
                }
                continue;
            }
            self.take_waiter(id);
            self.batch.effects.push(Effect::Answered { waiter: id, outcome: Outcome::Leased(grants) });
        }
        self.refill_for(number);
        self.answer_overdue(number);
        self.watch_fill(number, stamp.now);
    }

    /// Serves the waiting calls of a group in the order in which they came. Each kind may want another partition, or allow less in
    /// flight: where one of a kind gets nothing, none of that kind does.
    fn serve_group(&mut self, number: QueueNumber, stamp: &Stamp) {
        let mut without = BTreeSet::new();
        loop {
            let queue = self.queues.get(&number);
            let first = queue.and_then(|queue| queue.waiters.first_but(&without));
            let Some((id, kind)) = first else { return };
            let waiter = self.queues.get(&number).and_then(|queue| queue.waiters.get(id)).cloned();
            let Some(waiter) = waiter else { return };
            let grants = self.try_grant_group(number, &waiter, stamp);
            if grants.is_empty() {
                without.insert(kind);
                continue;
            }
            self.take_waiter(id);
            self.batch.effects.push(Effect::Answered { waiter: id, outcome: Outcome::Leased(grants) });
        }
    }

    /// Notes since when something is there that calls wait to see more of, and when the first has waited long enough. Whatever
    /// puts something there or takes it away stirs the queue, which ends here.
    fn watch_fill(&mut self, number: QueueNumber, now: Timestamp) {
        if self.queues.get(&number).is_none_or(|queue| queue.waiters.is_empty()) {
            return;
        }
        let something = self.has_something(number, now);
        let Some(queue) = self.queues.get_mut(&number) else { return };
        let grantable = queue.row.paused_at.is_none() && something;
        queue.waiters.watch(grantable, now);
        if let Some(filled) = queue.waiters.filled_at() {
            self.note_wake(number, filled);
        }
    }

    /// Calls that have waited long enough for more take what is there.
    pub(super) fn end_fills(&mut self, number: QueueNumber, now: Timestamp) {
        self.watch_fill(number, now);
        let Some(queue) = self.queues.get_mut(&number) else { return };
        while queue.waiters.filled_at().is_some_and(|filled| filled <= now) {
            queue.waiters.settle_first_filled();
            self.batch.stirred.push(number);
        }
    }

    /// Answers the calls whose wait is over and that nothing can serve any more.
    fn answer_overdue(&mut self, number: QueueNumber) {
        let Some(queue) = self.queues.get(&number) else { return };
        let reading = |id: &WaiterId| queue.waiters.get(*id).map(|waiter| &waiter.reading);
        let gains = |id: &WaiterId| reading(id).is_some_and(|reading| self.may_gain(number, reading));
        let over: Vec<WaiterId> = queue.overdue.iter().filter(|id| !gains(id)).copied().collect();
        for id in over {
            if self.take_waiter(id).is_some() {
                let outcome = Outcome::Leased(Vec::new());
                self.batch.effects.push(Effect::Answered { waiter: id, outcome });
            }
        }
    }

    /// The wait of a call is over: a lease call takes what is there, or an empty answer.
    pub(super) fn end_wait(&mut self, id: WaiterId, stamp: &Stamp) {
        if self.leave_line(id, stamp) {
            let outcome = Outcome::Rejected(self.too_many_bytes());
            self.batch.effects.push(Effect::Answered { waiter: id, outcome });
            return;
        }
        let Some(&number) = self.waiting_in.get(&id) else { return };
        let Some(queue) = self.queues.get_mut(&number) else { return };
        queue.waiters.settle_for_less(id);
        queue.overdue.insert(id);
        self.batch.stirred.push(number);
    }

    /// Grants what the call asks for, or nothing if that is less than it wants. Expired messages on the way are
    /// removed; when they are more than a batch may do, the queue is looked at again in the next.
    fn try_grant(&mut self, number: QueueNumber, waiter: &Waiter, stamp: &Stamp) -> Vec<Grant> {
        if self.queues.get(&number).is_some_and(|queue| queue.group().is_some()) {
            return self.try_grant_group(number, waiter, stamp);
        }
        let Some(keys) = self.candidates(number, waiter, stamp) else { return Vec::new() };
        // A call that waits gets the timeout that the queue has by now.
        let visibility = self.lease_timeout(number, waiter.visibility_timeout);
        let until = stamp.now.plus(visibility);
        let mut grants = Vec::with_capacity(keys.len());
        for key in keys {
            let Some(mut row) = self.rows.live(key.sequence).cloned() else { continue };
            row.lease_generation = self.next_generation(&row);
            row.state = DeliveryState::Leased;
            row.leased_at = stamp.now;
            row.hold = Hold::Granted;
            row.due_at = until;
            row.delivery_count += 1;
            grants.push(Grant {
                delivery: row.sequence,
                message: row.message_id(),
                generation: row.lease_generation,
                delivery_count: row.delivery_count,
                leased_at: stamp.now,
                lease_until: until,
                sent_at: row.sent_at,
                expires_at: row.expires_at,
                dead_letter: row.dead_letter.clone(),
            });
            self.write_row(row);
        }
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.counters.total_delivered += u64::try_from(grants.len()).unwrap_or(0);
            let (leased, limit) = (queue.counters.leased, queue.leased_limit());
            assert!(
                grants.is_empty() || leased <= limit,
                "{leased} leases held after a grant, limit {limit}"
            );
        }
        grants
    }

    /// The first messages that may be handed out, as many as the call and the queue's limits allow; `None` if they
    /// are fewer than the call wants.
    fn candidates(&mut self, number: QueueNumber, waiter: &Waiter, stamp: &Stamp) -> Option<Vec<ReadyKey>> {
        loop {
            let queue = self.queues.get(&number)?;
            if queue.row.paused_at.is_some() {
                return None;
            }
            let most = queue.room().min(u64::from(waiter.max_messages));
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let mut keys = Vec::with_capacity(most.min(queue.ready.len()));
            let mut expired = None;
            for key in queue.ready.iter().take(most) {
                let over = self.rows.live(key.sequence).is_none_or(|row| row.expires_at <= stamp.now);
                if over {
                    expired = Some(key.sequence);
                    break;
                }
                keys.push(*key);
            }
            let Some(expired) = expired else {
                let wanted = usize::try_from(waiter.min_messages).unwrap_or(usize::MAX);
                return (keys.len() >= wanted.max(1)).then_some(keys);
            };
            if !self.take_due() {
                self.serve_again(number);
                return None;
            }
            self.expire_row(expired, stamp.now);
        }
    }
}

fn check_lease(lease: &Lease) -> Result<(), Rejection> {
    if lease.max_messages == 0 || lease.max_messages > limits::LEASE_MESSAGES_MAX {
        let limit = format!("1 to {}", limits::LEASE_MESSAGES_MAX);
        return Err(Rejection::out_of_range("max_messages", lease.max_messages, limit));
    }
    if lease.min_messages == 0 || lease.min_messages > lease.max_messages {
        let limit = format!("1 to max_messages ({})", lease.max_messages);
        return Err(Rejection::out_of_range("min_messages", lease.min_messages, limit));
    }
    if let Some(timeout) = lease.visibility_timeout {
        check_duration("visibility_timeout", timeout, limits::LEASE_MIN, limits::LEASE_MAX)?;
    }
    check_reading(&lease.reading)?;
    check_duration("wait", lease.wait, Duration::ZERO, limits::WAIT_MAX)?;
    check_duration("max_wait", lease.max_wait.unwrap_or_default(), Duration::ZERO, limits::WAIT_MAX)
}

/// Whether a group can be read like this.
pub(super) fn check_reading(reading: &Reading) -> Result<(), Rejection> {
    if reading.in_flight_max == Some(0) {
        return Err(Rejection::out_of_range("max_concurrency", 0, "at least 1"));
    }
    Ok(())
}
