//! Whose delivery of a message: that of its queue, or that of a group, of which a message of a topic has many.

use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow, Role};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange};

use crate::auditor::{Auditor, Message, Token, Verdict};

/// A group; `None`: the queue that the message is in.
pub type Reader = Option<QueueNumber>;

impl Auditor {
    /// Who reads under a name.
    #[must_use]
    pub fn reader_named(&self, name: &str) -> Reader {
        let queue = self.queue(name)?;
        matches!(queue.role, Role::Group { .. }).then_some(queue.number)
    }

    /// A reader's delivery of a message; of a group, if it is known to have had the message.
    #[must_use]
    pub fn delivery(&self, reader: Reader, id: &MessageId) -> Option<&Message> {
        let token = self.by_id.get(id)?;
        self.delivery_of(reader, *token)
    }

    pub(super) fn delivery_of(&self, reader: Reader, token: Token) -> Option<&Message> {
        match reader {
            None => self.messages.get(&token),
            Some(group) => self.progress.get(&(group, token)),
        }
    }

    pub(super) fn delivery_mut(&mut self, reader: Reader, token: Token) -> Option<&mut Message> {
        match reader {
            None => self.messages.get_mut(&token),
            Some(group) => self.progress.get_mut(&(group, token)),
        }
    }

    /// Whether a delivery is not gone with the partition that its message was sent to.
    pub(super) fn is_reachable(&self, own: &Message) -> bool {
        let log = || self.message(&own.id).and_then(|sent| self.queues.get(&sent.queue));
        own.reader.is_none() || log().is_some_and(|log| log.alive)
    }

    /// Whether somebody certainly holds a delivery.
    pub(super) fn is_held(&self, own: &Message, now: Timestamp) -> bool {
        self.is_reachable(own)
            && !self.is_being_taken(own)
            && own.grants.values().any(|grant| grant.is_held(now))
    }

    /// The deliveries that a queue or a group may have leased.
    pub(super) fn deliveries_in(&self, number: QueueNumber) -> Box<dyn Iterator<Item = &Message> + '_> {
        match self.queues.get(&number).map(|queue| queue.role) {
            Some(Role::Group { .. }) => {
                let own = (number, Token::MIN)..=(number, Token::MAX);
                Box::new(self.progress.range(own).map(|(_, delivery)| delivery))
            }
            _ => Box::new(self.messages.values()),
        }
    }

    /// Highest generation of a lease of this message that nobody has heard of yet.
    pub(super) fn unseen_of(&self, reader: Reader, id: MessageId) -> Option<LeaseGeneration> {
        self.unseen_below(reader, id, LeaseGeneration(u64::MAX))
    }

    /// The same of those below a generation.
    pub(super) fn unseen_below(
        &self,
        reader: Reader,
        id: MessageId,
        below: LeaseGeneration,
    ) -> Option<LeaseGeneration> {
        let all = (reader, id, LeaseGeneration(0))..(reader, id, below);
        self.unseen.range(all).next_back().map(|(_, _, generation)| *generation)
    }

    /// Leases of a group that nobody has heard of yet, at most.
    pub(super) fn unseen_in(&self, group: QueueNumber) -> usize {
        self.unseen.iter().filter(|(reader, ..)| *reader == Some(group)).count()
    }

    /// Whose a delivery is.
    #[must_use]
    pub fn reader_of(&self, delivery: Sequence) -> Reader {
        self.owners.get(&delivery).copied()
    }

    /// A commit is on its way.
    pub fn told(&mut self, changes: &ChangeSet, index: u64) -> Verdict {
        self.know_cursors(&changes.queues_put);
        for change in &changes.deliveries {
            match change {
                DeliveryChange::Insert(row) | DeliveryChange::Update(row) => {
                    self.know_owner(row);
                    if row.state == DeliveryState::Leased {
                        let reader = self.reader_of(row.sequence);
                        self.unseen.insert((reader, row.message_id(), row.lease_generation));
                    }
                }
                DeliveryChange::Remove(sequence) => {
                    self.removals.insert(*sequence, index);
                }
            }
        }
        self.told_copies(changes, index)
    }

    fn know_owner(&mut self, row: &DeliveryRow) {
        if let Some(&group) = self.cursors.get(&row.queue).filter(|_| row.is_progress()) {
            self.owners.insert(row.sequence, group);
        }
    }

    fn know_cursors(&mut self, rows: &[QueueRow]) {
        for row in rows {
            if let Role::Cursor { group, .. } = row.role {
                self.cursors.insert(row.number, group);
            }
        }
    }

    /// What is stored is all that there is: numbers of a history that was lost name something else now.
    pub(super) fn know_stored(&mut self, queues: &[QueueRow], rows: &[DeliveryRow]) {
        self.cursors.clear();
        self.owners.clear();
        self.know_cursors(queues);
        rows.iter().for_each(|row| self.know_owner(row));
    }

    /// The queue that a row is in, or the group that it is of.
    pub(super) fn place_of(&self, row: &DeliveryRow) -> QueueNumber {
        self.cursors.get(&row.queue).copied().unwrap_or(row.queue)
    }
}
