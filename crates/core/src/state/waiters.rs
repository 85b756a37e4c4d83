//! Lease calls that wait for messages, of one queue.
//!
//! A batch waiter (`min_messages` above 1) holds nothing back: whoever is first among those whose condition is met is
//! served (design-holes B14). Adding, serving and removing cost nothing that grows with the number of waiters.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::{Reading, WaiterId};
use crate::time::Timestamp;
use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Waiter {
    pub(crate) max_messages: u32,
    pub(crate) min_messages: u32,
    /// How long its leases are to last; `None`: as long as the queue says when it gets them.
    pub(crate) visibility_timeout: Option<Duration>,
    /// How long it waits for more once something is there.
    pub(crate) fills_for: Duration,
    pub(crate) asked_at: Timestamp,
    pub(crate) deadline: Timestamp,
    /// How it reads, if it waits for messages of a group.
    pub(crate) reading: Reading,
}

impl Waiter {
    fn wanting(&self) -> Wanting {
        (self.min_messages, self.reading.clone())
    }

    /// It may end before its deadline with less than it wants.
    fn is_patient(&self) -> bool {
        self.min_messages > 1 && self.asked_at.plus(self.fills_for) < self.deadline
    }
}

/// What calls want alike: if one of them can be given nothing, none can.
pub(crate) type Wanting = (u32, Reading);

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    by_id: BTreeMap<WaiterId, Waiter>,
    /// By how many messages they want at least, and how they read.
    by_kind: BTreeMap<Wanting, BTreeSet<WaiterId>>,
    /// Something is there that patient calls wait to see more of.
    something_since: Option<Timestamp>,
    /// Patient calls that came before it, by how long they wait for more.
    patient: BTreeSet<(Duration, WaiterId)>,
    /// Patient calls that came later, by when they have waited long enough.
    late: BTreeSet<(Timestamp, WaiterId)>,
}

impl Waiters {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (WaiterId, &Waiter)> {
        self.by_id.iter().map(|(id, waiter)| (*id, waiter))
    }

    /// The first to come among those whose kind is not among these, with its kind.
    pub(crate) fn first_but(&self, without: &BTreeSet<Wanting>) -> Option<(WaiterId, Wanting)> {
        let kinds = self.by_kind.iter().filter(|(kind, _)| !without.contains(*kind));
        let (id, kind) = kinds.filter_map(|(kind, bucket)| Some((*bucket.first()?, kind))).min()?;
        Some((id, kind.clone()))
    }

    pub(crate) fn add(&mut self, id: WaiterId, waiter: Waiter) {
        self.by_kind.entry(waiter.wanting()).or_default().insert(id);
        if waiter.is_patient() && self.something_since.is_some() {
            self.late.insert((waiter.asked_at.plus(waiter.fills_for), id));
        } else if waiter.is_patient() {
            self.patient.insert((waiter.fills_for, id));
        }
        self.by_id.insert(id, waiter);
    }

