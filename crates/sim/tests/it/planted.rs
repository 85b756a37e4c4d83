//! The simulator finds what it is there to find: each planted fault within so many seeds.

use millpond_core::planted::PlantedFault;
use millpond_sim::{Trace, run, run_beside};

/// Seeds in which a fault has to show.
const SEEDS: u64 = 500;

fn first_seed_that_fails(fault: PlantedFault) -> Option<(u64, String)> {
    PlantedFault::plant(Some(fault));
    let beside = PlantedFault::BESIDE.contains(&fault);
    let found = (0..SEEDS).find_map(|seed| {
        if beside { run_beside(seed, Trace::default()).err() } else { run(seed, Trace::default()).err() }
    });
    PlantedFault::plant(None);
    found.map(|failure| (failure.seed, failure.what))
}

#[test]
fn every_planted_fault_is_found() {
    let mut missed = Vec::new();
    for fault in PlantedFault::ALL {
        match first_seed_that_fails(fault) {
            Some((seed, what)) => {
                let what: String = what.chars().take(110).collect();
                println!("{fault:?}: found after {} seeds: {what}", seed + 1);
            }
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}
