//! Says how a trigger's target is doing.

use millpond_core::command::Trouble;
use millpond_core::id::Uid;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};

use super::{Scene, put_triggers};
use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let id: Box<str> = scene.random.pick(&put_triggers::IDS).copied().unwrap_or_default().into();
    // Now and then of one that had the id before, or never was.
    let known = scene.auditor.triggers.rows.get(&id).filter(|_| !scene.random.chance(50));
    let uid = known.map(|row| row.uid).unwrap_or_default();
    let since = Timestamp::ZERO.plus(scene.random.millis(0, 1_000));
    let next_try = since.plus(scene.random.millis(1, 60_000));
    let trouble = Trouble { since, error: format!("refused {}", scene.random.below(3)).into(), next_try };
    Command::ReportTrigger { id, uid, trouble: scene.random.chance(600).then_some(trouble) }
}

pub(super) fn predict(
    auditor: &mut Auditor,
    (id, uid, trouble): (&str, Uid, Option<&Trouble>),
    answered: &Answered<'_>,
) -> Verdict {
    match answered.outcome {
        Outcome::Done => {
            let is_known = auditor.triggers.rows.get(id).is_some_and(|row| row.uid == uid);
            if is_known && uid != Uid::default() {
                auditor.trigger_reported(id, trouble);
            }
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
