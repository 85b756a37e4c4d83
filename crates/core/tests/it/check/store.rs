//! The smallest store that a core can live on: rows in maps, scans by sorting.

use std::collections::BTreeMap;

use millpond_core::id::{CommitSequence, LogNumber, QueueNumber, Sequence};
use millpond_core::row::{
    CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, EnvironmentRow, QueueRow, ReadyKey, RunRow,
    SecretRow, SegmentRow, TriggerRow, UploadRow,
};
use millpond_core::{
    ChangeSet, Claim, DeliveryChange, LeaseKey, LowWater, OpenState, Page, RowKey, Rows, Scan, StoredOrder,
};

#[derive(Default)]
pub(crate) struct Store {
    commit: CommitSequence,
    environment: EnvironmentRow,
    queues: BTreeMap<QueueNumber, QueueRow>,
    counters: BTreeMap<QueueNumber, CountersRow>,
    pub(crate) deliveries: BTreeMap<Sequence, DeliveryRow>,
    dedup: BTreeMap<DedupKey, DedupRow>,
    /// Lengths.
    pub(crate) chunks: BTreeMap<(Sequence, u32), usize>,
    pub(crate) uploads: BTreeMap<Sequence, u32>,
    segments: BTreeMap<(QueueNumber, u64), SegmentRow>,
    pub(crate) runs: BTreeMap<(QueueNumber, LogNumber), RunRow>,
    triggers: BTreeMap<Box<str>, TriggerRow>,
    secret: SecretRow,
    low_water: BTreeMap<StoredOrder, ReadyKey>,
    /// Keys of leases that are not the owner's.
    pub(crate) claims: BTreeMap<LeaseKey, Claim>,
    /// What was ever written, as a measure of work.
    pub(crate) rows_written: usize,
}

impl Store {
    pub(crate) fn write(&mut self, changes: ChangeSet) {
        self.commit = changes.commit;
        self.rows_written += changes.row_count();
        self.segments.retain(|(log, _), _| {
            !changes.segments_cleared.contains(log) && !changes.queues_removed.contains(log)
        });
        for key in &changes.segments_removed {
            self.segments.remove(key);
        }
        self.segments.extend(changes.segments_put.iter().map(|row| ((row.log, row.index), row.clone())));
        self.runs.retain(|(cursor, _), _| !changes.queues_removed.contains(cursor));
        for key in &changes.runs_removed {
            self.runs.remove(key);
        }
        self.runs.extend(changes.runs_put.iter().map(|row| ((row.cursor, row.first), *row)));
        for id in &changes.triggers_removed {
            self.triggers.remove(id);
        }
        self.triggers.extend(changes.triggers_put.iter().map(|row| (row.id.clone(), row.clone())));
        self.secret = changes.secret.unwrap_or(std::mem::take(&mut self.secret));
        for copy in &changes.copies {
            let source = self.deliveries.get(&copy.from).expect("what is copied is there");
            for number in 0..source.chunks {
                let length = self.chunks[&(copy.from, number)];
                assert!(self.chunks.insert((copy.to, number), length).is_none(), "it was there");
            }
        }
        self.low_water.extend(changes.low_water.iter().map(|mark| (mark.order, mark.after)));
        self.claims.retain(|key, _| !changes.claims_removed.contains(key));
        self.environment = changes.environment;
        self.queues.extend(changes.queues_put.into_iter().map(|row| (row.number, row)));
        self.counters.extend(changes.counters.into_iter().map(|row| (row.queue, row)));
        for number in changes.queues_removed {
            self.queues.remove(&number);
            self.counters.remove(&number);
        }
        for change in changes.deliveries {
            match change {
                DeliveryChange::Insert(row) => {
                    assert!(self.deliveries.insert(row.sequence, row).is_none(), "it was there");
                }
                DeliveryChange::Update(row) => {
                    assert!(self.deliveries.insert(row.sequence, row).is_some(), "it was not there");
                }
                DeliveryChange::Remove(sequence) => {
                    assert!(self.deliveries.remove(&sequence).is_some(), "it was not there");
                }
            }
        }
        self.dedup.extend(changes.dedup_put.into_iter().map(|row| (row.key.clone(), row)));
        for key in changes.dedup_removed {
            self.dedup.remove(&key);
        }
        let whole = changes.messages.iter().filter(|message| message.chunks == 1);
        let whole = whole.map(|message| ((message.sequence, 0), message.content.data.held().len()));
        let parts = changes.chunks.iter().map(|chunk| ((chunk.sequence, chunk.number), chunk.data.len()));
        for (key, length) in whole.chain(parts) {
            assert!(self.chunks.insert(key, length).is_none(), "it was there");
        }
        for range in changes.chunks_removed {
            for number in range.from..range.until {
                assert!(self.chunks.remove(&(range.sequence, number)).is_some(), "it was not there");
            }
        }
        self.uploads.extend(changes.uploads_put.into_iter().map(|row| (row.sequence, row.chunks)));
        for sequence in changes.uploads_removed {
            self.uploads.remove(&sequence);
        }
        self.check_chunks();
    }

