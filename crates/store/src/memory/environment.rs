//! Rows of one environment in ordered maps, with an ordered set for each order that can be scanned.
//!
//! Invariant: `ready` holds the ready key of each delivery that is ready, `due` the due key of each that is not,
//! `expiry` the expiry key of every delivery, `dedup_expiry` that of every remembered call, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use millpond_core::id::{CommitSequence, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{
    CountersRow, DedupKey, DedupRow, DeliveryRow, DeliveryState, DueKey, EnvironmentRow, MessageContent,
    MessageRow, QueueRow, ReadyKey,
};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange, Page, RowKey, Rows, Scan};

use super::MemoryDump;
use crate::{Lineage, Opened, StoreError, StoreErrorKind};

/// One environment. `lineage` 0: it was never opened.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    pub(super) lineage: u64,
    pub(super) epoch: u64,
    pub(super) commit: CommitSequence,
    row: EnvironmentRow,
    queues: BTreeMap<QueueNumber, QueueRow>,
    counters: BTreeMap<QueueNumber, CountersRow>,
    messages: BTreeMap<Sequence, Arc<MessageContent>>,
    deliveries: BTreeMap<Sequence, DeliveryRow>,
    dedup: BTreeMap<DedupKey, DedupRow>,
    ready: BTreeSet<(QueueNumber, ReadyKey)>,
    due: BTreeSet<(QueueNumber, DeliveryState, DueKey)>,
    expiry: BTreeSet<DueKey>,
    dedup_expiry: BTreeSet<(Timestamp, DedupKey)>,
    content_bytes: u64,
}

/// Stands for the overhead of a row in `used_bytes`.
const ROW_BYTES: u64 = 256;

impl Environment {
    pub(super) fn opened(&self, lineage: Lineage) -> Opened {
        let with_counters = |queue: &QueueRow| {
            let none = CountersRow { queue: queue.number, ..CountersRow::default() };
            (queue.clone(), self.counters.get(&queue.number).copied().unwrap_or(none))
        };
        Opened {
            commit: self.commit,
            environment: self.row.clone(),
            queues: self.queues.values().map(with_counters).collect(),
            lineage,
        }
    }

    /// Leases found in a restored copy belong to nobody, also if this owner dies before it commits.
    pub(super) fn void_leases(&mut self) {
        self.row.leases_void_below = LeaseGeneration::HIGHEST;
    }

    pub(super) fn dump(&self) -> MemoryDump {
        let message = |(sequence, content): (&Sequence, &Arc<MessageContent>)| MessageRow {
            sequence: *sequence,
            content: Arc::clone(content),
        };
        MemoryDump {
            commit: self.commit,
            environment: self.row.clone(),
            queues: self.queues.values().cloned().collect(),
            counters: self.counters.values().copied().collect(),
            messages: self.messages.iter().map(message).collect(),
            deliveries: self.deliveries.values().cloned().collect(),
            dedup: self.dedup.values().cloned().collect(),
        }
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let rows = self.queues.len() + self.counters.len() + self.deliveries.len() + self.dedup.len();
        self.content_bytes + ROW_BYTES * u64::try_from(rows).unwrap_or(u64::MAX / ROW_BYTES)
    }

    /// Moves the commit sequence from n − 1 to n for the owner of `epoch`, or says that it is fenced.
    pub(super) fn claim(&self, epoch: u64, commit: CommitSequence) -> Result<(), StoreError> {
        if self.epoch == epoch && self.commit.0.checked_add(1) == Some(commit.0) {
            return Ok(());
        }
        let found = format!("commit {commit} of epoch {epoch} meets {} of {}", self.commit, self.epoch);
        Err(StoreError::new(StoreErrorKind::Fenced, found))
    }

