//! What is special about leases of groups: why one is not held, how long it may last, and whose word counts.

use millpond_core::command::{LeaseRef, SettleAction, Settlement};
use millpond_core::id::{LeaseGeneration, QueueNumber};
use millpond_core::limits::ACK_REMEMBERED_FOR;
use millpond_core::outcome::{Rejection, WhyStale};
use millpond_core::time::Timestamp;

use crate::auditor::doubt::Doubt;
use crate::auditor::{Answered, Auditor, Grant, Life, Message, Reader, Verdict, demand};
use crate::names::{Kind, id_of, kind_of};

/// A lease of a group that was acked since memory was lost.
#[derive(Clone, Debug)]
pub(super) struct Acked {
    pub(super) group: QueueNumber,
    pub(super) lease: LeaseRef,
    /// The last stamp before that.
    pub(super) at: Timestamp,
}

impl Auditor {
    /// Whether a delivery may be of the partition that its holder names, and whether it certainly is. Messages of none are pushed to
    /// deployments, whose handlers name these.
    pub(super) fn suits(
        &self,
        own: &Message,
        settlement: &Settlement,
        answered: &Answered<'_>,
    ) -> (bool, bool) {
        let Some(partition) = &settlement.holder.partition else { return (true, true) };
        let sent = self.message(&own.id).filter(|_| own.reader.is_some());
        let Some(log) = sent.and_then(|sent| self.queues.get(&sent.queue)) else { return (false, false) };
        match kind_of(&log.name) {
            Kind::Partition => {
                let is_its = id_of(&log.name) == &**partition;
                (is_its, is_its)
            }
            _ => self.triggers.was_deployed(partition, answered.submitted.index),
        }
    }

    /// Whether the holder of a lease asked for something else later, by its own clock, that came earlier.
    pub(super) fn comes_late(&self, settlement: &Settlement) -> bool {
        let lease = settlement.lease;
        let own = self.delivery(self.reader_named(&settlement.queue), &lease.message);
        let last = own.and_then(|own| own.grants.get(&lease.generation)?.asked_at);
        let late = settlement.holder.asked_at.zip(last).is_some_and(|(asked_at, last)| last > asked_at);
        settlement.action != SettleAction::Ack && late
    }

    /// The lease of a group does not outlive its message.
    pub(super) fn check_within_life(
        &self,
        reader: Reader,
        settlement: &Settlement,
        answered: &Answered<'_>,
    ) -> Verdict {
        let (SettleAction::Extend(Some(timeout)), Some(_)) = (settlement.action, reader) else {
            return Ok(());
        };
        let Some(own) = self.delivery(reader, &settlement.lease.message) else { return Ok(()) };
        let until = answered.submitted.stamp.plus(timeout);
        demand!(
            until <= own.expires.1,
            "{} is held until {until:?}, beyond its end {:?}",
            own.id,
            own.expires.1
        );
        Ok(())
    }

    /// Whether an extension among these may be refused because its message ends before it.
    #[must_use]
    pub fn may_be_beyond_expiry(
        &self,
        settlements: &[Settlement],
        rejection: &Rejection,
        answered: &Answered<'_>,
    ) -> bool {
        let Rejection::BeyondExpiry { expires_at, requested } = rejection else { return false };
        settlements.iter().any(|one| {
            let SettleAction::Extend(timeout) = one.action else { return false };
            let reader = self.reader_named(&one.queue);
            let group = reader.and_then(|group| self.queues.get(&group));
            let own = self.delivery(reader, &one.lease.message);
            let (Some(group), Some(own)) = (group, own) else { return false };
            let by_group = group.specs_since(answered.submitted.index).map(|spec| spec.visibility_timeout);
            let timeouts = timeout.map_or_else(|| by_group.collect(), |timeout| vec![timeout]);
            let fits = |timeout| {
                answered.submitted.stamp.plus(timeout) <= *requested
                    && *requested <= answered.stamp.plus(timeout)
            };
            requested > expires_at
                && (own.expires.0..=own.expires.1).contains(expires_at)
                && timeouts.into_iter().any(fits)
        })
    }

