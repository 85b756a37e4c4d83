//! Begins to send data in chunks.

use std::time::Duration;

use millpond_core::command::{BeginUpload, WaiterId};
use millpond_core::limits::{LEASE_MIN, WAIT_MAX};
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, large, send};
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, kind_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let queue = scene.destination();
    let mut message = send::draw_message(scene, kind_of(&queue) != Kind::Queue);
    let token = scene.workload.token();
    let random = &mut *scene.random;
    let told = if random.chance(600) { large::bytes_of(token, &scene.auditor.settings) } else { 0 };
    message.content = large::content(token, told);
    let mut begin = BeginUpload {
        queue,
        message,
        key: random.chance(500).then(|| format!("key {}", random.below(12)).into()),
        wait: if random.chance(400) { random.millis(1, 15_000) } else { Duration::ZERO },
        waiter: WaiterId(0),
    };
    match random.below(60) {
        0 => begin.message.content = large::content(token, 1),
        1 => begin.wait = WAIT_MAX + LEASE_MIN,
        2 => begin.key = Some("".into()),
        _ => {}
    }
    Command::BeginUpload(begin)
}

fn is_valid(auditor: &Auditor, begin: &BeginUpload) -> bool {
    let bytes = begin.message.content.data.size_bytes();
    let chunk = u64::try_from(auditor.settings.chunk_bytes).unwrap_or(u64::MAX);
    send::message_fits(auditor, &begin.queue, &begin.message)
        && (bytes == 0 || bytes > chunk)
        && begin.wait <= WAIT_MAX
        && begin.key.as_ref().is_none_or(|key| !key.is_empty())
}

pub(super) fn predict(auditor: &mut Auditor, begin: &BeginUpload, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::UploadBegun(upload) => {
            demand!(is_valid(auditor, begin), "{begin:?} was taken");
            auditor.upload_begun(begin, *upload, answered)
        }
        Outcome::Rejected(rejection) => {
            // The queue may have changed while the call waited.
            let stable = auditor.name_is_stable(&begin.queue, answered.submitted.index);
            let allowed = match rejection {
                Rejection::QueueNotFound { name } => {
                    *name == begin.queue && auditor.queue(&begin.queue).is_none()
                }
                Rejection::Unsuited { .. } => kind_of(&begin.queue) == Kind::Group,
                Rejection::OutOfRange { .. } => !is_valid(auditor, begin),
                Rejection::StorageFull => auditor.space_low,
                Rejection::DedupLimit { limit } => auditor.keys_may_be_full(*limit),
                Rejection::ByteLimit { .. } | Rejection::MessageLimit { .. } => {
                    auditor.upload_may_exceed(begin, rejection, answered)
                }
                Rejection::UploadLimit { .. } => auditor.may_be_at_upload_limit(begin, answered),
                _ => false,
            };
            demand!(allowed || !stable, "{begin:?} was refused: {rejection:?}");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