    /// Checks that every delivery change meets the row that it expects, so that a commit that fails changes nothing.
    pub(super) fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        for change in &changes.deliveries {
            let (sequence, expected) = match change {
                DeliveryChange::Insert(row) => (row.sequence, false),
                DeliveryChange::Update(row) => (row.sequence, true),
                DeliveryChange::Remove(sequence) => (*sequence, true),
            };
            if self.deliveries.contains_key(&sequence) != expected {
                let found = if expected { "is not there" } else { "is there already" };
                return Err(StoreError::new(StoreErrorKind::Corrupt, format!("delivery {sequence} {found}")));
            }
        }
        match changes.messages.iter().find(|message| self.messages.contains_key(&message.sequence)) {
            None => Ok(()),
            Some(message) => {
                let context = format!("message {} is there already", message.sequence);
                Err(StoreError::new(StoreErrorKind::Corrupt, context))
            }
        }
    }

    /// Writes changes that were checked and whose number was claimed.
    pub(super) fn write(&mut self, changes: &ChangeSet) {
        self.commit = changes.commit;
        self.row = changes.environment.clone();
        for queue in &changes.queues_put {
            self.queues.insert(queue.number, queue.clone());
        }
        for counters in &changes.counters {
            self.counters.insert(counters.queue, *counters);
        }
        for number in &changes.queues_removed {
            self.queues.remove(number);
            self.counters.remove(number);
        }
        for message in &changes.messages {
            self.content_bytes += byte_count(&message.content);
            self.messages.insert(message.sequence, Arc::clone(&message.content));
        }
        for change in &changes.deliveries {
            match change {
                DeliveryChange::Insert(row) | DeliveryChange::Update(row) => self.put_delivery(row),
                DeliveryChange::Remove(sequence) => self.remove_delivery(*sequence),
            }
        }
        for row in &changes.dedup_put {
            self.remove_dedup(&row.key);
            self.dedup_expiry.insert((row.expires_at, row.key.clone()));
            self.dedup.insert(row.key.clone(), row.clone());
        }
        for key in &changes.dedup_removed {
            self.remove_dedup(key);
        }
    }

    fn put_delivery(&mut self, row: &DeliveryRow) {
        if let Some(old) = self.deliveries.insert(row.sequence, row.clone()) {
            self.remove_from_orders(&old);
        }
        if row.state == DeliveryState::Ready {
            self.ready.insert((row.queue, row.ready_key()));
        } else {
            self.due.insert((row.queue, row.state, row.due_key()));
        }
        self.expiry.insert(row.expiry_key());
    }

    fn remove_delivery(&mut self, sequence: Sequence) {
        if let Some(content) = self.messages.remove(&sequence) {
            self.content_bytes -= byte_count(&content);
        }
        if let Some(old) = self.deliveries.remove(&sequence) {
            self.remove_from_orders(&old);
        }
    }

    fn remove_from_orders(&mut self, row: &DeliveryRow) {
        if row.state == DeliveryState::Ready {
            self.ready.remove(&(row.queue, row.ready_key()));
        } else {
            self.due.remove(&(row.queue, row.state, row.due_key()));
        }
        self.expiry.remove(&row.expiry_key());
    }

    fn remove_dedup(&mut self, key: &DedupKey) {
        if let Some(old) = self.dedup.remove(key) {
            self.dedup_expiry.remove(&(old.expires_at, old.key));
        }
    }

    pub(super) fn read(&self, keys: &[RowKey]) -> Rows {
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

    pub(super) fn content(&self, message: Sequence) -> Option<Arc<MessageContent>> {
        self.messages.get(&message).cloned()
    }

    pub(super) fn scan(&self, scan: &Scan) -> Page {
        match scan {
            Scan::Ready { queue, after, limit } => {
                let from = after.unwrap_or(LOWEST_READY);
                let keys = self.ready.range(((*queue, from)..).bounds_after(after.is_some()));
                let own = keys.take_while(|(of, _)| of == queue).map(|(_, key)| key.sequence);
                self.delivery_page(own, *limit)
            }
            Scan::Due { queue, state, after, limit } => {
                let from = (*queue, *state, after.unwrap_or(LOWEST_DUE));
                let keys = self.due.range((from..).bounds_after(after.is_some()));
                let own = keys.take_while(|(of, is, _)| of == queue && is == state);
                self.delivery_page(own.map(|(_, _, key)| key.sequence), *limit)
            }
            Scan::Expiry { after, limit } => {
                let keys = self.expiry.range((after.unwrap_or(LOWEST_DUE)..).bounds_after(after.is_some()));
                self.delivery_page(keys.map(|key| key.sequence), *limit)
            }
            Scan::DedupExpiry { until, limit } => {
                let mut keys = self.dedup_expiry.iter().take_while(|(expires_at, _)| expires_at <= until);
                let dedup: Vec<DedupRow> =
                    keys.by_ref().take(*limit).filter_map(|(_, key)| self.dedup.get(key).cloned()).collect();
                Page { snapshot: self.commit, deliveries: Vec::new(), dedup, end: keys.next().is_none() }
            }
        }
    }

    fn delivery_page(&self, mut sequences: impl Iterator<Item = Sequence>, limit: usize) -> Page {
        let rows = sequences.by_ref().take(limit);
        let deliveries = rows.filter_map(|sequence| self.deliveries.get(&sequence).cloned()).collect();
        Page { snapshot: self.commit, deliveries, dedup: Vec::new(), end: sequences.next().is_none() }
    }
}

fn byte_count(content: &MessageContent) -> u64 {
    u64::try_from(content.size_bytes()).unwrap_or(u64::MAX)
}

const LOWEST_DUE: DueKey = DueKey { due_at: Timestamp::from_millis(i64::MIN), sequence: Sequence(0) };
const LOWEST_READY: ReadyKey = ReadyKey {
    priority_descending: i64::MIN,
    retried: false,
    order_at: Timestamp::from_millis(i64::MIN),
    sequence: Sequence(0),
};

/// Turns `from..` into bounds that leave `from` itself out.
trait BoundsAfter<T> {
    fn bounds_after(self, exclusive: bool) -> (std::ops::Bound<T>, std::ops::Bound<T>);
}

impl<T> BoundsAfter<T> for std::ops::RangeFrom<T> {
    fn bounds_after(self, exclusive: bool) -> (std::ops::Bound<T>, std::ops::Bound<T>) {
        let lower = if exclusive { Excluded(self.start) } else { std::ops::Bound::Included(self.start) };
        (lower, Unbounded)
    }
}
