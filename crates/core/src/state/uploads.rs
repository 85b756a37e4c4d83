//! Chunks that belong to no message: of uploads under way, and of messages that are gone.
//!
//! Each sequence with such chunks has one stored row ([`UploadRow`]) that says how many there are; a message takes them by
//! the removal of that row, and leaves them by its insertion. Those that nobody will take are owed to be removed, in steps
//! from the high end, but not while somebody reads them.
//!
//! Invariants:
//! - chunks 0 to `chunks` of a sequence in here are stored or written by the batch being applied, and no message has them;
//! - memory knows every owed row up to the window's edge; a row leaves memory only when its last change is durable and
//!   visible to every read that was begun (design-holes A6).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use crate::change::{ChangeSet, ChunkRange, Page};
use crate::command::WaiterId;
use crate::id::{CommitSequence, Sequence, UploadId};
use crate::limits;
use crate::planted;
use crate::row::{ChunkRow, UploadRow};
use crate::stamp::{Stamp, mix, nonce};
use crate::state::Core;
use crate::state::window::Window;
use crate::time::Timestamp;

/// Chunks of one message that are removed at the pace at which messages go: those of data that comes without an upload.
const CREDIT_PER_MESSAGE: u32 = 4;

/// An upload under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenUpload {
    pub(crate) nonce: u64,
    /// What the nonce was drawn from: a remembered send holds this.
    pub(crate) nonce_seed: u64,
    /// Bytes of its chunks.
    pub(crate) bytes: u64,
    /// What it counts for against the limit: what was announced, or what came if that is more.
    pub(crate) reserved: u64,
    /// When it began, or its last chunk came.
    progress_at: Timestamp,
}

#[derive(Debug)]
enum Kind {
    /// A message has taken the chunks, or all are removed.
    Gone,
    Open(OpenUpload),
    /// To be removed.
    Owed,
}

#[derive(Debug)]
struct Loose {
    chunks: u32,
    kind: Kind,
    /// The store has its row, as of the last sealed batch.
    stored: bool,
    /// Changed in the batch that is being applied.
    touched: bool,
    /// The commit that carries its last change.
    changed_in: CommitSequence,
}

/// A call that waits to begin an upload.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InLine {
    pub(crate) waiter: WaiterId,
    pub(crate) deadline: Timestamp,
    /// What it will count for.
    pub(crate) bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Uploads {
    loose: BTreeMap<Sequence, Loose>,
    /// Changes that are not known to be durable, in commit order.
    unsettled: VecDeque<(CommitSequence, Sequence)>,
    /// The front of what is owed.
    owed: Window<Sequence>,
    /// Owed, inside the window, as the last sealed batch left it, and read by nobody.
    free: BTreeSet<Sequence>,
    /// Chunks that may be removed beyond what a batch may anyway: what lately became owed by messages of few chunks, so that
    /// no traffic of those leaves chunks behind faster than they go.
    credit: u32,
    /// How many read the chunks of a sequence.
    pins: BTreeMap<Sequence, u32>,
    /// When which upload is given up.
    stalls: BTreeSet<(Timestamp, Sequence)>,
    /// Bytes that the open uploads count for.
    reserved: u64,
    /// Who waits, first come first.
    pub(crate) line: VecDeque<InLine>,
}

impl Uploads {
    /// Nothing is known yet of what the store holds.
    pub(crate) fn new() -> Self {
        Self {
            loose: BTreeMap::new(),
            unsettled: VecDeque::new(),
            owed: if planted!(UploadNotSwept) { Window::of_nothing() } else { Window::unread() },
            free: BTreeSet::new(),
            credit: 0,
            pins: BTreeMap::new(),
            stalls: BTreeSet::new(),
            reserved: 0,
            line: VecDeque::new(),
        }
    }

    /// The upload of this name, if it is under way.
    pub(crate) fn open(&self, id: &UploadId) -> Option<&OpenUpload> {
        match &self.loose.get(&id.sequence)?.kind {
            Kind::Open(upload) if upload.nonce == id.nonce => Some(upload),
            _ => None,
        }
    }

