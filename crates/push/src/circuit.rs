//! A target that cannot be reached is left alone for a while: 1 s, then twice as long each time, to 60 s, half of it by chance. Then
//! one push tries.
//!
//! Time and chance are given; nothing here waits.

use std::time::Duration;

use millpond_core::time::Timestamp;

/// After the first failure.
const WAIT_FIRST: Duration = Duration::from_secs(1);
const WAIT_MAX: Duration = Duration::from_secs(60);
/// A push that tries and is not heard of for so long is not waited for: it may have been dropped.
const PROBE_MAX: Duration = Duration::from_secs(10);

/// Whether a target may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admission {
    /// It may.
    Open,
    /// By one push, which begins with [`Circuit::begin_probe`].
    Probe,
    /// Not before this time, unless something changes.
    Wait(Timestamp),
}

#[derive(Debug, Default)]
pub(crate) struct Circuit {
    down: Option<Down>,
}

#[derive(Debug)]
struct Down {
    since: Timestamp,
    error: String,
    wait: Duration,
    next_try: Timestamp,
    probed_until: Option<Timestamp>,
}

impl Circuit {
    pub(crate) fn admit(&self, now: Timestamp) -> Admission {
        match &self.down {
            None => Admission::Open,
            Some(down) if down.next_try > now => Admission::Wait(down.next_try),
            Some(Down { probed_until: Some(until), .. }) if *until > now => Admission::Wait(*until),
            Some(_) => Admission::Probe,
        }
    }

    /// `false`: another push tries already.
    pub(crate) fn begin_probe(&mut self, now: Timestamp) -> bool {
        let admitted = self.admit(now) == Admission::Probe;
        if let Some(down) = &mut self.down
            && admitted
        {
            down.probed_until = Some(now.plus(PROBE_MAX));
        }
        admitted
    }

    /// The target was not reached by a push that began then. Pushes that began before it could be tried again count once. Answers
    /// whether this one does.
    pub(crate) fn failed(&mut self, began: Timestamp, now: Timestamp, error: &str, entropy: u64) -> bool {
        let wait = match &self.down {
            Some(down) if began < down.next_try => return false,
            Some(down) => (down.wait * 2).min(WAIT_MAX),
            None => WAIT_FIRST,
        };
        let since = self.down.as_ref().map_or(now, |down| down.since);
        let millis = u64::try_from(wait.as_millis()).unwrap_or(0);
        let drawn = Duration::from_millis(millis / 2 + entropy % (millis / 2 + 1));
        let next_try = now.plus(drawn);
        self.down = Some(Down { since, error: error.to_owned(), wait, next_try, probed_until: None });
        true
    }

    /// The target was reached. `true`: it was down.
    pub(crate) fn reached(&mut self) -> bool {
        self.down.take().is_some()
    }

    /// Since when it is down, what the last try said, and when it is tried again.
    pub(crate) fn trouble(&self) -> Option<(Timestamp, &str, Timestamp)> {
        self.down.as_ref().map(|down| (down.since, &*down.error, down.next_try))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_target_that_is_down_is_tried_by_one_at_longer_and_longer_intervals_until_it_is_reached() {
        let mut circuit = Circuit::default();
        assert_eq!(circuit.admit(at(0)), Admission::Open);
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..9 {
            assert!(circuit.failed(now, now, "refused", u64::MAX));
            // Others that had begun before.
            assert!(!circuit.failed(now, now.plus(PROBE_MAX), "refused", 0));
            let Admission::Wait(until) = circuit.admit(now) else { panic!("it has to wait") };
            waits.push(until.since(now).as_millis());
            now = until;
            assert!(circuit.begin_probe(now) && !circuit.begin_probe(now));
        }
        assert!(
            waits
                .iter()
                .zip([1, 2, 4, 8, 16, 32, 60, 60, 60])
                .all(|(wait, seconds)| { (seconds * 500..=seconds * 1_000).contains(wait) }),
            "{waits:?}"
        );
        assert_eq!(circuit.trouble().map(|(since, error, _)| (since, error)), Some((at(0), "refused")));
        assert_eq!(circuit.admit(now), Admission::Wait(now.plus(PROBE_MAX)));
        assert!(circuit.begin_probe(now.plus(PROBE_MAX)), "a probe that was dropped");
        assert!(circuit.reached() && !circuit.reached());
        assert_eq!(circuit.admit(now), Admission::Open);
    }
}
