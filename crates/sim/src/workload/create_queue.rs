//! Makes a queue.

use std::time::Duration;

use millpond_core::command::CreateQueue;
use millpond_core::limits::DEAD_LETTER_CHAIN_MAX;
use millpond_core::outcome::DeadLetterProblem;
use millpond_core::spec::AtLimit;
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

/// What is wrong with the dead-letter queue, if anything.
fn dead_letter_problem(auditor: &Auditor, create: &CreateQueue) -> Option<DeadLetterProblem> {
    let AtLimit::MoveTo { queue: target, .. } = &create.spec.at_limit else { return None };
    if *target == create.name {
        return Some(DeadLetterProblem::Itself);
    }
    let Some(mut queue) = auditor.queue(target) else { return Some(DeadLetterProblem::Missing) };
    for _ in 0..DEAD_LETTER_CHAIN_MAX {
        let AtLimit::MoveTo { queue: next, .. } = &queue.spec.at_limit else { return None };
        if *next == create.name {
            return Some(DeadLetterProblem::Circle);
        }
        queue = auditor.queue(next)?;
    }
    Some(DeadLetterProblem::Circle)
}

pub(super) fn predict(auditor: &mut Auditor, create: &CreateQueue, answered: &Answered<'_>) -> Verdict {
    let known = auditor.queue(&create.name).is_some();
    let valid = create.spec.visibility_timeout >= Duration::from_secs(1)
        && create.spec.retention.is_none_or(|retention| create.spec.delay < retention);
    match answered.outcome {
        Outcome::Queue(view) => {
            demand!(valid && !known, "{} was made, valid: {valid}, known: {known}", create.name);
            let problem = dead_letter_problem(auditor, create);
            demand!(problem.is_none(), "{} was made with dead letters to {problem:?}", create.name);
            demand!(view.queue.spec == create.spec, "{} was made with other policies", create.name);
            let limit = auditor.settings.queues;
            demand!(auditor.names.len() < limit, "{} was made beyond {limit} queues", create.name);
            if create.validate_only { Ok(()) } else { auditor.created(&view.queue, answered.index) }
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!valid, "{field} of {} was refused", create.name);
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueAlreadyExists { name }) => {
            demand!(known, "{name} was called known");
            Ok(())
        }
        Outcome::Rejected(Rejection::DeadLetterQueueInvalid { name, problem }) => {
            let found = dead_letter_problem(auditor, create);
            demand!(found == Some(*problem), "{name} as a dead-letter queue: {problem:?}, known {found:?}");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueLimit { limit }) => {
            demand!(auditor.names.len() >= *limit, "{} was refused for the limit", create.name);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
