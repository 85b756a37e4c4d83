//! The report: JSON for programs, a table for people.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::machine::{Flush, describe};
use crate::options::Arguments;
use crate::scenario::Scenario;
use crate::statistics::{Figures, Summary, json_of, sum_up};

/// What was measured, round by round.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) flushes: Vec<Flush>,
    pub(crate) scenarios: Vec<(Scenario, Vec<Figures>)>,
}

impl Report<'_> {
    /// One object.
    pub(crate) fn json(&self) -> Value {
        let load = &self.arguments.load;
        let scenarios = self.scenarios.iter();
        let scenarios = scenarios.map(|(own, rounds)| (own.name().to_owned(), json_of(&sum_up(rounds))));
        let server = match &self.arguments.server {
            Some(url) => json!({ "url": url }),
            None => json!({ "own": true, "durability": DURABILITY }),
        };
        let mut report = json!({
            "machine": describe(),
            "server": server,
            "settings": {
                "rounds": load.rounds,
                "seconds": load.seconds,
                "warm_up_seconds": load.warm_up,
                "connections": load.connections,
                "data_bytes": load.data_bytes,
                "latency_messages_per_second": load.rate,
                "receives_per_second": load.receive_rate,
                "backlog_messages": self.arguments.backlog,
            },
            "scenarios": Value::Object(scenarios.collect::<Map<_, _>>()),
        });
        if let (Some((p50, p99)), Value::Object(fields)) = (self.flush(), &mut report) {
            fields.insert("flush".into(), json!({ "p50_micros": p50.json(), "p99_micros": p99.json() }));
        }
        report
    }

    /// Lines for a terminal.
    pub(crate) fn text(&self) -> String {
        let mut out = self.heading();
        out.push_str("              messages/s (lowest to highest)    p50 ms   p99 ms  server µs*  load µs*  server MiB\n");
        for (scenario, rounds) in &self.scenarios {
            let figures = sum_up(rounds);
            out.push_str(&line(scenario.name(), &figures));
            for (name, summary) in figures.iter().filter(|(name, _)| !COLUMNS.contains(name)) {
                let _ = writeln!(out, "              {name}: {:.2}", summary.median);
            }
        }
        out.push_str("* processor time for each message\n");
        out
    }

    fn heading(&self) -> String {
        let (load, machine) = (&self.arguments.load, describe());
        let text = |name: &str| machine[name].as_str().unwrap_or_default().to_owned();
        let mut out = format!("{}, {} cores, kernel {}", text("cpu"), machine["cores"], text("kernel"));
        if let Some((p50, p99)) = self.flush() {
            let _ = write!(out, "; one flush {:.0} µs, p99 {:.0} µs", p50.median, p99.median);
        }
        let server = match &self.arguments.server {
            Some(url) => format!("the server at {url}"),
            None => format!("an own server for each measurement; {DURABILITY}"),
        };
        let _ = write!(
            out,
            "\n{server}\nmedians of {} x {} s, {} connections, {} bytes of data\n\n",
            load.rounds, load.seconds, load.connections, load.data_bytes
        );
        out
    }

    fn flush(&self) -> Option<(Summary, Summary)> {
        let p50 = Summary::of(self.flushes.iter().map(|flush| flush.p50_micros).collect())?;
        let p99 = Summary::of(self.flushes.iter().map(|flush| flush.p99_micros).collect())?;
        Some((p50, p99))
    }
}

const DURABILITY: &str = "every answer is on disk: SQLite, WAL, synchronous=FULL";

/// The figures that have a column.
const COLUMNS: [&str; 6] = [
    "messages_per_second",
    "p50_micros",
    "p99_micros",
    "server_cpu_micros_per_message",
    "load_cpu_micros_per_message",
    "server_peak_memory_kib",
];

fn line(scenario: &str, figures: &[(&'static str, Summary)]) -> String {
    let find = |name: &str| figures.iter().find(|(own, _)| *own == name).map(|(_, summary)| summary);
    let rate = find("messages_per_second")
        .map_or_else(String::new, |rate| format!("{:.0} ({:.0} to {:.0})", rate.median, rate.low, rate.high));
    let cell = |name: &str, factor: f64, digits: usize| {
        find(name).map_or_else(|| "-".to_owned(), |own| format!("{:.digits$}", own.median * factor))
    };
    format!(
        "{scenario:<12}  {rate:>30}  {:>8}  {:>7}  {:>10}  {:>8}  {:>10}\n",
        cell("p50_micros", 0.001, 2),
        cell("p99_micros", 0.001, 2),
        cell("server_cpu_micros_per_message", 1.0, 1),
        cell("load_cpu_micros_per_message", 1.0, 1),
        cell("server_peak_memory_kib", 1.0 / 1_024.0, 0),
    )
}
