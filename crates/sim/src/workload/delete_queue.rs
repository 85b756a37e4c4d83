//! Removes a queue.

use millpond_core::command::DeleteQueue;
use millpond_core::row::TriggerRow;
use millpond_core::spec::AtLimit;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let name = scene.victim();
    let etag = match scene.random.below(5) {
        0 => Some("0-0".into()),
        1 => scene.auditor.queue(&name).map(|queue| queue.etag.clone().into()),
        _ => None,
    };
    Command::DeleteQueue(DeleteQueue {
        name,
        etag,
        allow_missing: scene.random.chance(300),
        force: scene.random.chance(150),
        validate_only: scene.random.chance(100),
    })
}

fn is_used(auditor: &Auditor, name: &str) -> bool {
    let names_it = |at_limit: &AtLimit| matches!(at_limit, AtLimit::MoveTo { queue, .. } if **queue == *name);
    let of_trigger = |row: &TriggerRow| row.spec.dead_letter_queue.as_deref() == Some(name);
    auditor.queues.values().any(|queue| queue.alive && names_it(&queue.spec.at_limit))
        || auditor.triggers.rows.values().any(of_trigger)
}

pub(super) fn predict(auditor: &mut Auditor, delete: &DeleteQueue, answered: &Answered<'_>) -> Verdict {
    let name = &delete.name;
    let known = auditor.queue(name).is_some();
    match answered.outcome {
        Outcome::QueueDeleted(was_there) => {
            demand!(*was_there == known, "{name} deleted: {was_there}, known: {known}");
            demand!(known || delete.allow_missing, "the deletion of {name}, which is not there, was taken");
            demand!(
                !known || delete.force || !is_used(auditor, name),
                "{name} was deleted although it is in use"
            );
            demand!(delete.etag.as_deref() != Some("0-0") || !known, "{name} was deleted under a wrong etag");
            if !delete.validate_only {
                auditor.deleted(name, answered.index);
            }
            Ok(())
        }
        Outcome::Rejected(Rejection::EtagMismatch { current }) => {
            demand!(known && delete.etag.as_deref() != Some(&**current), "{name} has etag {current}");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueInUse { .. }) => {
            demand!(known && is_used(auditor, name) && !delete.force, "{name} is not in use");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(!known && !delete.allow_missing, "{name} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
