//! One message as its sender and its consumers know it.

use std::collections::BTreeMap;
use std::sync::Arc;

use millpond_core::command::NewMessage;
use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence};
use millpond_core::outcome::Grant as Granted;
use millpond_core::row::{DeliveryRow, DeliveryState, MessageContent};
use millpond_core::spec::{Counted, QueueSpec};
use millpond_core::time::Timestamp;

use crate::auditor::{Breach, Hold, QueueModel, Reader, Verdict, demand};

/// Names a message before it has an id: its attributes.
pub type Token = u64;

/// The attributes that hold a token.
#[must_use]
pub fn attributes_of(token: Token) -> Box<str> {
    token.to_string().into()
}

/// The token in a message's attributes.
#[must_use]
pub fn token_of(content: &MessageContent) -> Token {
    content.attributes.parse().unwrap_or(0)
}

/// How a lease ended, as far as clients know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ended {
    /// Not by a client; it may have run out.
    Open,
    /// Acked.
    Acked,
    /// Nacked.
    Nacked,
    /// It ran out.
    Lapsed,
    /// Taken back, as if it had never been.
    Undone,
    /// Taken back, unless it had ended before.
    PerhapsUndone,
}

/// One lease of a message.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The queue that granted it.
    pub queue: QueueNumber,
    /// When it was asked for; 0: nobody knows.
    pub asked: u64,
    /// When it was granted.
    pub granted_at: Timestamp,
    /// The earliest and the latest time at which it can end by itself.
    pub until: (Timestamp, Timestamp),
    /// How it ended.
    pub ended: Ended,
    /// A restore made it worth nothing.
    pub void: bool,
    /// When its holder last asked for something by its own clock, if the environment remembers that.
    pub asked_at: Option<Timestamp>,
    /// What is known of it beyond its end.
    pub hold: Hold,
    /// The last answer that changed that.
    pub hold_changed: u64,
}

impl Grant {
    /// Held for sure, by the time `now` at the latest.
    #[must_use]
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.ended == Ended::Open && !self.void && self.until.0 > now
    }

    /// Its holder ended it, or it was taken back for sure.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.ended, Ended::Acked | Ended::Nacked | Ended::Undone)
    }

    /// It may have been taken back, as if it had never been.
    pub(super) fn is_as_if_never(&self) -> bool {
        matches!(self.ended, Ended::Undone | Ended::PerhapsUndone) || self.void
    }

    /// Over for sure, at the time `now` at the earliest.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.void || self.until.1 <= now || !matches!(self.ended, Ended::Open | Ended::PerhapsUndone)
    }
}

/// What became of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It may be delivered.
    Alive,
    /// Its ack was answered.
    Acked,
    /// It left otherwise, and may not come back.
    Gone,
}

/// The counts at the last look at what is stored; grants of higher generations come on top.
#[derive(Clone, Copy, Debug, Default)]
pub struct Base {
    /// Leases granted.
    pub deliveries: u32,
    /// Attempts spent.
    pub failures: u32,
    /// Leases lost in a row.
    pub lost: u32,
    /// Generation of its last lease.
    pub generation: LeaseGeneration,
    /// That lease was held.
    pub leased: bool,
}

/// One message, or what a group had of one: a message of its own, as it were, with the group for its queue.
#[derive(Clone, Debug)]
pub struct Message {
    /// What was sent.
    pub content: Arc<MessageContent>,
    /// Its id.
    pub id: MessageId,
    /// The group.
    pub reader: Reader,
    /// What its leases name: its own sequence, or that of the group's delivery.
    pub delivery: Sequence,
    /// The queue that it is known to be in.
    pub queue: QueueNumber,
    /// Its priority.
    pub priority: i32,
    /// How long it stays hidden, at least.
    pub delay: std::time::Duration,
    /// It may stay hidden for longer: its queue had another delay at some time while it was sent unseen.
    pub may_be_later: bool,
    /// Earliest and latest time at which it may be removed for its age.
    pub expires: (Timestamp, Timestamp),
    /// When its send was answered.
    pub sent_index: u64,
    /// The era of that.
    pub sent_era: u64,
    /// It came into its queue in another way than by its send.
    pub moved: bool,
    /// It was replayed.
    pub revived: bool,
    /// The last answer that says something about it, or the last look at what is stored.
    pub changed: u64,
    /// When it died, if it is known to be in the dead-letter set of its queue.
    pub dead_at: Option<Timestamp>,
    /// The queue from which it is known to have come as a dead letter.
    pub home: Option<Box<str>>,
    /// Leases up to this generation ended before its last replay or move.
    pub floor: LeaseGeneration,
    /// Leases up to this one may have.
    pub unsure: LeaseGeneration,
    /// A purge found it: from when on it may not be granted.
    pub purged: Option<Timestamp>,
    /// In this queue it was given back under a lease, until then.
    pub not_before: Option<(QueueNumber, LeaseGeneration, Timestamp)>,
    /// Its leases.
    pub grants: BTreeMap<LeaseGeneration, Grant>,
    /// Where counting begins.
    pub base: Base,
    /// What became of it.
    pub life: Life,
    /// It may still be stored, and count against quotas.
    pub may_be_stored: bool,
}

