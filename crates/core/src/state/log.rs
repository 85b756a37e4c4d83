//! The ready messages of a topic or a partition: they stay when they are handed out, in the order of their numbers.
//!
//! Memory holds the newest ones, where groups that keep up read, and for every stretch of the log which of its messages are still
//! there. A group that is far behind reads pages of the store (`state/cursor.rs`).
//!
//! Invariant: every ready message of the log with a number above `from` is in the tail; the bits of the segments are those of all
//! ready messages, in memory or not.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::id::{LogNumber, QueueNumber, Sequence};
use crate::planted;
use crate::row::SegmentRow;

#[derive(Debug, Default)]
pub(crate) struct Log {
    tail: BTreeMap<LogNumber, Sequence>,
    /// The tail holds what lies above.
    from: LogNumber,
    segments: BTreeMap<u64, [u64; SegmentRow::WORDS]>,
    touched: BTreeSet<u64>,
    /// Those of a topic.
    pub(crate) family: Family,
}

/// What belongs to a topic, by id.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) groups: BTreeMap<Box<str>, QueueNumber>,
    pub(crate) partitions: BTreeMap<Box<str>, QueueNumber>,
    /// Groups with calls that wait.
    pub(crate) waiting: BTreeSet<QueueNumber>,
}

/// Segment and bit of a number.
fn place_of(number: LogNumber) -> (u64, usize, u64) {
    let at = number.0.saturating_sub(1);
    let within = at % SegmentRow::NUMBERS;
    (at / SegmentRow::NUMBERS, usize::try_from(within / 64).unwrap_or(0), 1 << (within % 64))
}

fn count(words: &[u64; SegmentRow::WORDS]) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// The bits of a segment whose numbers lie within `first` to `last`.
fn count_within(index: u64, words: &[u64; SegmentRow::WORDS], first: LogNumber, last: LogNumber) -> u64 {
    let base = index * SegmentRow::NUMBERS + 1;
    if first.0 <= base && last.0 >= base + SegmentRow::NUMBERS - 1 {
        return count(words);
    }
    let masked = words.iter().zip(0u64..).map(|(word, at)| {
        let low = base + at * 64;
        let below = first.0.saturating_sub(low).min(64);
        let upto = (last.0 + 1).saturating_sub(low).min(64);
        let mask = |bits: u64| if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
        u64::from((word & mask(upto) & !mask(below)).count_ones())
    });
    masked.sum()
}

impl Log {
    /// One whose last message has the number `last`, none of them in memory.
    pub(crate) fn stored(last: LogNumber) -> Self {
        Self { from: last, ..Self::default() }
    }

    pub(crate) fn admit_segment(&mut self, row: &SegmentRow) {
        self.segments.insert(row.index, row.live);
    }

    fn set_live(&mut self, number: LogNumber, live: bool) {
        let (index, word, bit) = place_of(number);
        if !live && planted!(SegmentBitKept) {
            return;
        }
        let words = self.segments.entry(index).or_default();
        if let Some(word) = words.get_mut(word) {
            *word = if live { *word | bit } else { *word & !bit };
        }
        if count(words) == 0 {
            self.segments.remove(&index);
        }
        self.touched.insert(index);
    }

    /// A message becomes the last of the log.
    pub(crate) fn append(&mut self, number: LogNumber, sequence: Sequence) {
        self.set_live(number, true);
        self.tail.insert(number, sequence);
    }

    /// A message leaves for good.
    pub(crate) fn remove(&mut self, number: LogNumber) {
        self.set_live(number, false);
        self.tail.remove(&number);
    }

    pub(crate) fn covers(&self, number: LogNumber) -> bool {
        number > self.from
    }

    pub(crate) fn holds(&self, number: LogNumber) -> bool {
        self.tail.contains_key(&number)
    }

    /// Above this number memory has everything.
    pub(crate) fn from(&self) -> LogNumber {
        self.from
    }

