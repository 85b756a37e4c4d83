//! Deterministic simulation: core, engine and a faulty store on one thread, with clocks, chance and failures that come
//! from a seed. One seed is one world (`harness.rs`); the same seed is the same world for ever. Its store is the memory
//! store, or (feature `power-cut`) the real SQLite on a disk that loses power (`disk.rs`).
//!
//! Two judges watch: `auditor.rs` knows only what clients see, `invariants.rs` looks inside.

pub mod auditor;
mod beside;
pub mod clock;
pub mod coverage;
mod disk;
pub mod faults;
mod harness;
mod invariants;
pub mod io;
mod names;
pub mod random;
pub mod settings;
pub mod trace;
pub mod workload;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use beside::Met;
pub use coverage::Coverage;
pub use trace::Trace;

use auditor::Breach;
use disk::Disk;
use harness::World;

/// Commands of a world in memory.
const COMMANDS: u64 = 1_200;
/// Commands of a world over SQLite.
#[cfg(feature = "power-cut")]
const COMMANDS_OVER_SQLITE: u64 = 1_000;

/// A world that went wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// What to type to see it again.
    pub replay: String,
    /// What was broken.
    pub what: String,
    /// What had happened until then.
    pub trace: Trace,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "seed {}: {}", self.seed, self.what)?;
        write!(f, "replay: {}", self.replay)
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
    let replay = format!("SIM_SEED={seed} cargo test --profile sim -p millpond-sim seeds");
    live(seed, trace, Ok(Box::new(disk::PlainDisk::default())), COMMANDS, replay)
}

/// Lives through the world of a seed in which transactions beside the owner send and settle.
///
/// # Errors
/// What went wrong in it.
pub fn run_beside(seed: u64, trace: Trace) -> Result<(Met, Trace), Box<Failure>> {
    let replay = format!("SIM_SEED={seed} cargo test --profile sim -p millpond-sim beside");
    let fail = |what: String, trace: Trace| Err(Box::new(Failure { seed, replay, what, trace }));
    let mut world = match beside::World::new(seed, trace) {
        Ok(world) => world,
        Err(breach) => return fail(breach.0, Trace::default()),
    };
    match catch_unwind(AssertUnwindSafe(|| world.live())) {
        Ok(Ok(())) => Ok((world.met, world.trace)),
        Ok(Err(breach)) => fail(breach.0, world.trace),
        Err(panic) => fail(format!("panicked: {}", panic_text(&*panic)), world.trace),
    }
}

/// Lives through the world of a seed over the real SQLite store, whose disk loses power and keeps what was flushed.
/// With `Synchronous::Off` nothing is flushed, and it has to go wrong.
///
/// # Errors
/// What went wrong in it.
#[cfg(feature = "power-cut")]
pub fn run_with_power_cuts(
    seed: u64,
    trace: Trace,
    synchronous: millpond_store_sqlite::Synchronous,
) -> Result<(Coverage, Trace), Box<Failure>> {
    let replay = format!(
        "MILLPOND_POWER_CUT_SEED={seed} cargo test --profile sim -p millpond-sim --features power-cut power_cuts"
    );
    let disk = disk::PowerCutDisk::new(seed, synchronous);
    let disk = disk.map(|disk| Box::new(disk) as Box<dyn Disk>);
    let disk = disk.map_err(|error| Breach(format!("the disk cannot be made: {error:?}")));
    live(seed, trace, disk, COMMANDS_OVER_SQLITE, replay)
}

fn live(
    seed: u64,
    trace: Trace,
    disk: Result<Box<dyn Disk>, Breach>,
    commands: u64,
    replay: String,
) -> Result<(Coverage, Trace), Box<Failure>> {
    let fail = |what: String, trace: Trace| Err(Box::new(Failure { seed, replay, what, trace }));
    let mut world = match disk.and_then(|disk| World::new(seed, trace, disk, commands)) {
        Ok(world) => world,
        Err(breach) => return fail(breach.0, Trace::default()),
    };
    match catch_unwind(AssertUnwindSafe(|| world.live())) {
        Ok(Ok(())) => Ok((world.coverage, world.trace)),
        Ok(Err(breach)) => fail(breach.0, world.trace),
        Err(panic) => fail(format!("panicked: {}", panic_text(&*panic)), world.trace),
    }
}
