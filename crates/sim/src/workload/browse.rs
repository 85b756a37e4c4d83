//! Looks at a page of messages.

use millpond_core::command::{Browse, Cursor, WaiterId};
use millpond_core::limits::BROWSE_MESSAGES_MAX;
use millpond_core::row::DeliveryState;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, kind_of};

fn draw_times(scene: &mut Scene<'_>) -> (Option<Timestamp>, Option<Timestamp>) {
    let known: Vec<_> = scene.auditor.messages.values().map(|message| message.id.sent_at).collect();
    let random = &mut *scene.random;
    let Some(base) = random.pick(&known).copied() else { return (None, None) };
    let from = base.plus(random.millis(0, 30_000));
    match random.below(5) {
        0 => (Some(from), None),
        1 => (None, Some(from)),
        2 => (Some(from), Some(base)),
        _ => (Some(from), Some(from.plus(random.millis(1, 60_000)))),
    }
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    if scene.random.chance(300)
        && let Some(seen) = scene.random.pick(&scene.workload.pages).cloned()
    {
        return Command::Browse(seen);
    }
    let queue = scene.shelf();
    let state = match scene.random.below(100) {
        0..35 => DeliveryState::Ready,
        35..65 => DeliveryState::Dead,
        65..80 => DeliveryState::Delayed,
        80..93 => DeliveryState::Leased,
        93..98 => DeliveryState::Completed,
        _ => DeliveryState::Cancelled,
    };
    let timed = state != DeliveryState::Ready && scene.random.chance(250);
    let (from, until) = if timed { draw_times(scene) } else { (None, None) };
    let random = &mut *scene.random;
    let mut browse = Browse {
        queue,
        state,
        after: None,
        from,
        until,
        limit: if random.chance(700) { random.size(1, 5) } else { BROWSE_MESSAGES_MAX },
        contents: random.chance(500),
        waiter: WaiterId(0),
    };
    match random.below(60) {
        0 => browse.limit = random.size(0, 1) * (BROWSE_MESSAGES_MAX + 1),
        1 => browse.from = Some(Timestamp::NEVER),
        2 => browse.after = random.pick(&scene.workload.pages).and_then(|seen| seen.after),
        _ => {}
    }
    Command::Browse(browse)
}

fn is_valid(browse: &Browse) -> bool {
    let ready = browse.state == DeliveryState::Ready;
    let fits = match browse.after {
        None => true,
        Some(Cursor::Ready(_)) => ready,
        Some(Cursor::Due(_)) => !ready,
    };
    let timed = browse.from.is_some() || browse.until.is_some();
    let empty = matches!((browse.from, browse.until), (Some(from), Some(until)) if from >= until);
    (1..=BROWSE_MESSAGES_MAX).contains(&browse.limit) && fits && !(ready && timed) && !empty
}

pub(super) fn predict(auditor: &mut Auditor, browse: &Browse, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Browsed(page) => {
            demand!(is_valid(browse), "{browse:?} was taken");
            auditor.browsed(browse, page, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            let stable = auditor.name_is_stable(&browse.queue, answered.submitted.index);
            demand!(auditor.queue(&browse.queue).is_none() || !stable, "{} was not found", browse.queue);
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { .. }) => {
            demand!(kind_of(&browse.queue) == Kind::Group, "{} cannot be looked at", browse.queue);
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!is_valid(browse), "{field} of {browse:?} was refused");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}

/// The page behind the one that was answered.
pub(super) fn next(browse: &Browse, outcome: &Outcome) -> Option<Browse> {
    let Outcome::Browsed(page) = outcome else { return None };
    Some(Browse { after: Some(page.next?), ..browse.clone() })
}
