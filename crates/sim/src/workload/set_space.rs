//! The store runs out of room, and gets it back.

use millpond_core::{Command, Outcome};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let low = !scene.auditor.space_low && scene.random.chance(250);
    Command::SetSpace { low }
}

pub(super) fn predict(auditor: &mut Auditor, low: bool, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Done => {
            auditor.space_low = low;
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
