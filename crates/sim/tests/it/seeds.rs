//! Many seeds, none of which may go wrong. `SIM_SEED=n` runs one and prints the last `SIM_LINES` lines of its
//! history on failure, `SIM_SEEDS=n` so many.

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use millpond_sim::{Coverage, Failure, Trace, run};

const SEEDS_BY_DEFAULT: u64 = 200;
/// Worlds at once.
const THREADS: usize = 2;
/// How often everything has to occur in a run.
const LEAST: u64 = 50;
const LINES_BY_DEFAULT: u64 = 400;

pub(crate) fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// The commit that is checked out, if git can tell.
fn commit() -> String {
    let output = Command::new("git").args(["rev-parse", "--short", "HEAD"]).output();
    let text = output.ok().and_then(|output| String::from_utf8(output.stdout).ok()).unwrap_or_default();
    if text.is_empty() { "unknown".to_owned() } else { text.trim().to_owned() }
}

pub(crate) fn report(failure: &Failure) -> String {
    let lines = failure.trace.lines();
    let most = usize::try_from(number("SIM_LINES").unwrap_or(LINES_BY_DEFAULT)).unwrap_or(usize::MAX);
    let shown = lines.iter().skip(lines.len().saturating_sub(most));
    let mut text: String = shown.map(|line| format!("{line}\n")).collect();
    text.push_str(&format!("{failure} # at commit {}", commit()));
    text
}

/// Lives through the worlds of these seeds, a few at once. Answers what came of them, in order.
pub(crate) fn live_through<R: Send>(
    seeds: Range<u64>,
    live: impl Fn(u64) -> R + Sync,
) -> impl Iterator<Item = (u64, R)> {
    let next = AtomicU64::new(seeds.start);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let result = live(seed);
            results.lock().expect("nobody panics with it").insert(seed, result);
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().expect("nobody panicked with it").into_iter()
}

#[test]
fn a_seed_always_gives_the_same_world() {
    let lines = |seed| match run(seed, Trace::recording()) {
        Ok((_, trace)) => trace.lines().to_vec(),
        Err(failure) => failure.trace.lines().to_vec(),
    };
    let first = lines(7);
    assert!(first.len() > 1_000);
    assert_eq!(first, lines(7));
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("SIM_SEED") {
        if let Err(failure) = run(seed, Trace::recording()) {
            panic!("{}", report(&failure));
        }
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS_BY_DEFAULT);
    let from = number("SIM_FROM").unwrap_or(0);
    let started = Instant::now();
    let mut coverage = Coverage::expected();
    let mut failures = Vec::new();
    for (_, result) in live_through(from..from + seeds, |seed| run(seed, Trace::default())) {
        match result {
            Ok((met, _)) => coverage.merge(&met),
            Err(failure) => failures.push(format!("{failure} # at commit {}", commit())),
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{coverage}{seeds} seeds in {seconds:.1} s");
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
    let few = coverage.below(LEAST);
    assert!(few.is_empty(), "met fewer than {LEAST} times:\n{}", few.join("\n"));
}
