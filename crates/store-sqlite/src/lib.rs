//! The SQLite store: one database file per environment, in a data directory that one process owns.
//!
//! ```text
//! DATA_DIR/format                         says that this is Millpond's, and which layout (`directory.rs`)
//! DATA_DIR/lock                           held by the process that serves the directory
//! DATA_DIR/catalogue.sqlite               names of environments, their files, when closed ones are due
//! DATA_DIR/environments/<random>.sqlite   the rows of one environment (`schema.rs`)
//! DATA_DIR/lineage/<random>               tells a restart from a restored copy (`lineage.rs`)
//! DATA_DIR/reserve                        room given up when the disk is full (`space.rs`)
//! DATA_DIR/backups/                       where a server puts backups unless it is told (`backup.rs`)
//! ```
//!
//! One [`ChangeSet`](millpond_core::ChangeSet) is one transaction in WAL mode with `synchronous=FULL`, whose first
//! statement moves the fence. Readers have connections of their own; checkpoints run on a thread of the factory.
//!
//! Invariant: nothing is answered `Ok` before SQLite has flushed it (shown by `tests/power_cut.rs`, with the feature
//! `power-cut`).

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod backup;
mod catalogue;
mod checkpoint;
mod chunk;
mod connection;
mod copying;
mod directory;
mod error;
mod factory;
mod lineage;
#[cfg(feature = "power-cut")]
pub mod power_cut;
mod reader;
mod restore;
mod row;
mod scan;
mod schema;
mod segment;
mod settings;
mod snapshot;
mod space;
mod store;
mod trigger;
mod write;

pub use backup::UNFINISHED;
pub use factory::SqliteFactory;
pub use restore::SqliteBackup;
pub use settings::{SqliteSettings, Synchronous};
pub use snapshot::SqliteSnapshots;
