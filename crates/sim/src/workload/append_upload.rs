//! Brings the next chunk of an upload, now and then one that does not fit.

use millpond_core::command::AppendUpload;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, begin_upload, finish_upload, large, send};
use crate::auditor::{Answered, Auditor, Verdict, demand, token_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    if scene.random.chance(30)
        && let Some(&upload) = scene.random.pick(&scene.workload.ended)
    {
        return Command::AppendUpload(AppendUpload { upload, number: 0, data: vec![1].into() });
    }
    let Some(at) = scene.workload.draw_sending(scene.random) else {
        // All wait for an answer, or there is none; one may be about to begin.
        let begins = scene.workload.sendings.is_empty() && scene.random.chance(850);
        return if begins { begin_upload::generate(scene) } else { send::generate(scene) };
    };
    let sending = &mut scene.workload.sendings[at];
    let token = token_of(&sending.begin.message.content);
    let data = large::data_of(token, sending.appended, &scene.auditor.settings);
    if data.is_empty() {
        return finish_upload::of(scene, at);
    }
    sending.busy = true;
    let mut append = AppendUpload { upload: sending.upload, number: sending.appended, data: data.into() };
    match scene.random.below(80) {
        0 => append.number += 1,
        1 => append.data = Vec::new().into(),
        2 => append.data = vec![0; scene.auditor.settings.chunk_bytes + 1].into(),
        _ => {}
    }
    Command::AppendUpload(append)
}

pub(super) fn predict(auditor: &mut Auditor, append: &AppendUpload, answered: &Answered<'_>) -> Verdict {
    let most = auditor.settings.chunk_bytes;
    match answered.outcome {
        Outcome::Done => {
            demand!((1..=most).contains(&append.data.len()), "{} bytes were taken", append.data.len());
            auditor.appended(append, answered)
        }
        Outcome::Rejected(rejection) => {
            let allowed = match rejection {
                Rejection::OutOfRange { .. } => {
                    !(1..=most).contains(&append.data.len()) || !auditor.is_next_chunk(append)
                }
                Rejection::StorageFull => auditor.space_low,
                Rejection::UploadLimit { .. } => auditor.may_be_at_byte_limit(append),
                Rejection::UploadLost => auditor.may_be_lost(append.upload, answered),
                _ => false,
            };
            demand!(allowed, "a chunk of {:?} was refused: {rejection:?}", append.upload);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
