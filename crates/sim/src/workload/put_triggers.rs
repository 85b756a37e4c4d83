//! Makes triggers, with a deployment or without.

use std::time::Duration;

use millpond_core::command::{NewTrigger, PutTriggers};
use millpond_core::limits::{LEASE_MIN, RETRY_AFTER_MIN, TRIGGER_WAIT_MAX};
use millpond_core::outcome::DeadLetterProblem;
use millpond_core::spec::TriggerSpec;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand, is_for};
use crate::names::{self, kind_of};

/// Ids of triggers.
pub(super) const IDS: [&str; 9] = ["t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8", "t9"];

fn draw_spec(scene: &mut Scene<'_>) -> TriggerSpec {
    let queue = scene.random.chance(550).then(|| scene.any_queue());
    let random = &mut *scene.random;
    let mut spec = TriggerSpec {
        retry_after: random.millis(1_000, 6_000),
        initial_delay: if random.chance(300) { random.millis(1, 30_000) } else { Duration::ZERO },
        max_deliveries: random.chance(600).then(|| random.count(1, 3)),
        max_concurrency: random.chance(300).then(|| random.count(1, 4)),
        dead_letter_queue: queue,
        lease: random.millis(1_000, 20_000),
    };
    match random.below(150) {
        0 => spec.retry_after = Duration::ZERO,
        1 => spec.initial_delay = TRIGGER_WAIT_MAX + LEASE_MIN,
        2 => spec.max_deliveries = Some(0),
        3 => spec.max_concurrency = Some(0),
        4 => spec.lease = Duration::ZERO,
        _ => {}
    }
    spec
}

fn draw(scene: &mut Scene<'_>) -> NewTrigger {
    let topic = names::id_of(&scene.any_topic()).to_owned();
    let pattern = match scene.random.below(100) {
        0..60 => topic,
        60..78 => format!("{}*", topic.chars().next().unwrap_or('x')),
        78..99 => "*".to_owned(),
        _ => "a*b".to_owned(),
    };
    let group = names::id_of(&scene.group()).into();
    let id =
        if scene.random.chance(10) { "a.b" } else { scene.random.pick(&IDS).copied().unwrap_or_default() };
    let target = if scene.random.chance(8) { "" } else { "http://127.0.0.1/" };
    let (id, topic, target) = (id.into(), pattern.into(), target.into());
    NewTrigger { id, topic, group, target, spec: draw_spec(scene) }
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let deployment = scene.random.chance(600).then(|| scene.partition_id().into());
    let count = match scene.random.below(100) {
        0 => 0,
        1..70 => 1,
        _ => scene.random.size(2, 3),
    };
    let triggers = (0..count).map(|_| draw(scene)).collect();
    Command::PutTriggers(PutTriggers { deployment, triggers, validate_only: scene.random.chance(60) })
}

/// Whether all numbers and names are such as can be, as far as the simulator draws others.
fn is_valid(put: &PutTriggers) -> bool {
    let fits = |new: &NewTrigger| {
        let spec = &new.spec;
        !new.id.contains('.')
            && !new.target.is_empty()
            && !new.topic.trim_end_matches('*').contains('*')
            && (RETRY_AFTER_MIN..=TRIGGER_WAIT_MAX).contains(&spec.retry_after)
            && spec.initial_delay <= TRIGGER_WAIT_MAX
            && spec.max_deliveries != Some(0)
            && spec.max_concurrency != Some(0)
            && spec.lease >= LEASE_MIN
    };
    !put.triggers.is_empty() && put.triggers.iter().all(fits)
}

/// Whether an id is named twice, or taken by what this does not replace.
fn is_taken(auditor: &Auditor, put: &PutTriggers, id: &str) -> bool {
    let named = put.triggers.iter().filter(|new| *new.id == *id).count();
    let known = auditor.triggers.rows.get(id);
    named > 1 || known.is_some_and(|known| put.deployment.is_none() || known.deployment != put.deployment)
}

/// Whether there can be a topic that both are for: the shorter of two prefixes is one of the longer.
fn overlap(one: &str, other: &str) -> bool {
    let prefix = |pattern: &str| pattern.strip_suffix('*').map(str::to_owned);
    match (prefix(one), prefix(other)) {
        (Some(one), Some(other)) if one.len() <= other.len() => other.starts_with(&one),
        (Some(one), Some(other)) => one.starts_with(&other),
        (Some(_), None) => is_for(one, other),
        (None, _) => is_for(other, one),
    }
}

/// Pairs of triggers, of which one is new, that are for the same messages.
fn overlaps(auditor: &Auditor, put: &PutTriggers) -> Vec<(Box<str>, Box<str>)> {
    let mut found = Vec::new();
    for (index, new) in put.triggers.iter().enumerate() {
        let clash = |group: &str, topic: &str| *group == *new.group && overlap(topic, &new.topic);
        let own = put.triggers.iter().skip(index + 1).filter(|other| clash(&other.group, &other.topic));
        found.extend(own.map(|other| (new.id.clone(), other.id.clone())));
        let known = auditor.triggers.rows.values();
        let known = known.filter(|row| put.deployment.is_none() && row.deployment.is_none());
        let known = known.filter(|row| clash(&row.group, &row.topic));
        found.extend(known.map(|row| (new.id.clone(), row.id.clone())));
    }
    found
}

/// How many there would be.
fn count_after(auditor: &Auditor, put: &PutTriggers) -> usize {
    let stays = |of: &&Option<Box<str>>| put.deployment.is_none() || **of != put.deployment;
    let rows = auditor.triggers.rows.values().map(|row| &row.deployment);
    rows.filter(stays).count() + put.triggers.len()
}

pub(super) fn predict(auditor: &mut Auditor, put: &PutTriggers, answered: &Answered<'_>) -> Verdict {
    let missing = |queue: &str| auditor.queue(queue).is_none() || kind_of(queue) != names::Kind::Queue;
    let unknown = |new: &NewTrigger| new.spec.dead_letter_queue.clone().filter(|queue| missing(queue));
    let unknown: Vec<_> = put.triggers.iter().filter_map(unknown).collect();
    let taken = put.triggers.iter().any(|new| is_taken(auditor, put, &new.id));
    let limit = auditor.settings.triggers;
    match answered.outcome {
        Outcome::Triggers(views) => {
            demand!(is_valid(put) && !taken, "{put:?} was taken");
            demand!(unknown.is_empty(), "triggers were made whose dead letters go to {unknown:?}");
            let overlaps = overlaps(auditor, put);
            demand!(overlaps.is_empty(), "triggers were made that overlap: {overlaps:?}");
            demand!(count_after(auditor, put) <= limit, "{put:?} was taken, limit {limit}");
            auditor.triggers_put(put, views, answered)
        }
        Outcome::Rejected(rejection) => {
            let allowed = match rejection {
                Rejection::OutOfRange { .. } => !is_valid(put),
                Rejection::TriggerAlreadyExists { id } => is_taken(auditor, put, id),
                Rejection::DeadLetterQueueInvalid { name, problem } => {
                    *problem == DeadLetterProblem::Missing && unknown.contains(name)
                }
                Rejection::TriggerOverlaps { id, other } => {
                    overlaps(auditor, put).contains(&(id.clone(), other.clone()))
                }
                Rejection::TriggerLimit { limit: told } => {
                    *told == limit && count_after(auditor, put) > limit
                }
                _ => false,
            };
            demand!(allowed, "{put:?} was refused: {rejection:?}");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
