//! The bitmap of a segment as bytes. Persisted.

use millpond_core::row::SegmentRow;

const WORD_BYTES: usize = 8;

/// Bytes of a bitmap.
pub const LIVE_BYTES: usize = SegmentRow::WORDS * WORD_BYTES;

/// A bitmap as bytes: bit n of byte m is that of the segment's number 8 m + n.
#[must_use]
pub fn live_to_bytes(live: &[u64; SegmentRow::WORDS]) -> [u8; LIVE_BYTES] {
    let mut bytes = [0; LIVE_BYTES];
    for (bytes, word) in bytes.as_chunks_mut::<WORD_BYTES>().0.iter_mut().zip(live) {
        *bytes = word.to_le_bytes();
    }
    bytes
}

/// A bitmap from bytes.
#[must_use]
pub fn live_from_bytes(bytes: &[u8; LIVE_BYTES]) -> [u64; SegmentRow::WORDS] {
    let mut live = [0; SegmentRow::WORDS];
    for (word, bytes) in live.iter_mut().zip(bytes.as_chunks::<WORD_BYTES>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    live
}
