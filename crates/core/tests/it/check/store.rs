//! The smallest store that a core can live on: rows in maps, scans by sorting.

use std::collections::BTreeMap;

use millpond_core::id::{CommitSequence, QueueNumber, Sequence};
use millpond_core::row::{
    CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, EnvironmentRow, QueueRow,
};
use millpond_core::{ChangeSet, DeliveryChange, OpenState, Page, RowKey, Rows, Scan};

#[derive(Default)]
pub(crate) struct Store {
    commit: CommitSequence,
    environment: EnvironmentRow,
    queues: BTreeMap<QueueNumber, QueueRow>,
    counters: BTreeMap<QueueNumber, CountersRow>,
    pub(crate) deliveries: BTreeMap<Sequence, DeliveryRow>,
    dedup: BTreeMap<DedupKey, DedupRow>,
}

impl Store {
    pub(crate) fn write(&mut self, changes: ChangeSet) {
        self.commit = changes.commit;
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
                RowKey::Dedup(key) => rows.dedup.push((key.clone(), self.dedup.get(key).cloned())),
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
            Scan::DedupExpiry { until, limit } => {
                let mut dedup: Vec<_> =
                    self.dedup.values().filter(|row| row.expires_at <= until).cloned().collect();
                dedup.sort_by_key(|row| row.expires_at);
                let end = dedup.len() <= limit;
                dedup.truncate(limit);
                Page { snapshot: self.commit, deliveries: Vec::new(), dedup, end }
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
        Page { snapshot: self.commit, deliveries: rows, dedup: Vec::new(), end }
    }
}
