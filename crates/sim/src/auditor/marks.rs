//! Where orders begin, against a full scan: whatever a server that starts has to find lies behind.

use millpond_core::row::{DeliveryRow, DeliveryState, QueueRow};
use millpond_core::time::Timestamp;
use millpond_core::{LowWater, StoredOrder};
use millpond_store::MemoryDump;

use crate::auditor::{Verdict, demand};

/// Checks every low-water mark. `now`: the latest stamp that can have been used.
pub(super) fn check(dump: &MemoryDump, now: Timestamp) -> Verdict {
    for mark in &dump.low_water {
        let missed = match mark.order {
            StoredOrder::DedupExpiry => {
                let missed = dump.dedup.iter().find(|row| row.expires_at < mark.after.order_at);
                missed.map(|row| format!("{:?}", row.key))
            }
            _ => dump
                .deliveries
                .iter()
                .find(|row| is_missed(dump, mark, row, now))
                .map(|row| format!("{row:?}")),
        };
        demand!(missed.is_none(), "{missed:?} lies before where its order is said to begin: {mark:?}");
    }
    Ok(())
}

fn is_missed(dump: &MemoryDump, mark: &LowWater, row: &DeliveryRow, now: Timestamp) -> bool {
    let key = match mark.order {
        StoredOrder::Ready(queue) if row.queue == queue && row.state == DeliveryState::Ready => {
            row.ready_key()
        }
        StoredOrder::Due(queue, state) if row.queue == queue && row.state == state => row.due_key().into(),
        // Somebody holds it beyond its time.
        StoredOrder::Expiry if row.state == DeliveryState::Leased && row.expires_at <= now => return false,
        StoredOrder::Expiry => row.expiry_key().into(),
        _ => return false,
    };
    let queue = dump.queues.iter().find(|queue| queue.number == row.queue);
    key <= mark.after
        && (mark.order == StoredOrder::Expiry || queue.is_some_and(|queue| !is_gone(queue, row)))
}

/// Waits for its removal after a purge or a deletion.
fn is_gone(queue: &QueueRow, row: &DeliveryRow) -> bool {
    let purged = matches!(row.state, DeliveryState::Ready | DeliveryState::Delayed);
    queue.deleted || (purged && row.entered <= queue.purged_through)
}
