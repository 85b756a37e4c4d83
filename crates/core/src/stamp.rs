//! What chance and the clock contribute to a batch, chosen once by the engine.

use crate::id::MessageId;
use crate::time::Timestamp;

/// Time and entropy of one batch of commands. Times of successive stamps never run backwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// The time at which the commands of the batch happen.
    pub now: Timestamp,
    /// Random bits, another draw for each batch; nonces, uids and jitter are derived from it.
    pub entropy: u64,
}

/// One step of SplitMix64 (Steele, Lea, Flood 2014): a good 64-bit mix of its argument.
#[must_use]
pub fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The random bits of a message id, given the seed of its send and its sequence.
#[must_use]
pub(crate) fn nonce(seed: u64, sequence: u64) -> u64 {
    mix(seed ^ mix(sequence)) >> (u64::BITS - MessageId::NONCE_BITS)
}
