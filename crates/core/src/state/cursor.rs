//! How far a group is with one log, and the page of the log that lies before it.
//!
//! A position moves when a message is handed out, not when it is settled: what was handed out and is not settled has a delivery of
//! its own, in windows like a queue's. So a stuck message costs one row, whatever is settled behind it.
//!
//! Invariant: a number at or below the position and above the start, or in a run, was handed out; it has a delivery, or is settled.
//! No run lies between the start and the position.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{LogNumber, Sequence};
use crate::planted;
use crate::row::DeliveryRow;
use crate::time::Timestamp;

#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// First and last number of each run.
    runs: BTreeMap<LogNumber, LogNumber>,
    /// Messages of the log behind the position, as the store had them: all up to `known`.
    pub(crate) page: VecDeque<DeliveryRow>,
    pub(crate) known: LogNumber,
    /// A page is under way; what counts resets is `era`.
    pub(crate) scanning: bool,
    pub(crate) era: u32,
    /// When the holders of leases asked last, by their own clocks.
    pub(crate) asked: BTreeMap<Sequence, Timestamp>,
}

/// How runs change.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RunChange {
    /// First numbers of those that are no more.
    pub(crate) removed: Vec<LogNumber>,
    /// The run that is new, or longer.
    pub(crate) put: Option<(LogNumber, LogNumber)>,
}

impl Cursor {
    pub(crate) fn admit_run(&mut self, first: LogNumber, last: LogNumber) {
        self.runs.insert(first, last);
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = (LogNumber, LogNumber)> + '_ {
        self.runs.iter().map(|(first, last)| (*first, *last))
    }

    pub(crate) fn runs_len(&self) -> usize {
        self.runs.len()
    }

    /// Whether a number is in a run.
    pub(crate) fn in_run(&self, number: LogNumber) -> bool {
        self.runs.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }

    /// The last number of the run that begins with a number.
    pub(crate) fn run_from(&self, first: LogNumber) -> Option<LogNumber> {
        self.runs.get(&first).copied()
    }

    /// The run that a number would make or join.
    pub(crate) fn run_with(&self, number: LogNumber) -> RunChange {
        let mut change = RunChange::default();
        let (mut first, mut last) = (number, number);
        if let Some((before, until)) = self.runs.range(..number).next_back()
            && until.0 + 1 >= number.0
        {
            first = *before;
            change.removed.push(*before);
        }
        let reach = if planted!(RunMergeOffByOne) { 2 } else { 1 };
        if let Some((next, until)) = self.runs.range(number..).next()
            && next.0 <= number.0 + reach
        {
            last = *until;
            change.removed.push(*next);
        }
        change.put = Some((first, last));
        change
    }

    pub(crate) fn change_runs(&mut self, change: &RunChange) {
        for first in &change.removed {
            self.runs.remove(first);
        }
        if let Some((first, last)) = change.put {
            self.runs.insert(first, last);
        }
    }

    /// The position has moved: first numbers of the runs that it passed, and that are forgotten with this. A run that begins behind
    /// the start stays.
    pub(crate) fn pass_runs(&mut self, start: LogNumber, position: LogNumber) -> Vec<LogNumber> {
        let passed: Vec<_> = self.runs.range(start.next()..=position).map(|(first, _)| *first).collect();
        for first in &passed {
            self.runs.remove(first);
        }
        passed
    }

    /// Forgets the page; what was asked for is ignored when it comes.
    pub(crate) fn reset_page(&mut self) {
        self.page.clear();
        self.known = LogNumber::default();
        self.scanning = false;
        self.era += 1;
    }

    /// The position is here: what lies before it leaves the page.
    pub(crate) fn drop_before(&mut self, position: LogNumber) {
        while self.page.front().is_some_and(|row| row.log_number() <= position) {
            self.page.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(cursor: &mut Cursor, number: u64) {
        let change = cursor.run_with(LogNumber(number));
        cursor.change_runs(&change);
    }

    fn runs(cursor: &Cursor) -> Vec<(u64, u64)> {
        cursor.runs().map(|(first, last)| (first.0, last.0)).collect()
    }

    #[test]
    fn neighbours_become_one_run_and_others_do_not() {
        let mut cursor = Cursor::default();
        for number in [5, 7, 9, 10] {
            take(&mut cursor, number);
        }
        assert_eq!(runs(&cursor), [(5, 5), (7, 7), (9, 10)]);
        take(&mut cursor, 6);
        assert_eq!(runs(&cursor), [(5, 7), (9, 10)]);
        take(&mut cursor, 8);
        assert_eq!(runs(&cursor), [(5, 10)]);
        take(&mut cursor, 1);
        take(&mut cursor, 3);
        assert_eq!(runs(&cursor), [(1, 1), (3, 3), (5, 10)]);
        let within = |number| cursor.in_run(LogNumber(number));
        assert_eq!([1, 2, 3, 4, 5, 10, 11].map(within), [true, false, true, false, true, true, false]);
    }

    #[test]
    fn a_position_forgets_the_runs_it_passed_but_not_those_behind_the_start() {
        let mut cursor = Cursor::default();
        for number in [2, 11, 13, 20] {
            take(&mut cursor, number);
        }
        assert_eq!(cursor.pass_runs(LogNumber(10), LogNumber(13)), [LogNumber(11), LogNumber(13)]);
        assert_eq!(runs(&cursor), [(2, 2), (20, 20)]);
    }
}
