//! The commands that talk to a server, or open its data while none runs: one file a command, or a small family of them.

pub(crate) mod backup;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead;
pub(crate) mod deploy;
pub(crate) mod deployment;
pub(crate) mod export;
pub(crate) mod group;
pub(crate) mod import;
pub(crate) mod lease;
pub(crate) mod message;
mod moved;
mod offline;
pub(crate) mod peek;
pub(crate) mod policies;
pub(crate) mod queue;
pub(crate) mod reader;
pub(crate) mod restore;
pub(crate) mod send;
pub(crate) mod settle;
pub(crate) mod signing_secret;
pub(crate) mod topic;
pub(crate) mod trigger;
pub(crate) mod why;
pub(crate) mod work;

use clap::Args;
use millpond_client::{Client, Error, ErrorCode};

use crate::connection::Connection;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::Format;

/// What every command takes that makes calls.
#[derive(Debug, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    connection: Connection,
    #[command(flatten)]
    pub(crate) format: Format,
}

impl Common {
    /// Variables by which another run of this program finds the same server.
    pub(crate) fn environment(&self) -> Vec<(&'static str, String)> {
        self.connection.variables()
    }

    pub(crate) fn client(&self) -> Outcome<Client> {
        self.connection.client()
    }
}

/// Others may change something between its read and its write so many times.
const TRIES: u32 = 5;

/// Reads and writes something until nobody has changed it in between; a change of one state is tried once.
async fn retry<T>(
    changed: &policies::Changed,
    try_once: impl AsyncFn() -> Outcome<Result<T, Error>>,
) -> Outcome<Result<T, Error>> {
    let mut tries = 0;
    loop {
        tries += 1;
        match try_once().await? {
            Err(error)
                if error.code() == Some(&ErrorCode::EtagMismatch) && !changed.has_etag() && tries < TRIES => {
            }
            answer => return Ok(answer),
        }
    }
}

/// Runs a command, or stops it at SIGINT.
pub(crate) fn run(command: impl Future<Output = Outcome>) -> Outcome {
    run_to_end(async {
        tokio::select! {
            outcome = command => outcome,
            Ok(()) = tokio::signal::ctrl_c() => Err(Failure::interrupted("stopped")),
        }
    })
}

/// Runs a command that deals with signals itself.
pub(crate) fn run_to_end(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Exit::Refused, "cannot start", error.to_string()))?;
    let outcome = runtime.block_on(command);
    // A thread that reads stdin may wait for ever.
    runtime.shutdown_background();
    outcome
}
