//! The end of leases: settled by their holders, or taken back.

use millpond_core::command::{LeaseRef, MessageRef, SettleAction, Settlement};
use millpond_core::limits::{LEASE_MAX, LEASE_MIN};
use millpond_core::outcome::WhyStale;
use millpond_core::spec::{AtLimit, Gone};

use crate::auditor::group_settle::Acked;
use crate::auditor::{Answered, Auditor, Breach, Ended, Hold, Life, Message, Verdict, demand};

impl Auditor {
    /// Whether a lease is certainly over, certainly held, or neither.
    pub(super) fn standing(&self, settlement: &Settlement, answered: &Answered<'_>) -> (bool, bool) {
        let lease = settlement.lease;
        let own = self.delivery(self.reader_named(&settlement.queue), &lease.message);
        let suits = |own: &&Message| {
            own.delivery == lease.delivery
                && self.suits(own, settlement, answered).0
                && self.is_reachable(own)
        };
        let own = own.filter(suits);
        let Some(grant) = own.and_then(|own| own.grants.get(&lease.generation)) else {
            return (true, false);
        };
        let same = self.names.get(&settlement.queue) == Some(&grant.queue);
        let unsure = |own: &Message| self.is_being_taken(own) || !self.suits(own, settlement, answered).1;
        if own.is_some_and(unsure) {
            return (!same, false);
        }
        (!same || grant.is_over(answered.submitted.stamp), same && grant.is_held(answered.stamp))
    }

    /// A settlement was reported stale.
    pub fn check_stale(
        &self,
        settlement: &Settlement,
        why: Option<WhyStale>,
        answered: &Answered<'_>,
    ) -> Verdict {
        let (_, held) = self.standing(settlement, answered);
        demand!(!held, "{:?} is held and was called stale", settlement.lease);
        why.map_or(Ok(()), |why| self.check_why(settlement, why, answered))
    }

    /// A settlement was carried out.
    pub fn settled(&mut self, settlement: &Settlement, answered: &Answered<'_>) -> Verdict {
        let lease = settlement.lease;
        let (over, _) = self.standing(settlement, answered);
        demand!(!over, "{lease:?} is stale and was settled: {:?}", settlement.action);
        let reader = self.reader_named(&settlement.queue);
        if self.comes_late(settlement) {
            // Who took the reservation meanwhile has a clock of its own.
            self.perhaps_late(reader, settlement, answered.index);
            return Ok(());
        }
        self.check_within_life(reader, settlement, answered)?;
        let Some(token) = self.by_id.get(&lease.message).copied() else { return Ok(()) };
        let queues = &self.queues;
        let message = match reader {
            None => self.messages.get_mut(&token),
            Some(group) => self.progress.get_mut(&(group, token)),
        };
        let Some(message) = message else { return Ok(()) };
        let newest = message.grants.keys().next_back().copied();
        let newer = message.grants.range(lease.generation..).skip(1);
        for (generation, newer) in newer {
            let late = newer.granted_at <= answered.submitted.stamp;
            demand!(!late, "{lease:?} was settled although {generation} was granted");
        }
        message.changed = answered.index;
        let Some(grant) = message.grants.get_mut(&lease.generation) else { return Ok(()) };
        grant.asked_at = settlement.holder.asked_at.or(grant.asked_at).filter(|_| reader.is_some());
        match settlement.action {
            SettleAction::Ack => {
                demand!(
                    newest == Some(lease.generation),
                    "{lease:?} was acked although {newest:?} was granted"
                );
                grant.ended = Ended::Acked;
                message.life = Life::Acked;
                let queue = queues.get(&grant.queue);
                let kept = queue.is_some_and(|queue| !queue.spec.finished_retention.is_zero());
                message.may_be_stored = kept;
                self.acks.extend(reader.map(|group| Acked { group, lease, at: answered.submitted.stamp }));
            }
            SettleAction::Nack(_) => grant.ended = Ended::Nacked,
            SettleAction::EndCall | SettleAction::Reserve => {}
            SettleAction::Extend(timeout) => {
                // Without a time of its own it lasts as long as the queue said at any time since it was asked for.
                let specs = queues.get(&grant.queue).into_iter();
                let specs = specs.flat_map(|queue| queue.specs_since(answered.submitted.index));
                let by_queue = specs.map(|spec| spec.visibility_timeout);
                let times: Vec<_> = timeout.map_or_else(|| by_queue.collect(), |timeout| vec![timeout]);
                let shortest = times.iter().min().copied().unwrap_or(LEASE_MIN);
                let longest = times.iter().max().copied().unwrap_or(LEASE_MAX);
                grant.ended = Ended::Open;
                grant.until = (answered.submitted.stamp.plus(shortest), answered.stamp.plus(longest));
            }
        }
        self.hold_settled(settlement, (reader, token), answered);
        Ok(())
    }

