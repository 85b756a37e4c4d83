//! The front of one stored order, held in memory.
//!
//! Invariant: every row of the order whose key is at or before the edge has its key `inside`. What sorts behind the
//! edge is only written; it is kept `aside` until its change is durable and no read that might miss it is under way,
//! so that a page that was read meanwhile can be completed (design-holes A6).

use std::collections::BTreeSet;

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
}

impl<K: Ord + Copy> Window<K> {
    /// Of an order that is empty in the store.
    pub(crate) fn of_nothing() -> Self {
        Self { inside: BTreeSet::new(), aside: BTreeSet::new(), edge: Edge::End, era: 0, scanning: false }
    }

    /// Of an order of which nothing was read yet.
    pub(crate) fn unread() -> Self {
        Self { edge: Edge::Start, ..Self::of_nothing() }
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

    pub(crate) fn contains(&self, key: &K) -> bool {
        self.inside.contains(key)
    }

    /// The whole order is known.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self.edge, Edge::End)
    }

    /// The change of a row that lies behind the edge is durable: it may be forgotten.
    pub(crate) fn forget_aside(&mut self, key: &K) {
        self.aside.remove(key);
    }

    /// Starts to read on: where from, and the era to hand back with the page. `None`: nothing to read, or a page is
    /// under way already.
    pub(crate) fn begin_scan(&mut self) -> Option<(Option<K>, u32)> {
        if self.scanning {
            return None;
        }
        let after = match self.edge {
            Edge::Start => None,
            Edge::At(key) => Some(key),
            Edge::End => return None,
        };
        self.scanning = true;
        Some((after, self.era))
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
    fn a_page_asked_for_before_a_reset_is_ignored() {
        let mut window = Window::<u32>::unread();
        let (_, era) = window.begin_scan().expect("unread");
        assert_eq!(window.reset_to_nothing().count(), 0);
        assert!(!window.end_scan(era));
        assert!(window.is_complete());
    }
}
