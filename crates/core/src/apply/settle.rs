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
use crate::change::{Claim, LeaseKey, RowKey};
use crate::command::{LeaseRef, Require, Send, Settle, SettleAction, Settlement};
use crate::id::{LeaseGeneration, QueueNumber, Sequence};
use crate::limits;
use crate::outcome::{Outcome, Rejection, Stale, WhyStale, show_duration};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState, Hold, Role};
use crate::stamp::Stamp;
use crate::state::{Core, Named, QueueState, Totals};
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
            let stale = stale.into_iter().map(|stale| stale.lease).collect();
            return Err(Rejection::LeaseStale { stale }.into());
        }
        self.check_quotas(&plans, self.freed(&settle.settlements, &stale))?;
        // Last, because a claim is final: what is refused for another reason claims nothing.
        let held = self.held_by_transactions(settle, &stale)?;
        if !held.is_empty() && (settle.require == Require::All || !plans.is_empty()) {
            let stale = held.into_iter().map(|stale| stale.lease).collect();
            return Err(Rejection::LeaseStale { stale }.into());
        }
        let stale: Vec<_> = stale.into_iter().chain(held).collect();
        Ok(self.carry_out_settle(settle, &stale, plans, stamp))
    }

    /// Leases among those to be ended without an ack that somebody settles from beside the owner.
    fn held_by_transactions(&self, settle: &Settle, stale: &[Stale]) -> Result<Vec<Stale>, Stop> {
        let mut wanted = Vec::new();
        let mut held = Vec::new();
        for Settlement { lease, action, .. } in &settle.settlements {
            let ends = |row: &DeliveryRow| match action {
                SettleAction::Nack(_) => true,
                SettleAction::EndCall => row.hold != Hold::Granted,
                SettleAction::Ack | SettleAction::Extend(_) | SettleAction::Reserve => false,
            };
            let row = self.rows.live(lease.delivery).filter(|row| ends(row));
            let Some(key) = row.and_then(|row| self.claim_needed(row)) else { continue };
            if stale.iter().any(|stale| stale.lease == *lease) {
                continue;
            }
            match self.claims.get(key) {
                None => wanted.push(RowKey::Claim(key)),
                Some(Claim::Free) => {}
                Some(Claim::Held | Claim::Settled) => {
                    held.push(Stale { lease: *lease, why: WhyStale::Settling });
                }
            }
        }
        if wanted.is_empty() { Ok(held) } else { Err(Stop::Needs(wanted)) }
    }

    fn carry_out_settle(
        &mut self,
        settle: &Settle,
        stale: &[Stale],
        plans: Vec<SendPlan<'_>>,
        stamp: &Stamp,
    ) -> Outcome {
        let mut done: BTreeSet<_> = stale.iter().map(|stale| stale.lease).collect();
        for settlement in &settle.settlements {
            let delivery = settlement.lease.delivery;
            let last = self.last_asked(delivery);
            if comes_late(settlement, last) || !done.insert(settlement.lease) {
                continue;
            }
            match settlement.action {
                SettleAction::Ack => self.ack(delivery, stamp.now),
                SettleAction::Extend(timeout) => self.extend(delivery, timeout, stamp.now),
                SettleAction::Nack(delay) => self.end_attempt(delivery, Ended::Nacked(delay), stamp),
                SettleAction::EndCall => self.end_call(delivery, stamp),
                SettleAction::Reserve => self.reserve(delivery),
            }
            self.note_asked(delivery, settlement.holder.asked_at.or(last));
        }
        let sent = plans.into_iter().map(|plan| self.carry_out_send(plan, stamp)).collect();
        let in_order = settle
            .settlements
            .iter()
            .filter_map(|settlement| stale.iter().find(|stale| stale.lease == settlement.lease).copied());
        Outcome::Settled { stale: in_order.collect(), sent }
    }

    /// When the holder of a lease last asked, as far as memory knows and it said so.
    fn last_asked(&self, delivery: Sequence) -> Option<Timestamp> {
        let queue = self.rows.live(delivery).and_then(|row| self.queues.get(&row.queue));
        queue.and_then(QueueState::cursor).and_then(|cursor| cursor.asked.get(&delivery)).copied()
    }

    /// Remembers when the holder of a lease that is still held asked. Whatever changes its row has forgotten that.
    fn note_asked(&mut self, delivery: Sequence, asked_at: Option<Timestamp>) {
        let Some(asked_at) = asked_at else { return };
        let Some(row) = self.rows.live(delivery).filter(|row| row.state == DeliveryState::Leased) else {
            return;
        };
        let number = row.queue;
        if let Some(cursor) = self.queues.get_mut(&number).and_then(QueueState::cursor_mut) {
            cursor.asked.insert(delivery, asked_at);
        }
    }

    fn check_settlement(&self, settlement: &Settlement) -> Result<(), Rejection> {
        let number = self.existing(&settlement.queue)?;
        let role = self.queues.get(&number).map(|queue| queue.row.role).unwrap_or_default();
        if !matches!(role, Role::Queue | Role::Group { .. }) {
            let wanted = "a queue or a group";
            return Err(Rejection::Unsuited { name: settlement.queue.clone(), wanted });
        }
        match settlement.action {
            SettleAction::Reserve if role == Role::Queue => {
                Err(Rejection::Unsuited { name: settlement.queue.clone(), wanted: "a group" })
            }
            SettleAction::Ack
            | SettleAction::EndCall
            | SettleAction::Extend(None)
            | SettleAction::Nack(None)
            | SettleAction::Reserve => Ok(()),
            SettleAction::Extend(Some(timeout)) => {
                check_duration("visibility_timeout", timeout, limits::LEASE_MIN, limits::LEASE_MAX)
            }
            SettleAction::Nack(Some(delay)) => {
                check_duration("delay", delay, Duration::ZERO, limits::DELAY_MAX)
            }
        }
    }

    /// The leases that are not held any more, in request order. An extension past the longest hold is refused here.
    fn stale_leases(&self, settlements: &[Settlement], now: Timestamp) -> Result<Vec<Stale>, Rejection> {
        let mut stale = Vec::new();
        for settlement in settlements {
            let Some(number) = self.number_of(&settlement.queue) else { continue };
            let Some(row) =
                self.held(&settlement.lease, number, now).filter(|row| self.suits(row, settlement))
            else {
                let why = self.why_stale(settlement, number, now);
                stale.push(Stale { lease: settlement.lease, why });
                continue;
            };
            if let SettleAction::Extend(timeout) = settlement.action {
                self.check_extension(row, timeout, now)?;
            }
        }
        Ok(stale)
    }

    fn check_extension(
        &self,
        row: &DeliveryRow,
        timeout: Option<Duration>,
        now: Timestamp,
    ) -> Result<(), Rejection> {
        let timeout = self.lease_timeout(row.queue, timeout);
        let requested = now.plus(timeout);
        if requested <= longest_hold(row) {
            return Ok(());
        }
        if row.is_progress() {
            return Err(Rejection::BeyondExpiry { expires_at: row.expires_at, requested });
        }
        let limit = format!("{} in all from the grant of the lease", show_duration(limits::LEASE_MAX));
        Err(Rejection::out_of_range("visibility_timeout", show_duration(timeout), limit))
    }

    /// Whether a delivery is of the partition that the holder names.
    fn suits(&self, row: &DeliveryRow, settlement: &Settlement) -> bool {
        let Some(partition) = &settlement.holder.partition else { return true };
        let Some(Role::Cursor { log, .. }) = self.queues.get(&row.queue).map(|queue| queue.row.role) else {
            return false;
        };
        let Some(log) = self.queues.get(&log) else { return false };
        match (log.row.role, Named::of(&log.row.name)) {
            (Role::Partition { .. }, Some(Named::Partition { id, .. })) => *id == **partition,
            // Messages of none are pushed to a deployment, whose handlers name it.
            _ => self.triggers.has_deployment(partition),
        }
    }

    fn why_stale(&self, settlement: &Settlement, number: QueueNumber, now: Timestamp) -> WhyStale {
        let LeaseRef { delivery, message, generation } = settlement.lease;
        let Some(group) = self.queues.get(&number).and_then(QueueState::group) else { return WhyStale::Over };
        if group.was_acked(delivery, generation, now) {
            return WhyStale::Acked;
        }
        let row = self.rows.live(delivery).filter(|row| row.message_id() == message);
        let own = row.filter(|row| self.is_cursor_of(row.queue, number) && self.suits(row, settlement));
        match own {
            // A look has no hold.
            None if generation == LeaseGeneration::default() => WhyStale::Returned,
            None => WhyStale::Unknown,
            Some(row) if row.state == DeliveryState::Leased && row.lease_generation != generation => {
                WhyStale::Taken
            }
            Some(row) if row.state == DeliveryState::Leased && row.due_at <= now => WhyStale::Over,
            // It ran out or was given back, and nobody got the message since.
            Some(row) if row.lease_generation == generation => WhyStale::Over,
            Some(_) => WhyStale::Returned,
        }
    }

    /// What the acks among these take out of the environment.
    fn freed(&self, settlements: &[Settlement], stale: &[Stale]) -> Totals {
        let mut freed = Totals::default();
        let mut done: BTreeSet<_> = stale.iter().map(|stale| stale.lease).collect();
        for settlement in settlements {
            if !done.insert(settlement.lease) || settlement.action != SettleAction::Ack {
                continue;
            }
            let Some(row) = self.rows.live(settlement.lease.delivery) else { continue };
            let queue = self.queues.get(&row.queue);
            if queue.is_some_and(|queue| queue.row.spec.finished_retention.is_zero()) {
                freed.add(Totals::of_row(row));
            }
        }
        freed
    }

    /// The delivery that a lease holds, if it still does: expired counts as over, taken by another or not, unless an open transaction
    /// was found to hold it. That is looked at from time to time, and holds in between.
    pub(super) fn held(&self, lease: &LeaseRef, queue: QueueNumber, now: Timestamp) -> Option<&DeliveryRow> {
        self.rows.live(lease.delivery).filter(|row| {
            row.state == DeliveryState::Leased
                && (row.queue == queue || self.is_cursor_of(row.queue, queue))
                && row.message_id() == lease.message
                && (row.lease_generation == lease.generation || planted!(AckWithoutGeneration))
                && row.lease_generation >= self.environment.leases_void_below
                && (row.due_at > now || self.claims.is_held(LeaseKey::of(row)))
        })
    }

    /// The work is done.
    pub(super) fn ack(&mut self, sequence: Sequence, now: Timestamp) {
        let Some(row) = self.rows.live(sequence) else { return };
        let reader = self.reader_of(row.queue);
        if let Some(group) = self.queues.get_mut(&reader).and_then(QueueState::group_mut) {
            group.note_ack(row, now, self.settings.remembered_acks);
        }
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

    pub(super) fn extend(&mut self, sequence: Sequence, timeout: Option<Duration>, now: Timestamp) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        self.claims.note_extended(LeaseKey::of(&row));
        row.due_at = now.plus(self.lease_timeout(row.queue, timeout));
        row.hold = Hold::Extended;
        self.write_row(row);
    }

    /// The holder's call ended well. What it said by the end of its lease is when the message is wanted again; a message that it
    /// never fetched is tried again like one whose push failed.
    fn end_call(&mut self, sequence: Sequence, stamp: &Stamp) {
        let Some(row) = self.rows.live(sequence) else { return };
        match row.hold {
            Hold::Granted if planted!(EndCallFreesAll) => {
                self.end_attempt(sequence, Ended::Nacked(None), stamp);
            }
            Hold::Granted => {}
            Hold::Extended if planted!(EndCallKeepsSlot) => {}
            Hold::Extended => {
                let wait = row.due_at.since(stamp.now);
                self.end_attempt(sequence, Ended::Nacked(Some(wait)), stamp);
            }
            Hold::Reserved => self.end_attempt(sequence, Ended::Nacked(None), stamp),
        }
    }

    fn reserve(&mut self, sequence: Sequence) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        row.hold = Hold::Reserved;
        self.write_row(row);
    }

    pub(super) fn lease_state(&self, queue: &str, lease: &LeaseRef, stamp: &Stamp) -> Result<Outcome, Stop> {
        let number = self.existing(queue)?;
        let missing = self.missing_leases(std::iter::once(lease));
        if !missing.is_empty() {
            return Err(Stop::Needs(missing));
        }
        Ok(Outcome::LeaseHeld(self.held(lease, number, stamp.now).map(|row| row.due_at)))
    }

    /// How long a lease lasts: as long as the call says, or else the queue.
    pub(super) fn lease_timeout(&self, number: QueueNumber, wanted: Option<Duration>) -> Duration {
        let by_queue = || self.queues.get(&number).map(|queue| queue.row.spec.visibility_timeout);
        wanted.or_else(by_queue).unwrap_or(limits::LEASE_MIN)
    }
}

/// Whether its holder asked for something else later, by its own clock, that came earlier. An ack is never late.
fn comes_late(settlement: &Settlement, last: Option<Timestamp>) -> bool {
    let late = settlement.holder.asked_at.zip(last).is_some_and(|(asked_at, last)| last > asked_at);
    settlement.action != SettleAction::Ack && late
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

/// How long a lease may last: a queue's for so long in all, a group's as long as its message lives.
pub(super) fn longest_hold(row: &DeliveryRow) -> Timestamp {
    if row.is_progress() { row.expires_at } else { row.leased_at.plus(limits::LEASE_MAX) }
}
