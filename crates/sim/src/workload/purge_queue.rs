//! Empties a queue, or its dead-letter set.

use millpond_core::command::PurgeTarget;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let queue = scene.purgeable();
    let target = match scene.random.below(4) {
        0 | 1 => PurgeTarget::Waiting,
        2 => PurgeTarget::DeadLetters,
        _ => PurgeTarget::All,
    };
    Command::PurgeQueue { queue, target }
}

pub(super) fn predict(
    auditor: &mut Auditor,
    name: &str,
    target: PurgeTarget,
    answered: &Answered<'_>,
) -> Verdict {
    match answered.outcome {
        Outcome::Purged(count) => {
            demand!(auditor.queue(name).is_some(), "{name} was purged and is not there");
            auditor.purged(name, target, *count, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
