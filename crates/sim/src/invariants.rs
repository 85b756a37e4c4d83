//! What must hold of memory and disk at any moment, whatever clients see.

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::CoreSettings;
use millpond_core::id::Sequence;
use millpond_core::row::DeliveryRow;
use millpond_engine::environment::{Environment, EnvironmentSettings};
use millpond_store::MemoryDump;

use crate::auditor::{Breach, Verdict, demand};

/// Checks memory against disk, and both against themselves.
pub(crate) fn check(environment: &Environment, dump: &MemoryDump, settings: &EnvironmentSettings) -> Verdict {
    let rows: BTreeMap<Sequence, DeliveryRow> =
        dump.deliveries.iter().map(|row| (row.sequence, row.clone())).collect();
    environment.core().check(&rows).map_err(|violation| Breach(violation.0))?;
    check_disk(dump)?;
    check_memory(environment, dump, &settings.core)
}

/// Messages and deliveries go in pairs; keys are counted.
fn check_disk(dump: &MemoryDump) -> Verdict {
    let deliveries: BTreeSet<Sequence> = dump.deliveries.iter().map(|row| row.sequence).collect();
    let messages: BTreeSet<Sequence> = dump.messages.iter().map(|row| row.sequence).collect();
    demand!(
        deliveries == messages,
        "deliveries without a message, or the reverse: {:?}",
        deliveries.symmetric_difference(&messages).collect::<Vec<_>>()
    );
    let sizes: BTreeMap<Sequence, usize> =
        dump.messages.iter().map(|row| (row.sequence, row.content.size_bytes())).collect();
    let wrong = dump.deliveries.iter().find(|row| {
        let size = sizes.get(&row.sequence).copied().and_then(|size| u64::try_from(size).ok());
        size != Some(row.size_bytes)
    });
    demand!(wrong.is_none(), "a message has another size than its delivery says: {wrong:?}");
    let counted = usize::try_from(dump.environment.dedup_count).unwrap_or(usize::MAX);
    demand!(counted == dump.dedup.len(), "{counted} keys counted, {} stored", dump.dedup.len());
    let stamp = dump.environment.stamp;
    let late = dump.deliveries.iter().find(|row| row.sent_at > stamp || row.leased_at > stamp);
    demand!(late.is_none(), "stamp {stamp:?} is behind {late:?}");
    Ok(())
}

/// Memory grows with its bounds, not with what is stored.
fn check_memory(environment: &Environment, dump: &MemoryDump, settings: &CoreSettings) -> Verdict {
    if !environment.is_idle() {
        return Ok(());
    }
    let window = 3 * settings.window_entries;
    let bound = dump.queues.len() * 3 * window + settings.cached_rows + settings.due_per_batch + 8;
    let resident = environment.core().resident_rows();
    demand!(resident <= bound, "{resident} rows are in memory, bound {bound}");
    Ok(())
}
