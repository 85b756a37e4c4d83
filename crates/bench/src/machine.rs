//! What the figures were taken on, and what the process has used.

use std::fs;

use serde_json::{Value, json};

/// The machine and the build.
pub(crate) fn describe() -> Value {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("unknown");
    json!({
        "cpu": cpu.trim_start_matches([' ', '\t', ':']),
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "memory": read("/proc/meminfo").lines().next().unwrap_or_default(),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "version": env!("CARGO_PKG_VERSION"),
        "debug_assertions": cfg!(debug_assertions),
    })
}

/// Highest resident memory of this process so far, in KiB.
pub(crate) fn peak_memory_kib() -> u64 {
    status_kib("VmHWM:")
}

/// Resident memory of this process, in KiB.
pub(crate) fn memory_kib() -> u64 {
    status_kib("VmRSS:")
}

fn status_kib(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Processor time of this process so far, in microseconds.
pub(crate) fn cpu_micros() -> u64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    // utime and stime, in ticks of 10 ms.
    (ticks(11) + ticks(12)) * 10_000
}
