//! What is known of the right to end leases that could be settled from beside the owner (design-holes A5).
//!
//! Invariant: what is known to be free stays known until the lease has ended: the store gave it to the owner for good. Anything else
//! may be different a moment later, and is forgotten when the batch is sealed that used it.

use std::collections::{BTreeMap, BTreeSet};

use crate::change::{Claim, LeaseKey};
use crate::row::DeliveryRow;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Claims {
    known: BTreeMap<LeaseKey, Claim>,
    /// Of leases that ran out: asked for, not answered yet.
    asked: BTreeSet<LeaseKey>,
    /// Leases that ran out and were found to be held, since when.
    held: BTreeMap<LeaseKey, Timestamp>,
}

impl Claims {
    pub(crate) fn get(&self, key: LeaseKey) -> Option<Claim> {
        self.known.get(&key).copied()
    }

    pub(crate) fn knows(&self, key: LeaseKey) -> bool {
        self.known.contains_key(&key)
    }

    /// An answer came. Whether it was asked for because the lease ran out.
    pub(crate) fn admit(&mut self, key: LeaseKey, claim: Claim) -> bool {
        self.known.insert(key, claim);
        self.asked.remove(&key)
    }

    /// Whether it was not asked for before.
    pub(crate) fn ask(&mut self, key: LeaseKey) -> bool {
        self.asked.insert(key)
    }

    pub(crate) fn note_held(&mut self, key: LeaseKey, since: Timestamp) {
        self.held.entry(key).or_insert(since);
    }

    /// The lease has ended.
    pub(crate) fn forget(&mut self, key: LeaseKey) {
        self.known.remove(&key);
        self.held.remove(&key);
    }

    /// The batch is sealed.
    pub(crate) fn end_batch(&mut self) {
        self.known.retain(|_, claim| *claim == Claim::Free);
    }

    /// Leases that are held by transactions, with the times at which they would have ended.
    pub(crate) fn held(&self) -> impl Iterator<Item = (LeaseKey, Timestamp)> + '_ {
        self.held.iter().map(|(key, since)| (*key, *since))
    }
}

impl LeaseKey {
    /// Of a delivery that is leased.
    pub(crate) fn of(row: &DeliveryRow) -> Self {
        Self { delivery: row.sequence, generation: row.lease_generation }
    }
}
