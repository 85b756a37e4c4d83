//! The simulator over the real SQLite store: every answered operation is there after each power cut (design-holes A1).
//! `MILLPOND_POWER_CUT_SEED=n` runs one seed and prints its history on failure, `MILLPOND_POWER_CUT_SEEDS=n` so many.

use std::time::Instant;

use millpond_sim::{Coverage, Trace, run_with_power_cuts};
use millpond_store_sqlite::Synchronous;

use crate::seeds::{live_through, number, report};

const SEEDS_BY_DEFAULT: u64 = 40;
/// Cuts and commands that each seed has to have (design-holes B18).
const CUTS_LEAST: u64 = 3;
const COMMANDS_LEAST: u64 = 500;
/// How often everything has to occur in a run of [`SEEDS_FOR_COVERAGE`].
const LEAST: u64 = 50;
const SEEDS_FOR_COVERAGE: u64 = 600;
/// Seeds of a build that flushes nothing; each has to go wrong.
const SEEDS_UNFLUSHED: u64 = 20;

fn commands(coverage: &Coverage) -> u64 {
    let kinds = millpond_sim::workload::Kind::ALL.iter();
    kinds.map(|kind| coverage.times(&format!("command {kind:?}"))).sum()
}

#[test]
fn every_answered_operation_is_there_after_a_power_cut() {
    if let Some(seed) = number("MILLPOND_POWER_CUT_SEED") {
        if let Err(failure) = run_with_power_cuts(seed, Trace::recording(), Synchronous::Full) {
            panic!("{}", report(&failure));
        }
        return;
    }
    let seeds = number("MILLPOND_POWER_CUT_SEEDS").unwrap_or(SEEDS_BY_DEFAULT);
    let from = number("SIM_FROM").unwrap_or(0);
    let started = Instant::now();
    let mut coverage = Coverage::expected_with_power_cuts();
    let mut failures = Vec::new();
    let live = |seed| run_with_power_cuts(seed, Trace::default(), Synchronous::Full);
    for (seed, result) in live_through(from..from + seeds, live) {
        match result {
            Ok((met, _)) => {
                let (cuts, commands) = (met.times("fault Crash"), commands(&met));
                let enough = cuts >= CUTS_LEAST && commands >= COMMANDS_LEAST;
                assert!(enough, "seed {seed} has only {cuts} cuts and {commands} commands");
                coverage.merge(&met);
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    let (seconds, cuts) = (started.elapsed().as_secs_f64(), coverage.times("fault Crash"));
    println!("{coverage}{seeds} seeds with {cuts} power cuts in {seconds:.1} s");
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
    let few = coverage.below(if seeds < SEEDS_FOR_COVERAGE { 1 } else { LEAST });
    assert!(few.is_empty(), "met too seldom:\n{}", few.join("\n"));
}

#[test]
fn a_build_that_flushes_nothing_is_found_out() {
    let mut missed = Vec::new();
    for seed in 0..SEEDS_UNFLUSHED {
        match run_with_power_cuts(seed, Trace::default(), Synchronous::Off) {
            Ok(_) => missed.push(seed),
            Err(failure) => {
                let what: String = failure.what.chars().take(110).collect();
                println!("seed {seed}: {what}");
            }
        }
    }
    assert!(missed.is_empty(), "power cuts lost nothing that was never flushed in seeds {missed:?}");
}

#[test]
fn a_seed_always_gives_the_same_power_cuts() {
    let lines = |seed| match run_with_power_cuts(seed, Trace::recording(), Synchronous::Full) {
        Ok((_, trace)) => trace.lines().to_vec(),
        Err(failure) => failure.trace.lines().to_vec(),
    };
    for seed in [3, 4] {
        let first = lines(seed);
        assert!(first.len() > 1_000, "{} lines", first.len());
        assert!(first == lines(seed), "seed {seed} gives two histories");
    }
}
