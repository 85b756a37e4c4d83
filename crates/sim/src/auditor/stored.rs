//! The model against what is stored: at rest, and after every failure, when it also learns what became of the commands
//! that were lost.

use millpond_core::remembered::Remembered;
use millpond_core::row::{DeliveryRow, DeliveryState};
use millpond_core::spec::{AtLimit, AttemptLimit, Counted, Gone, QueueSpec};
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::dedup::remembered_until;
use crate::auditor::doubt::{Doubt, Stored};
use crate::auditor::marks;
use crate::auditor::queue::within;
use crate::auditor::{
    Auditor, Breach, Ended, Grant, Life, Message, Reader, Submitted, Token, Verdict, demand,
};

impl Auditor {
    /// Compares with what is stored and takes over what could not be known. `lost`: commands without an answer that may
    /// have been applied. `now`: the latest stamp that can have been used.
    pub fn compare(&mut self, dump: &MemoryDump, lost: &[Submitted], now: Timestamp, index: u64) -> Verdict {
        let doubt = Doubt::about(lost, self);
        self.unseen.clear();
        self.know_stored(&dump.queues, &dump.deliveries);
        let stored = Stored::of(dump, self);
        self.check_all_or_none(lost, &stored, now)?;
        self.compare_queues(dump, &doubt, index)?;
        for send in &doubt.sends {
            self.learn_send(send, dump, &stored, &doubt, (now, index))?;
        }
        self.settle_copies(&stored, &doubt, (now, index))?;
        for token in stored.rows.keys() {
            demand!(self.messages.contains_key(token), "message {token} is stored and was never sent");
        }
        let tokens: Vec<Token> = self.messages.keys().copied().collect();
        for token in tokens {
            if let Some(message) = self.messages.get_mut(&token) {
                message.may_be_stored = stored.rows.contains_key(&token);
            }
            self.compare_delivery(None, token, &stored, &doubt, now)?;
            if let Some(message) = self.messages.get_mut(&token) {
                message.changed = index;
            }
        }
        self.compare_groups(&stored, &doubt, (now, index))?;
        self.compare_chunks(dump, now, false)?;
        self.compare_calls(dump, &doubt, now)?;
        marks::check(dump, now)?;
        self.compare_dedup(dump, now)
    }

    pub(super) fn compare_delivery(
        &mut self,
        reader: Reader,
        token: Token,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
        now: Timestamp,
    ) -> Verdict {
        let row = stored.row(reader, token);
        let Some(message) = self.delivery_of(reader, token) else { return Ok(()) };
        let finished = row.is_some_and(|row| row.state == DeliveryState::Completed);
        match row.filter(|_| !finished) {
            None => {
                let acked = message.life == Life::Acked || doubt.is_about(message);
                demand!(!finished || acked, "{} is completed and was never acked", message.id);
                demand!(
                    message.life != Life::Alive || acked || self.may_be_gone(message, doubt, now),
                    "{} of queue {} is lost: {:?}, {:?}",
                    message.id,
                    message.queue,
                    message.base,
                    message.grants
                );
                self.check_held(message, None, doubt, now)?;
                if let Some(message) = self.delivery_mut(reader, token) {
                    message.leave(finished);
                    message.base.generation =
                        stored.last_lease(reader, token).unwrap_or(message.base.generation);
                }
            }
            Some(row) => {
                demand!(message.life == Life::Alive, "{} is stored, but was {:?}", message.id, message.life);
                self.check_held(message, Some(row), doubt, now)?;
                self.check_row(message, row, doubt)?;
                self.adopt(reader, token, row, stored, doubt);
            }
        }
        Ok(())
    }

    /// What is held according to its holder is held according to the store.
    fn check_held(
        &self,
        message: &Message,
        row: Option<&DeliveryRow>,
        doubt: &Doubt<'_>,
        now: Timestamp,
    ) -> Verdict {
        if !self.is_reachable(message) {
            return Ok(());
        }
        for (generation, grant) in &message.grants {
            let alive = self.queues.get(&grant.queue).is_some_and(|queue| queue.alive);
            let settled = doubt.leases.contains(&(message.reader, message.id, *generation));
            if !alive || !grant.is_held(now) || settled {
                continue;
            }
            let held = row
                .is_some_and(|row| row.state == DeliveryState::Leased && row.lease_generation == *generation);
            demand!(held, "{} is held under {generation}, but stored as {row:?}", message.id);
        }
        Ok(())
    }

