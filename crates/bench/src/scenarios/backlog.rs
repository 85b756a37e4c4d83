//! A long backlog: filled and half drained by one process, which is then killed; opened and measured by another, so that
//! its memory is that of a server that never saw the filling.

use std::path::Path;
use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use millpond_core::spec::QueueSpec;
use millpond_load::Processes;
use serde_json::{Value, json};

use super::{figures, times};
use crate::Options;
use crate::load::{SendOptions, Target, closed_loop, fill};

/// Set for the process that fills; it ends by a kill.
const FILLER: &str = "MILLPOND_BENCH_FILL";

/// `name`: the scenario's, to run it again in the process that fills. `leased`: so many messages are leased when that ends.
pub(super) async fn run(path: &Path, options: &Options, name: &str, leased: u64) -> anyhow::Result<Value> {
    let scale = options.scale.unwrap_or(10_000_000);
    if let Ok(directory) = std::env::var(FILLER) {
        fill_and_drain(Path::new(&directory), options, scale, leased).await?;
    }
    let filled = Instant::now();
    let mut filler = Process::new(std::env::current_exe()?)
        .args(["run", name, "--scale", &scale.to_string()])
        .args(["--data-bytes", &options.data_bytes.to_string()])
        .arg("--directory")
        .arg(&options.directory)
        .env(FILLER, path)
        .stdout(Stdio::null())
        .spawn()
        .context("starting the process that fills")?;
    let status = filler.wait()?;
    ensure!(!status.success(), "the process that fills was to be killed, it ended with {status}");
    let filled = filled.elapsed();

    let begun = Instant::now();
    let target = Target::open(path, options.data_bytes).await?;
    let leases = target.lease("bench", 1, Duration::from_secs(20)).await?;
    let first_lease = begun.elapsed();
    ensure!(leases.len() == 1, "no lease after the restart");
    let (warm_up, measure) = times(options);
    let caller = target.clone();
    let reached = closed_loop(&target, 256, warm_up, measure, move |_, _| {
        let caller = caller.clone();
        async move { caller.lifecycle("bench").await }
    })
    .await?;
    let mut result = figures(&reached);
    result["backlog"] = json!(scale / 2);
    result["leased"] = json!(leased);
    result["first_lease_seconds"] = json!(first_lease.as_secs_f64());
    result["fill_and_drain_seconds"] = json!(filled.as_secs_f64());
    Ok(result)
}

async fn fill_and_drain(path: &Path, options: &Options, scale: u64, leased: u64) -> anyhow::Result<()> {
    let target = Target::open(path, options.data_bytes).await?;
    // Above the default, at which nothing more would be handed out.
    let spec = QueueSpec { leased_max: 200_000, ..QueueSpec::default() };
    target.create("bench", spec).await?;
    fill(&target, "bench", scale, &SendOptions::default()).await?;
    let filled_kib = Processes::Own.peak_memory_kib();
    let mut tasks = Vec::new();
    let calls = scale / 2 / 100 / 16;
    for _ in 0..16 {
        let target = target.clone();
        tasks.push(tokio::spawn(async move {
            for _ in 0..calls {
                let leases = target.lease("bench", 100, Duration::from_secs(20)).await?;
                target.ack("bench", leases).await?;
            }
            anyhow::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    for _ in 0..leased / 100 {
        target.lease("bench", 100, Duration::from_secs(20)).await?;
    }
    eprintln!(
        "filled and drained: peak {} KiB after filling, {} in all",
        filled_kib,
        Processes::Own.peak_memory_kib()
    );
    // The process ends as a crash would end it.
    let me = std::process::id().to_string();
    Process::new("kill").args(["-9", &me]).status()?;
    std::future::pending().await
}
