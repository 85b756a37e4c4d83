//! The PostgreSQL store: every environment of one schema in a user's own database, beside the user's data.
//!
//! ```text
//! factory.rs   opens environments; the catalogue          store.rs    the right to write one
//! target.rs    the connection string, TLS                 write.rs    one change set as one pipelined transaction
//! session.rs   one connection                             reader.rs   reads, each in one snapshot
//! pool.rs      connections that are free                  scan.rs     ordered scans
//! presence.rs  one server at a time                       row.rs      rows as columns
//! lineage.rs   a restart or a restored copy               schema.rs   migrations
//! watcher.rs   notices what SQL wrote                     external.rs what SQL wrote, as commands; claims
//! upkeep.rs    vacuums tables                           sweep.rs    removes keys of leases that ended
//! pooling.rs   refuses poolers that share connections   snapshot.rs all rows of an environment, for an export
//! ```
//!
//! A [`ChangeSet`](millpond_core::ChangeSet) is one transaction, sent as a whole: the fence first, then one statement a
//! kind of row over arrays. Nobody but the owner writes what the owner writes, so no statement waits for another.
//!
//! Invariant: nothing is answered `Ok` before PostgreSQL has said that the transaction is committed, without a warning.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod error;
mod external;
mod factory;
mod keyed;
mod lineage;
#[cfg(test)]
mod plans;
mod pool;
mod pooling;
mod presence;
mod process;
mod reader;
mod row;
mod scan;
mod schema;
mod session;
mod settings;
mod snapshot;
mod store;
mod sweep;
mod target;
mod text;
mod upkeep;
mod watcher;
mod write;

pub use factory::PostgresFactory;
pub use settings::PostgresSettings;
pub use snapshot::PostgresSnapshots;
