//! Rows of one environment in ordered maps, with an ordered set for each order that can be scanned.
//!
//! Invariant: `ready` holds the ready key of each delivery that is ready, `due` the due key of each that is not,
//! `expiry` the expiry key of every delivery, `progress` cursor, message and sequence of each that is a group's progress,
//! `dedup_expiry` the expiry of every remembered call, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use millpond_core::command::LeaseRef;
use millpond_core::id::{CommitSequence, LeaseGeneration, LogNumber, QueueNumber, Sequence};
use millpond_core::row::{
    ChunkRow, CountersRow, Data, DedupKey, DedupRow, DeliveryRow, DeliveryState, DueKey, EnvironmentRow,
    MessageContent, MessageRow, QueueRow, ReadyKey, Role, RunRow, SecretRow, SegmentRow, TriggerRow,
    UploadRow,
};
use millpond_core::time::Timestamp;
use millpond_core::{
    ChangeSet, ChunkRange, DeliveryChange, LowWater, MessageCopy, Page, ProgressKey, RowKey, Rows, Scan,
    StoredOrder,
};

use super::intake::Intake;
use super::{BesideError, MemoryDump};
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
    messages: BTreeMap<Sequence, Message>,
    chunks: BTreeMap<(Sequence, u32), Arc<[u8]>>,
    uploads: BTreeMap<Sequence, u32>,
    deliveries: BTreeMap<Sequence, DeliveryRow>,
    dedup: BTreeMap<DedupKey, DedupRow>,
    ready: BTreeSet<(QueueNumber, ReadyKey)>,
    due: BTreeSet<(QueueNumber, DeliveryState, DueKey)>,
    expiry: BTreeSet<DueKey>,
    progress: BTreeSet<(QueueNumber, Sequence, Sequence)>,
    dedup_expiry: BTreeSet<(Timestamp, DedupKey)>,
    segments: BTreeMap<(QueueNumber, u64), SegmentRow>,
    runs: BTreeMap<(QueueNumber, LogNumber), RunRow>,
    triggers: BTreeMap<Box<str>, TriggerRow>,
    secret: SecretRow,
    low_water: BTreeMap<StoredOrder, ReadyKey>,
    content_bytes: u64,
    pub(super) intake: Intake,
}

