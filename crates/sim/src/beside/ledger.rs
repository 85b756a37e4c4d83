//! What clients know of messages and of the writes of their handlers, and what must be true of both.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::command::LeaseRef;
use millpond_core::id::{LeaseGeneration, MessageId};
use millpond_core::outcome::Grant;
use millpond_core::row::{DeadReason, DeliveryState};
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::{Breach, Verdict, demand};

/// A lease that somebody has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hand {
    pub(crate) lease: LeaseRef,
    pub(crate) until: Timestamp,
}

/// What a transaction has written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Written {
    /// When it began, in the order of all beginnings and ends.
    pub(crate) began: u64,
    pub(crate) sends: Vec<(MessageId, Option<Box<str>>)>,
    /// Leases that it completes, with their handlers' writes.
    pub(crate) completes: Vec<Hand>,
    pub(crate) fails: Vec<Hand>,
    pub(crate) cancels: Vec<MessageId>,
}

#[derive(Clone, Debug, Default)]
struct Message {
    key: Option<Box<str>>,
    began: u64,
    /// When the transaction that sent it was committed.
    committed: u64,
    /// Failures of the owner before that.
    era: u64,
    /// When it was granted for the first time, if that was before the owner failed.
    first_at: Option<Timestamp>,
    /// Generations that were granted.
    granted: BTreeSet<LeaseGeneration>,
    /// The lease under which its work was done, for good.
    done: Option<LeaseGeneration>,
    /// It may be done or gone: an ack was never answered, or it was cancelled.
    doubtful: bool,
}

/// All of it.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    messages: BTreeMap<MessageId, Message>,
    clock: u64,
    /// Failures of the owner so far.
    pub(crate) era: u64,
}

impl Ledger {
    /// A moment in the order of beginnings and ends of transactions.
    pub(crate) fn moment(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    pub(crate) fn committed(&mut self, written: &Written) -> Verdict {
        let committed = self.moment();
        for (id, key) in &written.sends {
            let (began, era) = (written.began, self.era);
            let message = Message { key: key.clone(), began, committed, era, ..Message::default() };
            demand!(self.messages.insert(*id, message).is_none(), "{id} was given twice");
        }
        for hand in &written.completes {
            self.is_done_under(&hand.lease)?;
        }
        for id in &written.cancels {
            self.doubt(id);
        }
        Ok(())
    }

    /// A handler's writes are durable.
    pub(crate) fn is_done_under(&mut self, lease: &LeaseRef) -> Verdict {
        let Some(message) = self.messages.get_mut(&lease.message) else {
            return Err(Breach(format!("{lease:?} is of a message that nobody sent")));
        };
        demand!(message.done.is_none(), "{lease:?}: its work was done before, under {:?}", message.done);
        let later = message.granted.range(lease.generation..).find(|other| **other != lease.generation);
        demand!(later.is_none(), "{lease:?} was settled although it was granted again, as {later:?}");
        message.done = Some(lease.generation);
        Ok(())
    }

    pub(crate) fn doubt(&mut self, id: &MessageId) {
        if let Some(message) = self.messages.get_mut(id) {
            message.doubtful = true;
        }
    }

    /// A message was granted. `held`: leases that open transactions settle.
    pub(crate) fn granted(&mut self, grant: &Grant, held: &[LeaseRef]) -> Verdict {
        let id = grant.message;
        let Some(message) = self.messages.get_mut(&id) else {
            return Err(Breach(format!("{id} was granted and never committed")));
        };
        demand!(message.granted.insert(grant.generation), "{id} was granted twice as {}", grant.generation);
        demand!(
            message.done.is_none(),
            "{id} was granted as {} after it was done under {:?}",
            grant.generation,
            message.done
        );
        let holder = held.iter().find(|lease| lease.message == id && lease.generation < grant.generation);
        demand!(holder.is_none(), "{id} was granted as {} and is held by {holder:?}", grant.generation);
        if grant.delivery_count > 1 || message.era != self.era {
            return Ok(());
        }
        // Answers with contents may come out of order; the times of grants tell.
        message.first_at = Some(grant.leased_at);
        let (committed, era) = (message.committed, message.era);
        let earlier = |other: &Message| other.first_at.is_some_and(|at| at < grant.leased_at);
        let overtook = |other: &Message| other.era == era && committed < other.began && earlier(other);
        let overtaker = self.messages.iter().find(|(_, other)| overtook(other));
        demand!(
            overtaker.is_none(),
            "{id} was overtaken by {overtaker:?}, which began after it was committed"
        );
        Ok(())
    }

    /// Messages that may be cancelled.
    pub(crate) fn ids(&self) -> Vec<MessageId> {
        self.messages.keys().copied().collect()
    }

    /// Everything was done, as far as it is known what can be.
    pub(crate) fn is_done(&self) -> bool {
        self.messages
            .values()
            .all(|message| message.done.is_some() || message.doubtful || message.key.is_some())
    }

    /// Compares with what is stored at the end. Answers how many messages were refused.
    pub(crate) fn settle_with(&self, dump: &MemoryDump) -> Result<u64, Breach> {
        let mut refused = 0;
        let rows: BTreeMap<MessageId, _> =
            dump.deliveries.iter().map(|row| (row.message_id(), row)).collect();
        for id in rows.keys() {
            demand!(self.messages.contains_key(id), "{id} is stored and was never committed");
        }
        for (id, message) in &self.messages {
            let row = rows.get(id);
            let is_refused = row.is_some_and(|row| row.state == DeliveryState::Cancelled);
            refused += u64::from(is_refused);
            if is_refused {
                let reason = row.and_then(|row| row.dead_letter.as_ref()).map(|dead| dead.reason);
                let twin = self.messages.iter().any(|(other, twin)| other != id && twin.key == message.key);
                let fair = reason == Some(DeadReason::Deduplicated) && message.key.is_some() && twin;
                demand!(fair && message.granted.is_empty(), "{id} was refused: {reason:?}, {message:?}");
                continue;
            }
            demand!(message.done.is_none() || row.is_none(), "{id} is done and is stored: {row:?}");
            let lost = message.done.is_none() && row.is_none() && !message.doubtful;
            demand!(!lost, "{id} is lost: {message:?}");
            demand!(
                message.done.is_some() || message.doubtful || message.key.is_some(),
                "{id} was never done: {row:?}, {message:?}"
            );
        }
        for message in self.messages.values().filter(|message| message.key.is_some()) {
            let taken = |(id, twin): &(&MessageId, &Message)| {
                let refused = rows.get(*id).is_some_and(|row| row.state == DeliveryState::Cancelled);
                twin.key == message.key && !refused
            };
            let taken = self.messages.iter().filter(taken).count();
            demand!(taken == 1, "{taken} messages were taken under {:?}", message.key);
        }
        Ok(refused)
    }
}
