//! The lines of an export that are no rows, and the checksum that runs through all of them. Persisted: what is written by
//! one version is read by the next. What is added has a default (`#[serde(default)]`); any other change needs another [`VERSION`].

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::EnvironmentRow;
use millpond_core::time::Timestamp;
use millpond_store::{RowCounts, RowKind, SnapshotHead};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::row::RowLine;

/// The version of the format.
pub(crate) const VERSION: u32 = 1;

/// Bytes of a line, at most: far more than the largest row takes.
pub(crate) const LINE_BYTES_MAX: u64 = 64 << 20;

/// Rows between two checksums, at most: they wait in memory for the second. More than any version writes.
pub(crate) const PAGE_ROWS_MAX: u64 = 10_000;
const _: () = assert!(millpond_store::PAGE_ROWS as u64 <= PAGE_ROWS_MAX);

/// A line: an object with one member, whose name says what it is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    /// The first one.
    MillpondExport(Header),
    /// What was written since the last one, or the first line, is whole.
    Check(Check),
    /// The last one.
    End(End),
    /// Anything else is a row.
    #[serde(untagged)]
    Row(RowLine),
}

/// What is exported.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub(crate) version: u32,
    pub(crate) made_by: String,
    pub(crate) made_at_ms: i64,
    pub(crate) environment: String,
    pub(crate) commit: u64,
    pub(crate) row: EnvironmentLine,
    pub(crate) rows: Counts,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EnvironmentLine {
    incarnation: u64,
    stamp_ms: i64,
    next_sequence: u64,
    next_queue: u32,
    dedup_count: u64,
    leases_void_below: u64,
}

/// Counts of rows by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    queue: u64,
    segment: u64,
    run: u64,
    trigger: u64,
    secret: u64,
    dedup: u64,
    chunk: u64,
    upload: u64,
    delivery: u64,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    pub(crate) rows: u64,
    /// Of all lines before this one, line breaks included.
    pub(crate) sha256: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct End {
    pub(crate) lines: u64,
    pub(crate) rows: Counts,
    pub(crate) sha256: String,
}

impl Header {
    pub(crate) fn new(environment: &str, head: &SnapshotHead, made_by: &str, made_at: Timestamp) -> Self {
        Self {
            version: VERSION,
            made_by: made_by.to_owned(),
            made_at_ms: made_at.as_millis(),
            environment: environment.to_owned(),
            commit: head.commit.0,
            row: EnvironmentLine::of(&head.environment),
            rows: Counts::of(&head.counts),
        }
    }

    pub(crate) fn head(&self) -> SnapshotHead {
        SnapshotHead {
            commit: CommitSequence(self.commit),
            environment: self.row.row(),
            counts: self.rows.counts(),
        }
    }
}

impl EnvironmentLine {
    fn of(row: &EnvironmentRow) -> Self {
        Self {
            incarnation: row.incarnation.0,
            stamp_ms: row.stamp.as_millis(),
            next_sequence: row.next_sequence.0,
            next_queue: row.next_queue.0,
            dedup_count: row.dedup_count,
            leases_void_below: row.leases_void_below.0,
        }
    }

    fn row(&self) -> EnvironmentRow {
        EnvironmentRow {
            incarnation: Incarnation(self.incarnation),
            stamp: Timestamp::from_millis(self.stamp_ms),
            next_sequence: Sequence(self.next_sequence),
            next_queue: QueueNumber(self.next_queue),
            dedup_count: self.dedup_count,
            leases_void_below: LeaseGeneration(self.leases_void_below),
        }
    }
}

impl Counts {
    pub(crate) fn of(counts: &RowCounts) -> Self {
        Self {
            queue: counts.of(RowKind::Queue),
            segment: counts.of(RowKind::Segment),
            run: counts.of(RowKind::Run),
            trigger: counts.of(RowKind::Trigger),
            secret: counts.of(RowKind::Secret),
            dedup: counts.of(RowKind::Dedup),
            chunk: counts.of(RowKind::Chunk),
            upload: counts.of(RowKind::Upload),
            delivery: counts.of(RowKind::Delivery),
        }
    }

    pub(crate) fn counts(&self) -> RowCounts {
        let mut counts = RowCounts::default();
        for kind in RowKind::ALL {
            let count = match kind {
                RowKind::Queue => self.queue,
                RowKind::Segment => self.segment,
                RowKind::Run => self.run,
                RowKind::Trigger => self.trigger,
                RowKind::Secret => self.secret,
                RowKind::Dedup => self.dedup,
                RowKind::Chunk => self.chunk,
                RowKind::Upload => self.upload,
                RowKind::Delivery => self.delivery,
            };
            counts.add(kind, count);
        }
        counts
    }
}

/// The checksum of all lines so far.
#[derive(Clone, Default)]
pub(crate) struct Checksum {
    hash: Sha256,
    pub(crate) lines: u64,
}

impl Checksum {
    /// Takes in a line, with its line break.
    pub(crate) fn take(&mut self, line: &[u8]) {
        self.hash.update(line);
        self.lines += 1;
    }

    pub(crate) fn text(&self) -> String {
        self.hash.clone().finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Its first half, as a number.
    pub(crate) fn digest(&self) -> u128 {
        let hash = self.hash.clone().finalize();
        hash.iter().take(16).fold(0, |digest, byte| (digest << 8) | u128::from(*byte))
    }
}
