//! State.
/// Core.
pub struct Core;
