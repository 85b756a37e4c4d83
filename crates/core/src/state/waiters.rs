//! Lease calls that wait for messages, of one queue.
//!
//! A batch waiter (`min_messages` above 1) holds nothing back: whoever is first among those whose condition is met is
//! served (design-holes B14). Adding, serving and removing cost nothing that grows with the number of waiters.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::WaiterId;
use crate::time::Timestamp;
use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiter {
    pub(crate) max_messages: u32,
    pub(crate) min_messages: u32,
    /// How long its leases are to last; `None`: as long as the queue says when it gets them.
    pub(crate) visibility_timeout: Option<Duration>,
    pub(crate) deadline: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Waiters {
    by_id: BTreeMap<WaiterId, Waiter>,
    by_need: BTreeMap<u32, BTreeSet<WaiterId>>,
}

impl Waiters {
    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    pub(crate) fn add(&mut self, id: WaiterId, waiter: Waiter) {
        self.by_id.insert(id, waiter);
        self.by_need.entry(waiter.min_messages).or_default().insert(id);
    }

    pub(crate) fn remove(&mut self, id: WaiterId) -> Option<Waiter> {
        let waiter = self.by_id.remove(&id)?;
        self.unlist(id, waiter.min_messages);
        Some(waiter)
    }

    fn unlist(&mut self, id: WaiterId, need: u32) {
        if let Some(bucket) = self.by_need.get_mut(&need) {
            bucket.remove(&id);
            if bucket.is_empty() {
                self.by_need.remove(&need);
            }
        }
    }

    pub(crate) fn get(&self, id: WaiterId) -> Option<&Waiter> {
        self.by_id.get(&id)
    }

    /// Its deadline is over: from now on it takes whatever is there, before any later one.
    pub(crate) fn settle_for_less(&mut self, id: WaiterId) {
        let Some(waiter) = self.by_id.get_mut(&id) else { return };
        let need = std::mem::replace(&mut waiter.min_messages, 1);
        self.unlist(id, need);
        self.by_need.entry(1).or_default().insert(id);
    }

    /// The first waiter that `available` messages satisfy.
    pub(crate) fn first_served_by(&self, available: u32) -> Option<WaiterId> {
        self.by_need.range(..=available).filter_map(|(_, bucket)| bucket.first()).min().copied()
    }

    pub(crate) fn drain(&mut self) -> Vec<(WaiterId, Waiter)> {
        self.by_need.clear();
        std::mem::take(&mut self.by_id).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(min_messages: u32) -> Waiter {
        Waiter { max_messages: 100, min_messages, visibility_timeout: None, deadline: Timestamp::ZERO }
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
}
