//! Removes triggers: one by its id, or those of a deployment.

use millpond_core::command::TriggersOf;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, put_triggers};
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::DeleteTriggers(if scene.random.chance(700) {
        let known: Vec<_> = scene.auditor.triggers.rows.keys().collect();
        let id = scene.random.pick(&known).map(|id| (*id).clone()).filter(|_| !scene.random.chance(200));
        let any = || put_triggers::IDS.first().copied().unwrap_or_default().into();
        TriggersOf::Id(id.unwrap_or_else(any))
    } else {
        TriggersOf::Deployment(scene.partition_id().into())
    })
}

pub(super) fn predict(auditor: &mut Auditor, of: &TriggersOf, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Triggers(views) => auditor.triggers_deleted(of, views, answered),
        Outcome::Rejected(Rejection::TriggerNotFound { of: missing }) => {
            let mut rows = auditor.triggers.rows.values();
            let known = rows.any(|row| match of {
                TriggersOf::Id(id) => row.id == *id,
                TriggersOf::Deployment(deployment) => row.deployment.as_ref() == Some(deployment),
            });
            demand!(missing == of && !known, "{missing:?} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
