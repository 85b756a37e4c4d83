//! Millpond over HTTP: the native API, and Vercel Queues' wire.
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
//! | `answers` | how much answers take together while they are written |
//! | `incoming`, `pieces`, `stream` | messages whose data is a body; large bodies on their way in and out, chunk by chunk |
//! | `vercel` | Vercel Queues' wire |
//! | `idempotency` | what makes a call repeatable |
//! | `pushes` | what the server needs of the part that pushes |
//! | `openapi` | the OpenAPI document |
//! | `guard`, `envelope` | who may ask at all; error bodies |
//! | `request`, `verb` | request ids, what is told of a request and under which name |
//! | `metrics` | what an operator watches |
//! | `runtime_cache` | values that programs for Vercel keep in memory |
//! | `serve`, `connections`, `connection`, `delivery` | sockets, and when an answer counts as delivered |
//! | `linger` | bodies that were refused while they come |
//! | `config`, `shutdown` | settings; how the server stops |
//!
//! Invariant: a grant whose answer was not handed to the kernel whole is taken back (`delivery`).

pub mod answers;
mod app;
mod backups;
mod bodies;
pub mod config;
mod connection;
mod connections;
mod convert;
mod delivery;
mod envelope;
mod error;
mod extract;
mod guard;
mod handlers;
mod idempotency;
mod incoming;
mod linger;
mod making;
mod metrics;
pub mod openapi;
mod paths;
mod pieces;
mod pushes;
mod request;
mod runtime_cache;
mod serve;
mod shutdown;
mod stream;
mod verb;
mod vercel;

pub use answers::ANSWERS_BYTES_MAX;
pub use app::{App, app};
pub use bodies::{BODIES_BYTES_MAX, BODY_READ_MAX};
pub use config::{DATA_BYTES, QUEUES, Quotas, RawSettings, Settings, SettingsError};
pub use connection::{HEAD_READ_MAX, serve_connection};
pub use connections::{CONNECTIONS, CONNECTIONS_MAX, Connections};
pub use error::ApiError;
pub use guard::AllowedHosts;
pub use metrics::{METRICS_QUEUES, METRICS_QUEUES_MAX};
pub use pushes::{Changed, PushOutcome, PushRecord, PushStatistics, Pushes, TargetRefusal, Verified};
pub use runtime_cache::{RUNTIME_CACHE_BYTES_MAX, RUNTIME_CACHE_BYTES_MIN};
pub use serve::{DRAIN_MAX, bind, serve};
pub use shutdown::{Shutdown, ShutdownWatch, StopSignals};
