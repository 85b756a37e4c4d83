//! Measures the engine in process: no HTTP, every answer durable.
//!
//! `millpond-bench run SCENARIO` measures once and prints one JSON object; `millpond-bench report` runs every scenario
//! in processes of their own, in rounds, so that pairs are interleaved, and prints medians and spread.

mod load;
mod report;
mod scenarios;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

#[derive(Parser)]
#[command(version, about = "Measures Millpond's engine in process")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure one scenario once.
    Run {
        /// Which.
        scenario: scenarios::Scenario,
        #[command(flatten)]
        options: Options,
    },
    /// Measure all scenarios in turn and print a report as JSON; a table goes to stderr.
    Report {
        /// Rounds; each measures every scenario once.
        #[arg(long, default_value_t = 5)]
        rounds: usize,
        /// Only these scenarios.
        #[arg(long, value_delimiter = ',')]
        only: Vec<scenarios::Scenario>,
        #[command(flatten)]
        options: Options,
    },
}

/// What every scenario takes.
#[derive(Args, Clone, Debug)]
struct Options {
    /// How long to measure.
    #[arg(long, default_value_t = 30)]
    seconds: u64,
    /// How long to run before that.
    #[arg(long, default_value_t = 2)]
    warm_up: u64,
    /// Bytes of each message's data.
    #[arg(long, default_value_t = 256)]
    data_bytes: usize,
    /// Size of what the scenario fills first: messages, keys, queues or environments.
    #[arg(long)]
    scale: Option<u64>,
    /// Where the data goes; a new directory in it is made and removed.
    #[arg(long, default_value = "target")]
    directory: PathBuf,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Run { scenario, options } => {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
            let result = runtime.block_on(scenarios::run(scenario, &options))?;
            println!("{result}");
        }
        Command::Report { rounds, only, options } => report::run(rounds, &only, &options)?,
    }
    Ok(())
}
