//! Ends a read of data, perhaps in the middle.

use millpond_core::{Command, Outcome};

use super::{Scene, open_data};
use crate::auditor::{Answered, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let count = scene.workload.readings.len();
    if count == 0 {
        return open_data::generate(scene);
    }
    let at = scene.random.size(0, count - 1);
    Command::CloseData(scene.workload.readings.swap_remove(at).pin)
}

pub(super) fn predict(answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Done => Ok(()),
        _ => answered.out_of_place(),
    }
}
