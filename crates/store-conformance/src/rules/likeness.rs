//! Random commits, read back beside the memory store: whatever the rules above forgot to name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use millpond_core::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence};
use millpond_core::remembered::Remembered;
use millpond_core::row::{
    Data, DeliveryRow, DeliveryState, DueKey, Hold, MessageContent, ReadyKey, TriggerRow, UploadRow,
};
use millpond_core::{ChangeSet, ChunkRange, DeliveryChange, ProgressKey, RowKey, Scan};
use millpond_store::MemoryDisk;

use crate::Place;
use crate::rows::{
    Owner, at, call, chunk, counters, dedup, delivery, insert, insert_copy, odd_trigger, queue, run, secret,
    segment, trigger,
};

const STATES: [DeliveryState; 6] = [
    DeliveryState::Delayed,
    DeliveryState::Ready,
    DeliveryState::Leased,
    DeliveryState::Completed,
    DeliveryState::Dead,
    DeliveryState::Cancelled,
];

const HOLDS: [Hold; 3] = [Hold::Granted, Hold::Extended, Hold::Reserved];

/// Steele, Lea and Flood's generator, so that every run makes the same commits.
struct SplitMix(u64);

impl SplitMix {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn small(&mut self) -> i64 {
        i64::try_from(self.below(7)).unwrap_or(0) - 3
    }

    fn row(&mut self, sequence: u64) -> DeliveryRow {
        DeliveryRow {
            // Of its neighbour's message: so no two are of the same one.
            message: Sequence(if self.below(3) == 0 { sequence ^ 1 } else { sequence }),
            queue: QueueNumber(u32::try_from(1 + self.below(2)).unwrap_or(1)),
            state: STATES[usize::try_from(self.below(6)).unwrap_or(0)],
            priority: i32::try_from(self.small()).unwrap_or(0),
            retried: self.below(2) == 0,
            order_at: at(self.small()),
            due_at: at(self.small()),
            expires_at: at(self.small()),
            lease_generation: LeaseGeneration(self.below(1 << 53)),
            hold: HOLDS[usize::try_from(self.below(3)).unwrap_or(0)],
            chunks: u32::try_from(self.below(3)).unwrap_or(0),
            size_bytes: self.below(1 << 40),
            ..delivery(sequence)
        }
    }

    fn scan(&mut self) -> Scan {
        let queue = QueueNumber(u32::try_from(1 + self.below(2)).unwrap_or(1));
        let limit = usize::try_from(self.below(40)).unwrap_or(1);
        let behind = self.below(3) > 0;
        let sequence = Sequence(self.below(300));
        let due = DueKey { due_at: at(self.small()), sequence };
        let ready = ReadyKey {
            priority_descending: self.small(),
            retried: self.below(2) == 0,
            order_at: at(self.small()),
            sequence,
        };
        match self.below(5) {
            4 => Scan::Uploads { after: behind.then_some(Sequence(self.below(6))), limit: limit / 8 },
            0 => Scan::Ready { queue, after: behind.then_some(ready), limit },
            1 => {
                let state = STATES[usize::try_from(self.below(6)).unwrap_or(0)];
                let state = if state == DeliveryState::Ready { DeliveryState::Dead } else { state };
                Scan::Due { queue, state, after: behind.then_some(due), limit }
            }
            2 => Scan::Expiry { after: behind.then_some(due), limit },
            _ => Scan::DedupExpiry { from: at(self.small()), limit },
        }
    }
}

/// Rows that exist, so that changes fit.
#[derive(Default)]
struct Model {
    live: BTreeSet<u64>,
    /// Those that have a message.
    messages: BTreeSet<u64>,
    next: u64,
    /// Chunks of a few sequences, from 0 on.
    chunks: BTreeMap<u64, u32>,
}

