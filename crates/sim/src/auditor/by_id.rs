//! Messages that a group takes by their ids: what may be answered of one that is known.

use std::ops::RangeInclusive;

use millpond_core::Rejection;
use millpond_core::command::LeaseMessage;
use millpond_core::id::QueueNumber;
use millpond_core::outcome::Grant as Granted;
use millpond_core::row::{CountersRow, Role};
use millpond_core::spec::QueueSpec;

use crate::auditor::doubt::Doubt;
use crate::auditor::group_lease::Asked;
use crate::auditor::queue::within;
use crate::auditor::{Answered, Auditor, Life, Message, Verdict, demand};
use crate::names;

impl Auditor {
    /// A message was taken by its id, or shown.
    pub fn taken(&mut self, lease: &LeaseMessage, grants: &[Granted], answered: &Answered<'_>) -> Verdict {
        demand!(grants.len() <= 1, "{} messages were granted by one id", grants.len());
        demand!(answered.contents.len() == grants.len(), "contents are missing");
        let other = grants.iter().find(|grant| grant.message != lease.message);
        demand!(other.is_none(), "{} was asked for and {other:?} was granted", lease.message);
        if grants.is_empty() {
            // It left before its content was read.
            self.perhaps_taken_back(lease, answered.index);
            let gone =
                self.message(&lease.message).is_none_or(|known| self.may_be_taken_out(known, answered));
            demand!(gone, "{} was granted without its content", lease.message);
        }
        let (name, timeout, reading) = (&*lease.queue, lease.visibility_timeout, &lease.reading);
        self.granted_to_group(&Asked { name, timeout, reading, by_id: true }, grants, answered)
    }

    /// A message was not granted.
    pub fn not_taken(&self, lease: &LeaseMessage, rejection: &Rejection, answered: &Answered<'_>) -> Verdict {
        let Some(group) = self.reader_named(&lease.queue) else { return answered.out_of_place() };
        let id = lease.message;
        let known = self.message(&id);
        let own = self.delivery(Some(group), &id);
        let skipped = self.queues.get(&group).zip(self.by_id.get(&id));
        let skipped = skipped.is_some_and(|(group, token)| group.perhaps_skipped.contains_key(token));
        let taken = own.is_some_and(|own| self.is_being_taken(own));
        let unsure = skipped || taken || self.unseen_of(Some(group), id).is_some();
        let reserved = own.is_some_and(|own| self.is_surely_reserved(own, answered));
        let reserved = reserved && !matches!(rejection, Rejection::MessageNotFound { .. });
        demand!(!reserved, "{id} is reserved, and {lease:?} was refused: {rejection:?}");
        let held = own.is_some_and(|own| self.is_held(own, answered.stamp));
        let allowed = match rejection {
            Rejection::MessageNotFound { message } => {
                *message == id && !known.is_some_and(|known| self.is_there(known, lease, answered))
            }
            Rejection::MessageDelayed { message, until } => {
                let fresh =
                    known.is_some_and(|known| known.may_be_later || *until == id.sent_at.plus(known.delay));
                let back = unsure || own.is_some_and(|own| own.life == Life::Alive);
                *message == id && *until > answered.submitted.stamp && !held && (fresh || back)
            }
            Rejection::MessageLeased { message, until } => {
                let last = own.and_then(|own| own.grants.values().next_back());
                let fits = last.is_some_and(|last| {
                    !matches!(last.ended, crate::auditor::Ended::Acked) && within(*until, last.until)
                });
                *message == id && *until > answered.submitted.stamp && (unsure || fits)
            }
            Rejection::AlreadySettled { message } => {
                let doubt = Doubt::about(&[], self);
                let over =
                    |own: &Message| own.life != Life::Alive || self.may_be_gone(own, &doubt, answered.stamp);
                *message == id && !held && (unsure || own.is_some_and(over))
            }
            Rejection::ConcurrencyReached { in_flight, limit } => {
                self.may_be_in_flight(group, *in_flight, lease.reading.in_flight_max, *limit, answered)
            }
            Rejection::Paused { name } => *name == lease.queue && self.is_paused(name),
            Rejection::RunLimit { limit } => {
                let known = self.queues.get(&group).map_or(0, |group| group.runs.0 + group.runs.1.len());
                let runs = known + self.unseen_in(group);
                *limit == self.settings.runs && runs >= *limit && !held
            }
            _ => false,
        };
        demand!(allowed, "{lease:?} was refused: {rejection:?}, known are {known:?} and {own:?}");
        Ok(())
    }

