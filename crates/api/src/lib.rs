//! What goes over the wire: request bodies read, answers written, error codes, limits.
//!
//! This crate is pure: bytes in, values out, and back. It knows no HTTP framework, no runtime and no queue
//! rules, and it shares no type with the core: the server converts by hand, so that a change of wire format
//! never changes what is stored, nor the other way round.
//!
//! Invariant: user input is never asserted. Whatever a client sends, a parser here returns a value or an
//! [`InputError`] that names the field, what it was and what was expected (`tests/it/fuzzed.rs`).
//!
//! | module | holds |
//! | --- | --- |
//! | [`dead_letters`] | listing, replaying and redriving dead letters |
//! | [`deployment`], [`trigger`] | who pushes what where to |
//! | [`duration`], [`time`] | ProtoJSON durations and RFC 3339 times |
//! | [`backup`] | backups that the server makes |
//! | [`error_code`], [`problem`] | the closed set of error codes, and the error body |
//! | [`event`] | CloudEvents in four forms, bytes preserved |
//! | [`filter`], [`page`] | which entries of a list, and which part of them |
//! | [`input_error`] | why an input was refused |
//! | [`lease`], [`purge`], [`send`], [`settle`] | bodies and answers of the verbs |
//! | [`limits`] | every bound, by name |
//! | [`message`] | the message resource, and peeking |
//! | [`name`] | resource names and ids |
//! | [`push`] | what became of pushes |
//! | [`queue`] | the queue resource: made, changed, listed |
//! | [`schema`] | all of it as JSON Schema |
//! | [`signing_secret`] | what pushes are signed with |
//! | [`vercel`] | the wire of Vercel Queues |
#![warn(missing_docs)]

pub mod backup;
pub mod dead_letters;
pub mod deployment;
pub mod duration;
pub mod error_code;
pub mod event;
pub mod filter;
pub mod input_error;
pub mod lease;
pub mod limits;
pub mod message;
pub mod name;
pub mod page;
pub mod problem;
pub mod purge;
pub mod push;
pub mod queue;
mod reader;
pub mod schema;
pub mod send;
pub mod settle;
pub mod signing_secret;
pub mod time;
pub mod trigger;
pub mod vercel;
mod writer;

pub use error_code::ErrorCode;
pub use event::{AttributeValue, DataKind, Event, EventData};
pub use input_error::{Fault, InputError};
pub use problem::{Effect, Problem};
