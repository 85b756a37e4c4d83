//! The simulator's tests.

#[cfg(feature = "planted-faults")]
mod planted;
mod seeds;
