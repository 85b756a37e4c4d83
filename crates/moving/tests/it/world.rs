//! An environment with rows of every kind, drawn from a seed.

use std::sync::Arc;

use millpond_core::id::{LeaseGeneration, QueueNumber, Sequence};
use millpond_core::remembered::Remembered;
use millpond_core::row::{
    Data, DataKind, DeliveryState, Hold, MessageContent, MessageRow, QueueRow, UploadRow,
};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_moving::{MoveError, MoveProgress, Moved, Origin, export, import};
use millpond_store::{MemoryDisk, MemoryDump, SnapshotHead, Snapshots, StoreFactory, StoredRow};
use millpond_store_conformance::rows::{
    Owner, at, call, chunk, counters, dedup, delivery, odd_delivery, odd_queue, odd_trigger, progress, queue,
    run, secret, segment, trigger,
};
use millpond_store_sqlite::SqliteSettings;

pub(crate) const NAME: &str = millpond_store_conformance::rows::ENVIRONMENT;

pub(crate) const ORIGIN: Origin<'static> = Origin { made_by: "a test", made_at: Timestamp::from_millis(7) };

const STATES: [DeliveryState; 6] = [
    DeliveryState::Delayed,
    DeliveryState::Ready,
    DeliveryState::Leased,
    DeliveryState::Completed,
    DeliveryState::Dead,
    DeliveryState::Cancelled,
];

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = millpond_core::mix(self.0.wrapping_add(0x9e37_79b9_7f4a_7c15));
        self.0 % bound
    }
}

/// Commits such an environment with so many deliveries.
pub(crate) fn fill(factory: &dyn StoreFactory, seed: u64, deliveries: u64) {
    let mut owner = Owner::open_named(factory, NAME);
    let mut draw = Draw(seed);
    owner.commit(|changes| others(&mut draw, changes));
    for from in (1..=deliveries).step_by(500) {
        owner.commit(|changes| {
            for sequence in from..(from + 500).min(deliveries + 1) {
                one(&mut draw, changes, 10 * sequence);
            }
        });
    }
    owner.close();
}

fn others(draw: &mut Draw, changes: &mut ChangeSet) {
    for number in 1..=draw.below(5) {
        let number = u32::try_from(number).expect("small");
        let named = QueueRow { name: format!("queue \"{number}\"\n").into(), ..odd_queue(number) };
        changes.queues_put.push(if draw.below(2) == 0 { queue(number) } else { named });
        if draw.below(3) > 0 {
            changes.counters.push(counters(number, draw.below(1 << 60)));
        }
        changes.segments_put.extend((0..draw.below(3)).map(|index| segment(number, index)));
        changes.runs_put.extend((0..draw.below(3)).map(|at| run(number, 9 * at, 9 * at + 5)));
        changes.dedup_put.push(dedup(number, "same key", 1 << 40));
    }
    for number in 0..draw.below(4) {
        let id = format!("trigger-{number}");
        changes.triggers_put.push(if draw.below(2) == 0 { trigger(&id) } else { odd_trigger(&id) });
    }
    if draw.below(2) == 0 {
        changes.secret = Some(secret(5));
    }
    for (number, answer) in
        [Remembered::Done, Remembered::Purged(draw.below(1 << 50)), Remembered::MessageDeleted]
            .into_iter()
            .enumerate()
    {
        changes.dedup_put.push(call(&format!("ü'{number}"), answer, -5));
    }
    for sequence in 1..=draw.below(3) {
        let chunks = u32::try_from(draw.below(4)).expect("small");
        changes.chunks.extend((0..chunks).map(|number| chunk(sequence, number)));
        changes.uploads_put.push(UploadRow { sequence: Sequence(sequence), chunks });
    }
}

