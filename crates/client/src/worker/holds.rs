//! The leases that a worker holds: when each is to be extended, and when it has to count as lost.
//!
//! Times are the worker's own, on its monotonic clock: a server whose clock is wrong cannot confuse it. A lease is counted
//! from the begin of the call that granted or extended it, so it never seems to last longer than it does; only for the
//! first grant it is the end, as that call may have waited.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::message::Lease;

/// Leases in one call.
pub(super) const LEASES_PER_CALL_MAX: usize = 100;
/// After an extension that failed, the least wait before the next.
const RENEW_AGAIN_MIN: Duration = Duration::from_millis(100);

/// One lease.
#[derive(Debug)]
struct Hold {
    renew_at: Instant,
    /// It has to count as lost from then on, unless it is extended.
    ends_at: Instant,
    state: HoldState,
    lost: CancellationToken,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HoldState {
    /// Extended from time to time.
    Held,
    /// An extension is under way.
    Renewing,
    /// It can last no longer than it does; it runs out unless it is settled before.
    Last,
    /// Run out, or being settled: not extended any more. It stays until the server has said what became of it.
    Over,
}

/// All leases of a worker.
#[derive(Debug)]
pub(super) struct Holds {
    timeout: Duration,
    holds: HashMap<Lease, Hold>,
}

impl Holds {
    pub(super) fn new(timeout: Duration) -> Self {
        Self { timeout, holds: HashMap::new() }
    }

    /// How long each lease lasts from its grant or its last extension.
    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// A lease was granted. The token is cancelled when it is lost.
    pub(super) fn add(&mut self, lease: Lease, now: Instant) -> CancellationToken {
        let lost = CancellationToken::new();
        let hold = Hold {
            renew_at: now + self.timeout / 3,
            ends_at: now + self.timeout,
            state: HoldState::Held,
            lost: lost.clone(),
        };
        self.holds.insert(lease, hold);
        lost
    }

    /// When something has to be done next.
    pub(super) fn next_at(&self) -> Option<Instant> {
        let next = self.holds.values().filter_map(|hold| match hold.state {
            HoldState::Held => Some(hold.renew_at.min(hold.ends_at)),
            HoldState::Renewing | HoldState::Last => Some(hold.ends_at),
            HoldState::Over => None,
        });
        next.min()
    }

    /// Leases that have run out by now. Their functions are told.
    pub(super) fn run_out(&mut self, now: Instant) -> Vec<Lease> {
        let mut lost = Vec::new();
        for (lease, hold) in &mut self.holds {
            if hold.ends_at <= now && hold.state != HoldState::Over {
                hold.state = HoldState::Over;
                hold.lost.cancel();
                lost.push(lease.clone());
            }
        }
        lost
    }

    /// Leases to be extended now, in one call. Those that are nearly due go along.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Lease> {
        let held = |hold: &Hold, by: Instant| hold.state == HoldState::Held && hold.renew_at <= by;
        if !self.holds.values().any(|hold| held(hold, now)) {
            return Vec::new();
        }
        let nearly = now + self.timeout / 12;
        let due = self.holds.iter_mut().filter(|(_, hold)| held(hold, nearly)).take(LEASES_PER_CALL_MAX);
        due.map(|(lease, hold)| {
            hold.state = HoldState::Renewing;
            lease.clone()
        })
        .collect()
    }

    /// An extension was answered. Returns the leases that turned out to be lost; their functions are told.
    pub(super) fn renewed(&mut self, leases: &[Lease], stale: &[Lease], begun: Instant) -> Vec<Lease> {
        let mut lost = Vec::new();
        for lease in leases {
            let Some(hold) = self.holds.get_mut(lease) else { continue };
            if hold.state != HoldState::Renewing {
                continue;
            }
            if stale.contains(lease) {
                hold.lost.cancel();
                self.holds.remove(lease);
                lost.push(lease.clone());
                continue;
            }
            hold.state = HoldState::Held;
            hold.ends_at = begun + self.timeout;
            hold.renew_at = begun + self.timeout / 3;
        }
        lost
    }

    /// An extension failed; it is tried again before the lease runs out. The server `asked` for so long a pause, of which at
    /// most half of the time left is waited: later the lease would be gone.
    pub(super) fn not_renewed(&mut self, leases: &[Lease], now: Instant, asked: Duration) {
        let pause = (self.timeout / 12).max(RENEW_AGAIN_MIN);
        for lease in leases {
            if let Some(hold) = self.holds.get_mut(lease)
                && hold.state == HoldState::Renewing
            {
                let half = hold.ends_at.saturating_duration_since(now) / 2;
                hold.state = HoldState::Held;
                hold.renew_at = now + pause.max(asked.min(half));
            }
        }
    }

    /// The server lets these leases last no longer. They are not extended any more.
    pub(super) fn not_renewable(&mut self, leases: &[Lease]) {
        for lease in leases {
            if let Some(hold) = self.holds.get_mut(lease)
                && hold.state == HoldState::Renewing
            {
                hold.state = HoldState::Last;
            }
        }
    }

    /// How long the first of these leases still lasts.
    pub(super) fn left(&self, leases: &[Lease], now: Instant) -> Duration {
        let ends = leases.iter().filter_map(|lease| self.ends_at(lease)).min();
        ends.unwrap_or(now).saturating_duration_since(now)
    }

