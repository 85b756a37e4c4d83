//! How often an outage is told, by whoever tries again and again: once when it begins, once a minute while it lasts, and once when it is
//! over. Each attempt would fill a log in the hours in which somebody has to read it.

use std::time::Duration;

/// While it lasts it is told again this often.
const TELL_EVERY: Duration = Duration::from_secs(60);

/// What does not work for a while. Times are of a clock that never goes back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Outage(Option<Told>);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Told {
    since: Duration,
    last: Duration,
}

impl Outage {
    /// An attempt failed. If that is to be told: for how long they have.
    #[must_use]
    pub fn failed(&mut self, now: Duration) -> Option<Duration> {
        let Some(told) = &mut self.0 else {
            self.0 = Some(Told { since: now, last: now });
            return Some(Duration::ZERO);
        };
        if now.saturating_sub(told.last) < TELL_EVERY {
            return None;
        }
        told.last = now;
        Some(now.saturating_sub(told.since))
    }

    /// An attempt worked. If others had failed before it: for how long they had.
    #[must_use]
    pub fn over(&mut self, now: Duration) -> Option<Duration> {
        self.0.take().map(|told| now.saturating_sub(told.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outage_is_told_when_it_begins_once_a_minute_and_when_it_is_over() {
        let mut outage = Outage::default();
        let second = Duration::from_secs;
        assert_eq!(outage.over(second(1)), None);
        let told: Vec<_> = (10..=200).filter_map(|now| outage.failed(second(now))).collect();
        assert_eq!(told, [0, 60, 120, 180].map(second));
        assert_eq!(outage.over(second(201)), Some(second(191)));
        assert_eq!(outage.over(second(202)), None);
        assert_eq!(outage.failed(second(203)), Some(Duration::ZERO), "another one");
    }
}
