//! Asks whether a lease is held.

use millpond_core::command::LeaseRef;
use millpond_core::{Command, Outcome, Rejection};

use super::{NOBODY, Scene};
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let hand = scene.workload.draw_hand(scene.random, true);
    let nobody = LeaseRef { delivery: NOBODY.sequence, message: NOBODY, generation: Default::default() };
    let (queue, lease) = match hand {
        Some(hand) if !scene.random.chance(40) => (hand.queue, hand.lease),
        Some(hand) => (scene.anything(), hand.lease),
        None => (scene.anything(), nobody),
    };
    Command::LeaseState { queue, lease }
}

pub(super) fn predict(
    auditor: &Auditor,
    (queue, lease): (&str, LeaseRef),
    answered: &Answered<'_>,
) -> Verdict {
    match answered.outcome {
        Outcome::LeaseHeld(until) => {
            demand!(auditor.queue(queue).is_some(), "a lease of {queue} was looked at, which is not there");
            auditor.lease_state((queue, lease), *until, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(auditor.queue(queue).is_none(), "{queue} was not found");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
