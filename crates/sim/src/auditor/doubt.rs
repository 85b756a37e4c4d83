//! What lost commands may have done, and what of it is stored.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::Command;
use millpond_core::command::{LeaseMessage, LeaseRef, NewMessage, Once, Send, SettleAction, UpdateQueue};
use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow};
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::dedup::Remembered;
use crate::auditor::reach::{Reach, reaches};
use crate::auditor::{Auditor, Message, Reader, Submitted, Token, Verdict, demand, token_of};
use crate::names::{Kind, kind_of, topic_of};

/// What lost commands may have done.
#[derive(Default)]
pub(super) struct Doubt<'a> {
    /// Leases that may have been settled or taken back.
    pub(super) leases: BTreeSet<(Reader, MessageId, LeaseGeneration)>,
    /// Those that may have been taken back.
    pub(super) undone: BTreeSet<(Reader, MessageId, LeaseGeneration)>,
    /// Queues that may have been made, deleted, purged, paused or resumed.
    pub(super) names: BTreeSet<&'a str>,
    /// Deliveries of these leases, those that were granted to somebody who never heard of it, and those that may have been
    /// removed, replayed or moved.
    pub(super) messages: BTreeSet<(Reader, MessageId)>,
    /// Those that may have been replayed or moved.
    pub(super) afresh: BTreeSet<MessageId>,
    /// Sends that may have been taken.
    pub(super) sends: Vec<&'a Send>,
    /// Changes of queues that may have been made.
    pub(super) updates: Vec<&'a UpdateQueue>,
    /// Calls that may be remembered.
    pub(super) calls: Vec<&'a Once>,
}

impl<'a> Doubt<'a> {
    pub(super) fn about(lost: &'a [Submitted], auditor: &Auditor) -> Self {
        let unseen = auditor.unseen.iter().map(|(reader, message, _)| (*reader, *message));
        let mut doubt = Self { messages: unseen.collect(), ..Self::default() };
        for submitted in lost {
            doubt.note(&submitted.command, submitted.index, auditor);
        }
        doubt.messages.extend(doubt.leases.iter().map(|(reader, message, _)| (*reader, *message)));
        doubt.messages.extend(doubt.afresh.iter().map(|message| (None, *message)));
        doubt
    }

    /// Whether something may have happened unseen to a reader's delivery.
    pub(super) fn is_about(&self, message: &Message) -> bool {
        self.messages.contains(&(message.reader, message.id))
    }

    /// Whether what a name stands for may have been made, deleted, purged, paused or resumed; what belongs to a topic goes with
    /// it.
    pub(super) fn is_about_name(&self, name: &str) -> bool {
        self.names.contains(name) || topic_of(name).is_some_and(|topic| self.names.contains(topic))
    }

    fn note(&mut self, command: &'a Command, since: u64, auditor: &Auditor) {
        match command {
            Command::CreateQueue(create) => {
                self.names.insert(&create.name);
            }
            Command::DeleteQueue(delete) => {
                self.names.insert(&delete.name);
            }
            Command::Once(once) => {
                self.calls.push(once);
                self.note(&once.command, since, auditor);
            }
            Command::PauseQueue { queue }
            | Command::PurgeQueue { queue, .. }
            | Command::ResumeQueue { queue } => {
                self.names.insert(queue);
            }
            Command::DeleteMessage(wanted) => {
                self.messages.insert((None, wanted.message));
            }
            Command::FinishUpload(finish) => self.sends.push(&finish.send),
            Command::LeaseMessage(lease) if !lease.reading.look => {
                self.note_taken(lease, since, auditor);
            }
            Command::MoveMessages(moves) => self.afresh.extend(&moves.messages),
            Command::Revive(revive) => self.afresh.extend(&revive.messages),
            Command::Send(send) => self.sends.push(send),
            Command::Settle(settle) => {
                self.sends.extend(&settle.sends);
                let leases =
                    settle.settlements.iter().map(|one| (auditor.reader_named(&one.queue), one.lease));
                self.leases.extend(leases.map(|(reader, lease)| (reader, lease.message, lease.generation)));
            }
            Command::Undo(leases) => {
                let named =
                    |lease: &LeaseRef| (auditor.reader_of(lease.delivery), lease.message, lease.generation);
                self.undone.extend(leases.iter().map(named));
                self.leases.extend(&self.undone);
            }
            Command::UpdateQueue(update) => self.updates.push(update),
            Command::AppendUpload(_)
            | Command::BeginUpload(_)
            | Command::Browse(_)
            | Command::CancelUpload(_)
            | Command::CancelWait(_)
            | Command::CloseData(_)
            | Command::DeleteTriggers(_)
            | Command::GetMessage(_)
            | Command::GetQueue { .. }
            | Command::Lease(_)
            | Command::LeaseMessage(_)
            | Command::LeaseState { .. }
            | Command::ListQueues { .. }
            | Command::ListTriggers
            | Command::OpenData(_)
            | Command::PutTriggers(_)
            | Command::ReportTrigger { .. }
            | Command::SetSecret(_)
            | Command::SetSpace { .. }
            | Command::TakeExternal(_)
            | Command::Tick => {}
        }
    }

