//! The simulator's tests.

mod seeds;
