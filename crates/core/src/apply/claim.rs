//! Ends leases that could be settled from beside the owner: only once their keys are claimed (design-holes A5).
//!
//! Queues without the flag pay nothing. Nothing here ends a lease that its holder acks, that nobody saw, that a restored copy brought,
//! or whose queue is gone: nobody gets the message again, or nobody can settle it from beside.

use std::time::Duration;

use crate::change::{Claim, LeaseKey};
use crate::id::{QueueNumber, Sequence};
use crate::planted;
use crate::row::{DeliveryRow, DeliveryState};
use crate::stamp::Stamp;
use crate::state::Core;
use crate::time::Timestamp;

/// How often a lease that ran out is looked at again while an open transaction holds it.
pub(super) const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Such looks are at whole multiples of this, so that one call asks of many.
const LOOK_TOGETHER: i64 = 250;

impl Core {
    /// Whether leases of a queue, or of the group that a cursor is of, may be settled from beside.
    pub(crate) fn is_settled_by_sql(&self, number: QueueNumber) -> bool {
        let reader = self.reader_of(number);
        self.queues.get(&reader).is_some_and(|queue| queue.row.settled_by_sql)
    }

    /// The claim without which nobody but its holder may end this lease.
    pub(super) fn claim_needed(&self, row: &DeliveryRow) -> Option<LeaseKey> {
        let void = row.lease_generation < self.environment.leases_void_below;
        let needed = row.state == DeliveryState::Leased
            && !void
            && self.is_settled_by_sql(row.queue)
            && !planted!(LeaseEndedUnclaimed);
        needed.then(|| LeaseKey::of(row))
    }

    /// Works off leases that ran out in a queue that needs claims. `false`: there is more than this batch may do.
    pub(super) fn end_claimed(&mut self, number: QueueNumber, stamp: &Stamp) -> bool {
        let Some(queue) = self.queues.get(&number) else { return true };
        let due = queue.leased.iter().take_while(|key| key.due_at <= stamp.now);
        let due = due.map(|key| key.sequence).filter(|sequence| !queue.claims_asked.contains(sequence));
        let most = self.settings.due_per_batch.max(1);
        let due: Vec<Sequence> = due.take(most.saturating_add(1)).collect();
        for sequence in due {
            let Some(key) = self.rows.live(sequence).map(|row| self.claim_needed(row)) else { continue };
            let known = key.map(|key| (key, self.claims.of_due(key)));
            // To ask costs little, and less for many at once: it is not counted as work.
            if let Some((key, None)) = known {
                if self.batch.claims_wanted.len() >= most {
                    self.more_due = true;
                    return false;
                }
                if let Some(queue) = self.queues.get_mut(&number) {
                    queue.claims_asked.insert(sequence);
                }
                self.batch.claims_wanted.push(key);
                continue;
            }
            if !self.take_due() {
                return false;
            }
            match known {
                Some((key, Some(Claim::Held | Claim::Settled))) => self.prolong(sequence, key, stamp),
                _ => self.end_due_lease(sequence, stamp),
            }
        }
        true
    }

    /// A lease that ran out goes on, because whoever holds its key is not done.
    fn prolong(&mut self, sequence: Sequence, key: LeaseKey, stamp: &Stamp) {
        let Some(mut row) = self.rows.live(sequence).cloned() else { return };
        let reader = self.reader_of(row.queue);
        self.claims.note_held(key, reader, row.due_at);
        let again = stamp.now.plus(LOOK_AGAIN_AFTER).as_millis();
        row.due_at = Timestamp::from_millis(again - again.rem_euclid(LOOK_TOGETHER));
        self.write_row(row);
    }

    /// An answer to a claim came.
    pub(crate) fn admit_claim(&mut self, key: LeaseKey, claim: Claim) {
        let resident = self.rows.get(key.delivery);
        let row = resident.and_then(|resident| resident.row.as_ref());
        let ended = resident.is_some()
            && row.is_none_or(|row| row.state != DeliveryState::Leased || LeaseKey::of(row) != key);
        let number = row.map(|row| row.queue);
        if ended && claim == Claim::Free {
            self.batch.claims_removed.push(key);
        } else if !ended {
            self.claims.admit(key, claim);
        }
        if let Some(number) = number
            && let Some(queue) = self.queues.get_mut(&number)
            && queue.claims_asked.remove(&key.delivery)
        {
            if !ended {
                self.claims.admit_due(key, claim);
            }
            self.refresh_wake(number);
        }
    }

    /// A lease has ended: nothing that is stored under its key is of use.
    pub(crate) fn end_claim(&mut self, key: LeaseKey) {
        self.claims.forget(key);
        if self.batch.claims_removed.last() != Some(&key) {
            self.batch.claims_removed.push(key);
        }
    }
}
