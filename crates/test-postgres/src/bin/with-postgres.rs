//! `with-postgres [--] COMMAND…`: runs a command with a cluster of its own, whose URL it finds in `MILLPOND_TEST_STORE`.
//! The command's exit code is passed on; the cluster is gone afterwards.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitCode};

use anyhow::Context as _;
use millpond_test_postgres::{Cluster, STORE};

/// What shells answer for a command that cannot be run.
const NOT_RUN: u8 = 126;
/// What shells add to the number of a signal.
const SIGNALLED: i32 = 128;

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    words.next_if(|word| word == "--");
    let Some(program) = words.next() else {
        eprintln!("usage: with-postgres [--] COMMAND…");
        return ExitCode::from(2);
    };
    let mut command = Command::new(program);
    match run(command.args(words)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("with-postgres: {error:#}");
            ExitCode::from(NOT_RUN)
        }
    }
}

fn run(command: &mut Command) -> anyhow::Result<u8> {
    let cluster = Cluster::start()?;
    let url = cluster.create_database("millpond_test")?;
    let status = command.env(STORE, url).status();
    let status = status.with_context(|| format!("{} cannot be run", command.get_program().display()))?;
    let code = status.code().or_else(|| status.signal().map(|signal| SIGNALLED + signal));
    Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX))
}
