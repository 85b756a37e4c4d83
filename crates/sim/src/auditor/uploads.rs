//! Uploads and readers of data: what came is there whole or not at all, and stays while it is read.

use millpond_core::command::{AppendUpload, BeginUpload, FinishUpload, OpenData, Send};
use millpond_core::id::UploadId;
use millpond_core::limits::UPLOAD_STALL_MAX;
use millpond_core::outcome::{DataView, Sent};
use millpond_core::row::Data;
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::{Answered, Auditor, Verdict, demand, token_of};
use crate::workload::data_of;

/// One upload as its sender knows it.
#[derive(Clone, Debug)]
pub struct UploadModel {
    /// Bytes that were announced.
    told: u64,
    /// Chunks and bytes that were answered.
    chunks: u32,
    bytes: u64,
    /// The earliest and the latest time at which the last chunk can have come.
    progress: (Timestamp, Timestamp),
    /// Finished, given up or lost with memory.
    ended: bool,
    /// When that was told.
    ended_at: Timestamp,
}

impl UploadModel {
    fn reserved(&self) -> u64 {
        self.told.max(self.bytes)
    }

    /// It may have been given up because nothing came.
    fn may_be_stalled(&self, now: Timestamp) -> bool {
        self.progress.0.plus(UPLOAD_STALL_MAX) <= now
    }
}

impl Auditor {
    /// An upload began.
    pub fn upload_begun(
        &mut self,
        begin: &BeginUpload,
        upload: Option<UploadId>,
        answered: &Answered<'_>,
    ) -> Verdict {
        let Some(upload) = upload else {
            let number = self.names.get(&begin.queue).copied();
            let key = begin.key.clone().unwrap_or_default();
            let known = number.and_then(|number| self.dedup.get(&(number, key)));
            let remembered = known.is_some_and(|known| known.expires_at > answered.submitted.stamp);
            demand!(remembered, "the key of {begin:?} is taken for remembered");
            return Ok(());
        };
        let told = begin.message.content.data.size_bytes();
        let others = self.certainly_open(answered.stamp);
        let (count, bytes) = others.fold((0, 0), |(count, bytes), one| (count + 1, bytes + one.reserved()));
        demand!(count < self.settings.uploads, "{upload:?} began beside {count} others");
        demand!(
            count == 0 || bytes + told <= self.settings.upload_bytes,
            "{upload:?} of {told} bytes began beside {bytes}"
        );
        let progress = (answered.submitted.stamp, answered.stamp);
        let made =
            UploadModel { told, chunks: 0, bytes: 0, progress, ended: false, ended_at: Timestamp::ZERO };
        demand!(self.uploads.insert(upload, made).is_none(), "{upload:?} began twice");
        Ok(())
    }

    fn certainly_open(&self, now: Timestamp) -> impl Iterator<Item = &UploadModel> {
        self.uploads.values().filter(move |one| !one.ended && !one.may_be_stalled(now))
    }

    /// Uploads that may have been under way when a call was carried out. One that ended since the call was made may also
    /// have let another one begin, which is told later.
    fn perhaps_open(&self, answered: &Answered<'_>) -> impl Iterator<Item = &UploadModel> {
        let since = answered.submitted.stamp;
        self.uploads.values().filter(move |one| !one.ended || one.ended_at >= since)
    }

    /// What uploads may have counted for by then.
    pub(super) fn reserved_at_most(&self, answered: &Answered<'_>) -> u64 {
        let known = self.perhaps_open(answered).map(UploadModel::reserved).sum::<u64>();
        if known > 0 { known.max(self.settings.upload_bytes) } else { 0 }
    }

    /// Whether too much may be under way for another one.
    #[must_use]
    pub fn may_be_at_upload_limit(&self, begin: &BeginUpload, answered: &Answered<'_>) -> bool {
        let told = begin.message.content.data.size_bytes();
        told > self.settings.upload_bytes || self.perhaps_open(answered).next().is_some()
    }

    /// Whether too much may be under way for another chunk: never for one that was announced.
    #[must_use]
    pub fn may_be_at_byte_limit(&self, append: &AppendUpload) -> bool {
        let length = u64::try_from(append.data.len()).unwrap_or(u64::MAX);
        self.uploads.get(&append.upload).is_none_or(|own| own.bytes + length > own.told)
    }

    /// Whether a chunk is the one that comes next, as far as is known.
    #[must_use]
    pub fn is_next_chunk(&self, append: &AppendUpload) -> bool {
        let chunk = u64::try_from(self.settings.chunk_bytes).unwrap_or(u64::MAX);
        self.uploads
            .get(&append.upload)
            .is_some_and(|own| own.chunks == append.number && own.bytes == u64::from(own.chunks) * chunk)
    }

    /// Whether an upload may be over.
    #[must_use]
    pub fn may_be_lost(&self, upload: UploadId, answered: &Answered<'_>) -> bool {
        let known = self.uploads.get(&upload);
        known.is_none_or(|known| known.ended || known.may_be_stalled(answered.stamp))
    }

