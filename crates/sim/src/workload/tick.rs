//! Time passes at a moment of somebody else's choice; that changes nothing that clients see.

use millpond_core::{Command, Outcome};

use crate::auditor::{Answered, Verdict};

pub(super) fn generate() -> Command {
    Command::Tick
}

pub(super) fn predict(answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Done => Ok(()),
        _ => answered.out_of_place(),
    }
}
