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
    environment.core().check_uploads(&dump.uploads).map_err(|violation| Breach(violation.0))?;
    check_disk(dump, &settings.core)?;
    check_memory(environment, dump, &settings.core)
}

/// Messages and deliveries go in pairs; keys are counted.
fn check_disk(dump: &MemoryDump, settings: &CoreSettings) -> Verdict {
    // What a group has of a message goes without one.
    let own = || dump.deliveries.iter().filter(|row| !row.is_progress());
    let deliveries: BTreeSet<Sequence> = own().map(|row| row.sequence).collect();
    let messages: BTreeSet<Sequence> = dump.messages.iter().map(|row| row.sequence).collect();
    demand!(
        deliveries == messages,
        "deliveries without a message, or the reverse: {:?}",
        deliveries.symmetric_difference(&messages).collect::<Vec<_>>()
    );
    check_chunks(dump, settings)?;
    let sizes: BTreeMap<Sequence, usize> =
        dump.messages.iter().map(|row| (row.sequence, row.content.size_bytes())).collect();
    let wrong = own().find(|row| {
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

/// Every chunk is a message's or an upload's, none of theirs is missing, and a message's are as long as it says.
fn check_chunks(dump: &MemoryDump, settings: &CoreSettings) -> Verdict {
    let chunks: BTreeMap<(Sequence, u32), usize> =
        dump.chunks.iter().map(|chunk| ((chunk.sequence, chunk.number), chunk.data.len())).collect();
    let messages = dump.messages.iter().map(|row| (row.sequence, row.chunks));
    let uploads = dump.uploads.iter().map(|row| (row.sequence, row.chunks));
    let mut owned = BTreeSet::new();
    for (sequence, count) in messages.chain(uploads) {
        for number in 0..count {
            demand!(owned.insert((sequence, number)), "chunk {number} of {sequence} has two owners");
            demand!(chunks.contains_key(&(sequence, number)), "chunk {number} of {sequence} is lost");
        }
    }
    let orphan = chunks.keys().find(|key| !owned.contains(key));
    demand!(orphan.is_none(), "the chunk {orphan:?} belongs to nobody");
    let rows = dump.deliveries.iter().map(|row| (row.sequence, row.chunks));
    let by_delivery: BTreeMap<Sequence, u32> = rows.collect();
    for row in &dump.messages {
        let sequence = row.sequence;
        demand!(by_delivery.get(&sequence) == Some(&row.chunks), "{sequence} has {} chunks", row.chunks);
        if row.chunks > 0 {
            let stored: usize = (0..row.chunks).filter_map(|number| chunks.get(&(sequence, number))).sum();
            let told = row.content.data.size_bytes();
            demand!(u64::try_from(stored) == Ok(told), "{sequence} has {stored} of {told} bytes");
        }
        let whole = row.content.data.held().len();
        let fits = if row.chunks == 0 { settings.inline_bytes } else { settings.chunk_bytes };
        demand!(whole <= fits, "{sequence} has {whole} bytes in {} chunks", row.chunks);
    }
    Ok(())
}

/// Memory grows with its bounds, not with what is stored.
fn check_memory(environment: &Environment, dump: &MemoryDump, settings: &CoreSettings) -> Verdict {
    if !environment.is_quiet() {
        return Ok(());
    }
    let window = 3 * settings.window_entries;
    let bound = dump.queues.len() * 3 * window + settings.cached_rows + settings.due_per_batch + 8;
    let resident = environment.core().resident_rows();
    demand!(resident <= bound, "{resident} rows are in memory, bound {bound}");
    let (uploads, bound) = (environment.core().resident_uploads(), window + settings.uploads + 8);
    demand!(uploads <= bound, "{uploads} uploads are in memory, bound {bound}");
    Ok(())
}
