//! Asks for the data of a message: of one that is held, or of any.

use millpond_core::command::OpenData;
use millpond_core::id::LeaseGeneration;
use millpond_core::row::Data;
use millpond_core::{Command, Outcome, Rejection};

use super::{Hand, Scene, lease};
use crate::auditor::{Answered, Auditor, Life, Verdict, demand};
use crate::names;

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let large = |hand: &&Hand| {
        let message = scene.auditor.message(&hand.lease.message);
        message.is_some_and(|message| matches!(message.content.data, Data::Chunked { .. }))
    };
    let all = || scene.workload.hands.iter().chain(&scene.workload.retired);
    let mut hands: Vec<Hand> = scene.workload.hands.iter().filter(large).cloned().collect();
    if hands.is_empty() || scene.random.chance(400) {
        hands = all().cloned().collect();
    }
    if scene.random.chance(600)
        && let Some(hand) = scene.random.pick(&hands)
    {
        let generation = if scene.random.chance(250) { None } else { Some(hand.lease.generation) };
        let (queue, message) = (hand.queue.clone(), hand.lease.message);
        // Who reads in a group has to ask its topic, where nobody needs a lease.
        let topic = names::topic_of(&queue).filter(|_| scene.random.chance(900)).map(Into::into);
        let generation = if topic.is_some() { None } else { generation };
        let queue = topic.unwrap_or(queue);
        return Command::OpenData(OpenData { queue, message, generation });
    }
    let rarely = scene.random.chance(300);
    let alive = scene.auditor.messages.values().filter(|message| {
        let large = matches!(message.content.data, Data::Chunked { .. });
        message.life == Life::Alive && (large || rarely)
    });
    let alive: Vec<_> = alive.map(|message| (message.id, message.queue)).collect();
    let Some(&(message, number)) = scene.random.pick(&alive) else { return lease::generate(scene) };
    let queue = scene.auditor.queues.get(&number).map(|queue| queue.name.clone());
    let queue = queue.filter(|_| !scene.random.chance(30)).unwrap_or_else(|| scene.shelf());
    let generation = scene.random.chance(50).then_some(LeaseGeneration(7));
    Command::OpenData(OpenData { queue, message, generation })
}

pub(super) fn predict(auditor: &Auditor, open: &OpenData, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Data(view) => {
            demand!(view.message == open.message, "{open:?} was answered {view:?}");
            auditor.data_opened(open, view, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            let stable = auditor.name_is_stable(&open.queue, answered.submitted.index);
            demand!(auditor.queue(&open.queue).is_none() || !stable, "{} was not found", open.queue);
            Ok(())
        }
        Outcome::Rejected(
            Rejection::LeaseStale { .. }
            | Rejection::MessageLeased { .. }
            | Rejection::MessageNotFound { .. },
        ) => {
            demand!(!auditor.holds(open, answered), "{open:?} was refused: {:?}", answered.outcome);
            let known = auditor.message(&open.message).zip(auditor.names.get(&open.queue));
            let certain = known.is_some_and(|(known, number)| {
                let log = auditor.queues.get(&known.queue).is_some_and(|log| log.role.is_log());
                log && open.generation.is_none() && auditor.is_certain(known, *number, answered)
            });
            demand!(!certain, "{open:?} was refused: {:?}", answered.outcome);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
