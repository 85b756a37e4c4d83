//! Gives up a lease call that waits, or one that never was.

use millpond_core::command::WaiterId;
use millpond_core::{Command, Outcome};

use super::Scene;
use crate::auditor::{Answered, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let known = scene.random.pick(scene.waiting).copied();
    Command::CancelWait(WaiterId(known.unwrap_or_else(|| scene.random.below(1_000))))
}

pub(super) fn predict(answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Done => Ok(()),
        _ => answered.out_of_place(),
    }
}
