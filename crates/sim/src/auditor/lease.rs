//! Leases: who holds what, and for how long.

use std::time::Duration;

use millpond_core::command::Lease;
use millpond_core::id::{LeaseGeneration, QueueNumber};
use millpond_core::limits::LEASE_MIN;
use millpond_core::outcome::Grant as Granted;
use millpond_core::spec::{AttemptLimit, Counted, QueueSpec};
use millpond_core::time::Timestamp;

use crate::auditor::group_lease::Asked;
use crate::auditor::order::{Handed, Place};
use crate::auditor::queue::within;
use crate::auditor::{Answered, Auditor, Breach, Ended, Grant, Hold, Life, Message, Reader, Verdict, demand};
use crate::names::{Kind, kind_of};

impl Auditor {
    /// A lease call got messages, or none.
    pub fn granted(&mut self, lease: &Lease, grants: &[Granted], answered: &Answered<'_>) -> Verdict {
        let most = usize::try_from(lease.max_messages).unwrap_or(usize::MAX);
        demand!(grants.len() <= most, "{} messages granted, asked for at most {most}", grants.len());
        demand!(answered.contents.len() == grants.len(), "contents are missing");
        self.check_wait(lease, grants.len(), answered)?;
        if kind_of(&lease.queue) == Kind::Group {
            let (name, timeout, reading) = (&*lease.queue, lease.visibility_timeout, &lease.reading);
            return self.granted_to_group(&Asked { name, timeout, reading, by_id: false }, grants, answered);
        }
        let stable = self.name_is_stable(&lease.queue, answered.submitted.index);
        let Some(&number) = self.names.get(&lease.queue).filter(|_| stable) else {
            self.granted_by_some_queue(lease, grants, answered.index);
            return Ok(());
        };
        for (grant, content) in grants.iter().zip(answered.contents) {
            let token = self.token_named(grant.message.sequence, content);
            self.grant(lease, grant, number, token, answered)?;
            let known = self.message(&grant.message);
            demand!(
                known.is_some_and(|message| message.content == *content),
                "{} came with other content than was sent",
                grant.message
            );
        }
        if let Some(first) = grants.first() {
            self.check_concurrency(number, first.leased_at, answered)?;
        }
        self.hand_out(number, grants, answered);
        Ok(())
    }

    /// The name has changed hands meanwhile: which queue granted is not known.
    fn granted_by_some_queue(&mut self, lease: &Lease, grants: &[Granted], index: u64) {
        for grant in grants {
            let Some(token) = self.by_id.get(&grant.message).copied() else { continue };
            let known = self.messages.get(&token).map(|message| message.queue);
            let Some(queue) = self.names.get(&lease.queue).copied().or(known) else { continue };
            self.unseen.insert((None, grant.message, grant.generation));
            let until = (grant.lease_until, grant.lease_until);
            let granted_at = grant.leased_at;
            let made = Grant {
                queue,
                asked: 0,
                granted_at,
                until,
                ended: Ended::PerhapsUndone,
                void: false,
                asked_at: None,
                hold: Hold::Unsure,
                hold_changed: 0,
            };
            if let Some(message) = self.messages.get_mut(&token) {
                message.grants.insert(grant.generation, made);
                message.changed = index;
            }
        }
    }

    /// A lease lasts as long as the call says, or else the queue.
    pub(super) fn check_length(
        &self,
        timeout: Option<Duration>,
        grant: &Granted,
        number: QueueNumber,
        asked: u64,
    ) -> Verdict {
        let lasts = |timeout| grant.lease_until == grant.leased_at.plus(timeout);
        let by_queue = || {
            let queue = self.queues.get(&number);
            queue.is_some_and(|queue| queue.specs_since(asked).any(|spec| lasts(spec.visibility_timeout)))
        };
        demand!(
            timeout.map_or_else(by_queue, lasts),
            "{} is leased from {:?} to {:?}, asked for {:?}",
            grant.message,
            grant.leased_at,
            grant.lease_until,
            timeout
        );
        Ok(())
    }

