//! Ends and extends leases, and sends, all in one commit. Checks in order: numbers, queues and values of the settlements,
//! rows in memory, sends, stale leases, the environment's quotas, in which what the call acks makes room for what it sends.
//! A lease named again in the same call is settled once.
//!
//! With sends in it one stale lease refuses the whole: otherwise a handler that lost its lease would send the next
//! messages a second time (design-holes A11).

use std::collections::BTreeSet;
use std::time::Duration;

use crate::apply::Stop;
use crate::apply::create_queue::check_duration;
use crate::apply::retry::Ended;
use crate::apply::send::{Form, SendPlan};
use crate::change::RowKey;
use crate::command::{LeaseRef, Require, Send, Settle, SettleAction, Settlement};
use crate::id::{QueueNumber, Sequence};
use crate::limits;
use crate::outcome::{Outcome, Rejection, show_duration};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState};
use crate::stamp::Stamp;
use crate::state::{Core, Totals};
use crate::time::Timestamp;

impl Core {
    /// What memory would have to know for a settle.
    pub(super) fn missing_for_settle(&self, settle: &Settle) -> Vec<RowKey> {
        let leases = settle.settlements.iter().map(|settlement| &settlement.lease);
        let mut missing = self.missing_leases(leases);
        missing.extend(settle.sends.iter().filter_map(|send| self.missing_for_send(send)));
        missing
    }

    pub(super) fn settle(&mut self, settle: &Settle, stamp: &Stamp) -> Result<Outcome, Stop> {
        let count = settle.settlements.len();
        if count + settle.sends.len() == 0 || count > limits::SETTLEMENTS_MAX {
            let limit = format!("1 to {}", limits::SETTLEMENTS_MAX);
            return Err(Rejection::out_of_range("leases", count, limit).into());
        }
        let messages: usize = settle.sends.iter().map(|send| send.messages.len()).sum();
        if messages > limits::SEND_MESSAGES_MAX {
            let limit = format!("{} in all", limits::SEND_MESSAGES_MAX);
            return Err(Rejection::out_of_range("sends", messages, limit).into());
        }
        for settlement in &settle.settlements {
            self.check_settlement(settlement)?;
        }
        let missing = self.missing_for_settle(settle);
        if !missing.is_empty() {
            return Err(Stop::Needs(missing));
        }
        check_shared_keys(&settle.sends)?;
        let plan = |send| self.plan_send(send, Form::Whole, stamp);
        let plans: Vec<_> = settle.sends.iter().map(plan).collect::<Result<_, Stop>>()?;
        let stale = self.stale_leases(&settle.settlements, stamp.now)?;
        if !stale.is_empty()
            && (settle.require == Require::All || !plans.is_empty())
            && !planted!(SendsThoughStale)
        {
            return Err(Rejection::LeaseStale { stale }.into());
        }
        self.check_quotas(&plans, self.freed(&settle.settlements, &stale))?;
        Ok(self.carry_out_settle(settle, &stale, plans, stamp))
    }

    fn carry_out_settle(
        &mut self,
        settle: &Settle,
        stale: &[LeaseRef],
        plans: Vec<SendPlan<'_>>,
        stamp: &Stamp,
    ) -> Outcome {
        let stale: BTreeSet<_> = stale.iter().map(|lease| (lease.message, lease.generation)).collect();
        let mut done = BTreeSet::new();
        for settlement in &settle.settlements {
            let lease = (settlement.lease.message, settlement.lease.generation);
            if stale.contains(&lease) || !done.insert(lease) {
                continue;
            }
            let sequence = settlement.lease.message.sequence;
            match settlement.action {
                SettleAction::Ack => self.ack(sequence, stamp.now),
                SettleAction::Extend(timeout) => self.extend(sequence, timeout, stamp.now),
                SettleAction::Nack(delay) => self.end_attempt(sequence, Ended::Nacked(delay), stamp),
            }
            // A lease that ended may leave room under a concurrency limit.
            if let Some(&number) = self.names.get(&settlement.queue) {
                self.batch.stirred.push(number);
            }
        }
        let sent = plans.into_iter().map(|plan| self.carry_out_send(plan, stamp)).collect();
        let stale = settle.settlements.iter().map(|settlement| settlement.lease);
        let stale = stale.filter(|lease| !done.contains(&(lease.message, lease.generation))).collect();
        Outcome::Settled { stale, sent }
    }

