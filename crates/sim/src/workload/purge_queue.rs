//! Empties a queue.

use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::PurgeQueue { queue: scene.queue() }
}

pub(super) fn predict(auditor: &mut Auditor, name: &str, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Purged(_) => {
            demand!(auditor.queue(name).is_some(), "{name} was purged and is not there");
            auditor.purged(name, answered);
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
