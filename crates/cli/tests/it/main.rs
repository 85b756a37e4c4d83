//! Tests of the binary itself.

mod database;
mod deploys;
mod documents;
mod examples;
mod json;
mod lists;
mod moving;
mod process;
mod refusals;
mod schema;
mod sends;
mod serving;
mod starting;
mod topics;
mod triggers;
mod verbs;
mod works;
