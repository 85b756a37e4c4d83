//! Looks at the queues, a page at a time.

use millpond_core::limits::LISTED_QUEUES_MAX;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let after = if scene.random.chance(600) { Some(scene.queue()) } else { None };
    let limit = match scene.random.below(20) {
        0 => 0,
        1 => LISTED_QUEUES_MAX + 1,
        2 => LISTED_QUEUES_MAX,
        _ => scene.random.size(1, 6),
    };
    Command::ListQueues { after, descending: scene.random.chance(300), limit }
}

pub(super) fn predict(
    auditor: &mut Auditor,
    after: Option<&str>,
    descending: bool,
    limit: usize,
    answered: &Answered<'_>,
) -> Verdict {
    let valid = (1..=LISTED_QUEUES_MAX).contains(&limit);
    match answered.outcome {
        Outcome::Queues { views, more } => {
            demand!(valid, "a list of {limit} queues was given");
            let mut known: Vec<_> = auditor.names.keys().cloned().collect();
            if descending {
                known.reverse();
            }
            known.retain(|name| {
                after.is_none_or(|after| if descending { **name < *after } else { **name > *after })
            });
            demand!(
                *more == (known.len() > limit),
                "{} of {} queues, more: {more}",
                views.len(),
                known.len()
            );
            known.truncate(limit);
            let names: Vec<_> = views.iter().map(|view| view.queue.name.clone()).collect();
            demand!(names == known, "listed {names:?}, known {known:?}");
            views.iter().try_for_each(|view| auditor.shown(&view.queue))
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!valid, "{field} of a list of {limit} queues was refused");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
