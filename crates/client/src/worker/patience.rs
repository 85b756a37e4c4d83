//! How long one try of a call about leases may take. A call that hangs must leave time for another before the lease ends.

use std::time::Duration;

use crate::call::ANSWER_MAX;

/// No less for an extension: a server that takes so long is slow, not gone.
const EXTENSION_MIN: Duration = Duration::from_millis(200);
/// No less for settling: the server may still hold the lease when the worker's own clock says that it has run out.
const SETTLING_MIN: Duration = Duration::from_secs(5);

/// For an extension, so long before its first lease runs out.
pub(super) fn of_extension(left: Duration) -> Duration {
    (left / 2).clamp(EXTENSION_MIN, ANSWER_MAX)
}

/// For an ack or a nack, so long before its last lease runs out.
pub(super) fn of_settling(left: Duration) -> Duration {
    (left / 2).clamp(SETTLING_MIN, ANSWER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_leaves_half_of_the_time_to_the_next() {
        let seconds = Duration::from_secs;
        assert_eq!(of_extension(seconds(20)), seconds(10));
        assert_eq!(of_extension(seconds(3_600)), ANSWER_MAX);
        assert_eq!(of_extension(Duration::ZERO), EXTENSION_MIN);
        assert_eq!((of_settling(seconds(20)), of_settling(Duration::ZERO)), (seconds(10), SETTLING_MIN));
    }
}
