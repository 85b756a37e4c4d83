//! Moves dead letters.

use millpond_core::command::MoveMessages;
use millpond_core::limits::MOVE_MESSAGES_MAX;
use millpond_core::outcome::Tally;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Message, Verdict, demand};
use crate::names::{Kind, kind_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let dead = |message: &Message| message.dead_at.is_some() || message.home.is_some();
    let (queue, messages) = scene.dead_letters(dead);
    let to = scene.random.chance(700).then(|| scene.queue());
    Command::MoveMessages(MoveMessages { queue, messages, to, before: Tally::default() })
}

pub(super) fn predict(auditor: &mut Auditor, moves: &MoveMessages, answered: &Answered<'_>) -> Verdict {
    let few = moves.messages.len() <= MOVE_MESSAGES_MAX;
    match answered.outcome {
        Outcome::Moved { moved, skipped } => {
            demand!(few, "{} messages were moved in one step", moves.messages.len());
            auditor.moved_away(moves, moved, skipped, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { name }) => {
            let named = *name == moves.queue || Some(name) == moves.to.as_ref();
            demand!(named && auditor.queue(name).is_none(), "{name} was not found");
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { name, .. }) => {
            let named = *name == moves.queue || Some(name) == moves.to.as_ref();
            demand!(named && kind_of(name) != Kind::Queue, "{name} is called no queue");
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            let itself = moves.to.as_ref() == Some(&moves.queue);
            demand!(!few || itself, "{field} of {moves:?} was refused");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
