//! A fast map from sequences. The same insertions give the same iteration order on every run and machine, so a
//! simulation replays; keys are numbers that the core itself hands out, so nobody can aim at its buckets.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::stamp::mix;

/// Hashes what is written as one number.
#[derive(Clone, Copy, Default)]
pub(crate) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = mix(self.0 ^ u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.0 = mix(self.0 ^ u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value);
    }
}

/// A map with numbers as keys.
pub(crate) type NumberMap<K, V> = HashMap<K, V, BuildHasherDefault<NumberHasher>>;