    /// Chunks that came for an upload.
    pub(crate) fn chunks_of(&self, id: &UploadId) -> u32 {
        self.loose.get(&id.sequence).map_or(0, |loose| loose.chunks)
    }

    /// Uploads under way.
    pub(crate) fn open_len(&self) -> usize {
        self.stalls.len()
    }

    /// Bytes that the open uploads count for.
    pub(crate) fn reserved_bytes(&self) -> u64 {
        self.reserved
    }

    /// Whether so many bytes more may be under way. One upload alone always may.
    pub(crate) fn has_room(&self, bytes: u64, others: bool, limit: u64) -> bool {
        !others || self.reserved.saturating_add(bytes) <= limit
    }

    /// Something is under way for somebody: uploads, readers.
    pub(crate) fn in_use(&self) -> bool {
        !self.stalls.is_empty() || !self.pins.is_empty() || !self.line.is_empty()
    }

    /// When there is something to do.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        if !self.free.is_empty() || self.owed.wants_scan() {
            return Some(Timestamp::ZERO);
        }
        self.stalls.first().map(|(at, _)| *at)
    }

    /// The first upload to be given up by now.
    pub(crate) fn first_stalled(&self, now: Timestamp) -> Option<UploadId> {
        let &(at, sequence) = self.stalls.first()?;
        match &self.loose.get(&sequence)?.kind {
            Kind::Open(upload) if at <= now => Some(UploadId { sequence, nonce: upload.nonce }),
            _ => None,
        }
    }

    /// Whether these chunks are known here; then they are stored, or about to be, whatever became of their message.
    pub(crate) fn knows(&self, sequence: Sequence) -> bool {
        self.loose.contains_key(&sequence)
    }

    fn is_removable(&self, sequence: Sequence) -> bool {
        let pinned = self.pins.contains_key(&sequence) && !planted!(PinIgnored);
        let loose = self.loose.get(&sequence);
        !pinned
            && self.owed.contains(&sequence)
            && loose.is_some_and(|loose| matches!(loose.kind, Kind::Owed) && !loose.touched)
    }

    /// Begins to read on if nothing known is left to remove.
    pub(crate) fn begin_scan(&mut self) -> Option<Option<Sequence>> {
        if !self.free.is_empty() {
            return None;
        }
        self.owed.begin_scan().map(|(after, _)| after)
    }

    fn close(&mut self, upload: OpenUpload, sequence: Sequence) {
        self.stalls.remove(&(stalls_at(&upload), sequence));
        self.reserved -= upload.reserved;
    }
}

fn stalls_at(upload: &OpenUpload) -> Timestamp {
    upload.progress_at.plus(limits::UPLOAD_STALL_MAX)
}

impl Core {
    /// Takes up an upload. Nothing is stored of it before its first chunk.
    pub(crate) fn open_upload(&mut self, reserved: u64, stamp: &Stamp) -> UploadId {
        let sequence = self.draw_sequence();
        let nonce_seed = mix(stamp.entropy ^ sequence.0);
        let upload = OpenUpload {
            nonce: nonce(nonce_seed, sequence.0),
            nonce_seed,
            bytes: 0,
            reserved,
            progress_at: stamp.now,
        };
        let changed_in = CommitSequence::default();
        let kind = Kind::Open(upload);
        let loose = Loose { chunks: 0, kind, stored: false, touched: false, changed_in };
        self.uploads.loose.insert(sequence, loose);
        self.uploads.stalls.insert((stalls_at(&upload), sequence));
        self.uploads.reserved += reserved;
        UploadId { sequence, nonce: upload.nonce }
    }

