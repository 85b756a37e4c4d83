//! Dead letters of groups: a message that a group gives up goes to a queue as one of its own, with a new id and the same content.
//! The harness tells which copies a commit makes, because nobody else ever hears their ids; that they had to be made, and no
//! others, is judged here.

use std::collections::BTreeSet;

use millpond_core::id::{CommitSequence, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, MessageContent};
use millpond_core::spec::AtLimit;
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::MemoryDump;

use crate::auditor::doubt::{Doubt, Stored};
use crate::auditor::message::Base;
use crate::auditor::{Auditor, Breach, Message, Token, Verdict, demand, token_of};
use crate::workload::data_of;

/// Tokens of copies: no message that was sent has one of these.
const COPIES: Token = 1 << 62;

/// A copy that a commit made.
#[derive(Clone, Debug)]
pub struct CopyModel {
    /// The message that it is of.
    pub source: Token,
    /// The group that gave it up.
    pub group: QueueNumber,
    /// The delivery, as it was made.
    row: DeliveryRow,
    /// The commit that made it, until that is durable.
    made_by: Option<CommitSequence>,
}

impl Auditor {
    /// Names a message that is granted or stored: a copy has a name of its own.
    #[must_use]
    pub fn token_named(&self, sequence: Sequence, content: &MessageContent) -> Token {
        if self.copies.contains_key(&sequence)
            || self.copies_told.iter().any(|(_, row, _)| row.sequence == sequence)
        {
            COPIES | sequence.0
        } else {
            token_of(content)
        }
    }

    /// Whether a message is a copy of which nobody knows yet whether it stays.
    pub(super) fn is_tentative(&self, message: &Message) -> bool {
        self.copies.get(&message.id.sequence).is_some_and(|copy| copy.made_by.is_some())
    }

    /// Whether a group's last word on a message was a copy of it.
    pub(super) fn is_copied(&self, own: &Message) -> bool {
        let of = |copy: &CopyModel| {
            Some(copy.group) == own.reader
                && copy.row.sent_at == own.id.sent_at
                && self.by_id.get(&own.id) == Some(&copy.source)
        };
        self.copies.values().any(of)
    }

    /// A commit that makes copies is on its way.
    pub(super) fn told_copies(&mut self, changes: &ChangeSet, index: u64) -> Verdict {
        let mut made = BTreeSet::new();
        for copy in &changes.copies {
            let row = changes.deliveries.iter().find_map(|change| match change {
                DeliveryChange::Insert(row) if row.sequence == copy.to => Some(row),
                _ => None,
            });
            let Some(row) = row else {
                return Err(Breach(format!("{} is copied and is nobody's", copy.from)));
            };
            demand!(made.insert(copy.to), "{} is made twice", copy.to);
            self.copies_told.push((copy.from, row.clone(), changes.commit));
        }
        self.know_copies(index)
    }

    /// Takes in copies of what is known by now: the answer to a send may come after a copy was made of its message.
    fn know_copies(&mut self, index: u64) -> Verdict {
        for (from, row, commit) in std::mem::take(&mut self.copies_told) {
            let source = self.by_id.iter().find(|(id, _)| id.sequence == from).map(|(_, token)| *token);
            match source {
                Some(source) => self.admit_copy(&row, source, commit, index)?,
                None => self.copies_told.push((from, row, commit)),
            }
        }
        Ok(())
    }

    fn admit_copy(
        &mut self,
        row: &DeliveryRow,
        source: Token,
        commit: CommitSequence,
        index: u64,
    ) -> Verdict {
        let id = row.message_id();
        let group = row.dead_letter.as_ref().map(|dead| dead.queue.clone()).unwrap_or_default();
        // Of groups of one name the last: one that was deleted gives nothing up.
        let group = self.queues.values().filter(|queue| queue.name == group).map(|queue| queue.number).max();
        let Some(group) = group else {
            return Err(Breach(format!("{id} is a dead letter of {:?}", row.dead_letter)));
        };
        let Some(sent) = self.messages.get(&source) else { return Ok(()) };
        demand!(sent.id.sequence != row.sequence && sent.id != id, "{id} is copied under its own id");
        demand!(sent.id.sent_at == id.sent_at, "{id} is a copy of {} and was not sent then", sent.id);
        let counts = (row.delivery_count, row.failure_count, row.lost_lease_count, row.lease_generation);
        // A call that waited may have got it at once.
        let granted = row.state == DeliveryState::Leased;
        let fresh = counts == (0, 0, 0, LeaseGeneration(0));
        demand!(granted || fresh, "{id} is a copy and counts {counts:?}");
        let made = Message {
            id,
            reader: None,
            delivery: id.sequence,
            queue: row.queue,
            delay: std::time::Duration::ZERO,
            may_be_later: false,
            expires: (row.expires_at, row.expires_at),
            sent_index: index,
            sent_era: self.era,
            moved: true,
            revived: false,
            changed: index,
            dead_at: None,
            home: row.dead_letter.as_ref().map(|dead| dead.queue.clone()),
            floor: LeaseGeneration(0),
            unsure: LeaseGeneration(0),
            purged: None,
            not_before: None,
            grants: std::collections::BTreeMap::new(),
            base: Base::default(),
            life: crate::auditor::Life::Alive,
            may_be_stored: true,
            ..sent.clone()
        };
        let token = COPIES | id.sequence.0;
        let copy = CopyModel { source, group, row: row.clone(), made_by: Some(commit) };
        self.copies.insert(id.sequence, copy);
        self.by_id.insert(id, token);
        self.messages.insert(token, made);
        Ok(())
    }

