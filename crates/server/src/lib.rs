//! Millpond over HTTP: the native API.
//!
//! Each surface is thin: extract, convert, call the engine, convert. No queue rule is decided here.
//!
//! | module | holds |
//! | --- | --- |
//! | [`app`] | the router and what its handlers share |
//! | `handlers` | one file a resource or verb |
//! | `convert` | wire structs to core types, and back |
//! | `extract` | paths, query parameters and bodies of requests |
//! | `bodies` | how much bodies take together while they are read, and how long |
//! | `idempotency` | what makes a call repeatable |
//! | `openapi` | the OpenAPI document |
//! | `guard`, `envelope` | who may ask at all; request ids and error bodies |
//! | `serve`, `connection`, `delivery` | sockets, and when an answer counts as delivered |
//! | `config`, `shutdown` | settings; how the server stops |
//!
//! Invariant: a grant whose answer was not handed to the kernel whole is taken back (`delivery`).

pub mod app;
mod bodies;
pub mod config;
mod connection;
mod convert;
mod delivery;
mod envelope;
mod error;
mod extract;
mod guard;
mod handlers;
mod idempotency;
pub mod openapi;
mod paths;
mod serve;
mod shutdown;

pub use app::{App, app};
pub use bodies::{BODIES_BYTES_MAX, BODY_READ_MAX};
pub use config::{RawSettings, Settings, SettingsError};
pub use connection::serve_connection;
pub use error::ApiError;
pub use guard::AllowedHosts;
pub use serve::{DRAIN_MAX, bind, serve};
pub use shutdown::{Shutdown, ShutdownWatch, StopSignals};
