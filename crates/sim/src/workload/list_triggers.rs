//! Looks at all triggers.

use millpond_core::{Command, Outcome};

use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate() -> Command {
    Command::ListTriggers
}

pub(super) fn predict(auditor: &Auditor, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Triggers(views) => auditor.triggers_listed(views),
        _ => answered.out_of_place(),
    }
}
