//! The simulator's tests.

#[cfg(feature = "planted-faults")]
mod planted;
#[cfg(feature = "power-cut")]
mod power_cuts;
mod seeds;
