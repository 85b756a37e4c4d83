//! Stores the next chunk of an upload. Checks in order: room, upload, place, length, bytes under way.

use crate::apply::Stop;
use crate::command::AppendUpload;
use crate::limits::DATA_BYTES_MAX;
use crate::outcome::{Outcome, Rejection};
use crate::stamp::Stamp;
use crate::state::Core;

impl Core {
    pub(super) fn append_upload(&mut self, append: &AppendUpload, stamp: &Stamp) -> Result<Outcome, Stop> {
        if self.space_low {
            return Err(Rejection::StorageFull.into());
        }
        let Some(upload) = self.uploads.open(&append.upload) else {
            return Err(Rejection::UploadLost.into());
        };
        let chunks = self.uploads.chunks_of(&append.upload);
        if append.number != chunks {
            return Err(Rejection::out_of_range("number", append.number, chunks).into());
        }
        let (length, most) = (append.data.len(), self.settings.chunk_bytes);
        let whole = u64::from(chunks) * u64::try_from(most).unwrap_or(u64::MAX);
        if length == 0 || length > most || upload.bytes != whole {
            let limit = format!("1 to {most} bytes, and only the last chunk below that");
            return Err(Rejection::out_of_range("data", format!("{length} bytes"), limit).into());
        }
        let bytes = whole + u64::try_from(length).unwrap_or(u64::MAX);
        if bytes > DATA_BYTES_MAX {
            let limit = format!("{DATA_BYTES_MAX} bytes");
            return Err(Rejection::out_of_range("data", format!("{bytes} bytes"), limit).into());
        }
        let more = bytes.saturating_sub(upload.reserved);
        let others = self.uploads.open_len() > 1;
        if more > 0 && !self.uploads.has_room(more, others, self.settings.upload_bytes) {
            return Err(self.too_many_bytes().into());
        }
        self.append_chunk(append.upload.sequence, &append.data, stamp.now);
        Ok(Outcome::Done)
    }
}
