//! Many worlds of transactions beside the owner, none of which may go wrong. `SIM_SEED=n` runs one, `SIM_SEEDS=n` so many.

use millpond_sim::{Met, Trace, run_beside};

use crate::seeds::{live_through, number, report};

const SEEDS_BY_DEFAULT: u64 = 200;

#[test]
fn no_world_beside_the_owner_breaks_a_promise() {
    if let Some(seed) = number("SIM_SEED") {
        if let Err(failure) = run_beside(seed, Trace::recording()) {
            panic!("{}", report(&failure));
        }
        return;
    }
    let seeds = number("SIM_SEEDS").unwrap_or(SEEDS_BY_DEFAULT);
    let mut all = Met::default();
    let mut failures = Vec::new();
    for (_, result) in live_through(0..seeds, |seed| run_beside(seed, Trace::default())) {
        match result {
            Ok((met, _)) => {
                all.sent += met.sent;
                all.settled += met.settled;
                all.late += met.late;
                all.rolled_back += met.rolled_back;
                all.refused += met.refused;
                all.failures += met.failures;
            }
            Err(failure) => failures.push(failure.to_string()),
        }
    }
    println!("{all:?} in {seeds} seeds");
    assert!(failures.is_empty(), "{} of {seeds} seeds failed:\n{}", failures.len(), failures.join("\n"));
    let Met { sent, settled, late, rolled_back, refused, failures } = all;
    for (what, count) in [
        ("sent", sent),
        ("settled", settled),
        ("settled late", late),
        ("rolled back", rolled_back),
        ("refused", refused),
        ("failures", failures),
    ] {
        assert!(count >= seeds, "{what}: only {count} times in {seeds} seeds");
    }
}

#[test]
fn a_seed_always_gives_the_same_world_beside() {
    let lines = |seed| match run_beside(seed, Trace::recording()) {
        Ok((_, trace)) => trace.lines().to_vec(),
        Err(failure) => failure.trace.lines().to_vec(),
    };
    let first = lines(7);
    assert!(first.len() > 1_000);
    assert_eq!(first, lines(7));
}
