//! Leases of groups: who of a group holds what of its topic.

use std::time::Duration;

use millpond_core::command::Reading;
use millpond_core::id::{LeaseGeneration, QueueNumber};
use millpond_core::outcome::Grant as Granted;
use millpond_core::time::Timestamp;

use crate::auditor::queue::within;
use crate::auditor::{
    Answered, Auditor, Breach, Ended, Grant, Hold, Life, Message, Token, Verdict, demand, token_of,
};
use crate::names;

/// How messages of a group were asked for.
pub(super) struct Asked<'a> {
    /// Name of the group.
    pub(super) name: &'a str,
    pub(super) timeout: Option<Duration>,
    pub(super) reading: &'a Reading,
    /// One message was named.
    pub(super) by_id: bool,
}

impl Auditor {
    /// A group was asked for messages, and these were granted or shown.
    pub(super) fn granted_to_group(
        &mut self,
        asked: &Asked<'_>,
        grants: &[Granted],
        answered: &Answered<'_>,
    ) -> Verdict {
        let stable = self.name_is_stable(asked.name, answered.submitted.index);
        let Some(&number) = self.names.get(asked.name).filter(|_| stable) else {
            self.granted_to_some_group(asked, grants, answered.index);
            return Ok(());
        };
        for (grant, content) in grants.iter().zip(answered.contents) {
            let token = token_of(content);
            let Some(message) = self.messages.get(&token) else {
                return Err(Breach(format!("{} was granted and never sent", grant.message)));
            };
            let id = message.id;
            demand!(id == grant.message, "message {token} was granted as {}, sent as {id}", grant.message);
            demand!(message.content == *content, "{id} came with other content than was sent");
            if self.is_about_reservation(asked, grant, (number, token), answered) {
                self.reservation_taken(asked, grant, (number, token), answered)?;
                return Ok(());
            }
            self.check_visible(asked, grant, number, message, answered)?;
            if asked.reading.look {
                self.shown_to_group(grant, number, token, answered)?;
            } else {
                self.grant_to_group(asked, grant, number, token, answered)?;
            }
        }
        if asked.reading.look {
            return Ok(());
        }
        if let Some(first) = grants.first() {
            self.check_concurrency(number, first.leased_at, answered)?;
            self.check_in_flight(number, asked, grants.len(), first.leased_at)?;
        }
        if !asked.by_id {
            self.hand_out_of_logs(number, asked.reading, grants, answered);
        } else if let Some(group) = self.queues.get_mut(&number) {
            group.runs.1.extend(grants.iter().map(|grant| grant.message));
        }
        Ok(())
    }

    /// A call may allow less than the group. Others that were granted something at the same stamp may have been later.
    fn check_in_flight(
        &self,
        number: QueueNumber,
        asked: &Asked<'_>,
        granted: usize,
        at: Timestamp,
    ) -> Verdict {
        let Some(limit) = asked.reading.in_flight_max else { return Ok(()) };
        let own = self.deliveries_in(number).filter(|own| own.life == Life::Alive && self.is_reachable(own));
        // One that somebody is taking by its message's id may be shorter than is known.
        let own = own.filter(|own| !self.is_being_taken(own));
        let held = |grant: &Grant| grant.granted_at < at && grant.is_held(at);
        let held = own.filter(|own| own.grants.values().next_back().is_some_and(held)).count();
        demand!(
            u32::try_from(held + granted).is_ok_and(|held| held <= limit),
            "{held} leases of {} were held, and {granted} were granted to a call that allows {limit}",
            asked.name
        );
        Ok(())
    }

    /// The name has changed hands meanwhile: the group that granted may be the present one or one before.
    fn granted_to_some_group(&mut self, asked: &Asked<'_>, grants: &[Granted], index: u64) {
        let Some(&number) = self.names.get(asked.name).filter(|_| !asked.reading.look) else { return };
        for grant in grants {
            let Some(token) = self.by_id.get(&grant.message).copied() else { continue };
            let Some(message) = self.messages.get(&token) else { continue };
            if self.reader_of(grant.delivery) != Some(number) {
                continue;
            }
            self.unseen.insert((Some(number), grant.message, grant.generation));
            let made = Message::of_group(message, number, grant.delivery, index);
            let known = self.progress.entry((number, token)).or_insert(made);
            let until = (grant.lease_until, grant.lease_until);
            let granted_at = grant.leased_at;
            let ended = Ended::PerhapsUndone;
            let made = Grant {
                queue: number,
                asked: 0,
                granted_at,
                until,
                ended,
                void: false,
                asked_at: None,
                hold: Hold::Unsure,
                hold_changed: 0,
            };
            known.grants.insert(grant.generation, made);
            known.changed = index;
        }
    }

