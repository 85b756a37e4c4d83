//! The front of one stored order, held in memory.
//!
//! Invariant: every row of the order whose key is at or before the edge has its key `inside`. What sorts behind the
//! edge is only written; it is kept `aside` until its change is durable and no read that might miss it is under way,
//! so that a page that was read meanwhile can be completed (design-holes A6).

use std::collections::BTreeSet;

use crate::id::Sequence;
use crate::planted;
use crate::row::{DueKey, ReadyKey};
use crate::time::Timestamp;

/// The key of an order.
pub(crate) trait OrderKey: Ord + Copy {
    /// A key before this one, with nothing between them.
    fn before(self) -> Self;
}

/// Sequences begin at 1.
fn sequence_before(at: Timestamp, sequence: Sequence) -> (Timestamp, Sequence) {
    match sequence.0.checked_sub(1) {
        Some(before) => (at, Sequence(before)),
        None => (Timestamp::from_millis(at.as_millis().saturating_sub(1)), Sequence::LAST),
    }
}

impl OrderKey for ReadyKey {
    fn before(self) -> Self {
        let (order_at, sequence) = sequence_before(self.order_at, self.sequence);
        Self { order_at, sequence, ..self }
    }
}

impl OrderKey for Sequence {
    fn before(self) -> Self {
        Self(self.0.saturating_sub(1))
    }
}

impl OrderKey for DueKey {
    fn before(self) -> Self {
        let (due_at, sequence) = sequence_before(self.due_at, self.sequence);
        Self { due_at, sequence }
    }
}

/// Up to where memory knows an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Edge<K> {
    /// Nothing is known.
    Start,
    /// Known up to this key.
    At(K),
    /// All of it is known.
    End,
}

#[derive(Debug)]
pub(crate) struct Window<K> {
    inside: BTreeSet<K>,
    aside: BTreeSet<K>,
    edge: Edge<K>,
    /// Counts resets; a page that was asked for before one is ignored.
    era: u32,
    scanning: bool,
    /// What the store has for the order's beginning.
    mark: Option<K>,
    /// Where the page under way, or the last, begins.
    scanned_from: Option<K>,
    /// Rows that have left since the mark was set.
    left: usize,
}

impl<K: OrderKey> Window<K> {
    /// Of an order that is empty in the store.
    pub(crate) fn of_nothing() -> Self {
        Self {
            inside: BTreeSet::new(),
            aside: BTreeSet::new(),
            edge: Edge::End,
            era: 0,
            scanning: false,
            mark: None,
            scanned_from: None,
            left: 0,
        }
    }

    /// Of an order of which nothing was read yet.
    pub(crate) fn unread() -> Self {
        Self { edge: Edge::Start, ..Self::of_nothing() }
    }

    /// The store has this for the order's beginning.
    pub(crate) fn begin_at(&mut self, mark: K) {
        self.mark = Some(mark);
    }

    /// The mark, if the batch has moved it so that the store must write it: at once where a row lies before it, and where none does
    /// any more once `pace` rows have left.
    pub(crate) fn moved_mark(&mut self, pace: usize) -> Option<K> {
        let first = match self.edge {
            // What the store holds is not known: the mark only ever falls.
            Edge::Start => self.aside.first().map(|key| key.before()).filter(|key| Some(*key) < self.mark)?,
            Edge::At(edge) => self.inside.first().map_or(edge, |key| key.before()),
            Edge::End => self.inside.first()?.before(),
        };
        let moves = match self.mark {
            Some(mark) if first < mark => !planted!(MarkNotLowered),
            Some(mark) => first > mark && self.left >= pace,
            None => self.left >= pace,
        };
        if !moves {
            return None;
        }
        self.left = 0;
        self.mark = Some(first);
        self.mark
    }

    /// Whether a key belongs inside.
    pub(crate) fn covers(&self, key: &K) -> bool {
        match &self.edge {
            Edge::Start => false,
            Edge::At(edge) => key <= edge,
            Edge::End => true,
        }
    }