impl Message {
    pub(super) fn new(message: &NewMessage, id: MessageId, queue: &QueueModel, index: u64, era: u64) -> Self {
        let life = [queue.spec.retention, message.time_to_live].into_iter().flatten().min();
        let expires = life.map_or(Timestamp::NEVER, |life| id.sent_at.plus(life));
        Self {
            content: Arc::clone(&message.content),
            id,
            reader: None,
            delivery: id.sequence,
            queue: queue.number,
            priority: message.priority,
            delay: message.delay.unwrap_or(queue.spec.delay),
            may_be_later: false,
            expires: (expires, expires),
            sent_index: index,
            sent_era: era,
            moved: false,
            revived: false,
            changed: index,
            dead_at: None,
            home: None,
            floor: LeaseGeneration(0),
            unsure: LeaseGeneration(0),
            purged: None,
            not_before: None,
            grants: BTreeMap::new(),
            base: Base::default(),
            life: Life::Alive,
            may_be_stored: true,
        }
    }

    /// What a group has of a message of its topic, under a delivery of its own.
    pub(super) fn of_group(message: &Self, group: QueueNumber, delivery: Sequence, index: u64) -> Self {
        Self {
            reader: Some(group),
            delivery,
            queue: group,
            changed: index,
            unsure: LeaseGeneration(0),
            may_be_stored: false,
            life: Life::Alive,
            ..message.clone()
        }
    }

    /// When its last lease was asked for: the policies that counted at the end of that lease counted then or later.
    pub(super) fn last_asked(&self) -> u64 {
        self.asked_before(LeaseGeneration::HIGHEST)
    }

    /// The same of the last lease before one. Leases that were taken back ended without a look at the policies.
    pub(super) fn asked_before(&self, generation: LeaseGeneration) -> u64 {
        let mut grants = self.grants.range(..generation).map(|(_, grant)| grant);
        grants.rfind(|grant| !grant.is_as_if_never()).map_or(0, |grant| grant.asked)
    }

    /// The same of the last lease that is none of these.
    pub(super) fn asked_without(&self, taken_back: impl Fn(LeaseGeneration) -> bool) -> u64 {
        let stands = |(generation, grant): &(&LeaseGeneration, &Grant)| {
            !grant.is_as_if_never() && !taken_back(**generation)
        };
        self.grants.iter().rfind(stands).map_or(0, |(_, grant)| grant.asked)
    }

    /// There is one lease of it, and there was none before.
    pub(super) fn was_granted_once(&self) -> bool {
        self.grants.len() == 1 && self.base.generation == LeaseGeneration(0)
    }

    /// It was ready as soon as it was sent.
    pub(super) fn was_ready_at_once(&self) -> bool {
        self.delay.is_zero() && !self.may_be_later
    }

    /// Grants that the base does not count.
    pub(super) fn recent(&self) -> impl Iterator<Item = (&LeaseGeneration, &Grant)> {
        let counted = |(generation, grant): &(&LeaseGeneration, &Grant)| {
            **generation > self.base.generation && grant.queue == self.queue
        };
        self.grants.iter().filter(counted)
    }

    /// Fewest and most deliveries that may be counted by now.
    #[must_use]
    pub fn deliveries(&self) -> (u32, u32) {
        let back =
            self.base.leased && self.grants.get(&self.base.generation).is_none_or(Grant::is_as_if_never);
        let certain = self.recent().filter(|(_, grant)| !grant.is_as_if_never()).count();
        let possible = self.recent().filter(|(_, grant)| grant.ended != Ended::Undone).count();
        let plus = |count: usize| self.base.deliveries + u32::try_from(count).unwrap_or(u32::MAX);
        (plus(certain).saturating_sub(u32::from(back)), plus(possible))
    }

    /// Whether it may be out of attempts under the policies of its queue.
    #[must_use]
    pub fn may_be_out(&self, spec: &QueueSpec) -> bool {
        let recent = u32::try_from(self.recent().count()).unwrap_or(u32::MAX) + u32::from(self.base.leased);
        let spent = spec.attempt_limit.is_some_and(|limit| match limit.counts {
            Counted::Deliveries => self.deliveries().1 >= limit.max,
            Counted::Failures => self.base.failures + recent >= limit.max,
        });
        spent || spec.lost_lease.in_a_row_max.is_some_and(|most| self.base.lost + recent >= most)
    }

