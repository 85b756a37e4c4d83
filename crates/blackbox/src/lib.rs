//! Tests of the real binary, as users meet it: a process, a socket, a data directory or a database. No crate of Millpond's
//! is used but the tests' own PostgreSQL; what is known of the server is its command line and its API.
//!
//! - [`binary`]: the binaries under test, built once.
//! - [`server`]: a server process, started, killed, stopped, started again.
//! - [`http`], [`client`]: one connection; the calls of the native API on it.
//! - [`journal`], [`checker`]: what clients saw, and whether the promises held.
//! - [`random`]: numbers from a seed.
//! - `store`: what the server keeps its data in, by `MILLPOND_TEST_STORE`.
//! - [`terminal`]: a shell in a terminal, as people have it.
//! - [`trace`]: system calls of a server under strace, in order.
//!
//! The tests are in `tests/it`, one file a promise. None sleeps.

pub mod binary;
pub mod checker;
pub mod client;
pub mod http;
pub mod journal;
pub mod random;
pub mod server;
mod store;
pub mod terminal;
pub mod trace;
