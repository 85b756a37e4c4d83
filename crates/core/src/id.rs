//! Identifiers: newtypes for what is counted, and the text forms of what is named.
//!
//! Invariant: a [`Sequence`], [`QueueNumber`], [`LeaseGeneration`] or [`CommitSequence`] is never reused
//! within one line of history of an environment.

use std::fmt;
use std::str::FromStr;

use crate::time::Timestamp;

macro_rules! counter {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
        pub struct $name(pub $inner);

        impl $name {
            /// The next higher value.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

counter!(
    /// A queue's number inside its environment; rows name their queue by it. Never reused, so a queue made
    /// again under an old name never sees old rows.
    QueueNumber(u32)
);
counter!(
    /// A message's number inside its environment, in order of sending. Stays with the message when it moves.
    /// At most 2^48 − 1, because a message id carries it in 48 bits: a hundred thousand a second for 89 years.
    Sequence(u64)
);
counter!(
    /// Place of a message in the log of a topic or partition, from 1: given when it becomes visible, without gaps, so that nothing
    /// can appear behind a group's position whatever clocks do (design-holes A8). 0: before all of them.
    LogNumber(u64)
);
counter!(
    /// Number of one hold on a delivery: strictly increasing per delivery, never reused, not even after a
    /// restore (design-holes A2). Below 2^53, so that JSON numbers could carry it.
    LeaseGeneration(u64)
);
counter!(
    /// Number of a commit of one environment: each commit moves it from n − 1 to n.
    CommitSequence(u64)
);
counter!(
    /// Number of one opening of an environment: max(last + 1, [`Incarnation::by_clock`]). Below 2^33 until 2054.
    Incarnation(u64)
);

impl QueueNumber {
    /// No queue's.
    pub const NONE: Self = Self(u32::MAX);
}

impl Sequence {
    /// Above every sequence that can be drawn, and within what SQL calls an integer.
    pub const LAST: Self = Self(i64::MAX.cast_unsigned());
}

impl LeaseGeneration {
    /// Above every generation that can be given, and within what SQL calls an integer.
    pub const HIGHEST: Self = Self(i64::MAX.cast_unsigned());
}

impl Incarnation {
    /// An import into the environment is not finished: nobody may serve it (docs/decisions/0018).
    pub const IMPORTING: Self = Self(i64::MAX.cast_unsigned());

    /// How long one number stands for.
    pub const PERIOD_MILLIS: i64 = 125;
    /// 2020-01-01, where the numbers start to count.
    const EPOCH_MILLIS: i64 = 1_577_836_800_000;

    /// Periods of 125 ms since 2020-01-01. If an environment is never opened more often than that, a restored copy starts
    /// above everything that its lost future gave (docs/decisions/0007).
    #[must_use]
    pub fn by_clock(now: Timestamp) -> Self {
        let periods = (now.as_millis() - Self::EPOCH_MILLIS) / Self::PERIOD_MILLIS;
        Self(u64::try_from(periods).unwrap_or(0))
    }

    /// The lowest lease generation that this incarnation may give: incarnation × 2^20.
    #[must_use]
    pub const fn generation_floor(self) -> LeaseGeneration {
        LeaseGeneration(self.0 << 20)
    }
}

const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

fn encode_base32(value: u128, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut text = [0u8; 26];
    for (index, slot) in text.iter_mut().enumerate() {
        let shift = 5 * (25 - index);
        let digit = usize::try_from((value >> shift) & 31).unwrap_or(0);
        *slot = ALPHABET.get(digit).copied().unwrap_or(b'0');
    }
    out.write_str(std::str::from_utf8(&text).unwrap_or_default())
}

fn decode_base32(text: &str) -> Option<u128> {
    if text.len() != 26 || !matches!(text.as_bytes().first(), Some(b'0'..=b'7')) {
        return None;
    }
    text.bytes().try_fold(0u128, |value, byte| {
        let digit = ALPHABET.iter().position(|&known| known == byte)?;
        Some((value << 5) | digit as u128)
    })
}

/// What a sender gets back and every delivery carries: `msg_` and 26 characters of Crockford base32.
///
/// Holds the send time (44 bits, to the year 2527), the sequence (48 bits) and a nonce (36 bits): ids sort by send time, the
/// row is found without an index, and a guessed or long gone id does not match the row's nonce.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MessageId {
    /// When the message was sent.
    pub sent_at: Timestamp,
    /// Its number in the environment.
    pub sequence: Sequence,
    /// Random bits: [`MessageId::NONCE_BITS`].
    pub nonce: u64,
}

impl MessageId {
    /// Bits of the nonce.
    pub const NONCE_BITS: u32 = 36;
    /// Bits of the sequence.
    pub const SEQUENCE_BITS: u32 = 48;
    /// Bits of the send time.
    pub const TIME_BITS: u32 = 44;
}

const _: () = assert!(MessageId::NONCE_BITS + MessageId::SEQUENCE_BITS + MessageId::TIME_BITS == 128);

/// The lowest `bits` bits of a value.
fn low_bits(value: u128, bits: u32) -> u128 {
    value & ((1 << bits) - 1)
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = low_bits(self.sent_at.as_millis().unsigned_abs().into(), Self::TIME_BITS);
        let sequence = low_bits(self.sequence.0.into(), Self::SEQUENCE_BITS);
        let nonce = low_bits(self.nonce.into(), Self::NONCE_BITS);
        f.write_str("msg_")?;
        let high = (time << Self::SEQUENCE_BITS) | sequence;
        encode_base32((high << Self::NONCE_BITS) | nonce, f)
    }
}

