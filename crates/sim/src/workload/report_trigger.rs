//! Says how a trigger's target is doing.

use millpond_core::command::Trouble;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};

use super::{Scene, put_triggers};
use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let id = scene.random.pick(&put_triggers::IDS).copied().unwrap_or_default().into();
    let since = Timestamp::ZERO.plus(scene.random.millis(0, 1_000));
    let next_try = since.plus(scene.random.millis(1, 60_000));
    let trouble = Trouble { since, error: format!("refused {}", scene.random.below(3)).into(), next_try };
    Command::ReportTrigger { id, trouble: scene.random.chance(600).then_some(trouble) }
}

pub(super) fn predict(
    auditor: &mut Auditor,
    (id, trouble): (&str, Option<&Trouble>),
    answered: &Answered<'_>,
) -> Verdict {
    match answered.outcome {
        Outcome::Done => {
            auditor.trigger_reported(id, trouble);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
