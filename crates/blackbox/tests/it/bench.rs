//! `millpond bench`: a short run of each scenario works and leaves nothing behind. What it reaches is judged elsewhere.

use std::path::Path;
use std::process::{Command, Output};

use millpond_blackbox::binary;
use millpond_blackbox::server::Launch;
use serde_json::Value;

const SHORT: [&str; 12] = [
    "--seconds",
    "1",
    "--rounds",
    "1",
    "--warm-up",
    "0",
    "--connections",
    "4",
    "--backlog",
    "400",
    "--rate",
    "100",
];

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(binary::millpond());
    command.arg("bench").args(arguments).args(SHORT);
    command.output().expect("it can be run")
}

fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("one JSON object")
}

fn median(report: &Value, scenario: &str, figure: &str) -> f64 {
    let found = report["scenarios"][scenario][figure]["median"].as_f64();
    found.unwrap_or_else(|| panic!("no {figure} of {scenario} in {report}"))
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).expect("it can be read").next().is_none()
}

#[test]
fn every_scenario_runs_on_servers_of_its_own() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let path = directory.path().to_str().expect("utf-8");
    let report = report(&bench(&["--own", "--json", "--directory", path]));
    for scenario in ["sends", "lifecycle", "batches", "latency", "backlog"] {
        for figure in ["messages_per_second", "p99_micros", "server_peak_memory_kib"] {
            assert!(median(&report, scenario, figure) > 0.0, "{figure} of {scenario}: {report}");
        }
        assert!(median(&report, scenario, "server_cpu_micros_per_message") >= 0.0);
        assert!(median(&report, scenario, "load_cpu_micros_per_message") >= 0.0);
    }
    assert!(median(&report, "backlog", "first_lease_after_kill_micros") > 0.0);
    assert_eq!(report["settings"]["connections"], 4);
    assert!(report["flush"]["p50_micros"]["median"].as_f64() > Some(0.0));
    assert!(is_empty(directory.path()), "the data is removed");
}

#[test]
fn a_running_server_is_measured() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).start();
    let (url, id) = (format!("http://{}", server.address()), server.id().to_string());
    let output = bench(&["sends", "--server", &url, "--server-pid", &id, "--json"]);
    let report = report(&output);
    assert!(median(&report, "sends", "messages_per_second") > 0.0);
    assert!(median(&report, "sends", "server_peak_memory_kib") > 0.0);
    server.stop();
}

#[test]
fn a_table_is_printed_for_people() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let output = bench(&["sends", "--own", "--directory", directory.path().to_str().expect("utf-8")]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.lines().any(|line| line.starts_with("sends ")), "{text}");
    assert_eq!(output.stderr, b"", "no progress where there is no terminal");
}

#[test]
fn what_cannot_be_measured_is_said_in_one_line() {
    for (arguments, code, words) in [
        (["sends", "--server", "http://127.0.0.1:1"], 1, "cannot connect"),
        (["sends", "--server", "https://localhost"], 1, "expected http://HOST:PORT"),
    ] {
        let output = bench(&arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{text}");
        assert!(text.contains(words) && text.lines().count() == 1, "{text}");
    }
}