    /// Fewer than wanted are an answer only when the wait is over.
    fn check_wait(&self, lease: &Lease, got: usize, answered: &Answered<'_>) -> Verdict {
        let least = if lease.wait.is_zero() { 0 } else { lease.min_messages.max(1) };
        if lease.reading.look || !self.name_is_stable(&lease.queue, answered.submitted.index) {
            return Ok(());
        }
        let group = self.reader_named(&lease.queue);
        if group.is_some() && self.may_lack_grants(group, answered.stamp) {
            return Ok(());
        }
        // What was granted may have ended before its contents were read.
        // What is there is waited for to become more, but not for longer than that.
        let fills_for = lease.max_wait.unwrap_or(lease.wait).min(lease.wait);
        let wait = if got == 0 { lease.wait } else { fills_for };
        let least_wait = if self.unseen.is_empty() { wait } else { wait.min(LEASE_MIN) };
        let deadline = answered.submitted.stamp.plus(least_wait);
        demand!(
            got >= usize::try_from(least).unwrap_or(usize::MAX) || answered.stamp >= deadline,
            "{got} messages were answered before the wait was over, {least} wanted"
        );
        Ok(())
    }

    /// Whether messages may have left although a group was granted them, before their contents were read.
    fn may_lack_grants(&self, group: Reader, now: Timestamp) -> bool {
        let has_left = |message: &Message| {
            let log = self.queues.get(&message.queue).is_some_and(|log| log.alive);
            !log || message.life != Life::Alive || message.expires.0 <= now
        };
        let mut unseen = self.unseen.iter().filter(|(reader, ..)| *reader == group);
        unseen.any(|(_, id, _)| self.message(id).is_none_or(has_left))
    }

    fn grant(
        &mut self,
        lease: &Lease,
        grant: &Granted,
        number: QueueNumber,
        token: u64,
        answered: &Answered<'_>,
    ) -> Verdict {
        let id = grant.message;
        let granted_at = grant.leased_at;
        self.check_length(lease.visibility_timeout, grant, number, answered.submitted.index)?;
        demand!(
            within(granted_at, (answered.submitted.stamp, answered.stamp)),
            "{id} was granted at {granted_at:?}, not between {:?} and {:?}",
            answered.submitted.stamp,
            answered.stamp
        );
        self.check_history(None, grant, granted_at)?;
        let Some(message) = self.messages.get(&token) else {
            return Err(Breach(format!("{id} was granted and never sent")));
        };
        demand!(message.id == id, "message {token} was granted as {id}, sent as {}", message.id);
        // The answer waited for contents, and what came after was answered first.
        let newer = message.grants.keys().next_back().is_some_and(|newest| *newest > grant.generation);
        // Or it may be from before a replay or a move.
        let late = newer || grant.generation <= message.unsure;
        demand!(late || message.life == Life::Alive, "{id} came back: it was {:?}", message.life);
        if message.queue != number && !late {
            self.moved(grant, number, granted_at)?;
        }
        let Some(message) = self.messages.get(&token) else { return Ok(()) };
        demand!(
            message.purged.is_none_or(|purged| granted_at <= purged),
            "{id} was purged at {:?} and granted at {granted_at:?}",
            message.purged
        );
        demand!(granted_at < message.expires.1, "{id} expired at {:?}", message.expires.1);
        demand!(
            message.moved || granted_at >= id.sent_at.plus(message.delay),
            "{id} was granted at {granted_at:?}, before its delay was over"
        );
        demand!(grant.delivery == message.delivery, "{id} was granted as delivery {}", grant.delivery);
        self.check_not_before(message, grant)?;
        message.check_holds(grant, granted_at)?;
        if late {
            self.count_late(token, grant, number);
        } else {
            self.check_counts(message, grant)?;
        }
        let Some(message) = self.messages.get(&token) else { return Ok(()) };
        let unseen = self.unseen_below(None, id, grant.generation).is_some();
        let first = message.grants.is_empty() && message.base.generation == LeaseGeneration(0);
        if first && !unseen && grant.delivery_count == 1 {
            self.check_not_passed_over(message, granted_at)?;
        }
        self.note_grant(grant, (number, token), answered);
        Ok(())
    }