    /// Whether a message may be as this row says, if nothing but what `doubt` says happened to it unseen.
    pub(super) fn check_row(&self, message: &Message, row: &DeliveryRow, doubt: &Doubt<'_>) -> Verdict {
        let id = message.id;
        let Some(queue) = self.queues.get(&message.queue) else { return Ok(()) };
        let doubtful = doubt.is_about(message);
        let place = self.place_of(row);
        // What a lost command took back was never granted, and the policies count that it had before.
        let asked =
            message.asked_without(|generation| doubt.undone.contains(&(message.reader, id, generation)));
        let specs = self.policies_since(message, asked);
        let may_be_out = |spec: &QueueSpec| doubtful || message.may_be_out(spec);
        demand!(row.message_id() == id, "{id} is stored as {}", row.message_id());
        demand!(
            row.lease_generation >= message.highest(),
            "{id} had generation {} and is stored with {}",
            message.highest(),
            row.lease_generation
        );
        demand!(row.sequence == message.delivery, "{id} is stored as delivery {}", row.sequence);
        if doubt.afresh.contains(&id) {
            return Ok(());
        }
        demand!(
            message.moved || place != message.queue || within(row.expires_at, message.expires),
            "{id} is to expire at {:?}, stored is {:?}",
            message.expires,
            row.expires_at
        );
        if place != message.queue {
            let moves =
                |spec: &QueueSpec| may_be_out(spec) && matches!(spec.at_limit, AtLimit::MoveTo { .. });
            let allowed = row.dead_letter.is_some() && specs.iter().any(|spec| moves(spec));
            demand!(allowed, "{id} left {} unasked", queue.name);
            return Ok(());
        }
        let (least, most) = message.deliveries();
        let least = least.saturating_sub(u32::from(doubtful));
        demand!(
            row.delivery_count >= least && (doubtful || row.delivery_count <= most),
            "{id} counts {} deliveries, {least} to {most} are known",
            row.delivery_count
        );
        match row.state {
            DeliveryState::Dead => {
                let keeps = |spec: &QueueSpec| match &spec.at_limit {
                    AtLimit::Drop => false,
                    AtLimit::DeadLetterSet => true,
                    AtLimit::MoveTo { otherwise, .. } => *otherwise == Gone::DeadLetterSet,
                };
                let allowed = specs.iter().any(|spec| keeps(spec) && may_be_out(spec));
                demand!(allowed, "{id} is dead with attempts left");
            }
            DeliveryState::Ready | DeliveryState::Delayed => {
                let purged = message.purged.is_some_and(|at| at < Timestamp::NEVER);
                demand!(!purged || doubtful, "{id} was purged and is {:?}", row.state);
                let has_attempt = |limit: AttemptLimit| match limit.counts {
                    Counted::Deliveries => row.delivery_count < limit.max,
                    Counted::Failures => row.failure_count < limit.max,
                };
                let allowed = specs.iter().any(|spec| spec.attempt_limit.is_none_or(has_attempt));
                demand!(allowed, "{id} has no attempt left and is {:?}", row.state);
            }
            DeliveryState::Leased => {
                let grant = message.grants.get(&row.lease_generation);
                let known = grant.is_some_and(|grant| !grant.is_settled());
                demand!(known || doubtful, "{id} is leased under {} to nobody", row.lease_generation);
            }
            DeliveryState::Completed | DeliveryState::Cancelled => {}
        }
        Ok(())
    }

    /// Takes over a row that was found to be allowed.
    fn adopt(
        &mut self,
        reader: Reader,
        token: Token,
        row: &DeliveryRow,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
    ) {
        let place = self.place_of(row);
        let Some(queue) = self.queues.get(&place) else { return };
        let of_group = || {
            let log = self.messages.get(&token)?.queue;
            Some(stored.reaches.get(&(place, log))?.is_purged(row))
        };
        let purged = match reader {
            None => row.state == DeliveryState::Leased && row.entered <= queue.purged_through,
            Some(_) => of_group().unwrap_or(false),
        };
        let name = queue.name.clone();
        let Some(message) = self.delivery_mut(reader, token) else { return };
        if place != message.queue {
            message.queue = place;
            message.moved = true;
        }
        message.revived |= doubt.afresh.contains(&message.id);
        message.home = row.dead_letter.as_ref().map(|dead| dead.queue.clone());
        message.home.take_if(|home| *home == name);
        message.adopt(row, |generation| doubt.undone.contains(&(reader, row.message_id(), generation)));
        message.purged = purged.then(|| message.purged.unwrap_or(Timestamp::NEVER));
        if row.state == DeliveryState::Leased {
            let unseen = Grant {
                queue: place,
                asked: 0,
                granted_at: row.leased_at,
                until: (row.due_at, row.due_at),
                ended: Ended::PerhapsUndone,
                void: false,
                asked_at: None,
                hold: row.hold.into(),
                hold_changed: 0,
            };
            message.grants.entry(row.lease_generation).or_insert(unseen);
            let history = self.history.entry((reader, row.message_id())).or_default();
            history.entry(row.lease_generation).or_insert(row.leased_at);
        }
    }

