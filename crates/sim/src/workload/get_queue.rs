//! Looks at a queue.

use millpond_core::outcome::Why;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::GetQueue { queue: scene.anything() }
}

pub(super) fn predict(auditor: &mut Auditor, name: &str, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Queue(view) => {
            auditor.shown(&view.queue)?;
            let paused = matches!(view.why, Why::Paused { .. });
            demand!(
                paused == auditor.is_paused(name),
                "{name} says {:?}, known paused: {}",
                view.why,
                auditor.is_paused(name)
            );
            let counters = &view.counters;
            auditor.check_counters(name, counters, answered)?;
            auditor.check_why_of_group(view, (answered.submitted.stamp, answered.stamp))?;
            let idle = counters.ready + counters.delayed + counters.leased + counters.dead == 0;
            demand!(
                paused || idle == (view.why == Why::Empty),
                "{name} says {:?} with {counters:?}",
                view.why
            );
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