    fn note_grant(&mut self, grant: &Granted, (number, token): (QueueNumber, u64), answered: &Answered<'_>) {
        let granted_at = grant.leased_at;
        let until = (grant.lease_until, grant.lease_until);
        let asked = answered.submitted.index;
        if let Some(message) = self.messages.get_mut(&token) {
            let ended = if grant.generation <= message.floor {
                Ended::Lapsed
            } else if grant.generation <= message.unsure {
                Ended::PerhapsUndone
            } else {
                Ended::Open
            };
            let made = Grant {
                queue: number,
                asked,
                granted_at,
                until,
                ended,
                void: false,
                asked_at: None,
                hold: Hold::Granted,
                hold_changed: 0,
            };
            message.grants.insert(grant.generation, made);
            message.changed = answered.index;
        }
    }

    /// A message that was met in a new queue had been granted there before.
    fn count_late(&mut self, token: u64, grant: &Granted, number: QueueNumber) {
        if let Some(message) = self.messages.get_mut(&token)
            && message.queue == number
            && message.base.deliveries == 0
            && grant.generation <= message.base.generation
            && grant.generation > message.unsure
        {
            message.base.generation = LeaseGeneration(grant.generation.0 - 1);
        }
    }

    /// Generations rise with time, whatever happened between.
    pub(super) fn check_history(
        &mut self,
        reader: Reader,
        grant: &Granted,
        granted_at: Timestamp,
    ) -> Verdict {
        let (id, generation) = (grant.message, grant.generation);
        let history = self.history.entry((reader, id)).or_default();
        if let Some((before, at)) = history.range(..generation).next_back() {
            demand!(*at <= granted_at, "{id}: {generation} was granted before the lower {before}");
        }
        if let Some((after, at)) = history.range(LeaseGeneration(generation.0 + 1)..).next() {
            demand!(granted_at <= *at, "{id}: {generation} was granted after the higher {after}");
        }
        let again = history.insert(generation, granted_at);
        demand!(again.is_none(), "{id}: generation {generation} was granted twice");
        Ok(())
    }

    /// A message was met in another queue than it was known to be in.
    fn moved(&mut self, grant: &Granted, number: QueueNumber, granted_at: Timestamp) -> Verdict {
        let id = grant.message;
        let Some(token) = self.by_id.get(&id).copied() else { return Ok(()) };
        let Some(message) = self.messages.get(&token) else { return Ok(()) };
        let Some(from) = self.queues.get(&message.queue) else { return Ok(()) };
        let Some(to) = self.queues.get(&number) else { return Ok(()) };
        demand!(grant.dead_letter.is_some(), "{id} of {} was granted by {}", from.name, to.name);
        let unseen = self.unseen_below(None, id, grant.generation).is_some();
        let may_be_out = from.specs_since(message.last_asked()).any(|spec| message.may_be_out(spec));
        demand!(unseen || may_be_out, "{id} left {} with attempts left", from.name);
        let ends = |spec: &QueueSpec| spec.retention.map_or(Timestamp::NEVER, |age| id.sent_at.plus(age));
        let by_retention: Vec<Timestamp> = to.specs_since(message.last_asked()).map(ends).collect();
        let earliest = by_retention.iter().copied().min().unwrap_or(Timestamp::NEVER);
        let latest = by_retention.into_iter().max().unwrap_or(Timestamp::NEVER);
        let latest = latest.max(granted_at.plus(millpond_core::limits::RETENTION_MIN));
        let Some(message) = self.messages.get_mut(&token) else { return Ok(()) };
        message.queue = number;
        message.moved = true;
        message.purged = None;
        message.not_before = None;
        message.dead_at = None;
        message.home = grant.dead_letter.as_ref().map(|dead| dead.queue.clone());
        message.expires = (earliest, latest);
        // Grants of this stay may be known already: they were answered when nobody could tell which stay they were of.
        let elsewhere =
            message.grants.range(..grant.generation).rev().find(|(_, other)| other.queue != number);
        let elsewhere = elsewhere.map_or(message.floor, |(generation, _)| message.floor.max(*generation));
        message.base = super::message::Base { generation: elsewhere, ..super::message::Base::default() };
        Ok(())
    }

