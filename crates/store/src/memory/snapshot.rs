//! Environments of a [`MemoryDisk`] as snapshots: a dump, handed out in pages.

use std::collections::VecDeque;
use std::sync::Arc;

use millpond_core::row::{CountersRow, Data, MessageContent, MessageRow};

use super::{MemoryDisk, MemoryDump};
use crate::snapshot::{PAGE_BYTES, PAGE_ROWS, Snapshot, SnapshotHead, Snapshots, StoredRow};
use crate::{StoreError, StoreErrorKind};

impl Snapshots for MemoryDisk {
    fn environments(&self) -> Result<Vec<String>, StoreError> {
        Ok(self.lock().environments.keys().cloned().collect())
    }

    fn snapshot(&self, environment: &str) -> Result<Box<dyn Snapshot>, StoreError> {
        if !self.lock().environments.contains_key(environment) {
            let context = format!("there is no environment {environment}");
            return Err(StoreError::new(StoreErrorKind::Unavailable, context));
        }
        Ok(Box::new(MemorySnapshot::new(self.dump(environment))))
    }
}

struct MemorySnapshot {
    head: SnapshotHead,
    rows: VecDeque<StoredRow>,
}

impl MemorySnapshot {
    fn new(dump: MemoryDump) -> Self {
        let mut head = SnapshotHead {
            commit: dump.commit,
            environment: dump.environment.clone(),
            ..SnapshotHead::default()
        };
        let rows = rows(dump);
        for row in &rows {
            head.counts.add(row.kind(), 1);
        }
        Self { head, rows }
    }
}

impl Snapshot for MemorySnapshot {
    fn head(&self) -> &SnapshotHead {
        &self.head
    }

    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        let (mut page, mut bytes) = (Vec::new(), 0);
        let kind = self.rows.front().map(StoredRow::kind);
        while page.len() < PAGE_ROWS && bytes < PAGE_BYTES && self.rows.front().map(StoredRow::kind) == kind {
            let Some(row) = self.rows.pop_front() else { break };
            bytes += row.held_bytes();
            page.push(row);
        }
        Ok(page)
    }
}

/// All rows, in the order of their kinds.
fn rows(dump: MemoryDump) -> VecDeque<StoredRow> {
    let counters = |number| dump.counters.iter().find(|row: &&CountersRow| row.queue == number).copied();
    let mut rows = VecDeque::new();
    rows.extend(dump.queues.into_iter().map(|queue| {
        let counters = counters(queue.number).map(Box::new);
        StoredRow::Queue(Box::new(queue), counters)
    }));
    rows.extend(dump.segments.into_iter().map(|row| StoredRow::Segment(Box::new(row))));
    rows.extend(dump.runs.into_iter().map(StoredRow::Run));
    rows.extend(dump.triggers.into_iter().map(|row| StoredRow::Trigger(Box::new(row))));
    if dump.secret != millpond_core::row::SecretRow::default() {
        rows.push_back(StoredRow::Secret(dump.secret));
    }
    rows.extend(dump.dedup.into_iter().map(|row| StoredRow::Dedup(Box::new(row))));
    rows.extend(dump.chunks.into_iter().map(StoredRow::Chunk));
    rows.extend(dump.uploads.into_iter().map(StoredRow::Upload));
    let mut messages = dump.messages.into_iter().peekable();
    rows.extend(dump.deliveries.into_iter().map(|delivery| {
        let own = messages.next_if(|message| message.sequence == delivery.sequence);
        StoredRow::Delivery(Box::new(delivery), own.map(without_chunk))
    }));
    rows
}

/// Its data in a chunk stays there.
fn without_chunk(message: MessageRow) -> MessageRow {
    if message.chunks == 0 {
        return message;
    }
    let content = &message.content;
    let data = Data::Chunked { bytes: content.data.size_bytes() };
    let (attributes, data_kind) = (content.attributes.clone(), content.data_kind);
    MessageRow { content: Arc::new(MessageContent { attributes, data_kind, data }), ..message }
}
