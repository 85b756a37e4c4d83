//! Gives an upload up, or one that is over.

use millpond_core::id::UploadId;
use millpond_core::{Command, Outcome};

use super::{Scene, begin_upload};
use crate::auditor::{Answered, Auditor, Verdict};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let count = scene.workload.sendings.len();
    if count > 0 && scene.random.chance(700) {
        let at = scene.random.size(0, count - 1);
        let upload = scene.workload.sendings.swap_remove(at).upload;
        scene.workload.ended.push(upload);
        return Command::CancelUpload(upload);
    }
    match scene.random.pick(&scene.workload.ended) {
        Some(&upload) => Command::CancelUpload(upload),
        None => begin_upload::generate(scene),
    }
}

pub(super) fn predict(auditor: &mut Auditor, upload: UploadId, answered: &Answered<'_>) -> Verdict {
    match answered.outcome {
        Outcome::Done => {
            auditor.upload_ended(upload, answered);
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
