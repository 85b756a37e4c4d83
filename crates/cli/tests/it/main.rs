//! Tests of the binary itself.

mod process;
mod serving;
mod starting;
