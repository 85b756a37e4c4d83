//! The `millpond` binary: reads arguments, runs a command, decides the exit code.
//!
//! Exit codes: 0 done, 1 it could not be done (one line on stderr says why), 2 it was asked for in a wrong way, 130 the
//! user interrupted it.

mod arguments;
mod bench;
mod descriptors;
mod log;
mod serve;
mod wiring;

use std::io::Write as _;
use std::process::ExitCode;

use clap::Parser as _;
use millpond_server::SettingsError;

use arguments::{Arguments, Command, LogFilterError};

const FAILED: u8 = 1;
const WRONG_USAGE: u8 = 2;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = match arguments.command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Serve(arguments) => serve::run(arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If stderr cannot be written either, the exit code is all that is left to say it.
            let _ = writeln!(std::io::stderr(), "millpond: {}", one_line(&error));
            let is_usage = error.is::<SettingsError>() || error.is::<LogFilterError>();
            ExitCode::from(match error.is::<millpond_load::Interrupted>() {
                true => INTERRUPTED,
                false if is_usage => WRONG_USAGE,
                false => FAILED,
            })
        }
    }
}

/// The error with its causes, whatever line breaks they hold.
fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
