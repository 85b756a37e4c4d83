//! BullMQ: its own library is the client, so the load is made by a Node process (`bullmq/load.mjs`).

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context as _, ensure};
use millpond_load::{Figures, LoadOptions, Processes, Scenario};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bullmq/load.mjs");

/// Runs one scenario against a Redis.
pub(crate) async fn measure(
    port: u16,
    redis: Processes,
    scenario: Scenario,
    options: &LoadOptions,
) -> anyhow::Result<Figures> {
    let mut command = Command::new("node");
    command.arg(Path::new(SCRIPT)).arg(scenario.name());
    for number in [
        u64::from(port),
        options.seconds,
        options.warm_up,
        options.connections,
        options.data_bytes,
        options.rate,
    ] {
        command.arg(number.to_string());
    }
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn().context("cannot run node")?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is a pipe")?).lines();
    ensure!(next(&mut lines).await? == "begin", "the load did not begin");
    let cpu = redis.cpu_micros();
    let reached: Value = serde_json::from_str(&next(&mut lines).await?)?;
    let cpu = redis.cpu_micros().saturating_sub(cpu) as f64;
    let peak = redis.peak_memory_kib() as f64;
    ensure!(child.wait().await?.success(), "the load failed");
    let number = |name: &str| reached[name].as_f64().with_context(|| format!("no {name}"));
    let messages = number("messages")?;
    Ok(Figures {
        messages_per_second: messages / number("seconds")?,
        p50_micros: number("p50_micros")?,
        p99_micros: number("p99_micros")?,
        server_cpu_micros: Some(cpu / messages.max(1.0)),
        load_cpu_micros: number("cpu_micros")? / messages.max(1.0),
        server_peak_memory_kib: Some(peak),
        further: Vec::new(),
    })
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    lines.next_line().await?.context("the load ended early")
}
