//! Takes grants back, held ones and others.

use millpond_core::command::LeaseRef;
use millpond_core::{Command, Outcome};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let count = scene.random.size(1, 3);
    let hands = (0..count).filter_map(|_| scene.workload.draw_hand(scene.random, false));
    Command::Undo(hands.map(|hand| hand.lease).collect())
}

pub(super) fn predict(auditor: &mut Auditor, leases: &[LeaseRef], answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Undone(undone) => {
            let all = u64::try_from(leases.len()).unwrap_or(u64::MAX);
            demand!(*undone <= all, "{undone} of {all} grants were taken back");
            auditor.undone(leases, *undone, answered)
        }
        _ => answered.out_of_place(),
    }
}