    /// It may be another's lease that somebody got who asked by the message's id, and that is taken back.
    fn note_taken(&mut self, lease: &LeaseMessage, since: u64, auditor: &Auditor) {
        let reader = auditor.reader_named(&lease.queue);
        let own = auditor.delivery(reader, &lease.message).filter(|_| reader.is_some());
        let named = |generation: &LeaseGeneration| (reader, lease.message, *generation);
        let last = own.and_then(|own| own.grants.keys().next_back());
        self.undone.extend(last.map(named));
        self.leases.extend(last.map(named));
        // Another may have been granted since that one was over.
        let grants = own.into_iter().flat_map(|own| &own.grants);
        let reserved = grants.filter(|(_, grant)| grant.may_be_reserved(since));
        self.leases.extend(reserved.map(|(generation, _)| named(generation)));
    }

    /// Changes of this queue that may have been made. A partition has the policies of its topic.
    pub(super) fn updates_of<'b>(&'b self, name: &'b str) -> impl Iterator<Item = &'a UpdateQueue> + 'b {
        let topic = topic_of(name).filter(|_| kind_of(name) == Kind::Partition);
        let concerns = move |update: &&UpdateQueue| *update.name == *name || Some(&*update.name) == topic;
        self.updates.iter().copied().filter(concerns)
    }

    /// Whether this may have been made by a change of what was not there.
    pub(super) fn may_be_made(&self, name: &str) -> bool {
        self.updates.iter().any(|update| update.allow_missing && *update.name == *name)
    }
}

/// Whether a row only waits to be removed.
pub(crate) fn is_gone(row: &DeliveryRow, queue: &QueueRow) -> bool {
    let purged = match row.state {
        DeliveryState::Ready | DeliveryState::Delayed => row.entered <= queue.purged_through,
        DeliveryState::Dead => row.entered <= queue.dead_purged_through,
        DeliveryState::Cancelled | DeliveryState::Completed | DeliveryState::Leased => false,
    };
    queue.deleted || purged
}

/// The rows of a dump that are not gone, by token.
pub(super) struct Stored<'a> {
    pub(super) rows: BTreeMap<Token, &'a DeliveryRow>,
    /// Of groups.
    pub(super) progress: BTreeMap<(QueueNumber, Token), &'a DeliveryRow>,
    /// How far groups are with logs, by group and log.
    pub(super) reaches: BTreeMap<(QueueNumber, QueueNumber), Reach>,
    /// Last leases of what groups had and only wait to have removed.
    left: BTreeMap<(QueueNumber, Token), LeaseGeneration>,
}

