//! Replays dead letters.

use millpond_core::command::Revive;
use millpond_core::limits::MOVE_MESSAGES_MAX;
use millpond_core::outcome::Tally;
use millpond_core::spec::AtLimit;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, kind_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let auditor = scene.auditor;
    let (queue, messages) = scene.dead_letters(|message| {
        let queue = auditor.queues.get(&message.queue);
        let stays = queue.is_some_and(|queue| !matches!(queue.spec.at_limit, AtLimit::MoveTo { .. }));
        message.dead_at.is_some() && stays
    });
    Command::Revive(Revive { queue, messages, before: Tally::default() })
}

pub(super) fn predict(auditor: &mut Auditor, revive: &Revive, answered: &Answered<'_>) -> Verdict {
    let few = revive.messages.len() <= MOVE_MESSAGES_MAX;
    let elsewhere = auditor
        .queue(&revive.queue)
        .is_some_and(|queue| matches!(queue.spec.at_limit, AtLimit::MoveTo { .. }));
    match answered.outcome {
        Outcome::Revived { revived, skipped } => {
            demand!(few && !elsewhere, "{revive:?} was taken, dead letters elsewhere: {elsewhere}");
            auditor.revived(revive, revived, skipped, answered)
        }
        Outcome::Rejected(Rejection::DeadLettersElsewhere { queue, .. }) => {
            demand!(elsewhere, "dead letters of {queue} stay in it");
            Ok(())
        }
        Outcome::Rejected(Rejection::QueueNotFound { name }) => {
            demand!(auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { name, .. }) => {
            demand!(kind_of(name) != Kind::Queue, "{name} is called no queue");
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { .. }) => {
            demand!(!few, "{} messages were too many", revive.messages.len());
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