impl Model {
    fn chunk_changes(&mut self, random: &mut SplitMix, changes: &mut ChangeSet) {
        for sequence in 1..=4 {
            let count = self.chunks.entry(sequence).or_default();
            let step = u32::try_from(1 + random.below(3)).unwrap_or(1);
            match random.below(4) {
                0 => {
                    changes.chunks.extend((*count..*count + step).map(|number| chunk(sequence, number)));
                    *count += step;
                }
                1 if *count > 0 => {
                    let from = count.saturating_sub(step);
                    let sequence = Sequence(sequence);
                    changes.chunks_removed.push(ChunkRange { sequence, from, until: *count });
                    *count = from;
                }
                2 if random.below(2) == 0 => changes.uploads_removed.push(Sequence(sequence)),
                2 => changes.uploads_put.push(UploadRow { sequence: Sequence(sequence), chunks: *count }),
                _ => {}
            }
        }
    }

    /// Segments of two logs and runs of two cursors: anything fits.
    fn log_changes(random: &mut SplitMix, changes: &mut ChangeSet) {
        for number in 1..=2 {
            let queue = QueueNumber(number);
            if random.below(20) == 0 {
                changes.segments_cleared.push(queue);
            }
            for index in 0..4 {
                if random.below(5) == 0 {
                    changes.segments_removed.push((queue, index));
                }
                if random.below(5) == 0 {
                    let mut row = segment(number, index);
                    row.live[3] = random.below(u64::MAX);
                    changes.segments_put.push(row);
                }
                if random.below(5) == 0 {
                    changes.runs_removed.push((queue, LogNumber(index * 100)));
                }
                if random.below(5) == 0 {
                    changes.runs_put.push(run(number, index * 100, index * 100 + random.below(50)));
                }
            }
        }
    }

    /// Triggers and the secret: anything fits.
    fn trigger_changes(random: &mut SplitMix, changes: &mut ChangeSet) {
        for id in ["a", "b", "A", "ü"] {
            match random.below(8) {
                0 => changes.triggers_removed.push(id.into()),
                1 => changes.triggers_put.push(TriggerRow { number: random.below(u64::MAX), ..trigger(id) }),
                2 => changes.triggers_put.push(odd_trigger(id)),
                _ => {}
            }
        }
        if random.below(10) == 0 {
            changes.secret = Some(secret(random.small()));
        }
    }

    /// New messages: whole in their rows, in one chunk or in some, and copies of what was there before.
    fn message_changes(&mut self, random: &mut SplitMix, before: &[u64], changes: &mut ChangeSet) {
        for _ in 0..random.below(20) {
            self.next += 1 + random.below(2);
            self.live.insert(self.next);
            let mut row = random.row(self.next);
            if random.below(4) == 0 && !before.is_empty() {
                row.message = row.sequence;
                let from = before[usize::try_from(random.below(before.len() as u64)).unwrap_or(0)];
                insert_copy(changes, from, row);
                self.messages.insert(self.next);
                continue;
            }
            let has_message = !row.is_progress();
            insert(changes, row);
            if !has_message {
                continue;
            }
            self.messages.insert(self.next);
            // The first few have chunks of their own.
            let Some(message) = changes.messages.last_mut().filter(|_| self.next > 4) else { continue };
            message.chunks = u32::try_from(random.below(4)).unwrap_or(0);
            if message.chunks > 1 {
                let (attributes, data_kind) = (message.content.attributes.clone(), message.content.data_kind);
                let data = Data::Chunked { bytes: random.below(9) };
                message.content = Arc::new(MessageContent { attributes, data_kind, data });
                changes.chunks.extend((0..message.chunks).map(|number| chunk(self.next, number)));
            }
        }
    }

