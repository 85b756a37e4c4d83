//! Points in time as the core sees them: milliseconds since the Unix epoch, UTC.
//!
//! The core cannot ask for the time. Every command comes with a [`crate::Stamp`] that carries it.

use std::time::Duration;

/// Milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch itself; also the smallest key of every time order.
    pub const ZERO: Self = Self(0);
    /// Later than every time that can be stored (year 292,000); stands for "never".
    pub const NEVER: Self = Self(i64::MAX / 1_000);

    /// From milliseconds since the epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// As milliseconds since the epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// This time plus `duration`, rounded up to a whole millisecond and held below [`Self::NEVER`].
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        let millis = i64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
        Self(self.0.saturating_add(millis).min(Self::NEVER.0))
    }

    /// The time from `earlier` to this one; zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}