    /// The lease is being settled: it is extended no more. False if it is known to be lost.
    pub(super) fn settling(&mut self, lease: &Lease) -> bool {
        let Some(hold) = self.holds.get_mut(lease) else { return false };
        hold.state = HoldState::Over;
        true
    }

    /// How long settling it may still be tried.
    pub(super) fn ends_at(&self, lease: &Lease) -> Option<Instant> {
        self.holds.get(lease).map(|hold| hold.ends_at)
    }

    /// The lease is over. True if its function was never told that it was lost.
    pub(super) fn remove(&mut self, lease: &Lease) -> bool {
        self.holds.remove(lease).is_some_and(|hold| !hold.lost.is_cancelled())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(12);

    fn lease(number: u64) -> Lease {
        Lease { message_id: format!("msg_{number}"), lease_generation: number, delivery: None }
    }

    /// Holds with one lease that was granted at `begin`.
    fn held() -> (Holds, CancellationToken, Instant) {
        let (mut holds, begin) = (Holds::new(TIMEOUT), Instant::now());
        let lost = holds.add(lease(1), begin);
        (holds, lost, begin)
    }

    fn after(begin: Instant, seconds: u64) -> Instant {
        begin + Duration::from_secs(seconds)
    }

    #[test]
    fn a_lease_is_extended_at_a_third_of_its_timeout_again_and_again() {
        let (mut holds, lost, begin) = held();
        assert_eq!(holds.next_at(), Some(after(begin, 4)));
        assert!(holds.take_due(begin).is_empty());
        assert_eq!(holds.take_due(after(begin, 4)), [lease(1)]);
        assert!(holds.take_due(after(begin, 4)).is_empty(), "one extension at a time");
        assert!(holds.renewed(&[lease(1)], &[], after(begin, 4)).is_empty());
        assert_eq!(holds.next_at(), Some(after(begin, 8)));
        assert!(holds.run_out(after(begin, 15)).is_empty() && !lost.is_cancelled());
        assert_eq!(holds.run_out(after(begin, 16)), [lease(1)]);
        assert!(lost.is_cancelled());
    }

    #[test]
    fn those_that_are_nearly_due_go_along() {
        let (mut holds, _, begin) = held();
        holds.add(lease(2), after(begin, 1));
        holds.add(lease(3), after(begin, 2));
        let mut due = holds.take_due(after(begin, 4));
        due.sort();
        assert_eq!(due, [lease(1), lease(2)]);
    }

    #[test]
    fn a_stale_lease_is_lost_at_once() {
        let (mut holds, lost, begin) = held();
        holds.take_due(after(begin, 4));
        assert_eq!(holds.renewed(&[lease(1)], &[lease(1)], begin), [lease(1)]);
        assert!(lost.is_cancelled() && !holds.settling(&lease(1)));
    }

    #[test]
    fn an_extension_that_fails_is_tried_again_until_the_lease_runs_out() {
        let (mut holds, lost, begin) = held();
        holds.take_due(after(begin, 4));
        assert_eq!(holds.next_at(), Some(after(begin, 12)), "it may hang");
        holds.not_renewed(&[lease(1)], after(begin, 5), Duration::ZERO);
        assert_eq!(holds.next_at(), Some(after(begin, 6)));
        assert_eq!(holds.take_due(after(begin, 6)), [lease(1)]);
        assert_eq!(holds.run_out(after(begin, 12)), [lease(1)]);
        assert!(lost.is_cancelled());
        assert_eq!(holds.next_at(), None);
        assert!(holds.settling(&lease(1)), "whether it is lost is for the server to say");
        assert!(!holds.remove(&lease(1)), "its function was told");
    }

    #[test]
    fn a_server_that_asks_for_a_pause_gets_it_as_far_as_the_lease_allows() {
        let (mut holds, _, begin) = held();
        for (asked, renew_at) in [(0, 5), (2, 6), (60, 8)] {
            holds.take_due(after(begin, 4).max(holds.next_at().expect("it is held")));
            holds.not_renewed(&[lease(1)], after(begin, 4), Duration::from_secs(asked));
            assert_eq!(holds.next_at(), Some(after(begin, renew_at)), "{asked} s");
        }
    }

    #[test]
    fn a_lease_that_can_last_no_longer_is_held_to_its_end() {
        let (mut holds, lost, begin) = held();
        holds.take_due(after(begin, 4));
        holds.not_renewable(&[lease(1)]);
        assert!(holds.take_due(after(begin, 11)).is_empty() && holds.run_out(after(begin, 11)).is_empty());
        assert_eq!(holds.next_at(), Some(after(begin, 12)));
        assert_eq!(holds.run_out(after(begin, 12)), [lease(1)]);
        assert!(lost.is_cancelled());
    }

    #[test]
    fn what_is_being_settled_is_neither_extended_nor_taken_for_lost() {
        let (mut holds, lost, begin) = held();
        holds.take_due(after(begin, 4));
        assert!(holds.settling(&lease(1)));
        assert!(holds.renewed(&[lease(1)], &[lease(1)], begin).is_empty(), "the ack came first");
        assert!(holds.run_out(after(begin, 100)).is_empty() && !lost.is_cancelled());
        assert_eq!((holds.next_at(), holds.ends_at(&lease(1))), (None, Some(after(begin, 12))));
        assert!(holds.remove(&lease(1)));
    }
}
