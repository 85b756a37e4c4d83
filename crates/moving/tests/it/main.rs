//! Moves of environments, between all kinds of stores.

mod files;
mod moves;
mod postgres;
mod world;
