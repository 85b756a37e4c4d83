//! A load generator for queue servers, and the report of what they reached.
//!
//! [`run`] is `millpond bench`: it drives a Millpond server over HTTP from this process. The loops know of the server only
//! what [`System`] and [`Caller`] say, so that other queue servers can be put through the same work (`bench-peers/`).
//!
//! The generator shares the machine with what it measures. It runs on one thread, drives each connection within the task
//! that uses it, and reports its own processor time beside the server's.

#![warn(missing_docs)]

mod backlog;
mod http;
mod interrupted;
mod loops;
mod machine;
mod millpond;
mod options;
mod own;
mod process;
mod progress;
mod receives;
mod report;
mod run;
mod running;
mod scenario;
mod statistics;
mod system;

pub use hyper::Method;

pub use self::interrupted::{Interrupted, block_on};
pub use self::loops::{HANDLERS, Work, closed_loop, open_loop, start};
pub use self::machine::{Flush, describe, measure_flush};
pub use self::millpond::Millpond;
pub use self::options::{Arguments, LoadOptions};
pub use self::own::OwnServer;
pub use self::process::Processes;
pub use self::progress::Progress;
pub use self::run::run;
pub use self::running::Running;
pub use self::scenario::Scenario;
pub use self::statistics::{Figures, Quantiles, Summary, sum_up};
pub use self::system::{Caller, Leased, Payload, Stamp, System};
