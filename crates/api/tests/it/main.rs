//! What a client sends and gets, through the public API of the crate.

mod calls;
mod error_pages;
mod event_rules;
mod forms;
mod fuzzed;
mod messages;
mod queues;
mod schemas;
mod topics;
mod triggers;