    /// Two leases on one message are never live at once, and none comes after an ack.
    pub(super) fn check_holds(&self, grant: &Granted, granted_at: Timestamp) -> Verdict {
        let (id, own) = (self.id, grant.generation);
        if let Some((generation, before)) = self.grants.range(..own).next_back() {
            demand!(
                before.ended != Ended::Open || before.void || before.until.0 <= granted_at,
                "{id} is held under {generation} until {:?} and was granted at {granted_at:?}",
                before.until.0
            );
        }
        if let Some((generation, after)) = self.grants.range(own..).next() {
            demand!(
                grant.lease_until <= after.granted_at,
                "{id} was granted under {generation} while {own} was held"
            );
        }
        let acked = self.grants.range(..own).find(|(_, other)| other.ended == Ended::Acked);
        demand!(acked.is_none(), "{id} was acked: {acked:?}, and granted again under {own}");
        Ok(())
    }

    /// A group may have been granted this of what it has. Answers whether what came after was answered first: contents may take
    /// a while. `taken`: somebody may have got the lease before and not heard of it.
    pub(super) fn check_granted_again(
        &self,
        name: &str,
        grant: &Granted,
        taken: bool,
    ) -> Result<bool, Breach> {
        let (id, at) = (self.id, grant.leased_at);
        let newer = self.grants.keys().next_back().is_some_and(|newest| *newest > grant.generation);
        let newer = newer || grant.generation <= self.unsure;
        demand!(newer || self.life == Life::Alive, "{id} came back to {name}: it was {:?}", self.life);
        demand!(
            grant.delivery == self.delivery && grant.delivery != id.sequence,
            "{id} was granted as delivery {}, known as {}",
            grant.delivery,
            self.delivery
        );
        demand!(
            self.purged.is_none_or(|purged| at <= purged),
            "{id} was purged at {:?} and granted at {at:?}",
            self.purged
        );
        if !taken {
            self.check_holds(grant, at)?;
        }
        Ok(newer)
    }

    /// Highest generation that it is known to have had.
    #[must_use]
    pub fn highest(&self) -> LeaseGeneration {
        let granted = self.grants.keys().next_back().copied().unwrap_or_default();
        granted.max(self.base.generation)
    }

    /// It was replayed or moved: all counts are zero, no lease is held. `unseen`: highest generation of a lease that nobody
    /// has heard of yet, and of which nobody can tell whether it came before.
    pub(super) fn begin_afresh(&mut self, unseen: LeaseGeneration, index: u64) {
        self.floor = self.highest();
        self.unsure = unseen.max(self.floor);
        self.base = Base { generation: self.floor, ..Base::default() };
        for grant in self.grants.values_mut() {
            if matches!(grant.ended, Ended::Open | Ended::PerhapsUndone) {
                grant.ended = Ended::Lapsed;
            }
        }
        self.purged = None;
        self.not_before = None;
        self.dead_at = None;
        self.home = None;
        self.changed = index;
    }

    /// It was removed while nobody held it. `unseen` as for [`Self::begin_afresh`]: such an answer may still come.
    pub(super) fn is_removed(&mut self, unseen: LeaseGeneration, index: u64) {
        self.unsure = self.unsure.max(unseen);
        self.leave(false);
        self.changed = index;
    }

    /// It is not stored any more, or only because it was finished.
    pub(super) fn leave(&mut self, finished: bool) {
        if self.life == Life::Alive {
            self.life = if finished { Life::Acked } else { Life::Gone };
        }
        self.dead_at = None;
        for grant in self.grants.values_mut().filter(|grant| grant.ended == Ended::Open) {
            grant.ended = Ended::Lapsed;
        }
    }

    /// Takes over what is stored, after it was found to be allowed. `taken_back`: leases that may have been.
    pub(super) fn adopt(&mut self, row: &DeliveryRow, taken_back: impl Fn(LeaseGeneration) -> bool) {
        let leased = row.state == DeliveryState::Leased;
        self.base = Base {
            deliveries: row.delivery_count,
            failures: row.failure_count,
            lost: row.lost_lease_count,
            generation: row.lease_generation,
            leased,
        };
        self.expires = (row.expires_at, row.expires_at);
        self.dead_at = (row.state == DeliveryState::Dead).then_some(row.due_at);
        for (generation, grant) in &mut self.grants {
            if leased && *generation == row.lease_generation {
                grant.until = (row.due_at, row.due_at);
                grant.hold = row.hold.into();
            } else if grant.ended == Ended::Open {
                grant.ended = if taken_back(*generation) { Ended::Undone } else { Ended::Lapsed };
            }
        }
    }
}
