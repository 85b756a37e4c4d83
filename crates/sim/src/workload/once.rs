//! Does something under a key, and does it again.

use millpond_core::command::{Idempotency, Once};
use millpond_core::{Command, Outcome, Rejection};

use super::{Kind, Scene, predict as predict_command};
use crate::auditor::{Answered, Auditor, Submitted, Verdict, demand};

/// What is done under keys; what is mostly refused, more often.
const KINDS: [Kind; 15] = [
    Kind::CreateQueue,
    Kind::DeleteMessage,
    Kind::DeleteMessage,
    Kind::DeleteMessage,
    Kind::DeleteQueue,
    Kind::DeleteQueue,
    Kind::DeleteQueue,
    Kind::MoveMessages,
    Kind::PauseQueue,
    Kind::PurgeQueue,
    Kind::ResumeQueue,
    Kind::Revive,
    Kind::Settle,
    Kind::Settle,
    Kind::UpdateQueue,
];

/// Keys to choose from.
const KEYS: u64 = 40;

/// A call that was made before: one that is remembered, or one of the last, which may be under way.
fn draw_known(scene: &mut Scene<'_>) -> Option<Once> {
    let calls = &scene.workload.calls;
    if scene.random.chance(300) {
        let late = calls.len().saturating_sub(6);
        return scene.random.pick(calls.get(late..)?).cloned();
    }
    let remembered = |once: &&Once| {
        let known = scene.auditor.calls.get(&once.idempotency.key);
        known.is_some_and(|known| known.digest == once.idempotency.digest)
    };
    let remembered: Vec<&Once> = calls.iter().filter(remembered).collect();
    scene.random.pick(&remembered).map(|once| (*once).clone())
}

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    if scene.random.chance(500)
        && let Some(mut again) = draw_known(scene)
    {
        // Mostly a client that did not hear the answer; now and then one that uses the key for something else.
        again.idempotency.digest += u128::from(scene.random.chance(150));
        return Command::Once(again);
    }
    let kind = scene.random.pick(&KINDS).copied().unwrap_or(Kind::PauseQueue);
    let command = Box::new(scene.generate(kind));
    // No two calls have the same digest, and none the next one's.
    let digest = u128::from(scene.workload.token()) * 2;
    let key =
        if scene.random.chance(20) { String::new() } else { format!("call {}", scene.random.below(KEYS)) };
    let once = Once { idempotency: Idempotency { key: key.into(), digest }, command };
    scene.workload.calls.push(once.clone());
    Command::Once(once)
}

pub(super) fn predict(auditor: &mut Auditor, once: &Once, answered: &Answered<'_>) -> Verdict {
    let idempotency = &once.idempotency;
    match answered.outcome {
        Outcome::Repeated(first) => auditor.call_repeated(idempotency, first, answered),
        Outcome::Rejected(Rejection::IdempotencyKeyReused { key }) if *key == idempotency.key => {
            demand!(auditor.call_differs(idempotency, answered), "key {key} stands for nothing else");
            Ok(())
        }
        Outcome::Rejected(Rejection::DedupLimit { limit }) => {
            let known = u64::try_from(auditor.dedup.len() + auditor.calls.len());
            let sends = match &*once.command {
                Command::Settle(settle) => settle.sends.len(),
                _ => 0,
            };
            let most = known.unwrap_or(u64::MAX).saturating_add(u64::try_from(sends).unwrap_or(0));
            demand!(most >= *limit, "key {} was refused for the limit", idempotency.key);
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field: "idempotency-key", .. })
            if idempotency.key.is_empty() =>
        {
            Ok(())
        }
        outcome => {
            demand!(!idempotency.key.is_empty(), "a call without a key was taken");
            auditor.check_call_is_new(idempotency, answered)?;
            let submitted = Submitted { command: (*once.command).clone(), ..answered.submitted.clone() };
            let inner = Answered {
                submitted: &submitted,
                outcome,
                contents: answered.contents,
                index: answered.index,
                stamp: answered.stamp,
            };
            predict_command(auditor, &inner)?;
            auditor.call_done(once, answered);
            Ok(())
        }
    }
}
