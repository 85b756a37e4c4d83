//! Looks at one message.

use millpond_core::command::MessageRef;
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Breach, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::GetMessage(scene.message())
}

pub(super) fn predict(auditor: &mut Auditor, wanted: &MessageRef, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Message(row) => {
            let id = wanted.message;
            demand!(row.message_id() == id, "{id} was asked for, {} is shown", row.message_id());
            demand!(answered.contents.len() == 1, "{id} is shown without its content");
            if !auditor.name_is_stable(&wanted.queue, answered.submitted.index) {
                return Ok(());
            }
            let Some(&number) = auditor.names.get(&wanted.queue) else {
                return Err(Breach(format!("{id} is shown in {}, which is not there", wanted.queue)));
            };
            auditor.seen(number, row, answered.contents.first(), answered)
        }
        Outcome::Rejected(Rejection::MessageNotFound { message })
            if auditor.message(message).is_some_and(|known| auditor.may_be_taken_out(known, answered)) =>
        {
            demand!(*message == wanted.message, "{message} was not found, asked for {}", wanted.message);
            Ok(())
        }
        Outcome::Rejected(rejection) => refused(auditor, wanted, rejection, answered),
        _ => answered.out_of_place(),
    }
}

/// Whether a message may not be found.
pub(super) fn refused(
    auditor: &Auditor,
    wanted: &MessageRef,
    rejection: &Rejection,
    answered: &Answered<'_>,
) -> Verdict {
    match rejection {
        Rejection::QueueNotFound { .. } => {
            let stable = auditor.name_is_stable(&wanted.queue, answered.submitted.index);
            demand!(auditor.queue(&wanted.queue).is_none() || !stable, "{} was not found", wanted.queue);
            Ok(())
        }
        Rejection::MessageNotFound { message } => {
            demand!(*message == wanted.message, "{message} was not found, asked for {}", wanted.message);
            let number = auditor.names.get(&wanted.queue);
            let certain = auditor
                .message(message)
                .zip(number)
                .is_some_and(|(message, number)| auditor.is_certain(message, *number, answered));
            demand!(!certain, "{message} of {} was not found", wanted.queue);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
