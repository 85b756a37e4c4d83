//! Takes messages to work on.

use std::time::Duration;

use millpond_core::command::{Lease, WaiterId};
use millpond_core::limits::{LEASE_MESSAGES_MAX, LEASE_MIN, WAIT_MAX};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let queue = scene.queue();
    let random = &mut *scene.random;
    let max_messages = if random.chance(300) { random.count(2, 12) } else { 1 };
    let min_messages = if random.chance(300) { random.count(1, max_messages) } else { 1 };
    let wait = if random.chance(350) { random.millis(1, 15_000) } else { Duration::ZERO };
    let mut lease = Lease {
        queue,
        max_messages,
        min_messages,
        visibility_timeout: random.chance(500).then(|| random.millis(1_000, 15_000)),
        wait,
        max_wait: random.chance(400).then(|| random.millis(0, 6_000)),
        waiter: WaiterId(0),
    };
    match random.below(100) {
        0 => lease.max_messages = random.count(0, 1) * 101,
        1 => lease.min_messages = max_messages + 1,
        2 => lease.visibility_timeout = Some(Duration::from_millis(500)),
        3 => lease.wait = Duration::from_secs(21),
        4 => lease.max_wait = Some(Duration::from_secs(21)),
        _ => {}
    }
    Command::Lease(lease)
}

fn is_valid(lease: &Lease) -> bool {
    (1..=LEASE_MESSAGES_MAX).contains(&lease.max_messages)
        && (1..=lease.max_messages).contains(&lease.min_messages)
        && lease.visibility_timeout.is_none_or(|timeout| timeout >= LEASE_MIN)
        && lease.wait <= WAIT_MAX
        && lease.max_wait.is_none_or(|wait| wait <= WAIT_MAX)
}

pub(super) fn predict(auditor: &mut Auditor, lease: &Lease, answered: &Answered<'_>) -> Verdict {
    let stable = auditor.name_is_stable(&lease.queue, answered.submitted.index);
    let known = auditor.queue(&lease.queue).is_some();
    match answered.outcome {
        Outcome::Leased(grants) => {
            demand!(is_valid(lease), "{lease:?} was taken");
            demand!(known || !stable, "{} was leased from and is not there", lease.queue);
            auditor.granted(lease, grants, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(!known || !stable, "{} was not found", lease.queue);
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!is_valid(lease), "{field} of {lease:?} was refused");
            Ok(())
        }
        Outcome::Rejected(Rejection::WaiterLimit { limit }) => {
            demand!(*limit == auditor.settings.waiters, "limit {limit} of waiting calls");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