    /// Adds a chunk to an upload that is under way.
    pub(crate) fn append_chunk(&mut self, sequence: Sequence, data: &Arc<[u8]>, now: Timestamp) {
        let Some(loose) = self.uploads.loose.get_mut(&sequence) else { return };
        let Kind::Open(upload) = &mut loose.kind else { return };
        let number = loose.chunks;
        loose.chunks += 1;
        self.uploads.stalls.remove(&(stalls_at(upload), sequence));
        upload.progress_at = now;
        self.uploads.stalls.insert((stalls_at(upload), sequence));
        upload.bytes += u64::try_from(data.len()).unwrap_or(u64::MAX);
        let more = upload.bytes.saturating_sub(upload.reserved);
        upload.reserved += more;
        self.uploads.reserved += more;
        self.batch.chunks.push(ChunkRow { sequence, number, data: Arc::clone(data) });
        self.touch_upload(sequence);
    }

    /// A message takes the chunks of an upload. The caller makes the message.
    pub(crate) fn take_upload(&mut self, sequence: Sequence) {
        let Some(loose) = self.uploads.loose.get_mut(&sequence) else { return };
        if let Kind::Open(upload) = std::mem::replace(&mut loose.kind, Kind::Gone) {
            self.uploads.close(upload, sequence);
        }
        self.touch_upload(sequence);
    }

    /// Nobody will take the chunks of an upload.
    pub(crate) fn drop_upload(&mut self, id: UploadId) {
        let Some(&upload) = self.uploads.open(&id) else { return };
        self.uploads.close(upload, id.sequence);
        match self.uploads.chunks_of(&id) {
            0 => drop(self.uploads.loose.remove(&id.sequence)),
            chunks => self.owe_chunks(id.sequence, chunks),
        }
    }

    /// These chunks are to be removed.
    pub(crate) fn owe_chunks(&mut self, sequence: Sequence, chunks: u32) {
        let changed_in = self.next_commit();
        let loose = self.uploads.loose.entry(sequence).or_insert(Loose {
            chunks,
            kind: Kind::Owed,
            stored: false,
            touched: false,
            changed_in,
        });
        loose.kind = Kind::Owed;
        self.uploads.owed.insert(sequence);
        self.uploads.credit = self.uploads.credit.saturating_add(chunks.min(CREDIT_PER_MESSAGE));
        self.touch_upload(sequence);
    }

    fn touch_upload(&mut self, sequence: Sequence) {
        let changed_in = self.next_commit();
        let Some(loose) = self.uploads.loose.get_mut(&sequence) else { return };
        loose.changed_in = changed_in;
        self.uploads.free.remove(&sequence);
        if !loose.touched {
            loose.touched = true;
            self.batch.uploads.push(sequence);
        }
    }

    /// Removes chunks that are owed, as many as one batch may and as many as the last ones left.
    pub(crate) fn remove_owed_chunks(&mut self) {
        let most = self.settings.chunks_per_batch;
        let base = if self.busy { most / 4 } else { most }.max(1);
        let mut left = base.saturating_add(std::mem::take(&mut self.uploads.credit));
        while left > 0
            && let Some(sequence) = self.uploads.free.pop_first()
            && let Some(loose) = self.uploads.loose.get_mut(&sequence)
        {
            let count = left.min(loose.chunks);
            let until = loose.chunks;
            loose.chunks -= count;
            left -= count;
            if loose.chunks == 0 {
                loose.kind = Kind::Gone;
                self.uploads.owed.remove(&sequence);
            }
            self.batch.chunks_removed.push(ChunkRange { sequence, from: until - count, until });
            self.touch_upload(sequence);
        }
    }

    /// Somebody reads the chunks of a message.
    pub(crate) fn pin_chunks(&mut self, sequence: Sequence) {
        *self.uploads.pins.entry(sequence).or_default() += 1;
        if !planted!(PinIgnored) {
            self.uploads.free.remove(&sequence);
        }
    }

