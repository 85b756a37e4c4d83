//! Pushes: calls that carry messages to the targets of triggers.
//!
//! | module | holds |
//! | --- | --- |
//! | [`call`] | one HTTP call, and what became of it |
//! | [`form`] | how a push looks |
//! | [`signature`] | what vouches for it |
//! | [`target`] | URLs, and addresses that an operator allows |
//! | [`record`] | what became of pushes |
//! | [`token`] | the credential for the calls that its handler makes |
//!
//! Nothing here decides what is pushed when: triggers and leases are the core's.
//!
//! Invariant: no connection is made to an address that the allow-list does not have.
#![warn(missing_docs)]

pub mod call;
mod circuit;
mod connect;
mod delivery;
mod feed;
pub mod form;
mod lane;
mod patience;
mod pusher;
pub mod record;
mod secrets;
pub mod signature;
pub mod target;
pub mod token;

pub use call::{CallError, CallRequest, CallSettings, Caller, Reply};
pub use connect::{Looking, Lookup};
pub use pusher::{CALLS, PushSettings, Pusher, TRIGGER_CALLS};
pub use target::{AllowList, Target};
