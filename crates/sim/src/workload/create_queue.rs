//! Makes a queue.

use std::time::Duration;

use millpond_core::command::{CreateQueue, Start};
use millpond_core::limits::{DEAD_LETTER_CHAIN_MAX, LEASE_MIN};
use millpond_core::outcome::{DeadLetterProblem, QueueView};
use millpond_core::spec::{AtLimit, QueueSpec};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, kind_of, topic_of};
use crate::settings::{draw_spec, draw_topic_spec};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let name = scene.newcomer();
    let known =
        scene.auditor.names.keys().filter(|name| kind_of(name) == Kind::Queue || scene.random.chance(30));
    let known: Vec<_> = known.cloned().collect();
    let names = if scene.random.chance(300) { &scene.workload.names } else { &known };
    let as_queue = kind_of(&name) == Kind::Queue || scene.random.chance(20);
    let mut spec = if as_queue { draw_spec(scene.random, names) } else { draw_topic_spec(scene.random) };
    if scene.random.chance(60) {
        spec.visibility_timeout = Duration::from_millis(999);
    }
    Command::CreateQueue(CreateQueue {
        name,
        start: if scene.random.chance(350) { Start::Latest } else { Start::Earliest },
        spec,
        annotations: "{}".into(),
        validate_only: scene.random.chance(60),
    })
}

/// Whether a name is one, and the policies in their ranges, as far as the simulator draws wrong ones.
pub(super) fn is_valid(name: &str, spec: &QueueSpec) -> bool {
    let fits = kind_of(name) == Kind::Queue
        || spec.at_limit == AtLimit::Drop && spec.finished_retention.is_zero() && spec.retention.is_some();
    fits && !name.contains('.')
        && spec.visibility_timeout >= LEASE_MIN
        && spec.retention.is_none_or(|retention| spec.delay < retention)
}

/// Whether what is to be made belongs to nothing, or to a topic that is there.
pub(super) fn has_topic(auditor: &Auditor, name: &str) -> bool {
    topic_of(name).is_none_or(|topic| auditor.queue(topic).is_some())
}

/// How many there may be of what a name is, of what, and how many there are.
fn limit_of(auditor: &Auditor, name: &str) -> (usize, &'static str, usize) {
    let kind = kind_of(name);
    let settings = &auditor.settings;
    let (limit, what) = match kind {
        Kind::Queue => (settings.queues, "queues"),
        Kind::Topic => (settings.topics, "topics"),
        Kind::Group => (settings.groups, "groups"),
        Kind::Partition => (settings.partitions, "partitions"),
    };
    let alike = |other: &str| kind_of(other) == kind && topic_of(other) == topic_of(name);
    (limit, what, auditor.names.keys().filter(|other| alike(other)).count())
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
    let known = auditor.queue(target).filter(|_| kind_of(target) == Kind::Queue);
    let Some(mut queue) = known else { return Some(DeadLetterProblem::Missing) };
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
    demand!(is_valid(&create.name, &create.spec), "{} was made with {:?}", create.name, create.spec);
    let problem = dead_letter_problem(auditor, &create.name, &create.spec);
    demand!(problem.is_none(), "{} was made with dead letters to {problem:?}", create.name);
    demand!(has_topic(auditor, &create.name), "{} was made without its topic", create.name);
    let topic = topic_of(&create.name).filter(|_| kind_of(&create.name) == Kind::Partition);
    let topic = topic.and_then(|topic| auditor.queue(topic));
    let given = topic.map_or(&create.spec, |topic| &topic.spec);
    demand!(view.queue.spec == *given, "{} was made with other policies", create.name);
    demand!(view.queue.annotations == create.annotations, "{} was made with other annotations", create.name);
    let (limit, what, known) = limit_of(auditor, &create.name);
    demand!(known < limit, "{} was made beyond {limit} {what}", create.name);
    if create.validate_only { Ok(()) } else { auditor.created(&view.queue, create.start, answered) }
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
            demand!(!is_valid(name, spec), "{field} of {name} was refused");
            Ok(())
        }
        Rejection::DeadLetterQueueInvalid { name: target, problem } => {
            let found = dead_letter_problem(auditor, name, spec);
            demand!(found == Some(*problem), "{target} as a dead-letter queue: {problem:?}, known {found:?}");
            Ok(())
        }
        Rejection::QueueLimit { limit, what } => {
            let known = auditor.queue(name).is_some();
            let (most, kind, there) = limit_of(auditor, name);
            let reached = !known && there >= *limit && (most, kind) == (*limit, *what);
            demand!(reached, "{name} was refused for the limit of {limit} {what}");
            Ok(())
        }
        Rejection::QueueNotFound { name: missing } => {
            let topic = topic_of(name) == Some(&**missing);
            demand!(topic && auditor.queue(missing).is_none(), "{missing} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
