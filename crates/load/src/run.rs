//! `millpond bench`: rounds of scenarios against a server, one after the other.

use std::path::Path;
use std::time::Instant;

use anyhow::Context as _;
use clap::ValueEnum as _;
use tempfile::TempDir;

use crate::backlog;
use crate::interrupted::block_on;
use crate::machine::{Flush, measure_flush};
use crate::millpond::Millpond;
use crate::options::Arguments;
use crate::own::OwnServer;
use crate::process::Processes;
use crate::progress::Progress;
use crate::receives::empty_receives;
use crate::report::Report;
use crate::scenario::Scenario;
use crate::statistics::Figures;

/// Measures as asked for; `binary` is what an own server is started from. Gives the report to print.
///
/// # Errors
/// The server cannot be started or reached, or refuses a call; [`crate::Interrupted`].
pub fn run(arguments: &Arguments, binary: &Path) -> anyhow::Result<String> {
    let report = block_on(measure_all(arguments, binary))?;
    Ok(if arguments.json { format!("{}\n", report.json()) } else { report.text() })
}

async fn measure_all<'a>(arguments: &'a Arguments, binary: &Path) -> anyhow::Result<Report<'a>> {
    let chosen = match arguments.scenarios.as_slice() {
        [] => Scenario::value_variants(),
        some => some,
    };
    let rounds = arguments.load.rounds;
    let progress = Progress::new(rounds * chosen.len() as u64);
    let mut flushes = Vec::new();
    let mut scenarios: Vec<_> = chosen.iter().map(|&scenario| (scenario, Vec::new())).collect();
    for round in 1..=rounds {
        if arguments.own {
            flushes.push(flush_of(&arguments.directory)?);
        }
        for (scenario, figures) in &mut scenarios {
            progress.begin(format!("{}, round {round} of {rounds}", scenario.name()));
            let one = Measurement { arguments, binary, scenario: *scenario, progress: &progress };
            let measured = match &arguments.server {
                Some(url) => one.on_running(url, round).await,
                None => one.on_own().await,
            };
            figures.push(measured.with_context(|| format!("measuring {}", scenario.name()))?);
            progress.end();
        }
    }
    Ok(Report { arguments, flushes, scenarios })
}

/// In a directory like the one that a server of our own gets.
fn flush_of(directory: &Path) -> anyhow::Result<Flush> {
    measure_flush(data_dir(directory)?.path())
}

fn data_dir(directory: &Path) -> anyhow::Result<TempDir> {
    let made = tempfile::Builder::new().prefix("millpond-bench-").tempdir_in(directory);
    made.with_context(|| format!("cannot make a directory in {}", directory.display()))
}

struct Measurement<'a> {
    arguments: &'a Arguments,
    binary: &'a Path,
    scenario: Scenario,
    progress: &'a Progress,
}

impl Measurement<'_> {
    async fn on_running(&self, url: &str, round: u64) -> anyhow::Result<Figures> {
        let queue = format!("bench-{}-{}-{round}", std::process::id(), self.scenario.name());
        let millpond = Millpond::new(url, &queue, self.arguments.load.data_bytes)?;
        millpond.create().await?;
        let measured = self.on_queue(&millpond).await;
        let removed = millpond.remove().await;
        let figures = measured?;
        removed.map(|()| figures)
    }

    async fn on_queue(&self, millpond: &Millpond) -> anyhow::Result<Figures> {
        let mut further = Vec::new();
        if self.scenario == Scenario::Backlog {
            further = self.fill_and_drain(millpond).await?;
        }
        let mut figures = self.load(millpond, self.arguments.server_pid.map(Processes::One)).await?;
        figures.further = further;
        Ok(figures)
    }

    async fn on_own(&self) -> anyhow::Result<Figures> {
        let directory = data_dir(&self.arguments.directory)?;
        let server = OwnServer::start(self.binary, directory.path())?;
        let millpond = self.queue_of(&server)?;
        millpond.create().await?;
        if self.scenario != Scenario::Backlog {
            return self.load(&millpond, Some(server.processes())).await;
        }
        let mut further = self.fill_and_drain(&millpond).await?;
        further.push(("filling_peak_memory_kib", server.processes().peak_memory_kib() as f64));
        drop(server);
        let begun = Instant::now();
        let server = OwnServer::start(self.binary, directory.path())?;
        let millpond = self.queue_of(&server)?;
        backlog::first_lease(&millpond).await?;
        further.push(("first_lease_after_kill_micros", begun.elapsed().as_micros() as f64));
        let mut figures = self.load(&millpond, Some(server.processes())).await?;
        figures.further = further;
        Ok(figures)
    }

    fn queue_of(&self, server: &OwnServer) -> anyhow::Result<Millpond> {
        Millpond::new(server.url(), "bench", self.arguments.load.data_bytes)
    }

    async fn fill_and_drain(&self, millpond: &Millpond) -> anyhow::Result<Vec<(&'static str, f64)>> {
        let count = self.arguments.backlog;
        let filled = backlog::fill(millpond, count, self.progress).await?;
        let drained = backlog::drain(millpond, count / 2, self.progress).await?;
        Ok(vec![("filled_messages_per_second", filled), ("drained_messages_per_second", drained)])
    }

    async fn load(&self, millpond: &Millpond, server: Option<Processes>) -> anyhow::Result<Figures> {
        if self.scenario == Scenario::Receives {
            return empty_receives(millpond.authority(), &self.arguments.load, server, self.progress).await;
        }
        self.scenario.measure(millpond, &self.arguments.load, server, self.progress).await
    }
}
