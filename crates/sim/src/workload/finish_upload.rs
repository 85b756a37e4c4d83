//! Makes a message of an upload; now and then before all of it is there.

use millpond_core::command::FinishUpload;
use millpond_core::{Command, Outcome, Rejection};

use super::{Scene, append_upload, large, send};
use crate::auditor::{Answered, Auditor, Verdict, demand, token_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    if let Some(begin) = scene.workload.repeats.pop() {
        let token = token_of(&begin.message.content);
        let send = large::send(&begin, large::bytes_of(token, &scene.auditor.settings));
        return Command::FinishUpload(FinishUpload { upload: None, send });
    }
    match scene.workload.draw_sending(scene.random) {
        Some(at) if scene.random.chance(60) => of(scene, at),
        _ => append_upload::generate(scene),
    }
}

/// Ends this upload.
pub(super) fn of(scene: &mut Scene<'_>, at: usize) -> Command {
    let sending = scene.workload.sendings.swap_remove(at);
    scene.workload.ended.push(sending.upload);
    let token = token_of(&sending.begin.message.content);
    let send = large::send(&sending.begin, large::bytes_of(token, &scene.auditor.settings));
    Command::FinishUpload(FinishUpload { upload: Some(sending.upload), send })
}

pub(super) fn predict(auditor: &mut Auditor, finish: &FinishUpload, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Sent(sent) => {
            demand!(send::is_valid(auditor, &finish.send), "{finish:?} was taken");
            if !sent.repeated {
                auditor.finished(finish, sent, answered)?;
            }
            auditor.send_answered(&finish.send, sent, answered)?;
            if let Some(upload) = finish.upload {
                auditor.upload_ended(upload, answered);
            }
            Ok(())
        }
        Outcome::Rejected(Rejection::UploadLost) => {
            let whole = |upload| auditor.is_whole(upload, &finish.send);
            let allowed =
                finish.upload.is_none_or(|upload| !whole(upload) || auditor.may_be_lost(upload, answered));
            demand!(allowed, "{:?} was whole and is lost", finish.upload);
            Ok(())
        }
        Outcome::Rejected(rejection) => {
            let allowed = send::may_be_refused(auditor, &finish.send, rejection, answered);
            demand!(allowed, "an upload to {} was refused: {rejection:?}", finish.send.queue);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
