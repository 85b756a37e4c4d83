//! The rules of Millpond's queues, pure and synchronous: no I/O, no clock, no randomness, no `async`.
//!
//! [`Core::apply`] takes a [`Command`] and a [`Stamp`] and answers with an [`Outcome`]; what changed is collected
//! until [`Core::seal`] hands it over as one [`ChangeSet`]. Memory holds windows at the front of each stored order
//! (`state/window.rs`), never a whole backlog: where a row is missing, `apply` says which ([`Needs`]) and changes
//! nothing.
//!
//! Invariants, each checked by [`Core::check`] in the simulator:
//! - a delivery is in exactly the order of its state, and a window holds every key up to its edge;
//! - counters equal a full scan of the rows;
//! - `lease_generation` of a delivery only rises;
//! - no lease is granted beyond a queue's limits (asserted where leases are granted; a limit that is lowered ends none);
//! - a chunk belongs to a message or to a row that says that it belongs to nobody (`state/uploads.rs`).

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod apply;
pub mod change;
pub mod command;
pub mod external;
pub mod id;
pub mod limits;
pub mod outcome;
pub mod planted;
pub mod remembered;
pub mod row;
pub mod spec;
mod stamp;
pub use stamp::mix;
mod state;
pub mod time;

pub use apply::Needs;
pub use change::{
    ChangeSet, ChunkRange, Claim, DeliveryChange, LeaseKey, LowWater, MessageCopy, Page, ProgressKey, RowKey,
    Rows, Scan, StoredOrder,
};
pub use command::Command;
pub use external::{External, ExternalCommand, ExternalId};
pub use limits::CoreSettings;
pub use outcome::{Effect, Outcome, Rejection};
pub use stamp::Stamp;
pub use state::{Core, OpenState, QueueReading, ScanTicket, Violation, WantedScan};
