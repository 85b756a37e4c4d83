//! The same work on Millpond and on what people use today, in one run and in turns.
//!
//! `run` starts each server on a free port of 127.0.0.1 with a directory of its own, measures, stops it, and prints JSON;
//! `render` makes one table of one or more such runs.

mod alone;
mod daemon;
mod peers;
mod render;
mod run;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use millpond_load::LoadOptions;

use crate::alone::held::HeldOptions;
use crate::alone::passed::PassedOptions;
use crate::alone::settling::SettlingOptions;
use crate::alone::sql::SqlOptions;
use crate::peers::{Family, Peer};

#[derive(Parser)]
#[command(about = "Measures Millpond beside other queue servers")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure and print JSON
    Run(RunOptions),
    /// Sends by SQL beside plain inserts
    Sql(SqlOptions),
    /// How large the tables are after many messages have passed
    Passed(PassedOptions),
    /// A load while another transaction is open, with a restart of the server in the middle
    Held(HeldOptions),
    /// How long messages take while transactions are open that have completed others
    Settling(SettlingOptions),
    /// Print, in Markdown, what was measured: of several runs with the same settings in one table
    Render {
        /// What the measurement printed
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Args)]
struct RunOptions {
    /// Only these; without any, all of them
    #[arg(value_enum)]
    peers: Vec<Peer>,

    /// Which of them, if none is named
    #[arg(long, value_enum, default_value_t = Family::Servers)]
    family: Family,

    /// The binary of the load on awa
    #[arg(long, default_value = "../target/peers/awa/release/millpond-bench-peers-awa")]
    awa: PathBuf,

    /// The binary of Millpond
    #[arg(long, default_value = "../target/release/millpond")]
    millpond: PathBuf,

    /// The binary of the NATS server
    #[arg(long, default_value = "nats-server")]
    nats_server: PathBuf,

    /// Where the servers' directories are made; they are removed again
    #[arg(long, default_value = ".")]
    directory: PathBuf,

    #[command(flatten)]
    load: LoadOptions,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Sql(options) => alone::sql::run(&options),
        Command::Passed(options) => alone::passed::run(&options),
        Command::Held(options) => alone::held::run(&options),
        Command::Settling(options) => alone::settling::run(&options),
        Command::Render { files } => render::run(&files),
    };
    let printed = done.and_then(|text| Ok(std::io::stdout().lock().write_all(text.as_bytes())?));
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}