/// Names an upload: what will be the sequence and the nonce of its message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct UploadId {
    /// Its number in the environment. Drawn in memory: after a failure another may get it.
    pub sequence: Sequence,
    /// Random bits, by which that other one is told apart.
    pub nonce: u64,
}

/// The text is not a message id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotAMessageId;

impl FromStr for MessageId {
    type Err = NotAMessageId;

    fn from_str(text: &str) -> Result<Self, NotAMessageId> {
        let value = text.strip_prefix("msg_").and_then(decode_base32).ok_or(NotAMessageId)?;
        let nonce = u64::try_from(low_bits(value, Self::NONCE_BITS)).map_err(|_| NotAMessageId)?;
        let high = value >> Self::NONCE_BITS;
        let sequence = u64::try_from(low_bits(high, Self::SEQUENCE_BITS)).map_err(|_| NotAMessageId)?;
        let time = i64::try_from(high >> Self::SEQUENCE_BITS).map_err(|_| NotAMessageId)?;
        Ok(Self { sent_at: Timestamp::from_millis(time), sequence: Sequence(sequence), nonce })
    }
}

/// A queue's identity for ever: `que_` and 26 characters of Crockford base32. A queue deleted and made again
/// under the same name has another one.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Uid(pub u128);

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("que_")?;
        encode_base32(self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_id_survives_its_text_form_and_sorts_by_send_time() {
        let early = MessageId {
            sent_at: Timestamp::from_millis(1_700_000_000_000),
            sequence: Sequence(7),
            nonce: 0xf_ffff_ffff,
        };
        let late =
            MessageId { sent_at: Timestamp::from_millis(1_700_000_000_001), sequence: Sequence(6), nonce: 0 };
        assert_eq!(early.to_string().parse(), Ok(early));
        assert_eq!(early.to_string().len(), 30);
        assert!(early.to_string() < late.to_string());
    }

    proptest::proptest! {
        #[test]
        fn every_message_id_survives_its_text_form(time in 0i64..1 << 44, sequence in 0u64..1 << 48, nonce in 0u64..1 << 36) {
            let id = MessageId { sent_at: Timestamp::from_millis(time), sequence: Sequence(sequence), nonce };
            proptest::prop_assert_eq!(id.to_string().parse(), Ok(id));
        }

        #[test]
        fn no_text_is_taken_for_an_id_that_is_shown_differently(text in "(msg_)?[0-9A-Za-z]{25,27}") {
            if let Ok(id) = text.parse::<MessageId>() {
                proptest::prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn what_is_not_a_message_id_is_refused() {
        for text in [
            "",
            "msg_",
            "msg_0",
            "MSG_00000000000000000000000000",
            "msg_8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
            "msg_0000000000000000000000000I",
            "msg_000000000000000000000000000",
        ] {
            assert_eq!(text.parse::<MessageId>(), Err(NotAMessageId), "{text}");
        }
    }
}
