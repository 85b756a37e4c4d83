//! `millpond bench`: what a server reaches, printed on stdout.

use std::io::Write as _;

use anyhow::Context as _;

pub(crate) fn run(arguments: &millpond_load::Arguments) -> anyhow::Result<()> {
    let binary = std::env::current_exe().context("cannot tell where this binary is")?;
    let report = millpond_load::run(arguments, &binary)?;
    std::io::stdout().lock().write_all(report.as_bytes()).context("cannot write to stdout")
}
