//! Stops handing out.

use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::PauseQueue { queue: scene.anything() }
}

pub(super) fn predict(auditor: &mut Auditor, name: &str, answered: &Answered<'_>) -> Verdict {
    set(auditor, name, true, answered)
}

/// Pauses or resumes.
pub(super) fn set(auditor: &mut Auditor, name: &str, paused: bool, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Queue(view) => {
            auditor.paused(name, paused, answered.index);
            auditor.shown(&view.queue)
        }
        Outcome::Rejected(Rejection::Unsuited { .. }) => {
            let log = auditor.queue(name).is_some_and(|queue| queue.role.is_log());
            demand!(log, "{name} cannot be paused");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
