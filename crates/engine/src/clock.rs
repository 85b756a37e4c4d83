//! The clock of an environment (design-holes A12), and the only place of the engine that asks the machine for the time.
//!
//! Stamps start at max(last committed stamp, wall clock) and advance with the monotonic clock. A wall clock that is ahead
//! pulls them forward: at once up to a second, further only when it has been ahead for a minute. While stamps are ahead
//! of the wall clock they run a tenth slower until they meet. They never stop for good and never go back.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millpond_core::planted;
use millpond_core::time::Timestamp;

/// How far a wall clock may pull the stamps forward at once.
const PULL_AT_ONCE_MILLIS: i64 = 1_000;
/// How long a wall clock must be further ahead before it is believed.
const PULL_AFTER: Duration = Duration::from_secs(60);

/// What the machine's clocks show.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    /// Time since some fixed point; never runs back.
    pub monotonic: Duration,
    /// Milliseconds since the Unix epoch; may jump.
    pub wall_millis: i64,
}

/// Where readings come from.
pub trait Clock: Send + Sync {
    /// What the clocks show now.
    fn read(&self) -> Reading;
}

/// The machine's clocks.
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
}

impl Default for SystemClock {
    fn default() -> Self {
        Self { start: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn read(&self) -> Reading {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reading {
            monotonic: self.start.elapsed(),
            wall_millis: i64::try_from(wall.as_millis()).unwrap_or(i64::MAX),
        }
    }
}

/// Makes stamps' times out of readings.
#[derive(Debug)]
pub struct StampClock {
    last: Timestamp,
    last_monotonic: Duration,
    /// Parts of a millisecond that were not given out yet, in microseconds.
    rest_micros: u64,
    ahead_since: Option<Duration>,
}

impl StampClock {
    /// Begins at max(last committed stamp, wall clock).
    #[must_use]
    pub fn new(committed: Timestamp, reading: Reading) -> Self {
        let wall = Timestamp::from_millis(reading.wall_millis);
        Self {
            last: if planted!(StampBackwards) { wall } else { committed.max(wall) },
            last_monotonic: reading.monotonic,
            rest_micros: 0,
            ahead_since: None,
        }
    }

    /// The time of the next stamp.
    pub fn advance(&mut self, reading: Reading) -> Timestamp {
        let passed = reading.monotonic.saturating_sub(self.last_monotonic);
        self.last_monotonic = self.last_monotonic.max(reading.monotonic);
        let mut micros = u64::try_from(passed.as_micros()).unwrap_or(u64::MAX);
        if self.last.as_millis() > reading.wall_millis {
            micros -= micros / 10;
        }
        self.rest_micros = self.rest_micros.saturating_add(micros);
        let millis = i64::try_from(self.rest_micros / 1_000).unwrap_or(0);
        self.rest_micros %= 1_000;
        let mut now = self.last.as_millis().saturating_add(millis);
        let ahead = reading.wall_millis.saturating_sub(now);
        if ahead <= 0 {
            self.ahead_since = None;
        } else if ahead <= PULL_AT_ONCE_MILLIS {
            now = reading.wall_millis;
            self.ahead_since = None;
        } else {
            let since = *self.ahead_since.get_or_insert(reading.monotonic);
            if reading.monotonic.saturating_sub(since) >= PULL_AFTER {
                now = reading.wall_millis;
                self.ahead_since = None;
            }
        }
        self.last = Timestamp::from_millis(now.max(self.last.as_millis()));
        self.last
    }

    /// How far the stamps are from the wall clock, in milliseconds; positive: the stamps are ahead.
    #[must_use]
    pub fn skew_millis(&self, reading: Reading) -> i64 {
        self.last.as_millis().saturating_sub(reading.wall_millis)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(monotonic_ms: u64, wall_millis: i64) -> Reading {
        Reading { monotonic: Duration::from_millis(monotonic_ms), wall_millis }
    }

    #[test]
    fn stamps_start_at_the_later_of_commit_and_wall_clock() {
        let mut behind = StampClock::new(Timestamp::from_millis(5_000), at(0, 1_000));
        assert_eq!(behind.advance(at(0, 1_000)).as_millis(), 5_000);
        let mut ahead = StampClock::new(Timestamp::from_millis(5_000), at(0, 9_000));
        assert_eq!(ahead.advance(at(0, 9_000)).as_millis(), 9_000);
    }

    #[test]
    fn a_wall_clock_far_ahead_is_believed_after_a_minute() {
        let mut clock = StampClock::new(Timestamp::ZERO, at(0, 10_000));
        let hour = 3_600_000;
        assert_eq!(clock.advance(at(1_000, 11_000 + hour)).as_millis(), 11_000);
        assert_eq!(clock.advance(at(60_000, 70_000 + hour)).as_millis(), 70_000);
        assert_eq!(clock.advance(at(61_000, 71_000 + hour)).as_millis(), 71_000 + hour);
    }

    #[test]
    fn a_jump_that_is_corrected_within_a_minute_leaves_no_trace() {
        let mut clock = StampClock::new(Timestamp::ZERO, at(0, 10_000));
        clock.advance(at(1_000, 9_000_000));
        clock.advance(at(30_000, 40_000));
        assert_eq!(clock.advance(at(100_000, 9_000_000)).as_millis(), 110_000);
    }

    #[test]
    fn stamps_ahead_of_the_wall_clock_run_a_tenth_slower_and_never_back() {
        let mut clock = StampClock::new(Timestamp::from_millis(100_000), at(0, 0));
        assert_eq!(clock.advance(at(10_000, 10_000)).as_millis(), 109_000);
        assert_eq!(clock.advance(at(10_000, 10_000)).as_millis(), 109_000);
    }

    #[test]
    fn parts_of_a_millisecond_add_up() {
        let mut clock = StampClock::new(Timestamp::ZERO, at(0, 0));
        let mut last = Timestamp::ZERO;
        for step in 1..=10_000u64 {
            let monotonic = Duration::from_micros(step * 100);
            last = clock.advance(Reading { monotonic, wall_millis: 0 });
        }
        assert!((899..=901).contains(&last.as_millis()), "{last:?}");
    }
}
