//! Deterministic simulation: core, engine and a faulty memory store on one thread, with clocks, chance and failures that
//! come from a seed. One seed is one world (`harness.rs`); the same seed is the same world for ever.
//!
//! Two judges watch: `auditor.rs` knows only what clients see, `invariants.rs` looks inside.

pub mod auditor;
pub mod clock;
pub mod coverage;
pub mod faults;
mod harness;
mod invariants;
pub mod io;
pub mod random;
pub mod settings;
pub mod trace;
pub mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use coverage::Coverage;
pub use trace::Trace;

use harness::World;

/// A world that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What was broken.
    pub what: String,
    /// What had happened until then.
    pub trace: Trace,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        write!(f, "replay: SIM_SEED={} cargo test --profile sim -p millpond-sim no_seed", self.seed)
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Lives through the world of a seed.
///
/// # Errors
/// What went wrong in it.
pub fn run(seed: u64, trace: Trace) -> Result<(Coverage, Trace), Box<Failure>> {
    let fail = |what: String, trace: Trace| Err(Box::new(Failure { seed, what, trace }));
    let Some(mut world) = World::new(seed, trace) else {
        return fail("it does not open".to_owned(), Trace::default());
    };
    match catch_unwind(AssertUnwindSafe(|| world.live())) {
        Ok(Ok(())) => Ok((world.coverage, world.trace)),
        Ok(Err(breach)) => fail(breach.0, world.trace),
        Err(panic) => fail(format!("panicked: {}", panic_text(&*panic)), world.trace),
    }
}
