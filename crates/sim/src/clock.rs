//! The clocks of the simulated machine. The monotonic clock only advances; the wall clock also jumps by an hour and is
//! set right again later (design-holes A12).

use std::time::Duration;

use millpond_core::time::Timestamp;
use millpond_engine::clock::Reading;

use crate::random::Random;

/// 2026-01-01T00:00:00Z.
const START_MILLIS: i64 = 1_767_225_600_000;
const HOUR_MILLIS: i64 = 3_600_000;

/// What happened to the clocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockFault {
    /// The wall clock jumped an hour back.
    Back,
    /// The wall clock jumped an hour ahead.
    Forward,
    /// Nothing ran for a while.
    Frozen,
}

/// Both clocks.
#[derive(Clone, Debug)]
pub struct SimClock {
    monotonic: Duration,
    /// Wall clock minus true time.
    offset_millis: i64,
    highest_wall: i64,
}

impl Default for SimClock {
    fn default() -> Self {
        Self { monotonic: Duration::ZERO, offset_millis: 0, highest_wall: START_MILLIS }
    }
}

impl SimClock {
    /// What the clocks show.
    #[must_use]
    pub fn read(&self) -> Reading {
        let passed = i64::try_from(self.monotonic.as_millis()).unwrap_or(i64::MAX);
        Reading { monotonic: self.monotonic, wall_millis: START_MILLIS + passed + self.offset_millis }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        self.monotonic += time;
        self.highest_wall = self.highest_wall.max(self.read().wall_millis);
    }

    /// Lets an ordinary step pass: mostly milliseconds, now and then seconds.
    pub fn tick(&mut self, random: &mut Random) {
        let time = match random.below(100) {
            0..70 => random.between(0, 20_000),
            70..92 => random.between(20_000, 400_000),
            92..99 => random.between(400_000, 3_000_000),
            _ => random.between(3_000_000, 20_000_000),
        };
        self.pass(Duration::from_micros(time));
    }

    /// Breaks something about the clocks.
    pub fn disturb(&mut self, random: &mut Random) -> ClockFault {
        match random.below(3) {
            0 => {
                self.pass(random.millis(10_000, 90_000));
                ClockFault::Frozen
            }
            1 => {
                self.offset_millis -= HOUR_MILLIS;
                ClockFault::Back
            }
            _ => {
                self.offset_millis += HOUR_MILLIS;
                self.pass(Duration::ZERO);
                ClockFault::Forward
            }
        }
    }

    /// Somebody sets the wall clock right.
    pub fn set_right(&mut self) {
        self.offset_millis = 0;
    }

    /// Puts the wall clock ahead of everything that it ever showed, of `stamp`, and of `incarnations` openings a
    /// second apart. A
    /// restore relies on that: generations begin at the time of opening (design-holes A2).
    pub fn pass_all_history(&mut self, incarnations: u64, stamp: Timestamp) {
        let target =
            self.highest_wall.max(stamp.as_millis()) + 1_000 * i64::try_from(incarnations + 2).unwrap_or(0);
        let behind = target - self.read().wall_millis;
        self.pass(Duration::from_millis(u64::try_from(behind).unwrap_or(0)));
    }
}
