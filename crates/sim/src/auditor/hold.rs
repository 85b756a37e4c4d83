//! What is known of leases beyond their ends: whether their holders asked for another, and whether anybody was told of them.

use millpond_core::command::{LeaseMessage, LeaseRef, SettleAction, Settlement};
use millpond_core::id::{MessageId, QueueNumber};
use millpond_core::limits::LEASE_MAX;
use millpond_core::outcome::Grant as Granted;
use millpond_core::row;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};

use crate::auditor::group_lease::Asked;
use crate::auditor::queue::within;
use crate::auditor::{Answered, Auditor, Ended, Grant, Life, Message, Token, Verdict, demand};

/// What is known of a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Hold {
    /// Its end is that of its grant.
    Granted,
    /// Its holder asked for another end.
    Extended,
    /// Nobody was told of it.
    Reserved,
    /// Nobody can tell.
    #[default]
    Unsure,
}

impl From<row::Hold> for Hold {
    fn from(stored: row::Hold) -> Self {
        match stored {
            row::Hold::Granted => Self::Granted,
            row::Hold::Extended => Self::Extended,
            row::Hold::Reserved => Self::Reserved,
        }
    }
}

impl Grant {
    pub(super) fn is_now(&mut self, hold: Hold, index: u64) {
        self.hold = hold;
        self.hold_changed = index;
    }

    /// Whether it was, or may have been, a reservation at some time since.
    pub(super) fn may_be_reserved(&self, since: u64) -> bool {
        matches!(self.hold, Hold::Reserved | Hold::Unsure) || self.hold_changed >= since
    }
}

impl Auditor {
    /// Whether somebody asks for a delivery by the message's id and was not answered yet: a reservation that was there since then
    /// may be that caller's. A lease that is none is nobody else's.
    pub(super) fn is_being_taken(&self, own: &Message) -> bool {
        let Some(group) = own.reader.and_then(|group| self.queues.get(&group)) else { return false };
        let since = self.taking.get(&(group.name.clone(), own.id));
        let perhaps =
            |since: u64| own.grants.values().any(|grant| !grant.is_settled() && grant.may_be_reserved(since));
        since.is_some_and(|since| perhaps(*since))
    }

    /// What a group has of a message is a lease that nobody was told of, for sure.
    pub(super) fn is_surely_reserved(&self, own: &Message, answered: &Answered<'_>) -> bool {
        let last = own.grants.values().next_back();
        let reserved = last.is_some_and(|last| {
            last.hold == Hold::Reserved
                && last.hold_changed < answered.submitted.index
                && last.is_held(answered.stamp)
        });
        let unseen = own.grants.keys().next_back().is_some_and(|last| {
            let higher = self.unseen_of(own.reader, own.id);
            higher.is_some_and(|unseen| unseen > *last)
        });
        reserved && !unseen && self.is_reachable(own) && !self.is_being_taken(own)
    }

    /// What a holder's call that ended, or its reservation, or its word on the end of its lease means. `None`: it is settled.
    pub(super) fn hold_settled(
        &mut self,
        settlement: &Settlement,
        (number, token): (Option<QueueNumber>, Token),
        answered: &Answered<'_>,
    ) {
        let index = answered.index;
        let Some(own) = self.delivery_of(number, token) else { return };
        let taken = self.is_being_taken(own);
        let back = self.back_after(own, settlement, answered);
        let generation = settlement.lease.generation;
        let Some(own) = self.delivery_mut(number, token) else { return };
        let Some(grant) = own.grants.get_mut(&generation) else { return };
        let unsure = taken || grant.hold == Hold::Unsure;
        let mut not_before = None;
        match settlement.action {
            SettleAction::Ack => {}
            SettleAction::Extend(_) => grant.is_now(Hold::Extended, index),
            SettleAction::Nack(_) => not_before = Some(back),
            SettleAction::Reserve => grant.is_now(Hold::Reserved, index),
            SettleAction::EndCall if unsure => {
                grant.is_now(Hold::Unsure, index);
                grant.ended = Ended::PerhapsUndone;
            }
            SettleAction::EndCall => {
                not_before = match grant.hold {
                    Hold::Granted | Hold::Unsure => None,
                    Hold::Extended => Some(grant.until.0),
                    Hold::Reserved => Some(back),
                };
                if not_before.is_some() {
                    grant.ended = Ended::Nacked;
                    grant.hold_changed = index;
                }
            }
        }
        if let Some(at) = not_before {
            own.not_before = Some((own.queue, generation, at));
        }
    }