    fn changes(&mut self, random: &mut SplitMix, changes: &mut ChangeSet) {
        let before: Vec<u64> = self.messages.iter().copied().collect();
        let touched: Vec<u64> = self.live.iter().copied().filter(|_| random.below(4) == 0).collect();
        for sequence in touched {
            if random.below(2) == 0 {
                self.live.remove(&sequence);
                self.messages.remove(&sequence);
                changes.deliveries.push(DeliveryChange::Remove(Sequence(sequence)));
            } else {
                changes.deliveries.push(DeliveryChange::Update(random.row(sequence)));
            }
        }
        self.message_changes(random, &before, changes);
        // Keys are drawn apart, so that no remembered call is both written and forgotten.
        for key in 0..12 {
            let (name, expires_at) = (format!("key-{key}"), random.small());
            match random.below(7) {
                0 => changes.dedup_put.push(dedup(1, &name, expires_at)),
                1 => changes.dedup_removed.push(dedup(1, &name, 0).key),
                2 => changes.dedup_put.push(call(&name, Remembered::Purged(key), expires_at)),
                3 => changes.dedup_removed.push(call(&name, Remembered::Done, 0).key),
                _ => {}
            }
        }
        self.chunk_changes(random, changes);
        Self::log_changes(random, changes);
        Self::trigger_changes(random, changes);
        if random.below(3) == 0 {
            changes.queues_put.push(queue(1));
            changes.counters.push(counters(1, random.below(1_000)));
        } else if random.below(8) == 0 {
            changes.queues_removed.push(QueueNumber(1));
        }
    }
}

pub(super) fn random_commits_read_as_from_memory(place: &mut dyn Place) {
    let (factory, memory) = (place.factory(), MemoryDisk::new());
    let mut owner = Owner::open(factory.as_ref());
    let mut reference = Owner::open(&memory);
    let (mut random, mut model) = (SplitMix(7), Model::default());
    for round in 0..400 {
        let mut made = ChangeSet::default();
        owner.commit(|changes| {
            model.changes(&mut random, changes);
            made = changes.clone();
        });
        reference.commit(|changes| *changes = made);
        for _ in 0..6 {
            let scan = random.scan();
            let (mut page, mut expected) = (owner.scan(&scan), reference.scan(&scan));
            // Ties in this order are broken as the backend likes, so a cut page may differ among them.
            if let Scan::DedupExpiry { .. } = scan {
                let time_of = |row: &millpond_core::row::DedupRow| row.expires_at;
                assert!(page.dedup.is_sorted_by_key(time_of));
                let times = |page: &millpond_core::Page| page.dedup.iter().map(time_of).collect::<Vec<_>>();
                assert_eq!(times(&page), times(&expected), "round {round}: {scan:?}");
                page.dedup.clear();
                expected.dedup.clear();
            }
            assert_eq!(page, expected, "round {round}: {scan:?}");
        }
        let mut keys: Vec<RowKey> =
            (0..20).map(|_| RowKey::Delivery(Sequence(random.below(model.next + 2)))).collect();
        for key in 0..12 {
            let name = format!("key-{key}");
            keys.push(RowKey::Dedup(dedup(1, &name, 0).key));
            keys.push(RowKey::Dedup(call(&name, Remembered::Done, 0).key));
        }
        keys.extend((0..20).map(|_| {
            let cursor = QueueNumber(u32::try_from(1 + random.below(2)).unwrap_or(1));
            RowKey::Progress(ProgressKey { cursor, message: Sequence(random.below(model.next + 2)) })
        }));
        let read = |owner: &mut Owner| owner.reader.read(&keys).expect("reads work");
        assert_eq!(read(&mut owner), read(&mut reference), "round {round}");
        let few = (1 + random.below(5), u32::try_from(random.below(8)).unwrap_or(0));
        // Most that live are young.
        let mut young = || (model.next + 2).saturating_sub(random.below(80));
        let messages: Vec<Sequence> = (0..20).map(|_| Sequence(young())).collect();
        let any = (young(), u32::try_from(random.below(4)).unwrap_or(0));
        for (sequence, number) in [few, any] {
            let expected = reference.chunk(sequence, number);
            assert_eq!(
                owner.chunk(sequence, number),
                expected,
                "round {round}: chunk {number} of {sequence}"
            );
        }
        let contents = |owner: &mut Owner| owner.reader.contents(&messages).expect("reads work");
        assert_eq!(contents(&mut owner), contents(&mut reference), "round {round}: {messages:?}");
        if round % 50 == 49 {
            drop((owner, reference));
            owner = Owner::open(factory.as_ref());
            reference = Owner::open(&memory);
            assert_eq!(owner.opened, reference.opened, "round {round}");
        }
    }
}
