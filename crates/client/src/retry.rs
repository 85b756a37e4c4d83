//! When a call is made again, and after what wait: full jitter, so that clients that failed together do not come back
//! together.

use std::time::Duration;

use crate::error::Error;

/// A server that asks for a longer pause than this gets no further try: whoever calls should decide.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(60);

/// How often and how patiently calls are tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Tries in all, 1 at least.
    pub tries: u32,
    /// The longest wait after the first try; it doubles with each.
    pub base: Duration,
    /// The longest wait after any try.
    pub cap: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { tries: 3, base: Duration::from_millis(250), cap: Duration::from_secs(8) }
    }
}

impl RetryPolicy {
    /// One try only.
    pub fn never() -> Self {
        Self { tries: 1, ..Self::default() }
    }

    /// How long to wait before the next try after `made` tries, or none if there is to be no further one.
    ///
    /// Every call is harmless to repeat: it reads, carries a key, or settles a fenced lease. `random` is from 0 up to 1.
    pub(crate) fn wait(&self, made: u32, error: &Error, random: f64) -> Option<Duration> {
        if made >= self.tries || !error.is_retryable() {
            return None;
        }
        let asked = error.retry_after().unwrap_or_default();
        (asked <= RETRY_AFTER_MAX).then(|| asked + self.jitter(made, random))
    }

    /// The wait after `made` tries for one who goes on trying: what the server asked for at least, and at most the longest
    /// that it can ask for.
    pub(crate) fn pause(&self, made: u32, asked: Duration, random: f64) -> Duration {
        self.jitter(made, random).max(asked.min(RETRY_AFTER_MAX))
    }

    /// A random part of the longest wait after `made` tries.
    pub(crate) fn jitter(&self, made: u32, random: f64) -> Duration {
        let doubled = 1u32.checked_shl(made.saturating_sub(1)).unwrap_or(u32::MAX);
        self.base.saturating_mul(doubled).min(self.cap).mul_f64(random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Effect, ErrorCode, Problem};

    fn refused(retryable: bool, effect: Effect, retry_after_ms: Option<u64>) -> Error {
        Error::Refused(Box::new(Problem {
            type_uri: String::new(),
            title: String::new(),
            status: 503,
            detail: String::new(),
            instance: String::new(),
            code: ErrorCode::StorageUnavailable,
            retryable,
            effect,
            retry_after_ms,
            field: None,
            value: None,
            limit: None,
        }))
    }

    fn unreachable() -> Error {
        Error::Unreachable { url: String::new(), reason: String::new() }
    }

    fn unexpected(status: u16) -> Error {
        Error::Unexpected { url: String::new(), status, reason: String::new(), retry_after: None }
    }

    const NEARLY: f64 = 0.999_999;

    fn waits(error: &Error) -> bool {
        RetryPolicy::default().wait(1, error, 0.0).is_some()
    }

    #[test]
    fn waits_double_up_to_the_cap_and_any_part_of_them_may_be_taken() {
        let policy = RetryPolicy { tries: 100, ..RetryPolicy::default() };
        let longest = |made| policy.wait(made, &unreachable(), NEARLY).expect("a wait").as_secs_f64().round();
        assert_eq!([3, 4, 5, 6, 7, 40, 99].map(longest), [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 8.0]);
        assert!(policy.wait(1, &unreachable(), NEARLY) < Some(Duration::from_millis(250)));
        assert_eq!(policy.wait(1, &unreachable(), 0.0), Some(Duration::ZERO));
    }

    #[test]
    fn three_tries_are_made() {
        let policy = RetryPolicy::default();
        let again = |made| policy.wait(made, &unreachable(), 0.5).is_some();
        assert_eq!([1, 2, 3, 4].map(again), [true, true, false, false]);
        assert_eq!(RetryPolicy::never().wait(1, &unreachable(), 0.5), None);
    }

    #[test]
    fn what_the_server_asks_for_is_waited_and_jitter_comes_on_top() {
        let policy = RetryPolicy::default();
        let error = refused(true, Effect::None, Some(2_000));
        assert_eq!(policy.wait(1, &error, 0.5), Some(Duration::from_millis(2_125)));
        let long = refused(true, Effect::None, Some(60_001));
        assert_eq!(policy.wait(1, &long, 0.5), None);
    }

    #[test]
    fn one_who_goes_on_trying_waits_for_what_the_server_asks_for() {
        let policy = RetryPolicy::default();
        let asked = Duration::from_secs(5);
        assert_eq!(policy.pause(1, asked, NEARLY), asked);
        assert_eq!(policy.pause(1, Duration::ZERO, 0.5), Duration::from_millis(125));
        assert_eq!(policy.pause(40, asked, 0.75), Duration::from_secs(6));
        assert_eq!(policy.pause(1, Duration::MAX, 0.5), RETRY_AFTER_MAX);
    }

    #[test]
    fn only_what_may_pass_is_tried_again() {
        assert!(!waits(&refused(false, Effect::None, None)));
        assert!(waits(&refused(true, Effect::None, None)));
        assert!(waits(&refused(true, Effect::Unknown, None)));
        assert!(waits(&Error::Unanswered { url: String::new(), reason: String::new() }));
        assert!(waits(&unreachable()));
        for (status, again) in
            [(429, true), (500, false), (502, true), (503, true), (504, true), (404, false)]
        {
            assert_eq!(waits(&unexpected(status)), again, "{status}");
        }
    }
}
