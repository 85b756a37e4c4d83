//! Chance, from the seed alone. Each concern draws from a stream of its own, so that one draw more in the workload does
//! not move every fault.

use std::time::Duration;

use millpond_core::mix;

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a name under a seed.
    #[must_use]
    pub fn new(seed: u64, stream: &str) -> Self {
        Self(stream.bytes().fold(mix(seed), |state, byte| mix(state ^ u64::from(byte))))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number from 0 to `end − 1`; 0 if `end` is 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.bits() % end }
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// As [`Self::between`], for small counts.
    pub fn count(&mut self, low: u32, high: u32) -> u32 {
        u32::try_from(self.between(u64::from(low), u64::from(high))).unwrap_or(high)
    }

    /// As [`Self::between`], for sizes.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        let drawn = self.between(low as u64, high as u64);
        usize::try_from(drawn).unwrap_or(high)
    }

    /// True so often in a thousand.
    pub fn chance(&mut self, permille: u64) -> bool {
        self.below(1_000) < permille
    }

    /// A duration between two numbers of milliseconds.
    pub fn millis(&mut self, low: u64, high: u64) -> Duration {
        Duration::from_millis(self.between(low, high))
    }

    /// One of several.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.size(0, choices.len().saturating_sub(1)))
    }
}

/// The streams of one world.
#[derive(Clone, Debug)]
pub struct Streams {
    /// What clients do.
    pub workload: Random,
    /// What breaks, and when.
    pub faults: Random,
    /// How long things take, and how the clocks run.
    pub latency: Random,
    /// Entropy of stamps.
    pub ids: Random,
    /// Bounds of the engine.
    pub settings: Random,
}

impl Streams {
    /// All streams of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let stream = |name| Random::new(seed, name);
        Self {
            workload: stream("workload"),
            faults: stream("faults"),
            latency: stream("latency"),
            ids: stream("ids"),
            settings: stream("settings"),
        }
    }
}