    /// No more deliveries than the limit allows.
    pub(super) fn check_counts(&self, message: &Message, grant: &Granted) -> Verdict {
        let newest = message.grants.range(grant.generation..).next().is_none();
        let least = message.deliveries().0;
        demand!(
            !newest || grant.delivery_count > least,
            "{} counts {} deliveries, {least} were answered before",
            message.id,
            grant.delivery_count
        );
        let nacked = message.recent().filter(|(_, grant)| grant.ended == Ended::Nacked).count();
        let has_attempt = |limit: AttemptLimit| {
            let spent = match limit.counts {
                Counted::Deliveries => grant.delivery_count - 1,
                Counted::Failures => u32::try_from(nacked).unwrap_or(u32::MAX),
            };
            spent < limit.max
        };
        // What counted when its last lease ended.
        let policies = self.policies_since(message, message.asked_before(grant.generation));
        demand!(
            policies.iter().map(|spec| spec.attempt_limit).any(|limit| limit.is_none_or(has_attempt)),
            "{} was granted for the {}th time, limit {:?}",
            message.id,
            grant.delivery_count,
            policies.last().and_then(|spec| spec.attempt_limit)
        );
        Ok(())
    }

    /// No more are held at once than the queue allows.
    pub(super) fn check_concurrency(
        &self,
        number: QueueNumber,
        at: Timestamp,
        answered: &Answered<'_>,
    ) -> Verdict {
        let Some(queue) = self.queues.get(&number) else { return Ok(()) };
        let limit = |spec: &QueueSpec| spec.concurrency_max.unwrap_or(u32::MAX).min(spec.leased_max);
        let since = answered.submitted.index;
        let limit = queue.specs_since(since).map(limit).max().unwrap_or(u32::MAX);
        let by_triggers = self.trigger_limits_since(queue, since).into_iter().max();
        let limit = limit.min(by_triggers.unwrap_or(u32::MAX));
        let held = self.held_in(number, at);
        demand!(
            held <= usize::try_from(limit).unwrap_or(usize::MAX),
            "{} has {held} leases at {at:?}, limit {limit}",
            queue.name
        );
        Ok(())
    }

    /// Leases of a queue or a group that were certainly held at a time.
    pub(super) fn held_in(&self, number: QueueNumber, at: Timestamp) -> usize {
        let held = |grant: &&Grant| grant.queue == number && grant.granted_at <= at && grant.is_held(at);
        let alive = |message: &&Message| {
            message.life == Life::Alive && self.is_reachable(message) && !self.is_being_taken(message)
        };
        let alive = self.deliveries_in(number).filter(alive);
        alive.filter(|message| message.grants.values().rev().take(1).any(|one| held(&one))).count()
    }

    /// Remembers what was handed out, for those who come later.
    fn hand_out(&mut self, number: QueueNumber, grants: &[Granted], answered: &Answered<'_>) {
        let Some(queue) = self.queues.get(&number) else { return };
        let mut handed = Vec::new();
        let asked = answered.submitted.index;
        let is_limited = |spec: &QueueSpec| spec.concurrency_max.is_some() || spec.leased_max < 1_000;
        let limited = queue.specs_since(asked).any(is_limited);
        let prompt = answered.stamp.since(answered.submitted.stamp) < LEASE_MIN;
        if grants.is_empty() && !limited && prompt {
            handed.push(Handed { at: answered.stamp, asked, place: None });
        }
        for grant in grants {
            let Some(message) = self.message(&grant.message) else { continue };
            if message.sent_index <= queue.order_changed {
                continue;
            }
            let place = Some(Place::of(message, queue, grant.delivery_count > 1));
            handed.push(Handed { at: grant.leased_at, asked, place });
        }
        if let Some(queue) = self.queues.get_mut(&number) {
            queue.handed.extend(handed);
        }
    }
}