    /// What memory holds above a number, in order.
    pub(crate) fn behind(&self, number: LogNumber) -> impl Iterator<Item = (LogNumber, Sequence)> + '_ {
        self.tail.range((Excluded(number), Unbounded)).map(|(number, sequence)| (*number, *sequence))
    }

    pub(crate) fn tail_len(&self) -> usize {
        self.tail.len()
    }

    /// Lets go of the oldest messages in memory until `entries` are left or one has to stay. Answers those that went.
    pub(crate) fn trim(&mut self, entries: usize, mut stays: impl FnMut(Sequence) -> bool) -> Vec<Sequence> {
        let mut gone = Vec::new();
        while self.tail.len() > entries
            && let Some(first) = self.tail.first_entry()
        {
            if stays(*first.get()) {
                break;
            }
            self.from = *first.key();
            gone.push(first.remove());
        }
        gone
    }

    /// Messages from `first` to `last`, both included, that are still there.
    pub(crate) fn live_within(&self, first: LogNumber, last: LogNumber) -> u64 {
        if first > last {
            return 0;
        }
        let segments = self.segments.range(place_of(first).0..=place_of(last).0);
        segments.map(|(index, words)| count_within(*index, words, first, last)).sum()
    }

    /// Whether any message from `first` to `last`, both included, is still there. Stops at the first: no segment is empty.
    pub(crate) fn any_within(&self, first: LogNumber, last: LogNumber) -> bool {
        if first > last {
            return false;
        }
        let mut segments = self.segments.range(place_of(first).0..=place_of(last).0);
        segments.any(|(index, words)| count_within(*index, words, first, last) > 0)
    }

    /// Messages behind `position` that are still there; `all` are in the log. Counts from the nearer end.
    pub(crate) fn live_behind(&self, position: LogNumber, last: LogNumber, all: u64) -> u64 {
        let at = place_of(position).0;
        let begins = self.segments.first_key_value().map_or(at, |(index, _)| *index);
        if at.saturating_sub(begins) < place_of(last).0.saturating_sub(at) {
            return all.saturating_sub(self.live_within(LogNumber(1), position));
        }
        self.live_within(position.next(), last)
    }

    /// Whether one message is still there.
    pub(crate) fn is_live(&self, number: LogNumber) -> bool {
        let (index, word, bit) = place_of(number);
        self.segments.get(&index).and_then(|words| words.get(word)).is_some_and(|word| word & bit != 0)
    }

    /// All messages are gone. Answers those that memory held.
    pub(crate) fn clear(&mut self) -> Vec<Sequence> {
        self.segments.clear();
        self.touched.clear();
        std::mem::take(&mut self.tail).into_values().collect()
    }

    /// Segments changed since the last call: those that are, and the places of those that are no more.
    pub(crate) fn take_touched(&mut self, log: QueueNumber) -> (Vec<SegmentRow>, Vec<(QueueNumber, u64)>) {
        let (mut put, mut removed) = (Vec::new(), Vec::new());
        for index in std::mem::take(&mut self.touched) {
            match self.segments.get(&index) {
                Some(live) => put.push(SegmentRow { log, index, live: *live }),
                None => removed.push((log, index)),
            }
        }
        (put, removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(numbers: impl IntoIterator<Item = u64>) -> Log {
        let mut log = Log::default();
        for number in numbers {
            log.append(LogNumber(number), Sequence(number + 100));
        }
        log
    }

    #[test]
    fn what_is_live_is_counted_exactly_at_every_edge_of_segments_and_words() {
        let numbers: Vec<u64> = (1..=3_000).filter(|number| number % 7 != 0).collect();
        let log = log_of(numbers.iter().copied());
        let edges =
            [1, 2, 63, 64, 65, 128, 129, 1_023, 1_024, 1_025, 2_047, 2_048, 2_049, 2_999, 3_000, 4_000];
        for first in edges {
            for last in edges {
                let counted = numbers.iter().filter(|number| (first..=last).contains(*number)).count() as u64;
                let (first, last) = (LogNumber(first), LogNumber(last));
                assert_eq!(log.live_within(first, last), counted, "{first} to {last}");
                assert_eq!(log.any_within(first, last), counted > 0, "{first} to {last}");
            }
        }
        for position in [0, 1, 7, 1_024, 1_500, 2_999, 3_000] {
            let behind = numbers.iter().filter(|number| **number > position).count() as u64;
            let all = numbers.len() as u64;
            assert_eq!(
                log.live_behind(LogNumber(position), LogNumber(3_000), all),
                behind,
                "behind {position}"
            );
        }
        assert!(
            log.is_live(LogNumber(1_024)) && !log.is_live(LogNumber(7)) && !log.is_live(LogNumber(9_999))
        );
    }

    #[test]
    fn a_segment_is_written_once_a_batch_and_removed_with_its_last_message() {
        let mut log = log_of([1, 2, 1_025]);
        let (put, removed) = log.take_touched(QueueNumber(5));
        assert_eq!(put.iter().map(|row| row.index).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(removed, []);
        log.remove(LogNumber(1_025));
        assert_eq!(log.take_touched(QueueNumber(5)), (vec![], vec![(QueueNumber(5), 1)]));
        assert_eq!(log.take_touched(QueueNumber(5)), (vec![], vec![]));
    }

    #[test]
    fn the_oldest_leave_memory_but_not_beyond_one_that_has_to_stay() {
        let mut log = log_of([1, 2, 3, 4, 5]);
        assert_eq!(log.trim(1, |sequence| sequence == Sequence(103)), [Sequence(101), Sequence(102)]);
        assert_eq!((log.from(), log.tail_len()), (LogNumber(2), 3));
        assert!(log.covers(LogNumber(3)) && !log.covers(LogNumber(2)));
        assert_eq!(log.live_within(LogNumber(1), LogNumber(5)), 5);
    }
}
