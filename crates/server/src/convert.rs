//! Wire structs to core types, and back. Words change here, rules do not.

pub(crate) mod message;
pub(crate) mod name;
pub(crate) mod queue;
pub(crate) mod settle;
pub(crate) mod spec;
pub(crate) mod trigger;
pub(crate) mod why;