    /// Whether a lease is not held for this reason, as far as can be known.
    pub(super) fn check_why(
        &self,
        settlement: &Settlement,
        why: WhyStale,
        answered: &Answered<'_>,
    ) -> Verdict {
        let lease = settlement.lease;
        let Some(group) = self.reader_named(&settlement.queue) else {
            demand!(why == WhyStale::Over, "{lease:?} of a queue is stale because it is {why:?}");
            return Ok(());
        };
        let acked = self.acks.iter().rev().filter(|acked| acked.group == group);
        let place = acked.clone().position(|acked| acked.lease == lease);
        if why == WhyStale::Acked {
            demand!(place.is_some(), "{lease:?} was never acked");
            return Ok(());
        }
        let remembered = place.is_some_and(|place| place < self.settings.remembered_acks.max(1));
        let lately = acked.clone().find(|acked| acked.lease == lease);
        let lately = lately.is_some_and(|acked| acked.at.plus(ACK_REMEMBERED_FOR) > answered.stamp);
        demand!(!remembered || !lately, "{lease:?} was acked, and is stale because it is {why:?}");
        let own = self.delivery(Some(group), &lease.message).filter(|own| own.delivery == lease.delivery);
        let suits = own.map_or((false, false), |own| self.suits(own, settlement, answered));
        if suits == (true, false) {
            return Ok(());
        }
        let Some(own) = own.filter(|_| suits.0) else {
            let unknown = self.unseen_of(Some(group), lease.message).is_none();
            let look = lease.generation == LeaseGeneration::default();
            let expected = if look { WhyStale::Returned } else { WhyStale::Unknown };
            // A message whose time is over leaves when it is swept; until then its delivery may be known.
            let over = self.message(&lease.message).is_some_and(|own| own.expires.0 <= answered.stamp);
            demand!(
                !unknown || why == expected || over && why == WhyStale::Over,
                "{lease:?} is stale because it is {why:?}, not {expected:?}"
            );
            return Ok(());
        };
        self.check_why_not_held(own, lease, why, answered)
    }

    /// The group had the message under this delivery.
    fn check_why_not_held(
        &self,
        own: &Message,
        lease: LeaseRef,
        why: WhyStale,
        answered: &Answered<'_>,
    ) -> Verdict {
        let unsure = self.unseen_of(own.reader, own.id).is_some();
        let none = LeaseGeneration::default();
        let mut known = own.grants.keys().chain(std::iter::once(&own.base.generation));
        let others = known.any(|other| *other != lease.generation && *other != none);
        let reachable = self.is_reachable(own);
        let holder = own.grants.iter().rfind(|(_, grant)| reachable && grant.is_held(answered.stamp));
        let taken = holder.is_some_and(|(generation, _)| *generation != lease.generation);
        let grant = own.grants.get(&lease.generation);
        let look = lease.generation == none;
        let doubt = Doubt::about(&[], self);
        let stays = own.life == Life::Alive && !self.may_be_gone(own, &doubt, answered.stamp);
        let wrong = match why {
            WhyStale::Acked | WhyStale::Settling => true,
            WhyStale::Taken => !others && !unsure,
            WhyStale::Over => {
                let stored = own.base.generation == lease.generation;
                // Somebody who was not answered yet may have taken a reservation for a shorter time, which is over by now.
                let perhaps_shorter = |grant: &Grant| {
                    grant.may_be_reserved(answered.submitted.index) && self.is_being_taken(own)
                };
                let held = |grant: &Grant| grant.is_held(answered.stamp) && !perhaps_shorter(grant);
                taken || grant.map_or(!stored, held)
            }
            // It was an earlier hold than the last.
            WhyStale::Returned => !unsure && (taken || !look && !others),
            WhyStale::Unknown => stays || look,
        };
        demand!(!wrong, "{lease:?} is stale because it is {why:?}: {own:?}");
        let must_be_taken = taken && !unsure;
        demand!(!must_be_taken || why == WhyStale::Taken, "{lease:?} is {why:?}, held under {holder:?}");
        Ok(())
    }
}