    /// One reader less.
    pub(crate) fn unpin_chunks(&mut self, sequence: Sequence) {
        let Some(pins) = self.uploads.pins.get_mut(&sequence) else { return };
        *pins -= 1;
        if *pins == 0 {
            self.uploads.pins.remove(&sequence);
        }
        if self.uploads.is_removable(sequence) {
            self.uploads.free.insert(sequence);
        }
    }

    /// Rows of a page. What memory says of a row counts.
    pub(crate) fn absorb_uploads(&mut self, page: Page) {
        self.uploads.owed.end_scan(0);
        self.uploads.owed.advance(page.uploads.last().map(|row| row.sequence), page.end);
        for UploadRow { sequence, chunks } in page.uploads {
            if !self.uploads.knows(sequence) {
                let changed_in = CommitSequence::default();
                let loose = Loose { chunks, kind: Kind::Owed, stored: true, touched: false, changed_in };
                self.uploads.loose.insert(sequence, loose);
                self.uploads.owed.insert(sequence);
            }
        }
        let known: Vec<Sequence> = self.uploads.loose.keys().copied().collect();
        let uploads = &mut self.uploads;
        for sequence in known {
            if uploads.is_removable(sequence) {
                uploads.free.insert(sequence);
            }
        }
    }

    pub(super) fn seal_uploads(&mut self, touched: Vec<Sequence>, changes: &mut ChangeSet) {
        for sequence in touched {
            let Some(loose) = self.uploads.loose.get_mut(&sequence) else { continue };
            loose.touched = false;
            let was_stored = loose.stored;
            loose.stored = !matches!(loose.kind, Kind::Gone);
            if loose.stored {
                changes.uploads_put.push(UploadRow { sequence, chunks: loose.chunks });
            } else if was_stored {
                changes.uploads_removed.push(sequence);
            }
            self.uploads.unsettled.push_back((changes.commit, sequence));
            if self.uploads.is_removable(sequence) {
                self.uploads.free.insert(sequence);
            }
        }
        self.cut_owed();
    }

    /// Cuts the window of what is owed back to its size.
    fn cut_owed(&mut self) {
        let entries = self.settings.window_entries;
        if self.uploads.owed.len() <= entries.saturating_mul(2) {
            return;
        }
        let settled = self.rows.settled;
        for sequence in self.uploads.owed.trim(entries) {
            self.uploads.free.remove(&sequence);
            if self.uploads.loose.get(&sequence).is_some_and(|loose| loose.changed_in > settled) {
                self.uploads.owed.insert(sequence);
            } else {
                self.uploads.loose.remove(&sequence);
            }
        }
    }

    pub(super) fn settle_uploads(&mut self, settled: CommitSequence) {
        while let Some(&(commit, sequence)) = self.uploads.unsettled.front() {
            if commit > settled {
                break;
            }
            self.uploads.unsettled.pop_front();
            let Some(loose) = self.uploads.loose.get(&sequence) else { continue };
            if loose.touched || loose.changed_in > settled {
                continue;
            }
            let goes = match loose.kind {
                Kind::Gone => true,
                Kind::Open(_) => false,
                Kind::Owed => !self.uploads.owed.contains(&sequence),
            };
            if goes {
                self.uploads.owed.forget_aside(&sequence);
                self.uploads.loose.remove(&sequence);
            }
        }
    }

    /// Uploads under way, readers of chunks, and calls that wait for an upload's turn: somebody counts on this memory.
    #[must_use]
    pub fn has_uploads_or_readers(&self) -> bool {
        self.uploads.in_use()
    }

    /// Rows of uploads in memory.
    #[must_use]
    pub fn resident_uploads(&self) -> usize {
        self.uploads.loose.len()
    }

    /// Whether every stored row of an upload is known, or lies behind what memory knows. For checks.
    pub(super) fn unknown_upload(&self, stored: &[UploadRow]) -> Option<Sequence> {
        let known = |sequence: Sequence| self.uploads.knows(sequence) || !self.uploads.owed.covers(&sequence);
        stored.iter().map(|row| row.sequence).find(|&sequence| !known(sequence))
    }
}
