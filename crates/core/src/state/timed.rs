//! Walks through an order by time, which remove what is over.
//!
//! Invariant: every stored row of the order sorts behind `after`, but for those that somebody holds beyond their time: they are written
//! once more when they are let go, and so noted. A walk goes on from there, never again over what it has passed.

use std::collections::VecDeque;

use crate::change::{LowWater, Page, StoredOrder};
use crate::id::{CommitSequence, Sequence};
use crate::planted;
use crate::row::{DueKey, ReadyKey};
use crate::state::window::OrderKey as _;
use crate::time::Timestamp;

/// Expiry is looked for at most so often, in milliseconds.
const EXPIRY_PAUSE_MILLIS: i64 = 1_000;

#[derive(Debug)]
pub(crate) struct TimedSweep {
    order: StoredOrder,
    pub(crate) next_check: Timestamp,
    after: Option<DueKey>,
    pub(crate) scanning: bool,
    /// The earliest end among the rows that each commit wrote: of commits that a page may not have seen.
    noted: VecDeque<(CommitSequence, Timestamp)>,
    /// The earliest that was noted since the page under way was asked for.
    noted_since: Timestamp,
    /// What the store has for the order's beginning.
    mark: Option<DueKey>,
    /// Rows that have left the order since the mark was set.
    left: usize,
}

/// Before all that ends at a time; sequences begin at 1.
fn before(at: Timestamp) -> DueKey {
    DueKey { due_at: at, sequence: Sequence(0) }
}

impl TimedSweep {
    pub(crate) fn new(order: StoredOrder) -> Self {
        Self {
            order,
            next_check: Timestamp::ZERO,
            after: None,
            scanning: false,
            noted: VecDeque::new(),
            noted_since: Timestamp::NEVER,
            mark: None,
            left: 0,
        }
    }

    /// The store has this for the order's beginning.
    pub(crate) fn begin_at(&mut self, mark: DueKey) {
        self.mark = Some(mark);
        self.after = self.mark;
    }

    /// A row that ends then is written by a commit.
    pub(crate) fn note(&mut self, at: Timestamp, commit: CommitSequence) {
        self.next_check = self.next_check.min(at);
        self.noted_since = self.noted_since.min(at);
        match self.noted.back_mut() {
            Some((last, earliest)) if *last == commit => *earliest = at.min(*earliest),
            _ => self.noted.push_back((commit, at)),
        }
        if self.after.is_some_and(|after| at <= after.due_at) && !planted!(MarkNotLowered) {
            self.after = Some(before(at));
        }
    }

    /// Every page sees these commits.
    pub(crate) fn settle(&mut self, settled: CommitSequence) {
        while self.noted.front().is_some_and(|(commit, _)| *commit <= settled) {
            self.noted.pop_front();
        }
    }

    /// A row has left the order. Now and then that has its beginning looked for.
    pub(crate) fn note_left(&mut self, pace: usize) {
        self.left = self.left.saturating_add(1);
        if self.left.is_multiple_of(pace) {
            self.next_check = Timestamp::ZERO;
        }
    }

    /// A page is asked for; what is noted from now on counts anew. Where it begins, exclusive.
    pub(crate) fn begin(&mut self) -> Option<DueKey> {
        self.scanning = true;
        self.next_check = Timestamp::NEVER;
        self.noted_since = Timestamp::NEVER;
        self.after
    }

    /// A page came, with the keys of its rows. Those up to `now` are removed.
    pub(crate) fn end(&mut self, page: &Page, keys: impl Iterator<Item = DueKey>, now: Timestamp) {
        self.scanning = false;
        let (mut last, mut first_left) = (None, None);
        for key in keys {
            if key.due_at > now {
                first_left = Some(key);
                break;
            }
            last = Some(key);
        }
        let unseen = self.noted.iter().filter(|(commit, _)| *commit > page.snapshot).map(|(_, at)| *at);
        let unseen = unseen.chain([self.noted_since]).min().unwrap_or(Timestamp::NEVER);
        let pause = Timestamp::from_millis(now.as_millis() + EXPIRY_PAUSE_MILLIS);
        let next = match first_left {
            Some(key) => key.due_at.max(pause),
            None if page.end => Timestamp::NEVER,
            None => Timestamp::ZERO,
        };
        let next = if unseen < Timestamp::NEVER { next.min(unseen.max(pause)) } else { next };
        self.next_check = self.next_check.min(next);
        let reached = first_left.map(DueKey::before).or(last).or(self.after);
        self.after =
            if planted!(MarkNotLowered) { reached } else { reached.map(|key| key.min(before(unseen))) };
    }

    /// The order's beginning, if the store must write it: at once where a row lies before what it has, and now and then where none
    /// does any more.
    pub(crate) fn moved_mark(&mut self, pace: usize) -> Option<LowWater> {
        let after = self.after?;
        let moves = match self.mark {
            Some(mark) if after < mark => true,
            Some(mark) => after > mark && self.left >= pace,
            None => self.left >= pace,
        };
        if !moves {
            return None;
        }
        self.left = 0;
        self.mark = Some(after);
        Some(LowWater { order: self.order, after: ReadyKey::from(after) })
    }
}