    fn check_settlement(&self, settlement: &Settlement) -> Result<(), Rejection> {
        if !self.names.contains_key(&settlement.queue) {
            return Err(Rejection::QueueNotFound { name: settlement.queue.clone() });
        }
        match settlement.action {
            SettleAction::Ack | SettleAction::Extend(None) | SettleAction::Nack(None) => Ok(()),
            SettleAction::Extend(Some(timeout)) => {
                check_duration("visibility_timeout", timeout, limits::LEASE_MIN, limits::LEASE_MAX)
            }
            SettleAction::Nack(Some(delay)) => {
                check_duration("delay", delay, Duration::ZERO, limits::DELAY_MAX)
            }
        }
    }

    /// The leases that are not held any more, in request order. An extension past the longest hold is refused here.
    fn stale_leases(&self, settlements: &[Settlement], now: Timestamp) -> Result<Vec<LeaseRef>, Rejection> {
        let mut stale = Vec::new();
        for settlement in settlements {
            let queue = self.names.get(&settlement.queue).copied();
            let Some(row) = queue.and_then(|queue| self.held(&settlement.lease, queue, now)) else {
                stale.push(settlement.lease);
                continue;
            };
            if let SettleAction::Extend(timeout) = settlement.action {
                let timeout = self.lease_timeout(row.queue, timeout);
                let most = row.leased_at.plus(limits::LEASE_MAX);
                if now.plus(timeout) > most {
                    let limit =
                        format!("{} in all from the grant of the lease", show_duration(limits::LEASE_MAX));
                    let value = show_duration(timeout);
                    return Err(Rejection::out_of_range("visibility_timeout", value, limit));
                }
            }
        }
        Ok(stale)
    }

    /// What the acks among these take out of the environment.
    fn freed(&self, settlements: &[Settlement], stale: &[LeaseRef]) -> Totals {
        let mut freed = Totals::default();
        let mut done = BTreeSet::new();
        for settlement in settlements.iter().filter(|settlement| !stale.contains(&settlement.lease)) {
            let LeaseRef { message, generation } = settlement.lease;
            if !done.insert((message, generation)) || settlement.action != SettleAction::Ack {
                continue;
            }
            let Some(row) = self.rows.live(message.sequence) else { continue };
            let queue = self.queues.get(&row.queue);
            if queue.is_some_and(|queue| queue.row.spec.finished_retention.is_zero()) {
                freed.add(Totals::of_row(row));
            }
        }
        freed
    }

    /// The delivery that a lease holds, if it still does: expired counts as over, taken by another or not.
    pub(super) fn held(&self, lease: &LeaseRef, queue: QueueNumber, now: Timestamp) -> Option<&DeliveryRow> {
        self.rows.live(lease.message.sequence).filter(|row| {
            row.state == DeliveryState::Leased
                && row.queue == queue
                && row.message_id() == lease.message
                && (row.lease_generation == lease.generation || planted!(AckWithoutGeneration))
                && row.lease_generation >= self.environment.leases_void_below
                && row.due_at > now
        })
    }

    /// The work is done.
    fn ack(&mut self, sequence: Sequence, now: Timestamp) {
        let Some(row) = self.rows.live(sequence) else { return };
        let Some(queue) = self.queues.get_mut(&row.queue) else { return };
        queue.counters.total_acked += 1;
        let keep = queue.row.spec.finished_retention;
        if keep.is_zero() {
            self.erase_row(sequence, true);
            return;
        }
        let mut row = row.clone();
        row.state = DeliveryState::Completed;
        row.due_at = now;
        row.expires_at = now.plus(keep);
        self.write_row(row);
    }

    fn extend(&mut self, sequence: Sequence, timeout: Option<Duration>, now: Timestamp) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        row.due_at = now.plus(self.lease_timeout(row.queue, timeout));
        self.write_row(row);
    }

    /// How long a lease lasts: as long as the call says, or else the queue.
    pub(super) fn lease_timeout(&self, number: QueueNumber, wanted: Option<Duration>) -> Duration {
        let by_queue = || self.queues.get(&number).map(|queue| queue.row.spec.visibility_timeout);
        wanted.or_else(by_queue).unwrap_or(limits::LEASE_MIN)
    }
}

/// Two sends of one call under the same key must be the same send.
fn check_shared_keys(sends: &[Send]) -> Result<(), Rejection> {
    for (index, send) in sends.iter().enumerate() {
        let Some(idempotency) = &send.idempotency else { continue };
        let clash = sends.iter().skip(index + 1).any(|other| {
            other.queue == send.queue
                && other
                    .idempotency
                    .as_ref()
                    .is_some_and(|other| other.key == idempotency.key && other.digest != idempotency.digest)
        });
        if clash {
            return Err(Rejection::IdempotencyKeyReused { key: idempotency.key.clone() });
        }
    }
    Ok(())
}
