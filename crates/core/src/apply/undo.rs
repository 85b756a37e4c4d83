//! Takes grants back whose answer nobody got: ready again at the old place, counts and limits as before, the generation
//! not reused (design-holes B13). A lease that was extended since is somebody's.

use crate::apply::Stop;
use crate::change::RowKey;
use crate::command::LeaseRef;
use crate::id::Sequence;
use crate::outcome::Outcome;
use crate::row::Hold;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn undo(&mut self, leases: &[LeaseRef], stamp: &Stamp) -> Result<Outcome, Stop> {
        let missing = self.missing_leases(leases.iter());
        if !missing.is_empty() {
            return Err(Stop::Needs(missing));
        }
        let mut undone = 0;
        for lease in leases {
            let Some(row) = self.rows.live(lease.delivery) else { continue };
            let number = row.queue;
            if row.message_id() != lease.message || row.lease_generation != lease.generation {
                continue;
            }
            // Somebody got it after all, or had it before who took it by the message's id, and was told for how long it is held.
            if row.hold == Hold::Extended {
                continue;
            }
            if self.return_lease(lease.delivery, stamp.now) {
                undone += 1;
                if let Some(queue) = self.queues.get_mut(&number) {
                    queue.counters.total_undone += 1;
                }
            }
        }
        Ok(Outcome::Undone(undone))
    }

    /// Deliveries that memory would have to know to settle these leases.
    pub(super) fn missing_leases<'a>(&self, leases: impl Iterator<Item = &'a LeaseRef>) -> Vec<RowKey> {
        self.rows_of_leases(leases).filter(|key| self.lacks(key)).collect()
    }

    /// Deliveries that these leases name, as far as there can be any.
    pub(super) fn rows_of_leases<'a>(
        &self,
        leases: impl Iterator<Item = &'a LeaseRef>,
    ) -> impl Iterator<Item = RowKey> {
        let end = self.environment.next_sequence;
        let deliveries = leases.map(|lease| lease.delivery);
        let known = move |delivery: &Sequence| *delivery < end || delivery.is_external();
        deliveries.filter(known).map(RowKey::Delivery)
    }

    pub(super) fn lacks(&self, key: &RowKey) -> bool {
        match key {
            RowKey::Dedup(key) => !self.dedup.contains_key(key),
            RowKey::Delivery(sequence) => self.rows.get(*sequence).is_none(),
            RowKey::Progress(key) => self.rows.progress(key).is_none(),
            RowKey::Claim(key) => !self.claims.knows(*key),
        }
    }
}