impl<'a> Stored<'a> {
    /// `auditor` knows the cursors of the dump.
    pub(super) fn of(dump: &'a MemoryDump, auditor: &Auditor) -> Self {
        let queues: BTreeMap<QueueNumber, _> = dump.queues.iter().map(|row| (row.number, row)).collect();
        let tokens: BTreeMap<Sequence, Token> = dump
            .messages
            .iter()
            .map(|row| (row.sequence, auditor.token_named(row.sequence, &row.content)))
            .collect();
        let is_live = |row: &&DeliveryRow| queues.get(&row.queue).is_some_and(|queue| !is_gone(row, queue));
        let (live, gone): (Vec<_>, Vec<_>) = dump.deliveries.iter().partition(is_live);
        let (own, of_groups): (Vec<_>, Vec<_>) = live.into_iter().partition(|row| !row.is_progress());
        let rows = own.into_iter().filter_map(|row| Some((*tokens.get(&row.sequence)?, row))).collect();
        let key = |row: &DeliveryRow| {
            // Its message may have left before it.
            let token = tokens.get(&row.message).or_else(|| auditor.by_id.get(&row.message_id()))?;
            Some((auditor.place_of(row), *token))
        };
        let progress = of_groups.into_iter().filter_map(|row| Some((key(row)?, row))).collect();
        let gone = gone.into_iter().filter(|row| row.is_progress());
        let left = gone.filter_map(|row| Some((key(row)?, row.lease_generation))).collect();
        Self { rows, progress, reaches: reaches(dump), left }
    }

    pub(super) fn row(&self, reader: Reader, token: Token) -> Option<&'a DeliveryRow> {
        match reader {
            None => self.rows.get(&token).copied(),
            Some(group) => self.progress.get(&(group, token)).copied(),
        }
    }

    /// The last lease of what a group had, if that only waits to be removed: until then the environment tells it from others.
    pub(super) fn last_lease(&self, reader: Reader, token: Token) -> Option<LeaseGeneration> {
        self.left.get(&(reader?, token)).copied()
    }
}

impl Auditor {
    /// A lost send is there whole or not at all.
    fn check_whole(&self, send: &Send, stored: &Stored<'_>, doubt: &Doubt<'_>, now: Timestamp) -> Verdict {
        let found = |message: &NewMessage| stored.rows.get(&token_of(&message.content));
        let (present, absent): (Vec<_>, Vec<_>) =
            send.messages.iter().partition(|message| found(message).is_some());
        let Some(sent_at) = present.first().and_then(|message| found(message)).map(|row| row.sent_at) else {
            return Ok(());
        };
        let specs = self.queue(&send.queue).into_iter().flat_map(|queue| queue.specs_since(0));
        let retention = specs.filter_map(|spec| spec.retention).min();
        let is_over = |message: &&NewMessage| {
            let life = [retention, message.time_to_live].into_iter().flatten().min();
            life.is_some_and(|life| sent_at.plus(life) <= now)
        };
        // Some may have been granted already and be gone since; or a lost call repeated one that was done.
        let granted = doubt.messages.iter().any(|(_, id)| !self.by_id.contains_key(id));
        let is_known = |message: &NewMessage| self.messages.contains_key(&token_of(&message.content));
        let repeated = send.messages.iter().any(is_known);
        let excused = granted || repeated || doubt.names.contains(&*send.queue);
        demand!(
            excused || absent.iter().all(is_over),
            "{} of {} messages of one send are stored",
            present.len(),
            send.messages.len()
        );
        Ok(())
    }

