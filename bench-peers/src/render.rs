//! One table of several runs: the rounds of all of them together.

mod alone;

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use millpond_load::Summary;
use serde_json::Value;

pub(crate) fn run(files: &[PathBuf]) -> anyhow::Result<String> {
    let read = |path: &PathBuf| -> anyhow::Result<Value> {
        let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    };
    let runs: Vec<Value> = files.iter().map(read).collect::<Result<_, _>>()?;
    let first = runs.first().context("there is a file")?;
    if let Some(section) = alone::section(first) {
        ensure!(runs.len() == 1, "these are not put together");
        return Ok(section);
    }
    for run in &runs {
        ensure!(run["settings"] == first["settings"], "the runs were made with other settings");
    }
    let peers = peers_of(&runs);
    let mut out = String::new();
    if first["family"] == "postgresql" {
        let _ = write!(out, "## {} callers\n\n", first["settings"]["callers"]);
        heading(&mut out, first, &runs, "make bench-postgres");
    } else {
        out.push_str("# Beside other queue servers\n\n");
        heading(&mut out, first, &runs, "make bench-peers");
    }
    table(&mut out, first, &runs, &peers);
    details(&mut out, &peers);
    Ok(out)
}

/// Each peer once, as the first run that has it describes it.
fn peers_of(runs: &[Value]) -> Vec<&Value> {
    let mut peers: Vec<&Value> = Vec::new();
    for peer in runs.iter().filter_map(|run| run["peers"].as_array()).flatten() {
        if !peers.iter().any(|known| known["name"] == peer["name"]) {
            peers.push(peer);
        }
    }
    peers
}

fn heading(out: &mut String, first: &Value, runs: &[Value], command: &str) {
    let (machine, settings) = (&first["machine"], &first["settings"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let flushes = runs.iter().filter_map(|run| run["flush_p50_micros"].as_array()).flatten();
    let flush = Summary::of(flushes.filter_map(Value::as_f64).collect());
    let rounds = flush.as_ref().map_or(0, |flush| flush.rounds.len());
    let _ = write!(
        out,
        "{}, {} cores, {}, kernel {}; one flush takes {:.0} µs. Servers and load share the cores; the load's own processor\n\
         time is in the table. Medians of {rounds} rounds of {} s with lowest and highest, all servers in turn in each round,\n\
         each on an empty directory; {} callers, {}-byte messages. \"One a call\" is send, lease and ack of one message, each\n\
         answered before the next; \"hundreds\" is the same by the hundred. Made by `{command}`.\n\n",
        text(&machine["cpu"]),
        machine["cores"],
        text(&machine["memory"]),
        text(&machine["kernel"]),
        flush.map_or(0.0, |flush| flush.median),
        settings["seconds"],
        settings["callers"],
        settings["data_bytes"],
    );
}

fn table(out: &mut String, first: &Value, runs: &[Value], peers: &[&Value]) {
    let rate = &first["settings"]["latency_messages_per_second"];
    let _ = writeln!(
        out,
        "| | on disk when answered? | single sends/s | lifecycle/s, one a call | lifecycle/s, hundreds | send → handler at {rate}/s, p50 / p99, ms \
         | server's processor µs a message (one a call) | load's | server's peak memory, MiB |\n\
         | --- | --- | --- | --- | --- | --- | --- | --- | --- |"
    );
    for peer in peers {
        let name = peer["name"].as_str().unwrap_or_default();
        let find = |scenario: &str, figure: &str| summary(runs, name, scenario, figure);
        let speed = |scenario: &str| {
            find(scenario, "messages_per_second").map_or_else(String::new, |own| {
                format!("{} ({} to {})", thousands(own.median), thousands(own.low), thousands(own.high))
            })
        };
        let median = |scenario: &str, figure: &str, factor: f64, digits: usize| {
            find(scenario, figure).map_or_else(String::new, |own| format!("{:.digits$}", own.median * factor))
        };
        let _ = writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} / {} | {} | {} | {} |",
            peer["durability"].as_str().unwrap_or_default(),
            speed("sends"),
            speed("lifecycle"),
            speed("batches"),
            median("latency", "p50_micros", 0.001, 2),
            median("latency", "p99_micros", 0.001, 2),
            median("lifecycle", "server_cpu_micros_per_message", 1.0, 0),
            median("lifecycle", "load_cpu_micros_per_message", 1.0, 0),
            median("sends", "server_peak_memory_kib", 1.0 / 1_024.0, 0),
        );
    }
}

/// Over the rounds of all runs.
fn summary(runs: &[Value], peer: &str, scenario: &str, figure: &str) -> Option<Summary> {
    let mut rounds = Vec::new();
    for run in runs {
        let peers = run["peers"].as_array().into_iter().flatten();
        for own in peers.filter(|own| own["name"] == peer) {
            let all = own["scenarios"][scenario][figure]["rounds"].as_array().into_iter().flatten();
            rounds.extend(all.filter_map(Value::as_f64));
        }
    }
    Summary::of(rounds)
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

fn details(out: &mut String, peers: &[&Value]) {
    out.push_str("\n| | version | client |\n| --- | --- | --- |\n");
    for peer in peers {
        let text = |name: &str| peer[name].as_str().unwrap_or_default();
        let _ = writeln!(out, "| {} | {} | {} |", text("name"), text("version"), text("client"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(thousands(999.4), "999");
        assert_eq!(thousands(1_000.0), "1,000");
        assert_eq!(thousands(1_234_567.0), "1,234,567");
    }
}
