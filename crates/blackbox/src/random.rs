//! Random numbers from a seed (SplitMix64), so that a run can be told by one number.

/// A stream of random numbers.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// A stream of its own for a part of the run, the same whatever the other parts draw.
    pub fn fork(&self, part: u64) -> Self {
        let mut own = Self::new(self.state ^ part.wrapping_mul(0xA076_1D64_78BD_642F));
        own.number();
        own
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// The seed of this run: `MILLPOND_SEED`, or one from the clock.
pub fn seed() -> u64 {
    if let Ok(text) = std::env::var("MILLPOND_SEED") {
        return text.parse().expect("MILLPOND_SEED is a number");
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |since| u64::from(since.subsec_nanos()) ^ since.as_secs() << 20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_forks_differ() {
        let draw = |mut random: Random| [random.number(), random.number(), random.below(10)];
        assert_eq!(draw(Random::new(7)), draw(Random::new(7)));
        assert_ne!(draw(Random::new(7).fork(1)), draw(Random::new(7).fork(2)));
    }
}
