//! What a commit costs: messages sent, claimed and removed, at 32, 256 and 1,024 operations a commit.
//!
//! ```text
//! cargo run --release -p millpond-store-sqlite --example commit_cost [seconds [directory [off [operations]]]]
//! ```
//!
//! Prints whole lifecycles a second, and the CPU time of the process for each. `off` turns flushing off, which tells
//! the disk's part from SQLite's (any other word leaves it on). The directory has to lie on the disk that is meant: `/tmp` may be memory.

use std::path::PathBuf;
use std::time::Duration;

use millpond_store::StoreFactory;
use millpond_store_conformance::lifecycle::{Lifecycle, Run};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings, Synchronous};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().map_or(5, |text| text.parse().expect("seconds are a number"));
    let place = arguments.get(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let synchronous =
        if arguments.get(2).is_some_and(|word| word == "off") { Synchronous::Off } else { Synchronous::Full };
    println!("operations/commit  messages/s  commits/s  CPU µs/message  slowest commit  file MB");
    let sizes = arguments.get(3).map_or(vec![32, 256, 1_024], |text| vec![text.parse().expect("a number")]);
    for operations_per_commit in sizes {
        let directory = tempfile::tempdir_in(&place).expect("a directory can be made");
        let settings = SqliteSettings { synchronous, ..SqliteSettings::default() };
        let factory = SqliteFactory::open(directory.path(), settings).expect("the directory is free");
        let (mut store, opened) = factory.open("bench").expect("the environment opens");
        let load = Lifecycle { operations_per_commit, distance: 4_000, data_bytes: 256 };
        let mut run = Run::new(load, opened.commit);
        run.go_on(store.as_mut(), Duration::from_secs(1)).expect("commits work");
        let before = cpu_time();
        let measured = run.go_on(store.as_mut(), Duration::from_secs(seconds)).expect("commits work");
        let cpu = cpu_time() - before;
        let used = store.stats().expect("it is open").used_bytes;
        println!(
            "{operations_per_commit:>17} {:>11.0} {:>10.0} {:>15.2} {:>12.1} ms {:>8.1}",
            measured.messages_per_second(),
            measured.commits as f64 / measured.elapsed.as_secs_f64(),
            cpu.as_secs_f64() * 1e6 / measured.messages as f64,
            measured.slowest.as_secs_f64() * 1e3,
            used as f64 / 1e6,
        );
    }
}

/// CPU time of the process, in user and system mode.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("this is Linux");
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace().collect();
    let ticks: u64 = [11, 12].iter().map(|&at| fields[at].parse::<u64>().expect("ticks are numbers")).sum();
    Duration::from_millis(ticks * 10)
}
