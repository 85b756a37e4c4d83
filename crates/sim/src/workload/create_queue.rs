//! Makes a queue.

use std::time::Duration;

use millpond_core::command::CreateQueue;
use millpond_core::limits::{DEAD_LETTER_CHAIN_MAX, LEASE_MIN};
use millpond_core::outcome::{DeadLetterProblem, QueueView};
use millpond_core::spec::{AtLimit, QueueSpec};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::settings::draw_spec;

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let name = scene.random.pick(&scene.workload.names).cloned().unwrap_or_default();
    let known: Vec<_> = scene.auditor.names.keys().cloned().collect();
    let names = if scene.random.chance(300) { &scene.workload.names } else { &known };
    let mut spec = draw_spec(scene.random, names);
    if scene.random.chance(60) {
        spec.visibility_timeout = Duration::from_millis(999);
    }
    Command::CreateQueue(CreateQueue {
        name,
        spec,
        annotations: "{}".into(),
        validate_only: scene.random.chance(60),
    })
}

/// Whether the numbers of a spec are in their ranges, as far as the simulator draws wrong ones.
pub(super) fn is_valid(spec: &QueueSpec) -> bool {
    spec.visibility_timeout >= LEASE_MIN && spec.retention.is_none_or(|retention| spec.delay < retention)
}

/// What is wrong with the dead-letter queue, if anything.
pub(super) fn dead_letter_problem(
    auditor: &Auditor,
    name: &str,
    spec: &QueueSpec,
) -> Option<DeadLetterProblem> {
    let AtLimit::MoveTo { queue: target, .. } = &spec.at_limit else { return None };
    if **target == *name {
        return Some(DeadLetterProblem::Itself);
    }
    let Some(mut queue) = auditor.queue(target) else { return Some(DeadLetterProblem::Missing) };
    for _ in 0..DEAD_LETTER_CHAIN_MAX {
        let AtLimit::MoveTo { queue: next, .. } = &queue.spec.at_limit else { return None };
        if **next == *name {
            return Some(DeadLetterProblem::Circle);
        }
        queue = auditor.queue(next)?;
    }
    Some(DeadLetterProblem::Circle)
}

pub(super) fn predict(auditor: &mut Auditor, create: &CreateQueue, answered: &Answered<'_>) -> Verdict {
    let known = auditor.queue(&create.name).is_some();
    match answered.outcome {
        Outcome::Queue(view) => {
            demand!(!known, "{} was made twice", create.name);
            made(auditor, create, view, answered)
        }
        Outcome::Rejected(Rejection::QueueAlreadyExists { name }) => {
            demand!(known, "{name} was called known");
            Ok(())
        }
        Outcome::Rejected(rejection) => refused(auditor, &create.name, &create.spec, rejection, answered),
        _ => answered.out_of_place(),
    }
}

/// A queue that was not there was made.
pub(super) fn made(
    auditor: &mut Auditor,
    create: &CreateQueue,
    view: &QueueView,
    answered: &Answered<'_>,
) -> Verdict {
    demand!(is_valid(&create.spec), "{} was made with {:?}", create.name, create.spec);
    let problem = dead_letter_problem(auditor, &create.name, &create.spec);
    demand!(problem.is_none(), "{} was made with dead letters to {problem:?}", create.name);
    demand!(view.queue.spec == create.spec, "{} was made with other policies", create.name);
    demand!(view.queue.annotations == create.annotations, "{} was made with other annotations", create.name);
    let limit = auditor.settings.queues;
    demand!(auditor.names.len() < limit, "{} was made beyond {limit} queues", create.name);
    if create.validate_only { Ok(()) } else { auditor.created(&view.queue, answered.index) }
}

/// A queue was not made or changed.
pub(super) fn refused(
    auditor: &Auditor,
    name: &str,
    spec: &QueueSpec,
    rejection: &Rejection,
    answered: &Answered<'_>,
) -> Verdict {
    match rejection {
        Rejection::OutOfRange { field, .. } => {
            demand!(!is_valid(spec), "{field} of {name} was refused");
            Ok(())
        }
        Rejection::DeadLetterQueueInvalid { name: target, problem } => {
            let found = dead_letter_problem(auditor, name, spec);
            demand!(found == Some(*problem), "{target} as a dead-letter queue: {problem:?}, known {found:?}");
            Ok(())
        }
        Rejection::QueueLimit { limit } => {
            let known = auditor.queue(name).is_some();
            demand!(!known && auditor.names.len() >= *limit, "{name} was refused for the limit");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