    /// A chunk was stored.
    pub fn appended(&mut self, append: &AppendUpload, answered: &Answered<'_>) -> Verdict {
        demand!(!self.space_low, "a chunk was taken although there is no room");
        demand!(self.is_next_chunk(append), "chunk {} of {:?} was taken", append.number, append.upload);
        let Some(own) = self.uploads.get_mut(&append.upload) else { return Ok(()) };
        demand!(!own.ended, "a chunk of {:?} was taken, which is over", append.upload);
        let stalled = own.progress.1.plus(UPLOAD_STALL_MAX) <= answered.submitted.stamp;
        demand!(!stalled, "{:?} goes on after a stall", append.upload);
        own.chunks += 1;
        own.bytes += u64::try_from(append.data.len()).unwrap_or(u64::MAX);
        own.progress = (answered.submitted.stamp, answered.stamp);
        Ok(())
    }

    /// Whether all of it came.
    #[must_use]
    pub fn is_whole(&self, upload: UploadId, send: &Send) -> bool {
        let bytes = send.messages.first().map(|message| message.content.data.size_bytes());
        self.uploads.get(&upload).is_some_and(|own| Some(own.bytes) == bytes)
    }

    /// A message was made of an upload.
    pub fn finished(&mut self, finish: &FinishUpload, sent: &Sent, answered: &Answered<'_>) -> Verdict {
        let Some((upload, own)) = finish.upload.and_then(|id| Some((id, self.uploads.get(&id)?))) else {
            demand!(false, "{finish:?} was taken, of which nothing was stored");
            return Ok(());
        };
        demand!(!own.ended, "{upload:?} was finished, which is over");
        demand!(self.is_whole(upload, &finish.send), "{upload:?} was finished with {} bytes", own.bytes);
        let stalled = own.progress.1.plus(UPLOAD_STALL_MAX) <= answered.submitted.stamp;
        demand!(!stalled, "{upload:?} was finished after a stall");
        let id = sent.ids.first();
        let same = id.is_some_and(|id| id.sequence == upload.sequence && id.nonce == upload.nonce);
        demand!(same, "{upload:?} became {id:?}");
        Ok(())
    }

    /// An upload is over.
    pub fn upload_ended(&mut self, upload: UploadId, answered: &Answered<'_>) {
        if let Some(own) = self.uploads.get_mut(&upload) {
            own.ended = true;
            own.ended_at = answered.stamp;
        }
    }

    /// Memory was lost, and every upload with it.
    pub(super) fn lose_uploads(&mut self) {
        self.uploads.values_mut().for_each(|own| own.ended = true);
    }

    /// Data may be read.
    pub fn data_opened(&self, open: &OpenData, view: &DataView, answered: &Answered<'_>) -> Verdict {
        let Some(message) = self.message(&open.message) else {
            demand!(false, "data of {} was given, which was never sent", open.message);
            return Ok(());
        };
        let in_chunks = matches!(message.content.data, Data::Chunked { .. });
        demand!(view.pin.is_some() == in_chunks, "{open:?}: data in chunks {in_chunks}, {view:?}");
        for content in answered.contents {
            demand!(*content == message.content, "{open:?} came with other content than was sent");
        }
        if let Some(generation) = open.generation {
            let log = self.queues.get(&message.queue).is_some_and(|log| log.role.is_log());
            demand!(!log, "{open:?} names a lease, of which topics have none");
            let grant = message.grants.get(&generation);
            let over = grant.is_none_or(|grant| grant.is_over(answered.submitted.stamp));
            let unsure = grant.is_some() || !self.unseen.is_empty();
            demand!(!over || unsure, "{open:?} names no lease that ever was");
        }
        Ok(())
    }

    /// Whether a reader certainly holds the lease that he names, in the queue that he names.
    #[must_use]
    pub fn holds(&self, open: &OpenData, answered: &Answered<'_>) -> bool {
        let Some(message) = self.message(&open.message) else { return false };
        let grant = open.generation.and_then(|generation| message.grants.get(&generation));
        let stable = self.name_is_stable(&open.queue, answered.submitted.index);
        let queue = self.names.get(&open.queue).copied();
        stable && grant.is_some_and(|grant| Some(grant.queue) == queue && grant.is_held(answered.stamp))
    }

    /// Compares chunks with what was sent; at rest, also uploads with those under way.
    pub fn compare_chunks(&self, dump: &MemoryDump, now: Timestamp, at_rest: bool) -> Verdict {
        for message in dump.messages.iter().filter(|message| message.chunks > 1) {
            let token = token_of(&message.content);
            let own = dump.chunks.iter().filter(|chunk| chunk.sequence == message.sequence);
            for chunk in own {
                let expected = data_of(token, chunk.number, &self.settings);
                let (number, id) = (chunk.number, message.sequence);
                demand!(*chunk.data == *expected, "chunk {number} of {id} is not what was sent");
            }
        }
        if !at_rest {
            return Ok(());
        }
        let open = || self.uploads.iter().filter(|(_, own)| !own.ended);
        for row in &dump.uploads {
            let own = open().find(|(id, _)| id.sequence == row.sequence);
            let same = own.is_some_and(|(_, own)| own.chunks == row.chunks);
            demand!(same, "{row:?} is stored and nobody's: {own:?}");
        }
        for (id, own) in open().filter(|(_, own)| own.chunks > 0 && !own.may_be_stalled(now)) {
            let row = dump.uploads.iter().find(|row| row.sequence == id.sequence);
            demand!(row.is_some(), "{id:?} is under way and not stored: {own:?}");
        }
        Ok(())
    }
}
