//! What was written beside the owner: commands that wait to be taken in, and who has the keys of which leases.
//!
//! Invariant: `places` holds the place in `waiting` of each command that waits, and nothing else.

use std::collections::BTreeMap;

use millpond_core::external::{External, ExternalCommand, ExternalId};
use millpond_core::id::Sequence;
use millpond_core::{ChangeSet, Claim, LeaseKey};

use crate::{StoreError, StoreErrorKind};

/// Names an open transaction.
pub(super) type TransactionId = u64;

#[derive(Clone, Debug, Default)]
pub(super) struct Intake {
    drawn_ids: u64,
    drawn_sequences: u64,
    drawn_places: u64,
    drawn_transactions: TransactionId,
    /// Each with the transaction that wrote it.
    waiting: BTreeMap<u64, (TransactionId, External)>,
    places: BTreeMap<ExternalId, u64>,
    /// Keys that are stored for good: [`Claim::Free`] for the owner, [`Claim::Settled`].
    claims: BTreeMap<LeaseKey, Claim>,
    held: BTreeMap<LeaseKey, TransactionId>,
}

impl Intake {
    pub(super) fn begin(&mut self) -> TransactionId {
        self.drawn_transactions += 1;
        self.drawn_transactions
    }

    /// Drawn as a sequence of a database is: by who writes, whether or not that is ever committed.
    pub(super) fn draw_id(&mut self) -> ExternalId {
        self.drawn_ids += 1;
        ExternalId(self.drawn_ids)
    }

    pub(super) fn draw_sequence(&mut self) -> Sequence {
        self.drawn_sequences += 1;
        Sequence(Sequence::FIRST_EXTERNAL.0 + self.drawn_sequences - 1)
    }

    /// Nothing that is open lives on in a copy.
    pub(super) fn end_all(&mut self) {
        self.held.clear();
    }

    /// A transaction stores the key of a lease.
    pub(super) fn hold(
        &mut self,
        key: LeaseKey,
        transaction: TransactionId,
    ) -> Result<(), super::BesideError> {
        if self.claims.contains_key(&key) {
            return Err(super::BesideError::Stale);
        }
        match self.held.get(&key) {
            Some(&other) if other != transaction => Err(super::BesideError::Waits),
            Some(_) => Err(super::BesideError::Stale),
            None => {
                self.held.insert(key, transaction);
                Ok(())
            }
        }
    }

    pub(super) fn commit(&mut self, transaction: TransactionId, commands: Vec<External>) {
        for external in commands {
            if let ExternalCommand::Settle(settle) = &external.command {
                let lease = settle.lease;
                let key = LeaseKey { delivery: lease.delivery, generation: lease.generation };
                self.claims.insert(key, Claim::Settled);
            }
            self.drawn_places += 1;
            self.places.insert(external.id, self.drawn_places);
            self.waiting.insert(self.drawn_places, (transaction, external));
        }
        self.roll_back(transaction);
    }

    pub(super) fn roll_back(&mut self, transaction: TransactionId) {
        self.held.retain(|_, holder| *holder != transaction);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The first of what waits, up to the end of a transaction, and whether there is more.
    pub(super) fn page(&self, limit: usize) -> (Vec<External>, bool) {
        let mut last = None;
        let on_page = self.waiting.values().enumerate().take_while(|(index, (transaction, _))| {
            let is_on_page = *index < limit || last == Some(*transaction);
            last = is_on_page.then_some(*transaction);
            is_on_page
        });
        let commands: Vec<_> = on_page.map(|(_, (_, external))| external.clone()).collect();
        let more = self.waiting.len() > commands.len();
        (commands, more)
    }

    /// The owner asks for the key of a lease. `is_leased`: that lease is held. If it is not, nobody can settle it, and nothing is kept.
    pub(super) fn claim(&mut self, key: LeaseKey, is_leased: bool) -> Claim {
        if self.held.contains_key(&key) {
            return Claim::Held;
        }
        match self.claims.get(&key) {
            Some(claim) => *claim,
            None if is_leased => *self.claims.entry(key).or_insert(Claim::Free),
            None => Claim::Free,
        }
    }

    pub(super) fn claims(&self) -> impl Iterator<Item = (LeaseKey, Claim)> + '_ {
        self.claims.iter().map(|(key, claim)| (*key, *claim))
    }

    pub(super) fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let mut taken = changes.external_taken.clone();
        taken.sort_unstable();
        let twice = taken.windows(2).find(|pair| matches!(pair, [one, other] if one == other));
        let twice = twice.and_then(|pair| pair.first());
        let missing = taken.iter().find(|id| !self.places.contains_key(id));
        match twice.or(missing) {
            None => Ok(()),
            Some(id) => {
                let context = format!("external command {id} is not there to be taken");
                Err(StoreError::new(StoreErrorKind::Corrupt, context))
            }
        }
    }

    /// Writes changes that were checked.
    pub(super) fn write(&mut self, changes: &ChangeSet) {
        for id in &changes.external_taken {
            if let Some(place) = self.places.remove(id) {
                self.waiting.remove(&place);
            }
        }
        for key in &changes.claims_removed {
            self.claims.remove(key);
        }
    }
}
