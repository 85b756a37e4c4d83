//! Moves an environment between stores of any kind, by a file of JSON lines (docs/backups.md).
//!
//! [`export`] writes what a [`Snapshot`](millpond_store::Snapshot) yields, [`import`] commits it into an empty environment of
//! a [`StoreFactory`](millpond_store::StoreFactory). Both hold one page at a time.
//!
//! Invariant: nothing is committed whose checksum was not right, and an environment whose import is not finished is served
//! by nobody.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod error;
mod export;
mod format;
mod import;
mod row;

pub use error::MoveError;
pub use export::{Origin, export};
pub use import::import;

use millpond_store::RowCounts;

/// What was moved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Moved {
    /// The environment, by the name that it has where it was moved to.
    pub environment: String,
    /// Rows of each kind.
    pub counts: RowCounts,
    /// Lines of the file.
    pub lines: u64,
    /// SHA-256 of all lines but the last, which states it.
    pub sha256: String,
}

/// How far a move is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MoveProgress {
    /// Rows that were written or read.
    pub rows: u64,
    /// Rows that there are.
    pub rows_total: u64,
}