    /// When what is given back can be had again at the earliest.
    fn back_after(&self, own: &Message, settlement: &Settlement, answered: &Answered<'_>) -> Timestamp {
        let wait = match settlement.action {
            SettleAction::Nack(Some(delay)) => Some(delay),
            _ => {
                let policies = self.policies_since(own, answered.submitted.index);
                // The chance in other policies is not for clients to know.
                let fixed = |spec: &millpond_core::spec::QueueSpec| {
                    let backoff = spec.backoff.filter(|backoff| backoff.jitter_permille == (1_000, 1_000));
                    backoff.map(|backoff| backoff.initial.min(backoff.max))
                };
                policies.iter().map(|spec| fixed(spec).unwrap_or_default()).min()
            }
        };
        answered.submitted.stamp.plus(wait.unwrap_or_default())
    }

    /// A message that was given back does not come before its time.
    pub(super) fn check_not_before(&self, known: &Message, grant: &Granted) -> Verdict {
        let Some((queue, generation, at)) = known.not_before else { return Ok(()) };
        // Out of attempts it may have gone to another queue, where it is ready at once.
        let elsewhere = known.queue != queue;
        demand!(
            elsewhere || grant.generation <= generation || grant.leased_at >= at,
            "{} was given back until {at:?} and granted at {:?}",
            known.id,
            grant.leased_at
        );
        Ok(())
    }

    /// Whether a message that was asked for by its id came under a lease that is known already.
    pub(super) fn is_about_reservation(
        &self,
        asked: &Asked<'_>,
        grant: &Granted,
        (number, token): (QueueNumber, Token),
        answered: &Answered<'_>,
    ) -> bool {
        let known = self.progress.get(&(number, token)).filter(|_| asked.by_id);
        known.is_some_and(|known| {
            known.grants.contains_key(&grant.generation)
                || asked.reading.look && self.is_reservation_shown(known, grant, answered)
        })
    }

    /// A lease that nobody was told of went to who asked for the message: the same lease, counted once.
    pub(super) fn reservation_taken(
        &mut self,
        asked: &Asked<'_>,
        grant: &Granted,
        (number, token): (QueueNumber, Token),
        answered: &Answered<'_>,
    ) -> Verdict {
        let (id, since) = (grant.message, answered.submitted.index);
        let Some(own) = self.progress.get(&(number, token)) else { return Ok(()) };
        // Of a look there is nothing more to say.
        let Some(known) = own.grants.get(&grant.generation) else { return Ok(()) };
        demand!(known.may_be_reserved(since), "{id} was granted again under {}: {known:?}", grant.generation);
        demand!(!known.void, "{id} was granted under {}, which a restore made void", grant.generation);
        demand!(
            known.granted_at == grant.leased_at && own.delivery == grant.delivery,
            "{id} was reserved as {known:?} and granted as {grant:?}"
        );
        let ended = !matches!(known.ended, Ended::Open | Ended::PerhapsUndone) || own.life != Life::Alive;
        demand!(!ended || own.changed >= since, "{id} was granted under a lease that is over: {known:?}");
        // Others may have taken it for longer and not heard of it, and its holder may have reserved it again.
        demand!(
            known.until.1 > answered.submitted.stamp || self.is_being_taken(own),
            "{id} was granted under a lease that ran out: {known:?}"
        );
        let newest = own.grants.range(grant.generation..).nth(1).is_none();
        let (least, most) = own.deliveries();
        demand!(
            !newest || ended || (least..=most).contains(&grant.delivery_count),
            "{id} counts {} deliveries, {least} to {most} are known",
            grant.delivery_count
        );
        let queue = self.queues.get(&number).into_iter();
        let by_queue = queue.flat_map(|queue| queue.specs_since(since)).map(|spec| spec.visibility_timeout);
        let timeouts: Vec<_> = asked.timeout.map_or_else(|| by_queue.collect(), |timeout| vec![timeout]);
        let (from, to) = (answered.submitted.stamp, answered.stamp);
        let fits = |timeout| within(grant.lease_until, (from.plus(timeout), to.plus(timeout)));
        demand!(timeouts.into_iter().any(fits), "{id} is leased until {:?}", grant.lease_until);
        let Some(own) = self.progress.get_mut(&(number, token)) else { return Ok(()) };
        let Some(known) = own.grants.get_mut(&grant.generation) else { return Ok(()) };
        let until = grant.lease_until;
        if own.changed >= since {
            // What was told meanwhile came before it, or after.
            known.until = (known.until.0.min(until), known.until.1.max(until));
            known.is_now(Hold::Unsure, answered.index);
        } else {
            known.until = (until, until);
            known.is_now(Hold::Granted, answered.index);
            known.asked_at = None;
        }
        own.changed = answered.index;
        Ok(())
    }