    /// Whether a message may have left without its ack.
    pub(super) fn may_be_gone(&self, message: &Message, doubt: &Doubt<'_>, now: Timestamp) -> bool {
        let Some(queue) = self.queues.get(&message.queue) else { return true };
        if !queue.alive || message.purged.is_some() || message.expires.0 <= now {
            return true;
        }
        if doubt.is_about_name(&queue.name) {
            return true;
        }
        if message.dead_at.is_some() {
            return false;
        }
        if message.reader.is_some() && !self.is_in_live_log(message, doubt) {
            return true;
        }
        if message.moved && queue.emptied > message.sent_index {
            return true;
        }
        let doubtful = doubt.is_about(message);
        let specs = self.policies_since(message, message.last_asked());
        specs.iter().any(|spec| {
            if !(doubtful || message.may_be_out(spec)) {
                return false;
            }
            if message.reader.is_some() {
                let kept = self.keeps_dead(&spec.at_limit, message.sent_index);
                return !kept || self.is_copied(message);
            }
            if !self.keeps_dead(&spec.at_limit, message.sent_index) {
                return true;
            }
            if queue.dead_emptied > message.sent_index {
                return true;
            }
            // It may have gone on to another queue and left from there.
            matches!(spec.at_limit, AtLimit::MoveTo { .. })
                && self.queues.values().any(|other| {
                    let ages = |age| message.id.sent_at.plus(age) <= now;
                    let aged = other.specs_since(0).any(|spec| spec.retention.is_some_and(ages));
                    let emptied = other.emptied.max(other.dead_emptied) > message.sent_index;
                    other.number != queue.number && (emptied || aged || doubtful)
                })
        })
    }

    fn compare_dedup(&mut self, dump: &MemoryDump, now: Timestamp) -> Verdict {
        for ((number, key), known) in &self.dedup {
            let alive = self.queues.get(number).is_some_and(|queue| queue.alive);
            if !alive || known.expires_at <= now {
                continue;
            }
            let row = dump.dedup.iter().find(|row| row.key.queue == Some(*number) && row.key.key == *key);
            demand!(
                row.is_some_and(|row| row.digest == known.digest && row.expires_at == known.expires_at),
                "key {key} of queue {number} is forgotten before {:?}",
                known.expires_at
            );
        }
        for row in &dump.dedup {
            let (Some(number), Remembered::Sent(sent)) = (row.key.queue, &row.answer) else { continue };
            let Some(queue) = self.queues.get(&number) else { continue };
            let mut windows = queue.specs_since(0).map(|spec| remembered_until(spec, sent.sent_at));
            // On a topic a message may have had a shorter life of its own.
            let is_log = queue.role.is_log();
            let allowed = windows.any(|window| row.expires_at == window || is_log && row.expires_at < window);
            demand!(allowed, "key {} is remembered until {:?}", row.key.key, row.expires_at);
            let known = self.dedup.contains_key(&(number, row.key.key.clone()));
            if !known && queue.alive {
                return Err(Breach(format!("key {} is stored and was never sent", row.key.key)));
            }
        }
        Ok(())
    }

    /// Memory was lost: what has to be seen in one piece begins anew.
    pub fn failed(&mut self) {
        self.era += 1;
        self.space_low = false;
        self.lose_uploads();
        self.acks.clear();
        let grants = self.progress.values_mut().flat_map(|own| own.grants.values_mut());
        grants.for_each(|grant| grant.asked_at = None);
        for queue in self.queues.values_mut() {
            queue.handed.clear();
            queue.handed_of_logs.clear();
        }
    }

    /// Leases found in a restored copy belong to nobody.
    pub fn void_all_leases(&mut self) {
        for message in self.messages.values_mut().chain(self.progress.values_mut()) {
            for grant in message.grants.values_mut() {
                grant.void = true;
            }
        }
    }
}
