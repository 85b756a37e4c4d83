//! How long things take and how many they are: counts in buckets, without locks.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of buckets for durations, in nanoseconds: half a millisecond to 25 seconds.
pub const DURATION_BOUNDS: &[u64] = &[
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
];

/// Upper bounds of buckets for counts: 1 to 1,024, doubling.
pub const COUNT_BOUNDS: &[u64] = &[1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1_024];

/// Counts values by size. Recording is two additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [u64],
    /// One a bound, and one for what is beyond the last.
    buckets: Box<[AtomicU64]>,
    sum: AtomicU64,
}

/// What a histogram holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HistogramReading {
    /// Upper bounds of the buckets, inclusive, ascending.
    pub bounds: &'static [u64],
    /// Values in each bucket alone; one more than there are bounds.
    pub buckets: Vec<u64>,
    /// All values added up. It is read after the buckets, so it may count a value more than they do.
    pub sum: u64,
}

impl Histogram {
    /// With buckets up to these bounds, which ascend.
    #[must_use]
    pub fn new(bounds: &'static [u64]) -> Self {
        let buckets = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, buckets, sum: AtomicU64::new(0) }
    }

    /// Counts a value.
    pub fn record(&self, value: u64) {
        let index = self.bounds.partition_point(|bound| *bound < value);
        if let Some(bucket) = self.buckets.get(index) {
            bucket.fetch_add(1, Ordering::Relaxed);
            self.sum.fetch_add(value, Ordering::Relaxed);
        }
    }

    /// Counts a duration, in nanoseconds.
    pub fn record_duration(&self, duration: Duration) {
        self.record(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    /// What it holds now.
    #[must_use]
    pub fn read(&self) -> HistogramReading {
        let buckets = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        HistogramReading { bounds: self.bounds, buckets, sum: self.sum.load(Ordering::Relaxed) }
    }
}

impl HistogramReading {
    /// How many values there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_equals_a_bound_is_within_it() {
        let histogram = Histogram::new(&[10, 20]);
        for value in [0, 10, 11, 20, 21, 1_000] {
            histogram.record(value);
        }
        let reading = histogram.read();
        assert_eq!((reading.buckets.as_slice(), reading.sum, reading.count()), (&[2, 2, 2][..], 1_062, 6));
    }

    #[test]
    fn bounds_ascend() {
        for bounds in [DURATION_BOUNDS, COUNT_BOUNDS] {
            assert!(bounds.is_sorted_by(|low, high| low < high));
        }
    }

    #[test]
    fn durations_are_nanoseconds() {
        let histogram = Histogram::new(DURATION_BOUNDS);
        histogram.record_duration(Duration::from_millis(3));
        histogram.record_duration(Duration::from_secs(60));
        let reading = histogram.read();
        let within: Vec<_> = (0..reading.buckets.len()).filter(|&at| reading.buckets[at] == 1).collect();
        assert_eq!((within, reading.sum), (vec![3, 15], 60_003_000_000));
    }
}
