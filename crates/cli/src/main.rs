//! The `millpond` binary: reads arguments, runs a command, decides the exit code (`exit`, `docs/cli.md`).

mod arguments;
mod bench;
mod commands;
mod confirm;
mod connection;
mod descriptors;
mod exit;
mod log;
mod output;
mod progress;
mod serve;
mod serve_arguments;
mod value;
mod wiring;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _};
use millpond_server::SettingsError;

use arguments::{Arguments, Command};
use commands::{run, run_to_end};
use exit::Exit;
use serve_arguments::LogFilterError;

fn main() -> ExitCode {
    let matches = Arguments::command().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    let outcome = match arguments.command {
        Command::Bench(arguments) => return finish(bench::run(&arguments)),
        Command::Serve(arguments) => return finish(serve::run(arguments)),
        Command::Ack(command) => run(command.run()),
        Command::Backup(command) => run(command.run()),
        Command::Completions(command) => command.run(),
        Command::Config(command) => command.run(&matches),
        Command::Dead(command) => run(command.run()),
        Command::Deploy(command) => run(command.run()),
        Command::Deployment(command) => run(command.run()),
        Command::Export(command) => command.run(),
        Command::Extend(command) => run(command.run()),
        Command::Group(command) => run(command.run()),
        Command::Import(command) => command.run(),
        Command::Lease(command) => run(command.run()),
        Command::Message(command) => run(command.run()),
        Command::Nack(command) => run(command.run()),
        Command::Peek(command) => run(command.run()),
        Command::Queue(command) => run(command.run()),
        Command::Restore(command) => run(command.run()),
        Command::Send(command) => run_to_end(command.run()),
        Command::SigningSecret(command) => run(command.run()),
        Command::Topic(command) => run(command.run()),
        Command::Trigger(command) => run(command.run()),
        Command::Why(command) => run(command.run()),
        Command::Work(command) => run_to_end(command.run()),
    };
    outcome.unwrap_or_else(|failure| failure.report()).into()
}

/// The end of a command that makes no calls of its own.
fn finish(done: anyhow::Result<()>) -> ExitCode {
    let Err(error) = done else { return Exit::Done.into() };
    // If stderr cannot be written either, the exit code is all that is left to say it.
    let _ = writeln!(std::io::stderr(), "millpond: {}", output::safe(&one_line(&error)));
    let is_usage = error.is::<SettingsError>() || error.is::<LogFilterError>();
    let exit = match error.is::<millpond_load::Interrupted>() {
        true => Exit::Interrupted,
        false if is_usage => Exit::WrongUsage,
        false => Exit::Refused,
    };
    exit.into()
}

/// The error with its causes, whatever line breaks they hold.
fn one_line(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}
