//! The client against a server in the same process, and against one that answers what it is told to.

mod calls;
mod lists;
mod retries;
mod server;
mod topics;
mod triggers;
mod workers;
mod workers_in_trouble;