    /// Every chunk is a message's or an upload's, and none of theirs is missing.
    fn check_chunks(&self) {
        let owned = self.deliveries.values().filter(|row| !row.is_progress());
        let owned = owned.map(|row| (row.sequence, row.chunks));
        let loose = self.uploads.iter().map(|(&sequence, &chunks)| (sequence, chunks));
        let mut expected: Vec<_> = owned
            .chain(loose)
            .flat_map(|(sequence, chunks)| (0..chunks).map(move |n| (sequence, n)))
            .collect();
        expected.sort_unstable();
        let found: Vec<_> = self.chunks.keys().copied().collect();
        assert_eq!(found, expected, "chunks that are stored, and those that should be");
    }

    pub(crate) fn upload_rows(&self) -> Vec<UploadRow> {
        self.uploads.iter().map(|(&sequence, &chunks)| UploadRow { sequence, chunks }).collect()
    }

    pub(crate) fn open_state(&self, restored: bool, now: millpond_core::time::Timestamp) -> OpenState {
        let with_counters = |row: &QueueRow| {
            let none = CountersRow { queue: row.number, ..CountersRow::default() };
            (row.clone(), self.counters.get(&row.number).copied().unwrap_or(none))
        };
        OpenState {
            commit: self.commit,
            environment: self.environment.clone(),
            queues: self.queues.values().map(with_counters).collect(),
            segments: self.segments.values().cloned().collect(),
            runs: self.runs.values().copied().collect(),
            triggers: self.triggers.values().cloned().collect(),
            secret: self.secret.clone(),
            low_water: self.low_water.iter().map(|(&order, &after)| LowWater { order, after }).collect(),
            restored,
            now,
        }
    }

    pub(crate) fn read(&self, keys: &[RowKey]) -> Rows {
        let mut rows = Rows { snapshot: self.commit, ..Rows::default() };
        for key in keys {
            match key {
                RowKey::Delivery(sequence) => {
                    rows.deliveries.push((*sequence, self.deliveries.get(sequence).cloned()));
                }
                RowKey::Progress(key) => {
                    let row = self.deliveries.values().find(|row| row.progress_key() == Some(*key));
                    rows.progress.push((*key, row.cloned()));
                }
                RowKey::Dedup(key) => rows.dedup.push((key.clone(), self.dedup.get(key).cloned())),
                RowKey::Claim(key) => {
                    rows.claims.push((*key, self.claims.get(key).copied().unwrap_or(Claim::Free)));
                }
            }
        }
        rows
    }

    pub(crate) fn scan(&self, scan: &Scan) -> Page {
        match *scan {
            Scan::Ready { queue, after, limit } => {
                let ready = |row: &&DeliveryRow| row.queue == queue && row.state == DeliveryState::Ready;
                self.page(ready, DeliveryRow::ready_key, after, limit)
            }
            Scan::Due { queue, state, after, limit } => {
                self.page(|row| row.queue == queue && row.state == state, DeliveryRow::due_key, after, limit)
            }
            Scan::Expiry { after, limit } => self.page(|_| true, DeliveryRow::expiry_key, after, limit),
            Scan::DedupExpiry { from, limit } => {
                let mut dedup: Vec<_> =
                    self.dedup.values().filter(|row| row.expires_at >= from).cloned().collect();
                dedup.sort_by_key(|row| row.expires_at);
                let end = dedup.len() <= limit;
                dedup.truncate(limit);
                Page { snapshot: self.commit, dedup, end, ..Page::default() }
            }
            Scan::Uploads { after, limit } => {
                let mut uploads = self.upload_rows();
                uploads.retain(|row| after.is_none_or(|after| row.sequence > after));
                let end = uploads.len() <= limit;
                uploads.truncate(limit);
                Page { snapshot: self.commit, uploads, end, ..Page::default() }
            }
        }
    }

    fn page<K: Ord + Copy>(
        &self,
        belongs: impl Fn(&&DeliveryRow) -> bool,
        key: impl Fn(&DeliveryRow) -> K,
        after: Option<K>,
        limit: usize,
    ) -> Page {
        let rows = self.deliveries.values().filter(belongs);
        let mut rows: Vec<_> =
            rows.filter(|row| after.is_none_or(|after| key(row) > after)).cloned().collect();
        rows.sort_by_key(|row| key(row));
        let end = rows.len() <= limit;
        rows.truncate(limit);
        Page { snapshot: self.commit, deliveries: rows, end, ..Page::default() }
    }
}