    /// A reservation is shown as it would be given.
    pub(super) fn is_reservation_shown(
        &self,
        own: &Message,
        grant: &Granted,
        answered: &Answered<'_>,
    ) -> bool {
        let (least, most) = own.deliveries();
        let last = own.grants.values().next_back();
        // A look holds nothing: it is of now, whenever the reservation was made.
        let same = grant.leased_at == grant.lease_until
            && last.is_some_and(|last| last.may_be_reserved(answered.submitted.index));
        // Its answer waited for the content, and the lease may have ended meanwhile.
        let later = own.changed >= answered.submitted.index;
        let over = last.is_some_and(|last| last.is_over(answered.submitted.stamp));
        same && (later || !over && (least..=most).contains(&grant.delivery_count))
            && within(grant.lease_until, (answered.submitted.stamp, answered.stamp))
    }

    /// Somebody may be taking a reservation while its holder says something that comes late: nobody can tell what counted.
    pub(super) fn perhaps_late(&mut self, reader: Option<QueueNumber>, settlement: &Settlement, index: u64) {
        let own = self.delivery(reader, &settlement.lease.message);
        if own.is_some_and(|own| self.is_being_taken(own)) {
            let (queue, message) = (settlement.queue.clone(), settlement.lease.message);
            let reading = Default::default();
            self.perhaps_taken_back(
                &LeaseMessage { queue, message, visibility_timeout: None, reading },
                index,
            );
        }
    }

    /// A lease that was given to somebody who may not have heard of it may be taken back.
    pub fn perhaps_taken_back(&mut self, lease: &LeaseMessage, index: u64) {
        let token = self.by_id.get(&lease.message).copied();
        let Some((group, token)) = self.reader_named(&lease.queue).zip(token) else { return };
        let Some(own) = self.progress.get_mut(&(group, token)) else { return };
        if let Some(last) = own.grants.values_mut().next_back() {
            if last.ended == Ended::Open {
                last.ended = Ended::PerhapsUndone;
            }
            last.is_now(Hold::Unsure, index);
            last.until = (last.until.0, last.until.1.max(last.granted_at.plus(LEASE_MAX)));
            own.changed = index;
        }
    }

    /// Somebody asked whether a lease is held.
    pub fn lease_state(
        &self,
        (queue, lease): (&str, LeaseRef),
        until: Option<Timestamp>,
        answered: &Answered<'_>,
    ) -> Verdict {
        let settlement =
            Settlement { queue: queue.into(), lease, action: SettleAction::Ack, holder: Default::default() };
        let (over, held) = self.standing(&settlement, answered);
        demand!(!held || until.is_some(), "{lease:?} is held and was called over");
        demand!(!over || until.is_none(), "{lease:?} is over and was called held until {until:?}");
        let Some(until) = until else { return Ok(()) };
        demand!(until > answered.submitted.stamp, "{lease:?} is called held until {until:?}");
        let own = self.delivery(self.reader_named(queue), &lease.message);
        let grant = own.and_then(|own| own.grants.get(&lease.generation)).filter(|_| held);
        let known = grant.map(|grant| grant.until);
        demand!(
            known.is_none_or(|known| within(until, known)),
            "{lease:?} is held until {until:?}, not {known:?}"
        );
        Ok(())
    }

    /// Whether somebody got a reservation that is known.
    #[must_use]
    pub fn takes_reservation(&self, command: &Command, outcome: &Outcome) -> bool {
        let (Command::LeaseMessage(lease), Outcome::Leased(grants)) = (command, outcome) else {
            return false;
        };
        let own = self.delivery(self.reader_named(&lease.queue), &lease.message);
        let known = |grant: &Granted| own.is_some_and(|own| own.grants.contains_key(&grant.generation));
        !lease.reading.look && grants.iter().any(known)
    }

    /// Calls that ask for messages of groups by their ids and were not answered yet.
    pub fn note_taking(&mut self, taking: impl Iterator<Item = (Box<str>, MessageId, u64)>) {
        self.taking.clear();
        for (group, message, since) in taking {
            let first = self.taking.entry((group, message)).or_insert(since);
            *first = since.min(*first);
        }
    }
}