    /// Takes over what is there of a lost send.
    pub(super) fn learn_send(
        &mut self,
        send: &Send,
        dump: &MemoryDump,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
        (now, index): (Timestamp, u64),
    ) -> Verdict {
        self.check_whole(send, stored, doubt, now)?;
        let found = |token: &Token| stored.rows.get(token).copied();
        let tokens: Vec<Token> = send.messages.iter().map(|message| token_of(&message.content)).collect();
        // Under which of the policies that its queue may have had meanwhile, cannot be told.
        let changed = doubt.updates_of(&send.queue).next().is_some();
        for (message, token) in send.messages.iter().zip(&tokens) {
            let own_delay = message.delay;
            if let Some(row) = found(token)
                && !self.messages.contains_key(token)
            {
                self.admit(message, row.message_id(), row.queue, index)?;
                if let Some(message) = self.messages.get_mut(token) {
                    message.moved = row.dead_letter.is_some();
                    if changed {
                        message.expires = (row.expires_at, row.expires_at);
                        message.delay = own_delay.unwrap_or_default();
                        message.may_be_later = own_delay.is_none();
                    }
                }
            }
        }
        let Some(idempotency) = &send.idempotency else { return Ok(()) };
        let rows = dump.dedup.iter().filter(|row| row.key.key == idempotency.key);
        for row in rows.filter(|row| row.digest == idempotency.digest) {
            let Some(queue) = row.key.queue else { continue };
            let known = (queue, row.key.key.clone());
            let fresh = Remembered { digest: row.digest, ids: None, expires_at: row.expires_at };
            let entry = self.dedup.entry(known).or_insert_with(|| fresh.clone());
            if entry.expires_at < row.expires_at {
                *entry = fresh;
            }
        }
        Ok(())
    }

    /// A lost settle with sends: if a message was sent, no lease that it acked is still held; if none was, all are.
    pub(super) fn check_all_or_none(
        &self,
        lost: &[Submitted],
        stored: &Stored<'_>,
        now: Timestamp,
    ) -> Verdict {
        self.check_revived_whole(lost, stored, now)?;
        for submitted in lost {
            let command = match &submitted.command {
                Command::Once(once) => &*once.command,
                command => command,
            };
            let Command::Settle(settle) = command else { continue };
            let fresh = settle.sends.iter().filter(|send| send.idempotency.is_none());
            let tokens: Vec<Token> =
                fresh.flat_map(|send| &send.messages).map(|message| token_of(&message.content)).collect();
            let sent = tokens.iter().filter(|token| stored.rows.contains_key(token)).count();
            if sent == 0 {
                continue;
            }
            for settlement in settle.settlements.iter().filter(|one| one.action == SettleAction::Ack) {
                let LeaseRef { message, generation, .. } = settlement.lease;
                let reader = self.reader_named(&settlement.queue);
                let row = self.by_id.get(&message).and_then(|token| stored.row(reader, *token));
                let held = row.is_some_and(|row| {
                    row.state == DeliveryState::Leased
                        && row.lease_generation == generation
                        && row.due_at > now
                });
                demand!(!held, "a settle was lost: {sent} messages were sent, and {message} was not acked");
            }
        }
        Ok(())
    }

    /// A lost replay: all dead letters that it named are dead still, or none is.
    fn check_revived_whole(&self, lost: &[Submitted], stored: &Stored<'_>, now: Timestamp) -> Verdict {
        let touches = |submitted: &&Submitted| {
            matches!(
                submitted.command,
                Command::DeleteMessage(_)
                    | Command::DeleteQueue(_)
                    | Command::MoveMessages(_)
                    | Command::Once(_)
                    | Command::PurgeQueue { .. }
                    | Command::Revive(_)
            )
        };
        let mut touching = lost.iter().filter(touches);
        let (Some(one), None) = (touching.next(), touching.next()) else { return Ok(()) };
        let Command::Revive(revive) = &one.command else { return Ok(()) };
        let Some(&number) = self.names.get(&revive.queue) else { return Ok(()) };
        let named: BTreeSet<_> = revive.messages.iter().collect();
        let known = named.into_iter().filter_map(|id| self.by_id.get(id));
        let mut left = Vec::new();
        for token in known {
            let Some(message) = self.messages.get(token) else { continue };
            let Some(at) = message.dead_at.filter(|_| message.queue == number && message.expires.0 > now)
            else {
                continue;
            };
            let row = stored.rows.get(token);
            left.push(row.is_some_and(|row| row.state == DeliveryState::Dead && row.due_at == at));
        }
        let whole = left.windows(2).all(|pair| pair.first() == pair.last());
        demand!(whole, "a replay of {} was lost in part: {left:?} are still dead", revive.queue);
        Ok(())
    }
}
