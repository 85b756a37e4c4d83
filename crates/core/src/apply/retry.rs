//! What becomes of a delivery whose lease ended without the work being done: nacked, lost, undone or void.
//!
//! leased → ready | delayed (another attempt) | dead, moved or dropped (out of attempts) | removed (its time is over, or
//! its queue was purged while it was held).

use std::time::Duration;

use crate::change::MessageCopy;
use crate::id::{LeaseGeneration, QueueNumber, Sequence};
use crate::limits;
use crate::planted;
use crate::row::{DeadLetter, DeadReason, DeliveryRow, DeliveryState};
use crate::spec::{AtLimit, Backoff, Counted, Gone, Order, QueueSpec};
use crate::stamp::{Stamp, mix, nonce};
use crate::state::Core;
use crate::time::Timestamp;

/// How a lease ended.
#[derive(Clone, Copy, Debug)]
pub(super) enum Ended {
    /// Its holder gave it back, to be tried again after the delay or the queue's backoff.
    Nacked(Option<Duration>),
    /// It ran out.
    Lost,
}

impl Core {
    /// Ends a lease whose work was not done. The delivery is leased.
    pub(super) fn end_attempt(&mut self, sequence: Sequence, ended: Ended, stamp: &Stamp) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        if self.leaves_for_good(&row, stamp.now) {
            return;
        }
        let Some(queue) = self.queues.get(&row.queue) else { return };
        let spec = &queue.row.spec;
        let at = match ended {
            Ended::Nacked(_) => stamp.now,
            Ended::Lost => row.due_at,
        };
        let spends = match ended {
            Ended::Nacked(_) => {
                row.lost_lease_count = 0;
                true
            }
            Ended::Lost => {
                row.lost_lease_count += 1;
                spec.lost_lease.spends_attempt
            }
        };
        row.failure_count += u32::from(spends);
        if let Some(reason) = out_of_attempts(&row, spec) {
            self.put_out(row, reason, stamp);
            return;
        }
        let wait = match ended {
            Ended::Nacked(Some(delay)) => delay,
            Ended::Lost if !spec.lost_lease.backs_off => Duration::ZERO,
            Ended::Nacked(None) | Ended::Lost => backoff(spec.backoff, &row, stamp),
        };
        make_available(&mut row, spec, at, wait);
        self.write_row(row);
    }

    /// A purged or expired message does not come back from its lease.
    fn leaves_for_good(&mut self, row: &DeliveryRow, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get_mut(&row.queue) else { return false };
        let purged = row.entered <= queue.row.purged_through;
        let expired = row.expires_at <= now;
        if expired && !purged {
            queue.counters.total_expired += 1;
        }
        if purged || expired {
            self.erase_row(row.sequence, true);
        }
        purged || expired
    }

    /// A delivery out of attempts goes where its queue says. Never refused: a paused or full target takes it anyway.
    fn put_out(&mut self, mut row: DeliveryRow, reason: DeadReason, stamp: &Stamp) {
        let Some(queue) = self.queues.get_mut(&row.queue) else { return };
        queue.counters.total_dead += 1;
        let at_limit = queue.row.spec.at_limit.clone();
        let reader = self.reader_of(row.queue);
        let name = self.queues.get(&reader).map(|queue| queue.row.name.clone()).unwrap_or_default();
        row.dead_letter = Some(Box::new(DeadLetter { at: stamp.now, reason, queue: name }));
        let rest = match &at_limit {
            AtLimit::Drop => Gone::Drop,
            AtLimit::DeadLetterSet => Gone::DeadLetterSet,
            AtLimit::MoveTo { queue, otherwise } => {
                if let Some(&target) = self.names.get(queue) {
                    #[cfg(feature = "planted-faults")]
                    if planted!(MoveInTwoCommits) {
                        return self.move_later(row, target);
                    }
                    if row.is_progress() {
                        self.copy_out(row, target, stamp);
                    } else {
                        self.move_row(row, target, stamp.now);
                    }
                    return;
                }
                *otherwise
            }
        };
        match rest {
            Gone::Drop => self.erase_row(row.sequence, true),
            Gone::DeadLetterSet => {
                row.entered = self.draw_sequence();
                row.state = DeliveryState::Dead;
                row.due_at = stamp.now;
                self.write_row(row);
            }
        }
    }

    /// Puts a delivery into another queue, to start afresh there under the same id.
    pub(crate) fn move_row(&mut self, mut row: DeliveryRow, target: QueueNumber, now: Timestamp) {
        let entered = self.draw_sequence();
        let Some(queue) = self.queues.get_mut(&target) else { return };
        queue.counters.total_sent += 1;
        let spec = &queue.row.spec;
        row.queue = target;
        start_afresh(&mut row, spec, entered, now);
        // Retention counts from the send, but nobody should lose a dead letter before it can be seen.
        let by_retention = spec.retention.map_or(Timestamp::NEVER, |retention| row.sent_at.plus(retention));
        row.expires_at = by_retention.max(now.plus(limits::RETENTION_MIN));
        self.write_row(row);
    }

    /// Puts a message that a group gives up into a queue, as a message of its own: in its topic it stays.
    fn copy_out(&mut self, row: DeliveryRow, target: QueueNumber, stamp: &Stamp) {
        let sequence = self.draw_sequence();
        self.batch.copies.push(MessageCopy { from: row.message, to: sequence });
        let copy = DeliveryRow {
            sequence,
            message: sequence,
            nonce: nonce(stamp.entropy, sequence.0),
            lease_generation: LeaseGeneration::default(),
            ..row.clone()
        };
        self.erase_row(row.sequence, true);
        if !planted!(GroupCopyLost) {
            self.move_row(copy, target, stamp.now);
        }
    }

    /// Takes a lease back as if it had never been granted, but for its generation. Answers whether it was held.
    pub(super) fn return_lease(&mut self, sequence: Sequence, now: Timestamp) -> bool {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return false };
        if row.state != DeliveryState::Leased {
            return false;
        }
        // The sweep of a deleted queue may have passed the ready rows already.
        if self.queues.get(&row.queue).is_none_or(|queue| queue.row.deleted) {
            return false;
        }
        if self.leaves_for_good(&row, now) {
            return true;
        }
        row.delivery_count = row.delivery_count.saturating_sub(1);
        if planted!(UndoReusesGeneration) {
            row.lease_generation.0 -= 1;
        }
        row.state = DeliveryState::Ready;
        row.due_at = row.order_at;
        self.write_row(row);
        true
    }

    /// Ends a lease that a restored copy brought, uncounted: its holder knows nothing of this history.
    pub(crate) fn end_void_lease(&mut self, sequence: Sequence, now: Timestamp) {
        let void_below = self.environment.leases_void_below;
        if self.rows.live(sequence).is_some_and(|row| row.lease_generation < void_below) {
            self.return_lease(sequence, now);
        }
    }

    /// Works off what is due in a queue, in due order. `false`: there is more than this batch may do.
    pub(super) fn run_due(&mut self, number: QueueNumber, stamp: &Stamp) -> bool {
        let claims = self.is_settled_by_sql(number);
        if claims && !self.leases_wait && !self.end_claimed(number, stamp) {
            return false;
        }
        let leases = !claims && !self.leases_wait;
        loop {
            let Some(queue) = self.queues.get(&number) else { return true };
            let due = |key: Option<&crate::row::DueKey>| key.filter(|key| key.due_at <= stamp.now).copied();
            let leased = if leases { due(queue.leased.first()) } else { None };
            let delayed = due(queue.delayed.first());
            let Some(first) = [delayed, leased].into_iter().flatten().min() else { return true };
            if !self.take_due() {
                return false;
            }
            if Some(first) == leased {
                self.end_due_lease(first.sequence, stamp);
            } else {
                self.promote(first.sequence);
            }
        }
    }

    pub(super) fn end_due_lease(&mut self, sequence: Sequence, stamp: &Stamp) {
        let void_below = self.environment.leases_void_below;
        if self.rows.live(sequence).is_some_and(|row| row.lease_generation < void_below) {
            self.return_lease(sequence, stamp.now);
        } else {
            self.end_attempt(sequence, Ended::Lost, stamp);
        }
    }

    /// A delay is over. The place in the order is that of the due time, however late this runs, in the order that the queue
    /// has by now.
    pub(super) fn promote(&mut self, sequence: Sequence) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        let Some(queue) = self.queues.get(&row.queue) else { return };
        row.state = DeliveryState::Ready;
        take_place(&mut row, &queue.row.spec);
        self.write_row(row);
    }
}