    /// Whether a message certainly is in what a group reads, all the time since it was asked for.
    fn is_there(&self, known: &Message, lease: &LeaseMessage, answered: &Answered<'_>) -> bool {
        let topic = names::topic_of(&lease.queue).unwrap_or_default();
        let log = self.queues.get(&known.queue).filter(|log| log.alive).map(|log| &*log.name);
        let pinned = lease.reading.partition.as_ref().map(|pinned| names::partition(topic, pinned));
        let since = answered.submitted.index;
        let told = |of: &str| self.triggers.was_deployed(of, since).1;
        let told = lease.reading.partition.as_deref().is_some_and(told);
        let unpinned = lease.reading.unpinned || told;
        let reads = match (&pinned, log) {
            (_, None) => false,
            (Some(pinned), Some(log)) => **pinned == *log || unpinned && log == topic,
            (None, Some(log)) => log == topic || names::topic_of(log) == Some(topic),
        };
        reads && known.life == Life::Alive && known.expires.0 > answered.stamp
    }

    /// Whether so many may be leased to a group, with this limit of its own or of the call.
    #[must_use]
    pub fn may_be_in_flight(
        &self,
        group: QueueNumber,
        in_flight: u64,
        in_flight_max: Option<u32>,
        limit: u32,
        answered: &Answered<'_>,
    ) -> bool {
        let Some(known) = self.queues.get(&group) else { return false };
        let own = |spec: &QueueSpec| spec.concurrency_max.unwrap_or(u32::MAX).min(spec.leased_max);
        let since = answered.submitted.index;
        let by_triggers = self.trigger_limits_since(known, since);
        let mut limits = known.specs_since(since).map(own);
        let own_max = in_flight_max.unwrap_or(u32::MAX);
        let fits = limits.any(|own| by_triggers.iter().any(|other| own.min(*other).min(own_max) == limit))
            || in_flight_max == Some(limit);
        fits && in_flight >= u64::from(limit) && self.leased_of(group, answered).contains(&in_flight)
    }

    /// How many leases of a group may be counted. Those that ran out count until they are worked off.
    pub(super) fn leased_of(&self, group: QueueNumber, answered: &Answered<'_>) -> RangeInclusive<u64> {
        let certain = u64::try_from(self.held_in(group, answered.stamp)).unwrap_or(u64::MAX);
        let open = |own: &&Message| {
            let last = own.grants.values().next_back();
            own.life == Life::Alive && last.is_some_and(|last| !last.is_settled())
        };
        let open = self.deliveries_in(group).filter(open).count();
        certain..=u64::try_from(open + self.unseen_in(group)).unwrap_or(u64::MAX)
    }

    /// The counts of a topic or a part of one are such as can be, whatever is under way.
    pub fn check_counters(&self, name: &str, counters: &CountersRow, answered: &Answered<'_>) -> Verdict {
        let Some(queue) = self.queue(name).filter(|queue| queue.role != Role::Queue) else { return Ok(()) };
        let kept = counters.dead + counters.completed + counters.cancelled;
        demand!(kept == 0, "{name} counts {counters:?}, of which it keeps none");
        let leased = counters.leased;
        if queue.role.is_log() {
            demand!(leased == 0, "{name} counts {leased} leases, which has none");
            return Ok(());
        }
        let known = self.leased_of(queue.number, answered);
        demand!(known.contains(&leased), "{name} counts {leased} leases, {known:?} are known");
        Ok(())
    }
}