fn one(draw: &mut Draw, changes: &mut ChangeSet, sequence: u64) {
    let row = match draw.below(6) {
        0 => odd_delivery(sequence),
        1 => progress(sequence, 3, sequence + 1),
        _ => delivery(sequence),
    };
    let state = STATES[usize::try_from(draw.below(6)).expect("small")];
    let hold = if state == DeliveryState::Leased { Hold::Extended } else { row.hold };
    let generation = LeaseGeneration(draw.below(1 << 53));
    let queue = if row.is_progress() { row.queue } else { QueueNumber(1) };
    let mut row = millpond_core::row::DeliveryRow { state, hold, lease_generation: generation, queue, ..row };
    if !row.is_progress() {
        let (message, chunks) = message(draw, sequence);
        row.chunks = message.chunks;
        row.due_at = at(i64::try_from(draw.below(1_000)).expect("small"));
        changes.messages.push(message);
        changes.chunks.extend((0..chunks).map(|number| chunk(sequence, number)));
    }
    changes.deliveries.push(DeliveryChange::Insert(row));
}

/// A message, and how many chunks have to be stored beside it.
fn message(draw: &mut Draw, sequence: u64) -> (MessageRow, u32) {
    let kinds = [DataKind::None, DataKind::Json, DataKind::Text, DataKind::Binary];
    let data_kind = kinds[usize::try_from(draw.below(4)).expect("small")];
    let bytes: Vec<u8> =
        (0..draw.below(300)).map(|n| u8::try_from((n ^ sequence) & 255).expect("a byte")).collect();
    let (data, chunks, beside) = match draw.below(4) {
        // The store puts it into a chunk.
        0 => (Data::Whole(bytes.into()), 1, 0),
        1 => (Data::Chunked { bytes: 3 }, 2, 2),
        _ => (Data::Whole(bytes.into()), 0, 0),
    };
    let attributes = if draw.below(2) == 0 { "{\"a\":\"\\u0000\u{7f}'\"}" } else { "\u{0}ü" };
    let content = Arc::new(MessageContent { attributes: attributes.into(), data_kind, data });
    (MessageRow { sequence: Sequence(sequence), content, chunks }, beside)
}

/// A memory store with such an environment.
pub(crate) fn memory(seed: u64, deliveries: u64) -> MemoryDisk {
    let disk = MemoryDisk::new();
    fill(&disk, seed, deliveries);
    disk
}

pub(crate) fn settings() -> SqliteSettings {
    SqliteSettings {
        reserve_bytes: 0,
        space_low_bytes: 0,
        space_low_permille: 0,
        ..SqliteSettings::default()
    }
}

pub(crate) fn export_of(from: &dyn Snapshots) -> Vec<u8> {
    let mut file = Vec::new();
    export(from, NAME, ORIGIN, &mut file, &mut |_| {}).expect("it is exported");
    file
}

pub(crate) fn import_of(mut file: &[u8], into: &dyn StoreFactory) -> Result<Moved, MoveError> {
    import(&mut file, into, None, &mut |_: MoveProgress| {})
}

/// What an import makes of a dump: everything is there, and leases belong to nobody.
pub(crate) fn moved(mut dump: MemoryDump) -> MemoryDump {
    dump.environment.leases_void_below = LeaseGeneration::HIGHEST;
    dump.commit = millpond_core::id::CommitSequence(0);
    // Hints, which are not moved.
    dump.low_water.clear();
    dump
}

/// The same of what an import left.
pub(crate) fn found(into: &MemoryDisk) -> MemoryDump {
    let mut dump = into.dump(NAME);
    dump.commit = millpond_core::id::CommitSequence(0);
    dump
}

/// Everything that a store holds.
pub(crate) fn all(from: &dyn Snapshots) -> (SnapshotHead, Vec<StoredRow>) {
    let mut snapshot = from.snapshot(NAME).expect("it is there");
    let (head, mut rows) = (snapshot.head().clone(), Vec::new());
    loop {
        let page = snapshot.next_page().expect("it is read");
        if page.is_empty() {
            return (head, rows);
        }
        rows.extend(page);
    }
}
