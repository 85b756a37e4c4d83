//! Peers whose own library is the client: the load is made by a program that speaks `node/measure.mjs`'s form.

use std::process::Stdio;

use anyhow::{Context as _, ensure};
use millpond_load::{Figures, LoadOptions, Processes, Scenario};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{ChildStdout, Command};

/// Runs one scenario of a load, `command`, against `target`, which is served by `server`.
pub(crate) async fn measure(
    mut command: Command,
    target: &str,
    server: Processes,
    scenario: Scenario,
    options: &LoadOptions,
) -> anyhow::Result<Figures> {
    command.arg(scenario.name()).arg(target);
    for number in [options.seconds, options.warm_up, options.connections, options.data_bytes, options.rate] {
        command.arg(number.to_string());
    }
    let mut child = command.stdout(Stdio::piped()).kill_on_drop(true).spawn();
    let child = child.as_mut().map_err(|error| anyhow::anyhow!("cannot run {command:?}: {error}"))?;
    let mut lines = BufReader::new(child.stdout.take().context("stdout is a pipe")?).lines();
    ensure!(next(&mut lines).await? == "begin", "the load did not begin");
    let cpu = || [server.server(), server.database()].map(|part| part.map(Processes::cpu_micros));
    let before = cpu();
    let reached: Value = serde_json::from_str(&next(&mut lines).await?)?;
    let after = cpu();
    let peak = server.server().map(|server| server.peak_memory_kib() as f64);
    ensure!(child.wait().await?.success(), "the load failed");
    let number = |name: &str| reached[name].as_f64().with_context(|| format!("no {name}"));
    let messages = number("messages")?;
    let each = |part: usize| {
        let (after, before) = (after.get(part)?.as_ref()?, before.get(part)?.as_ref()?);
        Some(after.saturating_sub(*before) as f64 / messages.max(1.0))
    };
    Ok(Figures {
        messages_per_second: messages / number("seconds")?,
        p50_micros: number("p50_micros")?,
        p99_micros: number("p99_micros")?,
        server_cpu_micros: each(0),
        database_cpu_micros: each(1),
        load_cpu_micros: number("cpu_micros")? / messages.max(1.0),
        server_peak_memory_kib: peak,
        further: Vec::new(),
    })
}

async fn next(lines: &mut Lines<BufReader<ChildStdout>>) -> anyhow::Result<String> {
    lines.next_line().await?.context("the load ended early")
}
