//! Puts messages into a queue.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{Idempotency, NewMessage, Send};
use millpond_core::limits::{DELAY_MAX, IDEMPOTENCY_KEY_BYTES_MAX, LEASE_MIN, SEND_MESSAGES_MAX};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, attributes_of, demand};
use crate::names::{Kind, kind_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    Command::Send(draw(scene))
}

/// A message; those of topics have no priority, and many of them a short life.
pub(super) fn draw_message(scene: &mut Scene<'_>, topical: bool) -> NewMessage {
    let token = scene.workload.token();
    let random = &mut *scene.random;
    let mut data = token.to_be_bytes().to_vec();
    data.resize(random.size(0, scene.auditor.settings.chunk_bytes.min(60)), b'.');
    let content =
        MessageContent { attributes: attributes_of(token), data_kind: DataKind::Binary, data: data.into() };
    let mut message = NewMessage {
        content: Arc::new(content),
        delay: match random.below(100) {
            0..75 => Some(Duration::ZERO),
            75..93 => Some(random.millis(1, 8_000)),
            _ => None,
        },
        priority: if random.chance(150) { random.count(0, 4).cast_signed() - 2 } else { 0 },
        time_to_live: random.chance(80).then(|| random.millis(9_000, 40_000)),
    };
    if topical {
        message.priority = if random.chance(10) { 1 } else { 0 };
        let life = message.delay.map(|delay| delay.max(LEASE_MIN) + random.millis(0, 20_000));
        // Now and then it is over as soon as it is visible, and nobody will ever see it.
        let life = if random.chance(30) { message.delay.map(|delay| delay.max(LEASE_MIN)) } else { life };
        message.time_to_live = message.time_to_live.or(life.filter(|_| random.chance(300)));
    }
    message
}

/// A send, with the keys and mistakes of clients.
pub(super) fn draw(scene: &mut Scene<'_>) -> Send {
    let queue = scene.destination();
    let topical = kind_of(&queue) != Kind::Queue;
    let count = if scene.random.chance(250) { scene.random.size(2, 6) } else { 1 };
    let mut messages: Vec<_> = (0..count).map(|_| draw_message(scene, topical)).collect();
    let random = &mut *scene.random;
    let idempotency = random.chance(400).then(|| Idempotency {
        key: format!("key {}", random.below(12)).into(),
        digest: u128::from(random.below(2)),
    });
    let mut send = Send { queue, messages: Vec::new(), idempotency };
    let too_long = vec![b'.'; scene.auditor.settings.chunk_bytes + 1];
    match random.below(200) {
        4 => messages.iter_mut().for_each(|message| {
            let content = Arc::make_mut(&mut message.content);
            content.data = too_long.clone().into();
        }),
        0 => messages.clear(),
        1 => messages.iter_mut().for_each(|message| message.delay = Some(DELAY_MAX + LEASE_MIN)),
        2 => messages.iter_mut().for_each(|message| message.time_to_live = Some(Duration::ZERO)),
        3 => send.idempotency = Some(Idempotency { key: "".into(), digest: 0 }),
        _ => {}
    }
    send.messages = messages;
    send
}

/// Whether the options of a message are in their ranges, and data that comes whole fits.
pub(super) fn message_fits(auditor: &Auditor, queue: &str, message: &NewMessage) -> bool {
    let Some(queue) = auditor.queue(queue) else { return true };
    let delay = message.delay.unwrap_or(queue.spec.delay);
    let life = [queue.spec.retention, message.time_to_live].into_iter().flatten().min();
    // A topic takes a message that nobody will ever see.
    let is_log = queue.role.is_log();
    delay <= DELAY_MAX
        && message.time_to_live.is_none_or(|life| life >= LEASE_MIN)
        && (delay.is_zero() || life.is_none_or(|life| delay < life || is_log && delay == life))
        && (!is_log || message.priority == 0)
        && message.content.data.held().len() <= auditor.settings.chunk_bytes
}

/// Whether the numbers of a send are in their ranges.
pub(super) fn is_valid(auditor: &Auditor, send: &Send) -> bool {
    if auditor.queue(&send.queue).is_none() {
        return true;
    }
    let fits = |message: &NewMessage| message_fits(auditor, &send.queue, message);
    let key = send.idempotency.as_ref().map_or(1, |idempotency| idempotency.key.len());
    (1..=SEND_MESSAGES_MAX).contains(&send.messages.len())
        && send.messages.iter().all(fits)
        && (1..=IDEMPOTENCY_KEY_BYTES_MAX).contains(&key)
}

pub(super) fn predict(auditor: &mut Auditor, send: &Send, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Sent(sent) => {
            demand!(is_valid(auditor, send), "{send:?} was taken");
            auditor.send_answered(send, sent, answered)
        }
        Outcome::Rejected(rejection) => {
            demand!(
                may_be_refused(auditor, send, rejection, answered),
                "a send to {} was refused: {rejection:?}",
                send.queue
            );
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}

/// Whether a send may be refused so.
pub(super) fn may_be_refused(
    auditor: &Auditor,
    send: &Send,
    rejection: &Rejection,
    answered: &Answered<'_>,
) -> bool {
    match rejection {
        Rejection::QueueNotFound { name } => *name == send.queue && auditor.queue(&send.queue).is_none(),
        Rejection::Unsuited { .. } => kind_of(&send.queue) == Kind::Group,
        Rejection::OutOfRange { .. } => !is_valid(auditor, send),
        Rejection::StorageFull => auditor.space_low,
        Rejection::ByteLimit { .. } | Rejection::MessageLimit { .. } => {
            auditor.may_exceed(std::slice::from_ref(send), rejection)
        }
        Rejection::IdempotencyKeyReused { .. } => auditor.key_reused(send, answered),
        Rejection::DedupLimit { limit } => send.idempotency.is_some() && auditor.keys_may_be_full(*limit),
        _ => false,
    }
}