    /// A commit is durable, and all that was done in it is answered: its copies stay. Answers which they are.
    pub fn copies_durable(
        &mut self,
        commit: CommitSequence,
        index: u64,
        now: Timestamp,
    ) -> Result<Vec<Sequence>, Breach> {
        self.know_copies(index)?;
        let unknown = self.copies_told.iter().find(|(_, _, made_by)| *made_by <= commit);
        demand!(unknown.is_none(), "copies were made of what was never sent: {unknown:?}");
        let made = self.copies.iter().filter(|(_, copy)| copy.made_by == Some(commit));
        let made: Vec<Sequence> = made.map(|(sequence, _)| *sequence).collect();
        for sequence in &made {
            self.check_given_up(*sequence, &Doubt::about(&[], self), now)?;
            self.copy_stays(*sequence, index);
        }
        Ok(made)
    }

    /// Whether a group had to give a message up, to this queue.
    fn check_given_up(&self, sequence: Sequence, doubt: &Doubt<'_>, now: Timestamp) -> Verdict {
        let Some(copy) = self.copies.get(&sequence) else { return Ok(()) };
        let Some(own) = self.progress.get(&(copy.group, copy.source)) else {
            let unseen = self.messages.get(&copy.source).is_some_and(|sent| {
                self.unseen_of(Some(copy.group), sent.id).is_some()
                    || doubt.messages.contains(&(Some(copy.group), sent.id))
            });
            demand!(unseen, "{sequence} is a copy of what group {} never got", copy.group);
            return Ok(());
        };
        let id = own.id;
        demand!(!self.is_held(own, now) || doubt.is_about(own), "{id} was given up while it was held");
        let target = self.queues.get(&copy.row.queue).map(|queue| &*queue.name).unwrap_or_default();
        let unseen = self.unseen_of(own.reader, id).is_some() || doubt.is_about(own);
        let policies = self.policies_since(own, own.last_asked());
        let mut policies = policies.iter();
        let allowed = policies.any(|spec| {
            let there = matches!(&spec.at_limit, AtLimit::MoveTo { queue, .. } if **queue == *target);
            there && (unseen || own.may_be_out(spec))
        });
        demand!(allowed, "{id} of group {} was given up to {target}: {:?}", copy.group, own.grants);
        Ok(())
    }

    fn copy_stays(&mut self, sequence: Sequence, index: u64) {
        let Some(copy) = self.copies.get_mut(&sequence) else { return };
        copy.made_by = None;
        let (group, source) = (copy.group, copy.source);
        let unseen = self.messages.get(&source).and_then(|sent| self.unseen_of(Some(group), sent.id));
        if let Some(own) = self.progress.get_mut(&(group, source)) {
            own.is_removed(unseen.unwrap_or_default(), index);
        }
    }

    /// After a failure: copies that are stored stay, the others were never made.
    pub(super) fn settle_copies(
        &mut self,
        stored: &Stored<'_>,
        doubt: &Doubt<'_>,
        (now, index): (Timestamp, u64),
    ) -> Verdict {
        self.know_copies(index)?;
        self.copies_told.clear();
        let open = self.copies.iter().filter(|(_, copy)| copy.made_by.is_some());
        let open: Vec<Sequence> = open.map(|(sequence, _)| *sequence).collect();
        for sequence in open {
            let token = COPIES | sequence.0;
            // It may have been removed since, by a commit that is there as well. Then what it is a copy of has left its group.
            let source = self.copies.get(&sequence).map(|copy| (copy.group, copy.source));
            let given_up = source.is_some_and(|(group, source)| stored.row(Some(group), source).is_none());
            if stored.rows.contains_key(&token) || given_up && self.removals.contains_key(&sequence) {
                self.check_given_up(sequence, doubt, now)?;
                self.copy_stays(sequence, index);
                continue;
            }
            self.copies.remove(&sequence);
            if let Some(message) = self.messages.remove(&token) {
                self.by_id.remove(&message.id);
            }
        }
        Ok(())
    }

    /// These copies have the content of what they are copies of, chunks included.
    pub fn check_copied(&self, copies: &[Sequence], dump: &MemoryDump) -> Verdict {
        for stored in dump.messages.iter().filter(|stored| copies.contains(&stored.sequence)) {
            let to = stored.sequence;
            let Some(source) = self.copies.get(&to).and_then(|copy| self.messages.get(&copy.source)) else {
                continue;
            };
            let chunks = |sequence| {
                let own = dump.chunks.iter().filter(move |chunk| chunk.sequence == sequence);
                own.map(|chunk| (chunk.number, &chunk.data))
            };
            let is_like = |content: &MessageContent| {
                let sent = &source.content;
                content.attributes == sent.attributes
                    && content.data_kind == sent.data_kind
                    && content.data.size_bytes() == sent.data.size_bytes()
            };
            demand!(is_like(&stored.content), "{to} is a copy of {} with other content", source.id);
            let from = dump.messages.iter().find(|row| row.sequence == source.id.sequence);
            if let Some(from) = from {
                demand!(
                    from.content == stored.content && from.chunks == stored.chunks,
                    "{to} is not like {}",
                    source.id
                );
                let (one, other) = (chunks(to), chunks(source.id.sequence));
                demand!(one.eq(other), "{to} has other chunks than {}", source.id);
            } else if stored.chunks > 1 {
                let token = token_of(&source.content);
                let mut own = chunks(to);
                let same = own.all(|(number, data)| **data == *data_of(token, number, &self.settings));
                demand!(same, "{to} has other data than was sent as {}", source.id);
            }
        }
        Ok(())
    }
}