    pub(crate) fn insert(&mut self, key: K) {
        if self.covers(&key) {
            self.inside.insert(key);
        } else {
            self.aside.insert(key);
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.left = self.left.saturating_add(1);
        if !self.inside.remove(key) {
            self.aside.remove(key);
        }
    }

    pub(crate) fn first(&self) -> Option<&K> {
        self.inside.first()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &K> {
        self.inside.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.inside.len()
    }

    /// Whether a key has to stay in memory: it is inside, or the first page, which is under way, begins behind it.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.inside.contains(key) || self.awaits_first_page(key)
    }

    /// Whether a key that is stored has to be among those that stay in memory.
    pub(crate) fn owes(&self, key: &K) -> bool {
        self.covers(key) || self.awaits_first_page(key)
    }

    fn awaits_first_page(&self, key: &K) -> bool {
        self.is_missed_by_first_page(key) && self.aside.contains(key)
    }

    fn is_missed_by_first_page(&self, key: &K) -> bool {
        self.is_unread() && self.scanning && self.scanned_from.is_some_and(|from| *key <= from)
    }

    /// The whole order is known.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.edge, Edge::End)
    }

    /// The change of a row that lies behind the edge is durable: it may be forgotten.
    pub(crate) fn forget_aside(&mut self, key: &K) {
        if !self.is_missed_by_first_page(key) {
            self.aside.remove(key);
        }
    }

    /// Starts to read on: where from, and the era to hand back with the page. `None`: nothing to read, or a page is
    /// under way already.
    pub(crate) fn begin_scan(&mut self) -> Option<(Option<K>, u32)> {
        if self.scanning {
            return None;
        }
        let after = match self.edge {
            Edge::Start => self.mark,
            Edge::At(key) => Some(key),
            Edge::End => return None,
        };
        self.scanning = true;
        self.scanned_from = after;
        Some((after, self.era))
    }

    /// Nothing was read yet.
    pub(crate) fn is_unread(&self) -> bool {
        matches!(self.edge, Edge::Start)
    }

    /// Whether there is something to read and no page under way.
    pub(crate) fn wants_scan(&self) -> bool {
        !self.scanning && self.edge != Edge::End
    }

    /// A page came: whether it is still wanted.
    pub(crate) fn end_scan(&mut self, era: u32) -> bool {
        if era != self.era {
            return false;
        }
        self.scanning = false;
        true
    }

    /// Moves the edge behind a page; what was kept aside and now lies before it comes inside. The caller has
    /// inserted nothing of the page yet.
    pub(crate) fn advance(&mut self, last: Option<K>, end: bool) {
        if end {
            self.edge = Edge::End;
        } else if let Some(last) = last {
            self.edge = Edge::At(last);
        }
        let behind = match self.edge {
            Edge::Start => return,
            Edge::End => BTreeSet::new(),
            Edge::At(edge) => {
                let mut behind = self.aside.split_off(&edge);
                if behind.remove(&edge) {
                    self.inside.insert(edge);
                }
                behind
            }
        };
        let mut inside = std::mem::replace(&mut self.aside, behind);
        self.inside.append(&mut inside);
    }

    /// Cuts the window back to `entries`; returns the keys that no longer are inside. They are now behind the edge,
    /// and the caller puts those aside that are not durable yet.
    pub(crate) fn trim(&mut self, entries: usize) -> BTreeSet<K> {
        if self.scanning || self.inside.len() <= entries {
            return BTreeSet::new();
        }
        let Some(last) = self.inside.iter().nth(entries.saturating_sub(1)).copied() else {
            return BTreeSet::new();
        };
        let mut cut = self.inside.split_off(&last);
        cut.remove(&last);
        self.inside.insert(last);
        self.edge = Edge::At(last);
        cut
    }

