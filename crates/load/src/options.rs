//! What a measurement takes from the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args};

use crate::scenario::Scenario;

/// How hard and how long.
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// How long each scenario is measured in each round
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    pub seconds: u64,

    /// How often each scenario is measured; scenarios take turns
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100))]
    pub rounds: u64,

    /// Seconds of load before each measurement
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u64).range(0..=3_600))]
    pub warm_up: u64,

    /// Connections, each with one call at a time in flight
    #[arg(long, default_value_t = 64, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_024))]
    pub connections: u64,

    /// Bytes of data of each message
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u64).range(20..=8_192))]
    pub data_bytes: u64,

    /// Messages a second of the scenario latency
    #[arg(long, default_value_t = 500, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub rate: u64,

    /// Receives a second of the scenario receives
    #[arg(long, default_value_t = 5_000, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub receive_rate: u64,
}

impl LoadOptions {
    /// [`LoadOptions::seconds`].
    pub fn measured(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// [`LoadOptions::warm_up`].
    pub fn warm_up(&self) -> Duration {
        Duration::from_secs(self.warm_up)
    }
}

/// The arguments of `millpond bench`.
#[derive(Args, Clone, Debug)]
#[command(group = ArgGroup::new("target").required(true).args(["server", "own"]))]
pub struct Arguments {
    /// What to measure; without any, all of them
    #[arg(value_enum, value_name = "SCENARIO")]
    pub scenarios: Vec<Scenario>,

    /// A server that runs already; queues named bench-… are made in it and removed
    #[arg(long, value_name = "URL")]
    pub server: Option<String>,

    /// The process of that server on this machine, for its processor time and memory
    #[arg(long, value_name = "PID", requires = "server")]
    pub server_pid: Option<u32>,

    /// A server of this binary's own for each measurement, on a free port and an empty directory
    #[arg(long)]
    pub own: bool,

    /// Where the own server's directory is made; it is removed again
    #[arg(long, default_value = ".", value_name = "DIR")]
    pub directory: PathBuf,

    /// Messages that the scenario backlog fills in
    #[arg(long, default_value_t = 1_000_000, value_name = "N", value_parser = clap::value_parser!(u64).range(200..))]
    pub backlog: u64,

    /// How hard and how long.
    #[command(flatten)]
    pub load: LoadOptions,

    /// Print one JSON object in place of a table
    #[arg(long)]
    pub json: bool,
}
