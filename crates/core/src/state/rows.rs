//! The delivery rows that memory holds, and when it may let go of them.
//!
//! Invariant: a row leaves memory only when its last change is durable and visible to every read that was begun
//! (design-holes A6). Until then it lies over whatever a read brings. A removed row stays as a marker for as long.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, VecDeque};

use crate::change::ProgressKey;
use crate::id::{CommitSequence, Sequence};
use crate::row::{DeliveryRow, DeliveryState};
use crate::state::hash::NumberMap;

#[derive(Debug)]
pub(crate) struct Resident {
    /// `None`: removed, or known not to exist.
    pub(crate) row: Option<DeliveryRow>,
    /// The commit that carries its last change.
    pub(crate) changed_in: CommitSequence,
    /// The store has it, as of the last sealed batch.
    pub(crate) stored: bool,
    /// Changed in the batch that is being applied.
    pub(crate) touched: bool,
    /// Kept although no window holds it; in `Rows::cached`.
    pub(crate) cached: bool,
    /// What it is found by, if it is or was a group's progress with a message.
    pub(crate) progress: Option<ProgressKey>,
}

#[derive(Debug, Default)]
pub(crate) struct Rows {
    pub(crate) map: NumberMap<Sequence, Resident>,
    /// Groups' progress with messages, as far as `map` has it.
    pub(crate) by_message: NumberMap<ProgressKey, Sequence>,
    /// Progress that was looked for since the last seal, and is in `map` if there is any.
    pub(crate) looked_up: BTreeSet<ProgressKey>,
    /// Changes that are not known to be durable, in commit order.
    pub(crate) unsettled: VecDeque<(CommitSequence, Sequence)>,
    /// Rows kept beyond the windows, oldest first.
    cached: VecDeque<Sequence>,
    /// Everything up to here is durable and visible to every read that was begun.
    pub(crate) settled: CommitSequence,
}

impl Rows {
    /// Nothing in memory, everything up to `commit` in the store.
    pub(crate) fn settled_at(commit: CommitSequence) -> Self {
        Self { settled: commit, ..Self::default() }
    }

    pub(crate) fn get(&self, sequence: Sequence) -> Option<&Resident> {
        self.map.get(&sequence)
    }

    /// A live row that memory holds.
    pub(crate) fn live(&self, sequence: Sequence) -> Option<&DeliveryRow> {
        self.map.get(&sequence)?.row.as_ref()
    }

    /// A row that a read brought, unless memory knows better.
    pub(crate) fn admit(&mut self, sequence: Sequence, row: Option<DeliveryRow>) {
        let Entry::Vacant(vacant) = self.map.entry(sequence) else { return };
        let progress = row.as_ref().and_then(DeliveryRow::progress_key);
        if let Some(key) = progress {
            self.by_message.insert(key, sequence);
        }
        vacant.insert(Resident {
            stored: row.is_some(),
            row,
            changed_in: CommitSequence::default(),
            touched: false,
            cached: false,
            progress,
        });
    }

    /// Lets go of a row, or of the marker of one that is gone.
    pub(crate) fn forget(&mut self, sequence: Sequence) {
        if let Some(Resident { progress: Some(key), .. }) = self.map.remove(&sequence) {
            self.by_message.remove(&key);
            // Memory knows nothing of it any more, also if it was looked for.
            self.looked_up.remove(&key);
        }
    }

    /// A group's progress with a message, or that there is none; `None`: memory does not know.
    pub(crate) fn progress(&self, key: &ProgressKey) -> Option<Option<&DeliveryRow>> {
        match self.by_message.get(key) {
            Some(sequence) => Some(self.live(*sequence)),
            None => self.looked_up.contains(key).then_some(None),
        }
    }

    /// Keeps a row for a while although no window holds it.
    pub(crate) fn cache(&mut self, sequence: Sequence) {
        if let Some(resident) = self.map.get_mut(&sequence)
            && !resident.cached
        {
            resident.cached = true;
            self.cached.push_back(sequence);
        }
    }

    /// Lets the oldest cached rows go until at most `keep` are left. `held` says whether a window holds a row.
    pub(crate) fn evict(&mut self, keep: usize, held: impl Fn(&DeliveryRow) -> bool) {
        while self.cached.len() > keep {
            let Some(sequence) = self.cached.pop_front() else { return };
            let settled = self.settled;
            let Some(resident) = self.map.get_mut(&sequence) else { continue };
            resident.cached = false;
            let unsettled = resident.touched || resident.changed_in > settled;
            if !unsettled && !resident.row.as_ref().is_some_and(&held) {
                self.forget(sequence);
            }
        }
    }

    /// Whether a settled row that no window holds is worth keeping: its holder will name it again.
    pub(crate) fn worth_caching(row: &DeliveryRow) -> bool {
        row.state == DeliveryState::Leased
    }

    /// Lets go of rows that are gone although they are still stored, except where a change is on its way.
    pub(crate) fn release_gone(&mut self, sequences: &[Sequence]) {
        for sequence in sequences {
            let settled = self.settled;
            let keep =
                |resident: &Resident| resident.touched || resident.changed_in > settled || resident.cached;
            if self.map.get(sequence).is_some_and(|resident| !keep(resident)) {
                self.forget(*sequence);
            }
        }
    }

    pub(crate) fn cached_len(&self) -> usize {
        self.cached.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{LeaseGeneration, QueueNumber};
    use crate::time::Timestamp;

    fn progress() -> DeliveryRow {
        DeliveryRow {
            sequence: Sequence(9),
            message: Sequence(3),
            queue: QueueNumber(7),
            chunks: 0,
            nonce: 1,
            sent_at: Timestamp::ZERO,
            size_bytes: 1,
            entered: Sequence(1),
            state: DeliveryState::Ready,
            priority: 0,
            retried: false,
            order_at: Timestamp::ZERO,
            due_at: Timestamp::ZERO,
            leased_at: Timestamp::ZERO,
            expires_at: Timestamp::NEVER,
            lease_generation: LeaseGeneration(1),
            hold: crate::row::Hold::Granted,
            delivery_count: 1,
            failure_count: 0,
            lost_lease_count: 0,
            dead_letter: None,
        }
    }

    #[test]
    fn progress_that_was_read_and_let_go_of_again_is_not_known_to_be_none() {
        let mut rows = Rows::default();
        let key = ProgressKey { cursor: QueueNumber(7), message: Sequence(3) };
        rows.admit(Sequence(9), Some(progress()));
        rows.cache(Sequence(9));
        rows.looked_up.insert(key);
        assert_eq!(rows.progress(&key), Some(Some(&progress())));
        rows.evict(0, |_| false);
        assert_eq!(rows.progress(&key), None);
    }
}