/// A message's row. Data that is not in it is named by its length.
#[derive(Clone, Debug)]
struct Message {
    content: Arc<MessageContent>,
    chunks: u32,
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
            segments: self.segments.values().cloned().collect(),
            runs: self.runs.values().copied().collect(),
            triggers: self.triggers.values().cloned().collect(),
            secret: self.secret.clone(),
            low_water: self.low_water().collect(),
            lineage,
        }
    }

    /// Leases found in a restored copy belong to nobody, also if this owner dies before it commits.
    pub(super) fn void_leases(&mut self) {
        self.row.leases_void_below = LeaseGeneration::HIGHEST;
    }

    pub(super) fn dump(&self) -> MemoryDump {
        let message = |(sequence, message): (&Sequence, &Message)| {
            let content = self.content(*sequence).unwrap_or_else(|| Arc::clone(&message.content));
            MessageRow { sequence: *sequence, content, chunks: message.chunks }
        };
        let chunk = |(&(sequence, number), data): (&(Sequence, u32), &Arc<[u8]>)| ChunkRow {
            sequence,
            number,
            data: Arc::clone(data),
        };
        let upload = |(&sequence, &chunks): (&Sequence, &u32)| UploadRow { sequence, chunks };
        MemoryDump {
            commit: self.commit,
            environment: self.row.clone(),
            queues: self.queues.values().cloned().collect(),
            counters: self.counters.values().copied().collect(),
            messages: self.messages.iter().map(message).collect(),
            deliveries: self.deliveries.values().cloned().collect(),
            dedup: self.dedup.values().cloned().collect(),
            chunks: self.chunks.iter().map(chunk).collect(),
            uploads: self.uploads.iter().map(upload).collect(),
            segments: self.segments.values().cloned().collect(),
            runs: self.runs.values().copied().collect(),
            triggers: self.triggers.values().cloned().collect(),
            secret: self.secret.clone(),
            low_water: self.low_water().collect(),
            external: self.intake.page(usize::MAX).0,
            claims: self.intake.claims().collect(),
        }
    }

    fn low_water(&self) -> impl Iterator<Item = LowWater> {
        self.low_water.iter().map(|(&order, &after)| LowWater { order, after })
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let rows = self.queues.len() + self.counters.len() + self.deliveries.len() + self.dedup.len();
        let rows = rows + self.chunks.len() + self.uploads.len() + self.segments.len() + self.runs.len();
        let rows = rows + self.triggers.len();
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

    /// Checks that every change meets the row that it expects, so that a commit that fails changes nothing.
    pub(super) fn check(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        self.intake.check(changes)?;
        self.check_chunks(changes)?;
        self.check_copies(changes)?;
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

    fn check_copies(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let corrupt = |context| Err(StoreError::new(StoreErrorKind::Corrupt, context));
        for copy in &changes.copies {
            let Some(message) = self.messages.get(&copy.from) else {
                return corrupt(format!("message {} is not there to be copied", copy.from));
            };
            if self.messages.contains_key(&copy.to) {
                return corrupt(format!("message {} is there already", copy.to));
            }
            for number in 0..message.chunks {
                if !self.chunks.contains_key(&(copy.from, number)) {
                    return corrupt(format!("chunk {number} of {} is not there to be copied", copy.from));
                }
                if self.chunks.contains_key(&(copy.to, number)) {
                    return corrupt(format!("chunk {number} of {} is there already", copy.to));
                }
            }
        }
        Ok(())
    }

    fn check_chunks(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let written = changes.chunks.iter().map(|chunk| (chunk.sequence, chunk.number));
        let with_messages = changes.messages.iter().filter(|message| is_whole_in_chunk(message));
        let mut new = written.chain(with_messages.map(|message| (message.sequence, 0)));
        if let Some((sequence, number)) = new.find(|key| self.chunks.contains_key(key)) {
            let context = format!("chunk {number} of {sequence} is there already");
            return Err(StoreError::new(StoreErrorKind::Corrupt, context));
        }
        let mut removed = changes.chunks_removed.iter().flat_map(range_keys);
        if let Some((sequence, number)) = removed.find(|key| !self.chunks.contains_key(key)) {
            let context = format!("chunk {number} of {sequence} is not there");
            return Err(StoreError::new(StoreErrorKind::Corrupt, context));
        }
        Ok(())
    }

    /// Writes changes that were checked and whose number was claimed.
    pub(super) fn write(&mut self, changes: &ChangeSet) {
        self.commit = changes.commit;
        self.row = changes.environment.clone();
        self.intake.write(changes);
        for queue in &changes.queues_put {
            self.queues.insert(queue.number, queue.clone());
        }
        for counters in &changes.counters {
            self.counters.insert(counters.queue, *counters);
        }
        self.write_logs(changes);
        self.write_triggers(changes);
        self.low_water.extend(changes.low_water.iter().map(|mark| (mark.order, mark.after)));
        for copy in &changes.copies {
            self.copy_message(*copy);
        }
        for number in &changes.queues_removed {
            self.low_water.retain(|order, _| order.queue() != Some(*number));
            self.queues.remove(number);
            self.counters.remove(number);
            self.segments.retain(|(log, _), _| log != number);
            self.runs.retain(|(cursor, _), _| cursor != number);
        }
        for message in &changes.messages {
            self.put_message(message);
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
        for chunk in &changes.chunks {
            self.put_chunk((chunk.sequence, chunk.number), Arc::clone(&chunk.data));
        }
        for key in changes.chunks_removed.iter().flat_map(range_keys) {
            if let Some(data) = self.chunks.remove(&key) {
                self.content_bytes -= length(&data);
            }
        }
        for upload in &changes.uploads_put {
            self.uploads.insert(upload.sequence, upload.chunks);
        }
        for sequence in &changes.uploads_removed {
            self.uploads.remove(sequence);
        }
    }

    fn write_logs(&mut self, changes: &ChangeSet) {
        for cleared in &changes.segments_cleared {
            self.segments.retain(|(log, _), _| log != cleared);
        }
        for key in &changes.segments_removed {
            self.segments.remove(key);
        }
        for row in &changes.segments_put {
            self.segments.insert((row.log, row.index), row.clone());
        }
        for key in &changes.runs_removed {
            self.runs.remove(key);
        }
        for row in &changes.runs_put {
            self.runs.insert((row.cursor, row.first), *row);
        }
    }

    fn write_triggers(&mut self, changes: &ChangeSet) {
        for id in &changes.triggers_removed {
            self.triggers.remove(id);
        }
        self.triggers.extend(changes.triggers_put.iter().map(|row| (row.id.clone(), row.clone())));
        if let Some(secret) = &changes.secret {
            self.secret = secret.clone();
        }
    }

    /// Its source was checked.
    fn copy_message(&mut self, copy: MessageCopy) {
        let Some(message) = self.messages.get(&copy.from).cloned() else { return };
        for number in 0..message.chunks {
            if let Some(data) = self.chunks.get(&(copy.from, number)).cloned() {
                self.put_chunk((copy.to, number), data);
            }
        }
        self.content_bytes += byte_count(&message.content);
        self.messages.insert(copy.to, message);
    }

    fn put_message(&mut self, message: &MessageRow) {
        let mut content = Arc::clone(&message.content);
        if is_whole_in_chunk(message) {
            let data = content.data.held();
            self.put_chunk((message.sequence, 0), data.into());
            let attributes = content.attributes.clone();
            let bytes = content.data.size_bytes();
            let data_kind = content.data_kind;
            content = Arc::new(MessageContent { attributes, data_kind, data: Data::Chunked { bytes } });
        }
        self.content_bytes += byte_count(&content);
        self.messages.insert(message.sequence, Message { content, chunks: message.chunks });
    }

    fn put_chunk(&mut self, key: (Sequence, u32), data: Arc<[u8]>) {
        self.content_bytes += length(&data);
        self.chunks.insert(key, data);
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
        if row.is_progress() {
            self.progress.insert((row.queue, row.message, row.sequence));
        }
    }

    fn remove_delivery(&mut self, sequence: Sequence) {
        if let Some(message) = self.messages.remove(&sequence) {
            self.content_bytes -= byte_count(&message.content);
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
        self.progress.remove(&(row.queue, row.message, row.sequence));
    }

    fn remove_dedup(&mut self, key: &DedupKey) {
        if let Some(old) = self.dedup.remove(key) {
            self.dedup_expiry.remove(&(old.expires_at, old.key));
        }
    }

    /// Whether a name is that of something that can be sent to, as of the last commit.
    pub(super) fn takes_messages(&self, name: &str) -> bool {
        let mut named = self.queues.values().filter(|queue| !queue.deleted && *queue.name == *name);
        named.any(|queue| queue.role == Role::Queue || queue.role.is_log())
    }

    /// Whether a lease may be settled from beside, as of the last commit.
    pub(super) fn check_settlement(&self, lease: &LeaseRef, now: Timestamp) -> Result<(), BesideError> {
        let row = self.deliveries.get(&lease.delivery).ok_or(BesideError::Stale)?;
        let mut queue = self.queues.get(&row.queue).ok_or(BesideError::Stale)?;
        if let Role::Cursor { group, .. } = queue.role {
            queue = self.queues.get(&group).ok_or(BesideError::Stale)?;
        }
        if queue.deleted {
            return Err(BesideError::Stale);
        }
        if !queue.settled_by_sql {
            return Err(BesideError::NotAllowed);
        }
        let held = row.state == DeliveryState::Leased
            && row.message_id() == lease.message
            && row.lease_generation == lease.generation
            && row.lease_generation >= self.row.leases_void_below
            && row.due_at > now;
        if held { Ok(()) } else { Err(BesideError::Stale) }
    }

    pub(super) fn read(&mut self, keys: &[RowKey]) -> Rows {
        let mut rows = Rows { snapshot: self.commit, ..Rows::default() };
        for key in keys {
            match key {
                RowKey::Delivery(sequence) => {
                    rows.deliveries.push((*sequence, self.deliveries.get(sequence).cloned()));
                }
                RowKey::Dedup(key) => rows.dedup.push((key.clone(), self.dedup.get(key).cloned())),
                RowKey::Progress(key) => rows.progress.push((*key, self.progress(*key).cloned())),
                RowKey::Claim(key) => {
                    let is_leased = self.deliveries.get(&key.delivery).is_some_and(|row| {
                        row.state == DeliveryState::Leased && row.lease_generation == key.generation
                    });
                    rows.claims.push((*key, self.intake.claim(*key, is_leased)));
                }
            }
        }
        rows
    }

    fn progress(&self, key: ProgressKey) -> Option<&DeliveryRow> {
        let ProgressKey { cursor, message } = key;
        let all = (cursor, message, Sequence(0))..=(cursor, message, Sequence(u64::MAX));
        self.progress.range(all).next().and_then(|(_, _, sequence)| self.deliveries.get(sequence))
    }

    pub(super) fn content(&self, message: Sequence) -> Option<Arc<MessageContent>> {
        let Message { content, chunks } = self.messages.get(&message)?;
        if *chunks != 1 {
            return Some(Arc::clone(content));
        }
        let data = self.chunk(message, 0)?.into();
        let attributes = content.attributes.clone();
        Some(Arc::new(MessageContent { attributes, data_kind: content.data_kind, data }))
    }

    pub(super) fn chunk(&self, message: Sequence, number: u32) -> Option<Vec<u8>> {
        self.chunks.get(&(message, number)).map(|data| data.to_vec())
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
            Scan::DedupExpiry { from, limit } => {
                let mut keys = self.dedup_expiry.iter().skip_while(|(expires_at, _)| expires_at < from);
                let dedup: Vec<DedupRow> =
                    keys.by_ref().take(*limit).filter_map(|(_, key)| self.dedup.get(key).cloned()).collect();
                let end = keys.next().is_none();
                Page { snapshot: self.commit, dedup, end, ..Page::default() }
            }
            Scan::Uploads { after, limit } => {
                let from = after.map_or(Unbounded, Excluded);
                let mut rows = self.uploads.range((from, Unbounded));
                let upload = |(&sequence, &chunks): (&Sequence, &u32)| UploadRow { sequence, chunks };
                let uploads = rows.by_ref().take(*limit).map(upload).collect();
                let end = rows.next().is_none();
                Page { snapshot: self.commit, uploads, end, ..Page::default() }
            }
        }
    }

    fn delivery_page(&self, mut sequences: impl Iterator<Item = Sequence>, limit: usize) -> Page {
        let rows = sequences.by_ref().take(limit);
        let deliveries = rows.filter_map(|sequence| self.deliveries.get(&sequence).cloned()).collect();
        Page { snapshot: self.commit, deliveries, end: sequences.next().is_none(), ..Page::default() }
    }
}

fn byte_count(content: &MessageContent) -> u64 {
    u64::try_from(content.held_bytes()).unwrap_or(u64::MAX)
}

fn length(data: &[u8]) -> u64 {
    u64::try_from(data.len()).unwrap_or(u64::MAX)
}

/// The data comes along with the message and goes into a chunk.
fn is_whole_in_chunk(message: &MessageRow) -> bool {
    message.chunks == 1 && matches!(message.content.data, Data::Whole(_))
}

fn range_keys(range: &ChunkRange) -> impl Iterator<Item = (Sequence, u32)> + use<> {
    let sequence = range.sequence;
    (range.from..range.until).map(move |number| (sequence, number))
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
