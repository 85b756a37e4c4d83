//! Sets what pushes are signed with.

use std::time::Duration;

use millpond_core::command::SetSecret;
use millpond_core::limits::{LEASE_MIN, SECRET_GRACE_MAX};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let secret =
        if scene.random.chance(100) { String::new() } else { format!("whsec_{}", scene.workload.token()) };
    let random = &mut *scene.random;
    let grace = match random.below(20) {
        0 => SECRET_GRACE_MAX + LEASE_MIN,
        1..6 => Duration::ZERO,
        _ => random.millis(1, 60_000),
    };
    Command::SetSecret(SetSecret { secret: secret.into(), grace, only_if_none: random.chance(400) })
}

pub(super) fn predict(auditor: &mut Auditor, set: &SetSecret, answered: &Answered<'_>) -> Verdict {
    let valid = !set.secret.is_empty() && set.grace <= SECRET_GRACE_MAX;
    match answered.outcome {
        Outcome::Secret(secret) => {
            demand!(valid, "a secret of {} bytes was taken, for {:?}", set.secret.len(), set.grace);
            auditor.secret_set(set, secret, answered)
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!valid, "{field} of a secret was refused");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