    pub(crate) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        self.unlist(id, &waiter);
        Some(waiter)
    }

    fn unlist(&mut self, id: WaiterId, waiter: &Waiter) {
        let kind = waiter.wanting();
        if let Some(bucket) = self.by_kind.get_mut(&kind) {
            bucket.remove(&id);
            if bucket.is_empty() {
                self.by_kind.remove(&kind);
            }
        }
        self.patient.remove(&(waiter.fills_for, id));
        self.late.remove(&(waiter.asked_at.plus(waiter.fills_for), id));
    }

    /// Something is there that could be granted, or is not.
    pub(crate) fn watch(&mut self, something: bool, now: Timestamp) {
        if something {
            self.something_since.get_or_insert(now);
            return;
        }
        self.something_since = None;
        for (_, id) in std::mem::take(&mut self.late) {
            if let Some(waiter) = self.by_id.get(&id) {
                self.patient.insert((waiter.fills_for, id));
            }
        }
    }

    /// When the first call has waited long enough for more than is there.
    pub(crate) fn filled_at(&self) -> Option<Timestamp> {
        self.first_filled().map(|(filled, _)| filled)
    }

    fn first_filled(&self) -> Option<(Timestamp, WaiterId)> {
        let since = self.something_since?;
        let early = self.patient.first().map(|(fills_for, id)| (since.plus(*fills_for), *id));
        [early, self.late.first().copied()].into_iter().flatten().min()
    }

    /// That call takes whatever is there from now on.
    pub(crate) fn settle_first_filled(&mut self) {
        if let Some((_, id)) = self.first_filled() {
            self.settle_for_less(id);
        }
    }

    pub(crate) fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.by_id.get(&id)
    }

    /// It has waited long enough: from now on it takes whatever is there, before any later one.
    pub(crate) fn settle_for_less(&mut self, id: WaiterId) {
        let Some(waiter) = self.by_id.get(&id).cloned() else { return };
        self.unlist(id, &waiter);
        self.add(id, Waiter { min_messages: 1, ..waiter });
    }

    /// The first waiter that `available` messages satisfy.
    pub(crate) fn first_served_by(&self, available: u32) -> Option<WaiterId> {
        // No reading sorts before the one that is nothing special.
        let behind = (available.saturating_add(1), Reading::default());
        self.by_kind.range(..behind).filter_map(|(_, bucket)| bucket.first()).min().copied()
    }

    pub(crate) fn drain(&mut self) -> Vec<(WaiterId, Waiter)> {
        self.by_kind.clear();
        self.patient.clear();
        self.late.clear();
        std::mem::take(&mut self.by_id).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(min_messages: u32) -> Waiter {
        Waiter {
            max_messages: 100,
            min_messages,
            visibility_timeout: None,
            fills_for: Duration::from_secs(20),
            asked_at: Timestamp::ZERO,
            deadline: Timestamp::ZERO,
            reading: Reading::default(),
        }
    }

    #[test]
    fn a_batch_waiter_neither_holds_back_nor_is_passed_for_ever() {
        let mut waiters = Waiters::default();
        waiters.add(WaiterId(1), waiter(100));
        waiters.add(WaiterId(2), waiter(1));
        waiters.add(WaiterId(3), waiter(1));
        assert_eq!(waiters.first_served_by(1), Some(WaiterId(2)));
        assert_eq!(waiters.first_served_by(100), Some(WaiterId(1)));
        waiters.settle_for_less(WaiterId(1));
        assert_eq!(waiters.first_served_by(1), Some(WaiterId(1)));
        waiters.remove(WaiterId(1));
        waiters.remove(WaiterId(2));
        assert_eq!(waiters.first_served_by(1), Some(WaiterId(3)));
        assert_eq!(waiters.first_served_by(0), None);
    }
    #[test]
    fn a_patient_waiter_has_waited_long_enough_since_it_came_or_something_did() {
        let at = |millis| Timestamp::from_millis(millis);
        let patient = |asked_at, fills_for| Waiter {
            fills_for: Duration::from_millis(fills_for),
            asked_at: at(asked_at),
            deadline: at(100_000),
            ..waiter(9)
        };
        let mut waiters = Waiters::default();
        waiters.add(WaiterId(1), patient(0, 50));
        waiters.add(WaiterId(2), patient(0, 20));
        assert_eq!(waiters.filled_at(), None);
        waiters.watch(true, at(10));
        assert_eq!(waiters.filled_at(), Some(at(30)));
        waiters.add(WaiterId(3), patient(12, 5));
        assert_eq!(waiters.filled_at(), Some(at(17)));
        waiters.watch(true, at(15));
        waiters.settle_first_filled();
        assert_eq!((waiters.first_served_by(1), waiters.filled_at()), (Some(WaiterId(3)), Some(at(30))));
        waiters.add(WaiterId(4), patient(20, 5));
        waiters.watch(false, at(22));
        assert_eq!(waiters.filled_at(), None);
        waiters.watch(true, at(40));
        assert_eq!(waiters.filled_at(), Some(at(45)));
        waiters.remove(WaiterId(4));
        waiters.remove(WaiterId(2));
        assert_eq!(waiters.filled_at(), Some(at(90)));
    }
}
