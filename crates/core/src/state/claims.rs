//! What is known of the right to end leases that could be settled from beside the owner (design-holes A5).
//!
//! Invariant: what is known to be free stays known until the lease has ended: the store gave it to the owner for good. Anything else
//! may be different a moment later, and is forgotten when the batch is sealed that used it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::change::{Claim, LeaseKey};
use crate::id::QueueNumber;
use crate::row::DeliveryRow;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Claims {
    known: BTreeMap<LeaseKey, Claim>,
    /// Of leases that ran out, and were not free when that was asked for: their next look is not written yet. However many there are,
    /// and whatever a batch may do, none is asked for twice.
    due: BTreeMap<LeaseKey, Claim>,
    /// Leases that ran out and were found to be held: of which queue or group, and since when.
    held: BTreeMap<LeaseKey, (QueueNumber, Timestamp)>,
}

impl Claims {
    pub(crate) fn get(&self, key: LeaseKey) -> Option<Claim> {
        self.known.get(&key).copied()
    }

    pub(crate) fn knows(&self, key: LeaseKey) -> bool {
        self.known.contains_key(&key)
    }

    /// An answer came.
    pub(crate) fn admit(&mut self, key: LeaseKey, claim: Claim) {
        self.known.insert(key, claim);
    }

    /// The answer to what was asked because the lease ran out.
    pub(crate) fn admit_due(&mut self, key: LeaseKey, claim: Claim) {
        if claim != Claim::Free {
            self.due.insert(key, claim);
        }
    }

    /// Of a lease that ran out.
    pub(crate) fn of_due(&self, key: LeaseKey) -> Option<Claim> {
        self.get(key).or_else(|| self.due.get(&key).copied())
    }

    /// It goes on until the next look.
    pub(crate) fn note_held(&mut self, key: LeaseKey, reader: QueueNumber, since: Timestamp) {
        self.due.remove(&key);
        self.held.entry(key).or_insert((reader, since));
    }

    /// It ran out, and when that was looked at last it was held.
    pub(crate) fn is_held(&self, key: LeaseKey) -> bool {
        self.held.contains_key(&key)
    }

    /// Its holder has it for longer: it is not held beyond its end.
    pub(crate) fn note_extended(&mut self, key: LeaseKey) {
        self.held.remove(&key);
    }

    /// The lease has ended.
    pub(crate) fn forget(&mut self, key: LeaseKey) {
        self.known.remove(&key);
        self.due.remove(&key);
        self.held.remove(&key);
    }

    /// The batch is sealed.
    pub(crate) fn end_batch(&mut self) {
        self.known.retain(|_, claim| *claim == Claim::Free);
    }

    /// Since when the lease of a queue or group is held that is held longest beyond its end, if that is so long.
    pub(crate) fn held_since(
        &self,
        reader: QueueNumber,
        now: Timestamp,
        long: Duration,
    ) -> Option<Timestamp> {
        let own = self.held.values().filter(|(of, _)| *of == reader).map(|(_, since)| *since);
        own.min().filter(|since| now.since(*since) >= long)
    }
}

impl LeaseKey {
    /// Of a delivery that is leased.
    pub(crate) fn of(row: &DeliveryRow) -> Self {
        Self { delivery: row.sequence, generation: row.lease_generation }
    }
}
