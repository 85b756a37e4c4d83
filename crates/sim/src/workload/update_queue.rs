//! Changes a queue.

use std::time::Duration;

use millpond_core::command::{CreateQueue, Start, UpdateQueue};
use millpond_core::outcome::QueueView;
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, create_queue};
use crate::auditor::{Answered, Auditor, QueueModel, Verdict, demand};
use crate::names::{Kind, kind_of};
use crate::random::Random;
use crate::settings::{draw_spec, draw_topic_spec};

/// What an operator changes: mostly one thing, now and then everything or nothing.
fn draw_change(random: &mut Random, mut spec: QueueSpec, kind: Kind, names: &[Box<str>]) -> QueueSpec {
    let drawn = if kind == Kind::Queue { draw_spec(random, names) } else { draw_topic_spec(random) };
    match random.below(10) {
        0 => {}
        1 => spec.at_limit = drawn.at_limit,
        2 => spec.attempt_limit = drawn.attempt_limit,
        3 => {
            spec.concurrency_max = drawn.concurrency_max;
            spec.leased_max = drawn.leased_max;
        }
        4 => spec.fresh_first = !spec.fresh_first,
        5 => spec.order = drawn.order,
        6 => spec.retention = drawn.retention,
        7 => spec.visibility_timeout = drawn.visibility_timeout,
        _ => spec = drawn,
    }
    if random.chance(40) {
        spec.visibility_timeout = Duration::from_millis(999);
    }
    spec
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let name = scene.anything();
    let known = scene.auditor.queue(&name);
    let etag = match scene.random.below(5) {
        0 => Some("0-0".into()),
        1 => known.map(|queue| queue.etag.clone().into()),
        _ => None,
    };
    let names: Vec<_> =
        scene.auditor.names.keys().filter(|name| kind_of(name) == Kind::Queue).cloned().collect();
    let kind = kind_of(&name);
    let spec = known
        .map(|queue| queue.spec.clone())
        .unwrap_or_else(|| if kind == Kind::Queue { QueueSpec::default() } else { QueueSpec::topic() });
    let random = &mut *scene.random;
    Command::UpdateQueue(UpdateQueue {
        name,
        spec: draw_change(random, spec, kind, &names),
        annotations: format!("{{\"n\":{}}}", random.below(3)).into(),
        etag,
        allow_missing: random.chance(400),
        validate_only: random.chance(60),
    })
}

pub(super) fn predict(auditor: &mut Auditor, update: &UpdateQueue, answered: &Answered<'_>) -> Verdict {
    let name = &update.name;
    let known = auditor.queue(name);
    match answered.outcome {
        Outcome::Queue(view) => match known {
            Some(known) => {
                check_updated(auditor, known, update, view)?;
                if !update.validate_only {
                    auditor.updated(&view.queue, answered.index);
                }
                Ok(())
            }
            None => {
                demand!(update.allow_missing && update.etag.is_none(), "{name} was made unasked");
                let create = CreateQueue {
                    name: name.clone(),
                    start: Start::default(),
                    spec: update.spec.clone(),
                    annotations: update.annotations.clone(),
                    validate_only: update.validate_only,
                };
                create_queue::made(auditor, &create, view, answered)
            }
        },
        Outcome::Rejected(Rejection::EtagMismatch { current }) => {
            let differs = update.etag.as_deref().is_some_and(|given| given != &**current);
            demand!(
                differs && known.is_some_and(|known| known.may_have(current)),
                "{name} has etag {current}"
            );
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            let may_be_made =
                update.allow_missing && update.etag.is_none() && create_queue::has_topic(auditor, name);
            demand!(known.is_none() && !may_be_made, "{name} was not found");
            Ok(())
        }
        Outcome::Rejected(rejection) => {
            create_queue::refused(auditor, name, &update.spec, rejection, answered)
        }
        _ => answered.out_of_place(),
    }
}

/// Whether a queue may have been changed so.
fn check_updated(auditor: &Auditor, known: &QueueModel, update: &UpdateQueue, view: &QueueView) -> Verdict {
    let (name, row) = (&update.name, &view.queue);
    demand!(create_queue::is_valid(name, &update.spec), "{name} was given {:?}", update.spec);
    demand!(row.number == known.number, "{name} is another queue by now");
    // A partition has the policies of its topic.
    let given = if kind_of(name) == Kind::Partition { &known.spec } else { &update.spec };
    demand!(row.spec == *given, "{name} has other policies than it was given");
    demand!(row.annotations == update.annotations, "{name} has other annotations than it was given");
    if known.spec.at_limit != update.spec.at_limit {
        let problem = create_queue::dead_letter_problem(auditor, name, &update.spec);
        demand!(problem.is_none(), "{name} was given dead letters to {problem:?}");
    }
    let etag = update.etag.as_deref();
    demand!(etag.is_none_or(|etag| known.may_have(etag)), "{name} was changed under etag {etag:?}");
    let generation = known.generation + u64::from(known.spec != *given);
    demand!(row.generation == generation, "{name} has generation {}, not {generation}", row.generation);
    Ok(())
}