    /// Everything in the order is gone, in the store too.
    pub(crate) fn reset_to_nothing(&mut self) -> impl Iterator<Item = K> + use<K> {
        let inside = std::mem::take(&mut self.inside);
        let aside = std::mem::take(&mut self.aside);
        self.edge = Edge::End;
        self.era += 1;
        self.scanning = false;
        inside.into_iter().chain(aside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: u32 = 100;

    impl OrderKey for u32 {
        fn before(self) -> Self {
            self.saturating_sub(1)
        }
    }

    #[test]
    fn what_is_inserted_behind_the_edge_while_a_page_is_read_comes_inside_with_it() {
        let mut window = Window::unread();
        assert_eq!(window.begin_scan(), Some((None, 0)));
        window.insert(5);
        window.insert(50);
        assert_eq!(window.first(), None);
        assert!(window.end_scan(0));
        window.advance(Some(10), false);
        assert_eq!(window.first(), Some(&5));
        assert!(!window.contains(&50));
        window.advance(None, true);
        assert!(window.contains(&50));
    }

    #[test]
    fn a_key_that_equals_the_edge_is_inside() {
        let mut window = Window::unread();
        window.insert(10);
        window.advance(Some(10), false);
        assert!(window.contains(&10));
        window.insert(11);
        assert!(!window.contains(&11));
    }

    #[test]
    fn a_cut_window_knows_only_what_it_kept() {
        let mut window = Window::of_nothing();
        for key in 0..10 {
            window.insert(key);
        }
        assert_eq!(window.trim(4).into_iter().collect::<Vec<_>>(), [4, 5, 6, 7, 8, 9]);
        assert!(!window.is_complete());
        assert_eq!(window.begin_scan(), Some((Some(3), 0)));
    }

    #[test]
    fn the_mark_rises_now_and_then_and_falls_at_once() {
        let mut window = Window::of_nothing();
        for key in 1..=2 * PACE {
            window.insert(key);
        }
        for key in 1..PACE {
            window.remove(&key);
            assert_eq!(window.moved_mark(PACE as usize), None);
        }
        window.remove(&PACE);
        assert_eq!(window.moved_mark(PACE as usize), Some(PACE));
        window.insert(PACE + 1);
        assert_eq!(window.moved_mark(PACE as usize), None, "what is behind it is no matter");
        window.insert(3);
        assert_eq!(window.moved_mark(PACE as usize), Some(2));
        assert_eq!(window.moved_mark(PACE as usize), None);
    }

    #[test]
    fn the_mark_of_an_unread_order_only_falls() {
        let mut window = Window::unread();
        window.begin_at(100);
        window.insert(150);
        for key in 0..=PACE {
            window.remove(&(200 + key));
        }
        assert_eq!(window.moved_mark(PACE as usize), None);
        window.insert(50);
        assert_eq!(window.moved_mark(PACE as usize), Some(49));
        window.forget_aside(&50);
        assert_eq!(window.moved_mark(PACE as usize), None);
        assert_eq!(window.begin_scan(), Some((Some(49), 0)));
    }

    #[test]
    fn what_is_inserted_before_the_first_page_stays_until_that_has_come() {
        let mut window = Window::unread();
        window.begin_at(100);
        window.insert(40);
        assert_eq!(window.begin_scan(), Some((Some(100), 0)));
        assert_eq!(window.moved_mark(PACE as usize), Some(39));
        window.insert(50);
        window.insert(150);
        for key in [40, 50, 150] {
            window.forget_aside(&key);
        }
        assert!(window.contains(&40) && window.contains(&50) && !window.contains(&150));
        assert!(window.end_scan(0));
        window.advance(Some(120), false);
        assert_eq!(window.iter().collect::<Vec<_>>(), [&40, &50]);
    }

    #[test]
    fn the_mark_of_an_order_that_is_known_up_to_an_edge_never_passes_it() {
        let mut window = Window::unread();
        window.advance(Some(10), false);
        window.insert(10);
        window.remove(&10);
        for key in 0..PACE {
            window.insert(20 + key);
            window.remove(&(20 + key));
        }
        assert_eq!(window.moved_mark(PACE as usize), Some(10));
    }

    #[test]
    fn a_page_asked_for_before_a_reset_is_ignored() {
        let mut window = Window::<u32>::unread();
        let (_, era) = window.begin_scan().expect("unread");
        assert_eq!(window.reset_to_nothing().count(), 0);
        assert!(!window.end_scan(era));
        assert!(window.is_complete());
    }
}