/// Whether a delivery has another attempt, looked at when its lease has ended: a lower limit never ends a lease.
fn out_of_attempts(row: &DeliveryRow, spec: &QueueSpec) -> Option<DeadReason> {
    let spent = spec.attempt_limit.is_some_and(|limit| match limit.counts {
        Counted::Deliveries => row.delivery_count >= limit.max,
        Counted::Failures => row.failure_count >= limit.max,
    });
    if spent {
        return Some(DeadReason::AttemptsSpent);
    }
    let lost = spec.lost_lease.in_a_row_max.is_some_and(|most| row.lost_lease_count >= most);
    lost.then_some(DeadReason::LeasesLost)
}

/// Ready at once, with all attempts. The generation goes on, so that no holder of before is taken for one of after.
pub(super) fn start_afresh(row: &mut DeliveryRow, spec: &QueueSpec, entered: Sequence, now: Timestamp) {
    row.entered = entered;
    row.state = DeliveryState::Ready;
    row.delivery_count = 0;
    row.failure_count = 0;
    row.lost_lease_count = 0;
    row.due_at = now;
    take_place(row, spec);
}

fn make_available(row: &mut DeliveryRow, spec: &QueueSpec, at: Timestamp, wait: Duration) {
    row.due_at = at.plus(wait);
    take_place(row, spec);
    row.state = if wait.is_zero() { DeliveryState::Ready } else { DeliveryState::Delayed };
}

/// The place in the ready order, from the time at which it is ready.
pub(super) fn take_place(row: &mut DeliveryRow, spec: &QueueSpec) {
    row.retried = spec.fresh_first && row.delivery_count > 0;
    row.order_at = match spec.order {
        Order::Visible => row.due_at,
        Order::Sent => row.sent_at,
    };
}

/// initial × factor^(failures − 1), at most `max`, times a random number from the jitter's range.
fn backoff(policy: Option<Backoff>, row: &DeliveryRow, stamp: &Stamp) -> Duration {
    let Some(policy) = policy else { return Duration::ZERO };
    let most = u64::try_from(policy.max.as_millis()).unwrap_or(u64::MAX);
    let mut millis = u64::try_from(policy.initial.as_millis()).unwrap_or(u64::MAX);
    for _ in 1..row.failure_count {
        if millis >= most {
            break;
        }
        millis = millis.saturating_mul(u64::from(policy.factor_permille)) / 1_000;
    }
    millis = millis.min(most);
    let (low, high) = policy.jitter_permille;
    let spread = u64::from(high.saturating_sub(low)) + 1;
    let draw = mix(stamp.entropy ^ mix(row.sequence.0) ^ row.lease_generation.0) % spread;
    Duration::from_millis(millis.saturating_mul(u64::from(low) + draw) / 1_000)
}
