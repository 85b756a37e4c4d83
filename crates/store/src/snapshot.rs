//! All rows of an environment from one consistent read, as an export takes them.
//!
//! A [`Snapshot`] may hold a read transaction for as long as it lives. None is made of files that a server has open: it is for a place
//! that nobody serves, for a backup, or for a database, where it keeps old rows from being removed for so long.

use millpond_core::id::CommitSequence;
use millpond_core::row::{
    ChunkRow, CountersRow, DedupRow, DeliveryRow, EnvironmentRow, MessageRow, QueueRow, RunRow, SecretRow,
    SegmentRow, TriggerRow, UploadRow,
};

use crate::StoreError;

/// Rows of one page, at most.
pub const PAGE_ROWS: usize = 1_000;

/// A page ends with the row that brings its contents to so many bytes.
pub const PAGE_BYTES: usize = 1 << 20;

/// A place that nobody serves, a backup or a database, and the environments in it.
pub trait Snapshots {
    /// The names of all environments, in their order.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    fn environments(&self) -> Result<Vec<String>, StoreError>;

    /// One environment as it is now.
    ///
    /// # Errors
    /// `Unavailable`: also if there is none of this name. `Corrupt`.
    fn snapshot(&self, environment: &str) -> Result<Box<dyn Snapshot>, StoreError>;
}

/// One environment, as of one moment.
pub trait Snapshot {
    /// What is known before the rows are read.
    fn head(&self) -> &SnapshotHead;

    /// The next page: rows of one kind, within [`PAGE_ROWS`] and [`PAGE_BYTES`]. Kinds come in the order of [`RowKind::ALL`],
    /// the rows of each in the order of their keys. Empty: there are no more.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError>;
}

/// What stands before the rows.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SnapshotHead {
    /// The last commit.
    pub commit: CommitSequence,
    /// The environment's row.
    pub environment: EnvironmentRow,
    /// How many rows there are of each kind.
    pub counts: RowCounts,
}

/// Kinds of rows, in the order in which they are read: what a row needs stands before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum RowKind {
    /// A queue, with its counters.
    Queue,
    /// A segment of a log.
    Segment,
    /// A run of a cursor.
    Run,
    /// A trigger.
    Trigger,
    /// What pushes are signed with.
    Secret,
    /// A remembered call.
    Dedup,
    /// A chunk.
    Chunk,
    /// An upload.
    Upload,
    /// A delivery, with its message.
    Delivery,
}

impl RowKind {
    /// Every kind, in their order.
    pub const ALL: [Self; 9] = [
        Self::Queue,
        Self::Segment,
        Self::Run,
        Self::Trigger,
        Self::Secret,
        Self::Dedup,
        Self::Chunk,
        Self::Upload,
        Self::Delivery,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Segment => "segment",
            Self::Run => "run",
            Self::Trigger => "trigger",
            Self::Secret => "secret",
            Self::Dedup => "dedup",
            Self::Chunk => "chunk",
            Self::Upload => "upload",
            Self::Delivery => "delivery",
        }
    }

    /// What comes behind it.
    #[must_use]
    pub fn next(self) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind > self)
    }
}

/// Counts of rows by kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RowCounts([u64; RowKind::ALL.len()]);

impl RowCounts {
    /// Rows of one kind.
    #[must_use]
    pub fn of(&self, kind: RowKind) -> u64 {
        self.iter().find(|(other, _)| *other == kind).map_or(0, |(_, count)| count)
    }

    /// More rows of one kind.
    pub fn add(&mut self, kind: RowKind, rows: u64) {
        for (other, count) in RowKind::ALL.into_iter().zip(&mut self.0) {
            if other == kind {
                *count += rows;
            }
        }
    }

    /// Each kind with its count.
    pub fn iter(&self) -> impl Iterator<Item = (RowKind, u64)> {
        RowKind::ALL.into_iter().zip(self.0)
    }

    /// Rows of all kinds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |total, rows| total.saturating_add(*rows))
    }
}

/// A row of an environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StoredRow {
    /// A queue, and its counters if there are any.
    Queue(Box<QueueRow>, Option<Box<CountersRow>>),
    /// A segment.
    Segment(Box<SegmentRow>),
    /// A run.
    Run(RunRow),
    /// A trigger.
    Trigger(Box<TriggerRow>),
    /// The secret.
    Secret(SecretRow),
    /// A remembered call.
    Dedup(Box<DedupRow>),
    /// A chunk.
    Chunk(ChunkRow),
    /// An upload.
    Upload(UploadRow),
    /// A delivery, and the message under its sequence, if there is one. Data in chunks, be it one, is named by its length: the
    /// chunks are rows of their own.
    Delivery(Box<DeliveryRow>, Option<MessageRow>),
}

impl StoredRow {
    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> RowKind {
        match self {
            Self::Queue(..) => RowKind::Queue,
            Self::Segment(_) => RowKind::Segment,
            Self::Run(_) => RowKind::Run,
            Self::Trigger(_) => RowKind::Trigger,
            Self::Secret(_) => RowKind::Secret,
            Self::Dedup(_) => RowKind::Dedup,
            Self::Chunk(_) => RowKind::Chunk,
            Self::Upload(_) => RowKind::Upload,
            Self::Delivery(..) => RowKind::Delivery,
        }
    }

    /// Bytes of contents that it holds.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.data.len(),
            Self::Delivery(_, Some(message)) => message.content.held_bytes(),
            _ => 0,
        }
    }
}
