//! Removes one message.

use millpond_core::command::MessageRef;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, get_message};
use crate::auditor::{Answered, Auditor, Verdict, demand};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let held = scene.random.pick(&scene.workload.hands).filter(|_| scene.random.chance(250));
    Command::DeleteMessage(match held {
        Some(hand) => MessageRef { queue: hand.queue.clone(), message: hand.lease.message },
        None => scene.message(),
    })
}

pub(super) fn predict(auditor: &mut Auditor, wanted: &MessageRef, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::MessageDeleted => auditor.removed(wanted, answered),
        Outcome::Rejected(Rejection::MessageLeased { message, .. }) => {
            let number = auditor.names.get(&wanted.queue);
            let free = auditor
                .message(message)
                .zip(number)
                .is_some_and(|(message, number)| auditor.is_certain(message, *number, answered));
            demand!(*message == wanted.message && !free, "{message} was called leased");
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { name, .. }) => {
            let log = auditor.queue(name).is_some_and(|queue| queue.role.is_log());
            demand!(log, "{name} is called no queue");
            Ok(())
        }
        Outcome::Rejected(rejection) => get_message::refused(auditor, wanted, rejection, answered),
        _ => answered.out_of_place(),
    }
}
