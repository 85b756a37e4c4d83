//! What became of a trigger's pushes: the last hundred, and totals. In memory, since the server was started.

use std::collections::VecDeque;
use std::time::Duration;

use millpond_core::id::MessageId;
use millpond_core::time::Timestamp;

/// Pushes that are remembered one by one.
pub const RECORDS_MAX: usize = 100;

/// One push.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// When it ended.
    pub at: Timestamp,
    /// The message.
    pub message: MessageId,
    /// How often the message was handed out by then, this time included.
    pub delivery_count: u32,
    /// The data went with it.
    pub inline: bool,
    /// How long the call took.
    pub duration: Duration,
    /// What became of it.
    pub ended: Ended,
}

/// How a push ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The connection broke after something was sent.
    Broken {
        /// What went wrong.
        error: String,
    },
    /// The target replied with another status than 2xx.
    Failed {
        /// The status.
        status: u16,
        /// How the reply's body begins.
        body: String,
    },
    /// There was no reply while the lease lasted.
    GaveUp,
    /// The target replied with 2xx: its handler has said what becomes of the message.
    Succeeded {
        /// The status.
        status: u16,
    },
    /// The target was not reached; the message was not handed out.
    Unreachable {
        /// What went wrong.
        error: String,
    },
    /// The message cannot be written as a push.
    Unwritable {
        /// Why.
        error: String,
    },
}

impl Ended {
    /// The word for it.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Broken { .. } => "broken",
            Self::Failed { .. } => "failed",
            Self::GaveUp => "gave_up",
            Self::Succeeded { .. } => "succeeded",
            Self::Unreachable { .. } => "unreachable",
            Self::Unwritable { .. } => "unwritable",
        }
    }
}

/// Pushes in all, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// [`Ended::Broken`].
    pub broken: u64,
    /// [`Ended::Failed`].
    pub failed: u64,
    /// [`Ended::GaveUp`].
    pub gave_up: u64,
    /// [`Ended::Succeeded`].
    pub succeeded: u64,
    /// [`Ended::Unreachable`].
    pub unreachable: u64,
    /// [`Ended::Unwritable`].
    pub unwritable: u64,
    /// How long all calls took together.
    pub duration: Duration,
}

/// What there is to see of a trigger's pushes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Under way.
    pub in_flight: usize,
    /// In all.
    pub totals: Totals,
    /// The last ones, the newest first.
    pub last: Vec<Record>,
}

impl Statistics {
    /// The duration that this share of the last pushes that reached their target did not exceed; 0 to 100.
    #[must_use]
    pub fn percentile(&self, percent: usize) -> Option<Duration> {
        let reached = self.last.iter().filter(|record| !matches!(record.ended, Ended::Unreachable { .. }));
        let mut durations: Vec<_> = reached.map(|record| record.duration).collect();
        durations.sort_unstable();
        let last = durations.len().checked_sub(1)?;
        durations.get((last * percent.min(100)).div_ceil(100)).copied()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Records {
    totals: Totals,
    last: VecDeque<Record>,
}

impl Records {
    pub(crate) fn add(&mut self, record: Record) {
        let totals = &mut self.totals;
        let count = match record.ended {
            Ended::Broken { .. } => &mut totals.broken,
            Ended::Failed { .. } => &mut totals.failed,
            Ended::GaveUp => &mut totals.gave_up,
            Ended::Succeeded { .. } => &mut totals.succeeded,
            Ended::Unreachable { .. } => &mut totals.unreachable,
            Ended::Unwritable { .. } => &mut totals.unwritable,
        };
        *count += 1;
        totals.duration += record.duration;
        self.last.truncate(RECORDS_MAX - 1);
        self.last.push_front(record);
    }

    pub(crate) fn statistics(&self, in_flight: usize) -> Statistics {
        Statistics { in_flight, totals: self.totals, last: self.last.iter().cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use millpond_core::id::Sequence;

    use super::*;

    fn record(number: u64, ended: Ended) -> Record {
        Record {
            at: Timestamp::from_millis(0),
            message: MessageId { sent_at: Timestamp::ZERO, sequence: Sequence(number), nonce: 0 },
            delivery_count: 1,
            inline: true,
            duration: Duration::from_millis(number),
            ended,
        }
    }

    #[test]
    fn the_last_hundred_are_kept_and_all_are_counted() {
        let mut records = Records::default();
        for number in 1..=250 {
            records.add(record(number, Ended::Succeeded { status: 200 }));
        }
        records.add(record(9_999, Ended::Unreachable { error: "refused".to_owned() }));
        let seen = records.statistics(3);
        assert_eq!((seen.in_flight, seen.totals.succeeded, seen.totals.unreachable), (3, 250, 1));
        let sequences: Vec<_> = seen.last.iter().map(|record| record.message.sequence.0).collect();
        assert_eq!((sequences.len(), sequences[0], sequences[1], sequences[99]), (100, 9_999, 250, 152));
        let percentile = |percent| seen.percentile(percent).map(|duration| duration.as_millis());
        assert_eq!([percentile(0), percentile(50), percentile(100)], [Some(152), Some(201), Some(250)]);
        assert_eq!(Statistics::default().percentile(50), None);
    }
}
