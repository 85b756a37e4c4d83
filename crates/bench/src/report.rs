//! Runs scenarios in processes of their own, round by round, and sums up.

use std::process::Command;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use millpond_load::Summary;
use serde_json::{Map, Value, json};

use crate::Options;
use crate::scenarios::Scenario;

pub(crate) fn run(rounds: usize, only: &[Scenario], options: &Options) -> anyhow::Result<()> {
    let chosen: Vec<Scenario> =
        if only.is_empty() { Scenario::value_variants().to_vec() } else { only.to_vec() };
    let mut results: Vec<(Scenario, Vec<Value>)> =
        chosen.iter().map(|&scenario| (scenario, Vec::new())).collect();
    for round in 1..=rounds {
        for (scenario, values) in &mut results {
            eprintln!("round {round} of {rounds}: {}", name(*scenario));
            values.push(measure(*scenario, options)?);
        }
    }
    let mut summary = Map::new();
    for (scenario, values) in results {
        summary.insert(name(scenario), sum_up(&values));
    }
    let report = json!({
        "machine": millpond_load::describe(),
        "settings": {
            "rounds": rounds,
            "seconds": options.seconds,
            "warm_up_seconds": options.warm_up,
            "data_bytes": options.data_bytes,
            "store": "sqlite, WAL, synchronous=FULL",
            "load": "in process, closed loop; the load's processor time is included in cpu_micros_each",
        },
        "scenarios": summary,
    });
    println!("{}", serde_json::to_string_pretty(&report)?);
    Ok(())
}

fn name(scenario: Scenario) -> String {
    scenario.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn measure(scenario: Scenario, options: &Options) -> anyhow::Result<Value> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["run", &name(scenario)]);
    command.args(["--seconds", &options.seconds.to_string(), "--warm-up", &options.warm_up.to_string()]);
    command
        .args(["--data-bytes", &options.data_bytes.to_string()])
        .arg("--directory")
        .arg(&options.directory);
    if let Some(scale) = options.scale {
        command.args(["--scale", &scale.to_string()]);
    }
    let output = command.output().context("starting a measurement")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{} failed: {errors}", name(scenario));
    serde_json::from_slice(&output.stdout).context("reading a measurement")
}

/// For each figure: the median of the rounds, the lowest and the highest.
fn sum_up(values: &[Value]) -> Value {
    let mut figures = Map::new();
    let Some(Value::Object(first)) = values.first() else { return Value::Null };
    for field in first.keys() {
        let numbers = values.iter().filter_map(|value| value[field].as_f64()).collect();
        if let Some(summary) = Summary::of(numbers) {
            figures.insert(field.clone(), summary.json());
        }
    }
    Value::Object(figures)
}
