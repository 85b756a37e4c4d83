//! Gives uploads up: those whose sender is gone, and those that bring nothing any more.

use crate::id::UploadId;
use crate::outcome::Outcome;
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn cancel_upload(&mut self, upload: UploadId, stamp: &Stamp) -> Outcome {
        self.drop_upload(upload);
        self.serve_line(stamp);
        Outcome::Done
    }

    /// Gives up what had no new chunk for too long.
    pub(super) fn drop_stalled_uploads(&mut self, stamp: &Stamp) {
        while let Some(upload) = self.uploads.first_stalled(stamp.now) {
            self.drop_upload(upload);
        }
        self.serve_line(stamp);
    }
}
