//! The simulator's tests.

mod beside;
#[cfg(feature = "planted-faults")]
mod planted;
#[cfg(feature = "power-cut")]
mod power_cuts;
mod seeds;