    /// Grants were taken back: `undone` of these.
    pub fn undone(&mut self, leases: &[LeaseRef], undone: u64, answered: &Answered<'_>) -> Verdict {
        let mut certain = 0;
        for lease in leases {
            let Some(token) = self.by_id.get(&lease.message).copied() else { continue };
            let reader = self.reader_of(lease.delivery);
            let log = self.delivery_of(reader, token).map(|own| self.is_reachable(own));
            let queues = &self.queues;
            let message = match reader {
                None => self.messages.get_mut(&token),
                Some(group) => self.progress.get_mut(&(group, token)),
            };
            let Some(message) = message.filter(|message| message.delivery == lease.delivery) else {
                continue;
            };
            message.changed = answered.index;
            let Some(grant) = message.grants.get_mut(&lease.generation) else { continue };
            let alive =
                log.is_none_or(|log| log) && queues.get(&grant.queue).is_some_and(|queue| queue.alive);
            // It is somebody's.
            if grant.hold == Hold::Extended {
                continue;
            }
            let held = alive && grant.is_held(answered.stamp) && grant.hold != Hold::Unsure;
            certain += u64::from(held);
            if held {
                grant.ended = Ended::Undone;
            } else if grant.ended == Ended::Open {
                grant.ended = Ended::PerhapsUndone;
            }
        }
        demand!(undone >= certain, "{undone} of {leases:?} were taken back, {certain} were held");
        Ok(())
    }

    /// A message was removed.
    pub fn removed(&mut self, wanted: &MessageRef, answered: &Answered<'_>) -> Verdict {
        let id = wanted.message;
        let (Some(message), Some(&number)) = (self.message(&id), self.names.get(&wanted.queue)) else {
            return Err(Breach(format!("{id} of {} was removed and never was there", wanted.queue)));
        };
        demand!(message.life != Life::Gone, "{id} was removed and was gone");
        let alive = message.life == Life::Alive;
        demand!(!alive || self.may_be_in(message, number), "{id} was removed from {}", wanted.queue);
        let held = message.grants.values().any(|grant| grant.is_held(answered.stamp));
        demand!(!held, "{id} was removed while it was held");
        let over = alive && message.queue == number && message.expires.1 <= answered.submitted.stamp;
        demand!(!over, "{id} was removed after it had expired at {:?}", message.expires.1);
        let unseen = self.unseen_of(None, id).unwrap_or_default();
        if let Some(message) = self.by_id.get(&id).and_then(|token| self.messages.get_mut(token)) {
            message.is_removed(unseen, answered.index);
        }
        Ok(())
    }

    /// Whether a message out of attempts stays in the environment whatever becomes of it.
    pub(super) fn keeps_dead(&self, at_limit: &AtLimit, since: u64) -> bool {
        match at_limit {
            AtLimit::Drop => false,
            AtLimit::DeadLetterSet => true,
            AtLimit::MoveTo { queue, otherwise } => {
                let whole = self.name_is_stable(queue, since) && self.names.contains_key(queue);
                whole || *otherwise == Gone::DeadLetterSet
            }
        }
    }
}