    /// A group gets what is visible and not over, of its own topic and of the partition that is asked for.
    fn check_visible(
        &self,
        asked: &Asked<'_>,
        grant: &Granted,
        number: QueueNumber,
        message: &Message,
        answered: &Answered<'_>,
    ) -> Verdict {
        let (id, at) = (message.id, grant.leased_at);
        let index = answered.submitted.index;
        demand!(
            within(at, (answered.submitted.stamp, answered.stamp)),
            "{id} was granted at {at:?}, not between {:?} and {:?}",
            answered.submitted.stamp,
            answered.stamp
        );
        let topic = self.topic_number(number);
        demand!(
            topic == self.topic_number(message.queue),
            "{id} of another topic was granted by {}",
            asked.name
        );
        if let Some(pinned) = &asked.reading.partition {
            let log = self.queues.get(&message.queue).map(|log| &*log.name).unwrap_or_default();
            let named = names::topic_of(asked.name).map(|topic| names::partition(topic, pinned));
            let told = asked.by_id && self.triggers.was_deployed(pinned, index).0;
            let unpinned = (asked.reading.unpinned || told) && names::kind_of(log) == names::Kind::Topic;
            let reads = unpinned || named.as_deref() == Some(log);
            demand!(reads, "{id} of {log} was granted to a reader of {pinned}");
        }
        let theirs = asked.reading.pushes && asked.reading.partition.is_none() && !asked.by_id;
        demand!(
            !theirs || !self.is_of_a_deployment(asked.name, message.queue, index),
            "{id} is a deployment's to push and was granted to a trigger of none by {}",
            asked.name
        );
        demand!(
            message.purged.is_none_or(|purged| at <= purged),
            "{id} was purged at {:?} and granted at {at:?}",
            message.purged
        );
        demand!(at < message.expires.1, "{id} was granted at {at:?}, it expired at {:?}", message.expires.1);
        demand!(
            at >= id.sent_at.plus(message.delay),
            "{id} was granted at {at:?}, before its delay was over"
        );
        let group = self.queues.get(&number);
        let paused = group.is_some_and(|group| group.paused && group.pause_changed < index);
        // A look at one message leases nothing, and is given of a paused group as well.
        let looks = asked.by_id && asked.reading.look;
        demand!(!paused || looks, "{id} was granted by {}, which is paused", asked.name);
        demand!(
            grant.expires_at == message.expires.0 || message.expires.0 < message.expires.1,
            "{id} is said to expire at {:?}, not at {:?}",
            grant.expires_at,
            message.expires.0
        );
        Ok(())
    }

    fn grant_to_group(
        &mut self,
        asked: &Asked<'_>,
        grant: &Granted,
        number: QueueNumber,
        token: Token,
        answered: &Answered<'_>,
    ) -> Verdict {
        let (id, granted_at) = (grant.message, grant.leased_at);
        self.check_length(asked.timeout, grant, number, answered.submitted.index)?;
        self.check_history(Some(number), grant, granted_at)?;
        let unseen = self.unseen_below(Some(number), id, grant.generation).is_some();
        let Some(message) = self.messages.get(&token) else { return Ok(()) };
        if !self.progress.contains_key(&(number, token)) && !unseen {
            let behind = !asked.by_id && self.is_behind(number, message, token) == Some(true);
            demand!(!behind, "{id} was granted by {}, which began behind it", asked.name);
            if !asked.by_id {
                self.check_not_passed_over_in_log(number, message, token, granted_at)?;
            }
        }
        let mut made = Message::of_group(message, number, grant.delivery, answered.index);
        let skipped = self.queues.get(&number).and_then(|group| group.perhaps_skipped.get(&token));
        if skipped.is_some_and(|purged| granted_at <= *purged) {
            made.purged = Some(Timestamp::NEVER);
        }
        let taken = self.progress.get(&(number, token)).is_some_and(|own| self.is_being_taken(own));
        let known = self.progress.entry((number, token)).or_insert(made);
        let newer = known.check_granted_again(asked.name, grant, taken)?;
        let most = known.deliveries().1;
        demand!(
            newer || unseen || grant.delivery_count <= most + 1,
            "{id} counts {} deliveries, {most} are known",
            grant.delivery_count
        );
        let until = (grant.lease_until, grant.lease_until);
        let made = Grant {
            queue: number,
            asked: answered.submitted.index,
            granted_at,
            until,
            ended: Ended::Open,
            void: false,
            asked_at: None,
            hold: Hold::Granted,
            hold_changed: 0,
        };
        let Some(known) = self.progress.get(&(number, token)) else { return Ok(()) };
        self.check_not_before(known, grant)?;
        if !newer {
            self.check_counts(known, grant)?;
        }
        if let Some(known) = self.progress.get_mut(&(number, token)) {
            known.grants.insert(grant.generation, made);
            known.changed = answered.index;
        }
        Ok(())
    }

    /// A message is shown as it would be handed out: it is not held, and was not settled.
    fn shown_to_group(
        &self,
        grant: &Granted,
        number: QueueNumber,
        token: Token,
        answered: &Answered<'_>,
    ) -> Verdict {
        let id = grant.message;
        demand!(
            grant.generation == LeaseGeneration::default() && grant.lease_until == grant.leased_at,
            "{id} is shown under {} until {:?}",
            grant.generation,
            grant.lease_until
        );
        let sure = self.unseen_of(Some(number), id).is_none();
        let Some(known) = self.progress.get(&(number, token)) else {
            let fresh = grant.delivery == id.sequence && grant.delivery_count == 1;
            demand!(!sure || fresh, "{id} is shown as {grant:?}, and was never granted");
            return Ok(());
        };
        if known.changed >= answered.submitted.index || !sure {
            return Ok(());
        }
        demand!(known.life == Life::Alive, "{id} is shown, it was {:?}", known.life);
        let held = self.is_held(known, answered.stamp);
        demand!(!held, "{id} is shown as free while it is held");
        let (least, most) = known.deliveries();
        demand!(
            (least + 1..=most + 1).contains(&grant.delivery_count),
            "{id} is shown with {} deliveries, {least} to {most} are known",
            grant.delivery_count
        );
        Ok(())
    }
}
