//! What the loops know of a system under load.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Digits of a stamp within a payload.
const STAMP_DIGITS: usize = 20;

/// When a message was given to the system, in microseconds since this process first asked. It travels in the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stamp(u64);

impl Stamp {
    /// Now.
    pub fn now() -> Self {
        static BEGUN: OnceLock<Instant> = OnceLock::new();
        let begun = BEGUN.get_or_init(Instant::now);
        Self(u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX))
    }

    /// Microseconds from this moment to now.
    pub fn elapsed_micros(self) -> u32 {
        u32::try_from(Self::now().0.saturating_sub(self.0)).unwrap_or(u32::MAX)
    }

    /// The stamp at the front of a payload; none if it is not one of ours.
    pub fn of_payload(payload: &[u8]) -> Option<Self> {
        let digits = payload.get(..STAMP_DIGITS)?;
        std::str::from_utf8(digits).ok()?.parse().ok().map(Self)
    }
}

/// The data of messages: a stamp, then letters. JSON needs no escapes in it.
#[derive(Clone, Debug)]
pub struct Payload {
    filler: Arc<str>,
}

impl Payload {
    /// Of so many bytes, and at least as many as a stamp has.
    pub fn new(bytes: usize) -> Self {
        let filler: String = ('a'..='z').cycle().take(bytes.saturating_sub(STAMP_DIGITS)).collect();
        Self { filler: filler.into() }
    }

    /// Appends the data of a message with this stamp.
    pub fn push(&self, out: &mut Vec<u8>, stamp: Stamp) {
        let mut digits = [b'0'; STAMP_DIGITS];
        let mut rest = stamp.0;
        for digit in digits.iter_mut().rev() {
            *digit += u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
        }
        out.extend_from_slice(&digits);
        out.extend_from_slice(self.filler.as_bytes());
    }

    /// The data of a message with this stamp.
    pub fn bytes(&self, stamp: Stamp) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(STAMP_DIGITS + self.filler.len());
        self.push(&mut bytes, stamp);
        bytes
    }
}

/// A message in hand.
#[derive(Clone, Debug)]
pub struct Leased<L> {
    /// What the system wants back when it is acked.
    pub lease: L,
    /// When it was sent.
    pub stamp: Stamp,
}

/// A queue server with one empty queue.
pub trait System: Send + Sync {
    /// See [`Caller`].
    type Caller: Caller;

    /// A caller with its own connection, or its own share of one.
    fn caller(&self) -> impl Future<Output = anyhow::Result<Self::Caller>> + Send;
}

/// One caller of a queue server. Each call ends when the server has answered it, and so with whatever durability the
/// server gives to an answer.
pub trait Caller: Send + 'static {
    /// What names a lease.
    type Lease: Send + 'static;

    /// Sends so many messages in one call, or in whatever comes nearest to it.
    fn send(&mut self, count: usize, stamp: Stamp) -> impl Future<Output = anyhow::Result<()>> + Send;

    /// Takes up to `most` messages, and waits for the first; none is a wait that ran out.
    fn lease(&mut self, most: usize)
    -> impl Future<Output = anyhow::Result<Vec<Leased<Self::Lease>>>> + Send;

    /// Removes them for good.
    fn ack(&mut self, leases: Vec<Leased<Self::Lease>>) -> impl Future<Output = anyhow::Result<()>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_comes_back_out_of_its_payload() {
        let bytes = Payload::new(64).bytes(Stamp(1_234_567));
        assert_eq!(bytes.len(), 64);
        assert_eq!(Stamp::of_payload(&bytes), Some(Stamp(1_234_567)));
        assert_eq!(Stamp::of_payload(b"123"), None);
        assert_eq!(Stamp::of_payload(&[b'x'; 64]), None);
    }
}
