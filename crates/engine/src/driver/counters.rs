//! What the engine counts while it works, and what can be read of it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use millpond_core::id::QueueNumber;
use millpond_core::row::DeadReason;
use millpond_core::{ChangeSet, DeliveryChange};

use crate::EngineError;
use crate::driver::Shared;
use crate::driver::slot::Failure;
use crate::histogram::{COUNT_BOUNDS, DURATION_BOUNDS, Histogram, HistogramReading};

/// What the engine has done since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineStats {
    /// Commands answered.
    pub commands: u64,
    /// Commits made durable; each is one flush.
    pub commits: u64,
    /// Rows written or removed by them.
    pub rows: u64,
    /// Environments open now.
    pub environments_open: u64,
    /// Environments opened again after a failure.
    pub reopened: u64,
}

/// What an operator watches of the engine: counts since it was started, but for what is said to be so now.
#[derive(Clone, Debug)]
pub struct EngineMetrics {
    /// Commands answered.
    pub commands: u64,
    /// Commands taken in and not answered, now; lease calls that wait are among them.
    pub commands_waiting: u64,
    /// Commands refused because too many waited in their environment.
    pub overloaded_by_commands: u64,
    /// Commands refused because too many bytes of sends waited in their environment.
    pub overloaded_by_bytes: u64,
    /// Commits made durable.
    pub commits: u64,
    /// Rows written or removed by them.
    pub rows: u64,
    /// From the moment at which a commit was handed to its thread to its beginning, in nanoseconds.
    pub commit_wait: HistogramReading,
    /// From the beginning of a commit to its end, in nanoseconds.
    pub commit_duration: HistogramReading,
    /// The part of it in which the store waited for its flush, in nanoseconds; of stores that can tell.
    pub commit_flush: HistogramReading,
    /// Commands applied in the round of a commit.
    pub commit_commands: HistogramReading,
    /// Jobs that wait for each of the threads that commit, now.
    pub writer_jobs: Vec<u64>,
    /// Environments open, now.
    pub environments_open: u64,
    /// Environments whose store failed and that are not open again, now.
    pub environments_failed: u64,
    /// Environments opened again after a failure.
    pub reopened: u64,
    /// Failures by cause.
    pub failures: Failures,
    /// Grants taken back because nobody got their answer.
    pub grants_undone: u64,
    /// Answers to which they belonged.
    pub receipts_undone: u64,
    /// Messages from beside the owner that were refused when they were taken in, by reason.
    pub external_refused: ExternalRefused,
}

/// How many messages from beside the owner were refused when they were taken in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ExternalRefused {
    /// Their idempotency key was remembered.
    pub deduplicated: u64,
    /// There was no such queue any more.
    pub queue_deleted: u64,
    /// Something of them was beyond what the queue allowed by then.
    pub refused: u64,
}

impl ExternalRefused {
    /// Those of a commit.
    pub(crate) fn of(changes: &ChangeSet) -> Self {
        let mut counts = Self::default();
        if changes.external_taken.is_empty() {
            return counts;
        }
        for change in &changes.deliveries {
            let DeliveryChange::Insert(row) = change else { continue };
            let reason = row.dead_letter.as_ref().filter(|_| row.queue == QueueNumber::NONE);
            match reason.map(|dead_letter| dead_letter.reason) {
                Some(DeadReason::Deduplicated) => counts.deduplicated += 1,
                Some(DeadReason::QueueDeleted) => counts.queue_deleted += 1,
                Some(DeadReason::Refused) => counts.refused += 1,
                Some(DeadReason::AttemptsSpent | DeadReason::LeasesLost | DeadReason::Cancelled) | None => {}
            }
        }
        counts
    }
}

/// How often environments failed, by what failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Failures {
    /// Commits.
    pub commit: u64,
    /// Openings.
    pub open: u64,
    /// Turns that ended in a panic.
    pub panic: u64,
    /// Reads.
    pub read: u64,
}

#[derive(Debug)]
pub(crate) struct Counters {
    pub(crate) commands: AtomicU64,
    pub(crate) reopened: AtomicU64,
    commits: AtomicU64,
    rows: AtomicU64,
    commit_wait: Histogram,
    commit_duration: Histogram,
    commit_flush: Histogram,
    commit_commands: Histogram,
    overloaded_by_commands: AtomicU64,
    overloaded_by_bytes: AtomicU64,
    failed_commits: AtomicU64,
    failed_opens: AtomicU64,
    failed_reads: AtomicU64,
    panics: AtomicU64,
    grants_undone: AtomicU64,
    receipts_undone: AtomicU64,
    external_deduplicated: AtomicU64,
    external_queue_deleted: AtomicU64,
    external_refused: AtomicU64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            commands: AtomicU64::new(0),
            reopened: AtomicU64::new(0),
            commits: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            commit_wait: Histogram::new(DURATION_BOUNDS),
            commit_duration: Histogram::new(DURATION_BOUNDS),
            commit_flush: Histogram::new(DURATION_BOUNDS),
            commit_commands: Histogram::new(COUNT_BOUNDS),
            overloaded_by_commands: AtomicU64::new(0),
            overloaded_by_bytes: AtomicU64::new(0),
            failed_commits: AtomicU64::new(0),
            failed_opens: AtomicU64::new(0),
            failed_reads: AtomicU64::new(0),
            panics: AtomicU64::new(0),
            grants_undone: AtomicU64::new(0),
            receipts_undone: AtomicU64::new(0),
            external_deduplicated: AtomicU64::new(0),
            external_queue_deleted: AtomicU64::new(0),
            external_refused: AtomicU64::new(0),
        }
    }
}

/// A commit that is durable.
pub(crate) struct Committed {
    /// How long it waited for its thread.
    pub(crate) waited: Duration,
    /// How long it took.
    pub(crate) took: Duration,
    /// How much of that was the flush, if the store can tell.
    pub(crate) flush: Option<Duration>,
    pub(crate) rows: usize,
    pub(crate) commands: usize,
    pub(crate) external_refused: ExternalRefused,
}

impl Counters {
    pub(crate) fn committed(&self, commit: &Committed) {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        self.commits.fetch_add(1, Ordering::Relaxed);
        self.rows.fetch_add(number(commit.rows), Ordering::Relaxed);
        self.commit_wait.record_duration(commit.waited);
        self.commit_duration.record_duration(commit.took);
        self.commit_commands.record(number(commit.commands));
        if let Some(flush) = commit.flush {
            self.commit_flush.record_duration(flush);
        }
        let refused = commit.external_refused;
        self.external_deduplicated.fetch_add(refused.deduplicated, Ordering::Relaxed);
        self.external_queue_deleted.fetch_add(refused.queue_deleted, Ordering::Relaxed);
        self.external_refused.fetch_add(refused.refused, Ordering::Relaxed);
    }

    /// A command was refused before it was taken in.
    pub(crate) fn refused(&self, error: &EngineError) {
        match error {
            EngineError::Overloaded { what: "bytes", .. } => &self.overloaded_by_bytes,
            EngineError::Overloaded { .. } => &self.overloaded_by_commands,
            _ => return,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed(&self, failure: &Failure) {
        match failure {
            Failure::Commit(_) => &self.failed_commits,
            Failure::Panic => &self.panics,
            Failure::Read(_) => &self.failed_reads,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn not_opened(&self) {
        self.failed_opens.fetch_add(1, Ordering::Relaxed);
    }

    /// So many grants of one answer are taken back.
    pub(crate) fn undone(&self, grants: usize) {
        self.receipts_undone.fetch_add(1, Ordering::Relaxed);
        self.grants_undone.fetch_add(u64::try_from(grants).unwrap_or(0), Ordering::Relaxed);
    }
}

impl Shared {
    pub(crate) fn stats(&self) -> EngineStats {
        let open = self.slots().iter().filter(|slot| slot.is_open()).count();
        EngineStats {
            commands: self.counters.commands.load(Ordering::Relaxed),
            commits: self.counters.commits.load(Ordering::Relaxed),
            rows: self.counters.rows.load(Ordering::Relaxed),
            environments_open: u64::try_from(open).unwrap_or(u64::MAX),
            reopened: self.counters.reopened.load(Ordering::Acquire),
        }
    }

    pub(crate) fn metrics(&self) -> EngineMetrics {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let counters = &self.counters;
        let slots = self.slots();
        EngineMetrics {
            commands: load(&counters.commands),
            commands_waiting: slots.iter().map(|slot| number(slot.taken_commands())).sum(),
            overloaded_by_commands: load(&counters.overloaded_by_commands),
            overloaded_by_bytes: load(&counters.overloaded_by_bytes),
            commits: load(&counters.commits),
            rows: load(&counters.rows),
            commit_wait: counters.commit_wait.read(),
            commit_duration: counters.commit_duration.read(),
            commit_flush: counters.commit_flush.read(),
            commit_commands: counters.commit_commands.read(),
            writer_jobs: self.writers.iter().map(|writer| number(writer.len())).collect(),
            environments_open: number(slots.iter().filter(|slot| slot.is_open()).count()),
            environments_failed: number(slots.iter().filter(|slot| slot.has_failed()).count()),
            reopened: counters.reopened.load(Ordering::Acquire),
            failures: Failures {
                commit: load(&counters.failed_commits),
                open: load(&counters.failed_opens),
                panic: load(&counters.panics),
                read: load(&counters.failed_reads),
            },
            grants_undone: load(&counters.grants_undone),
            receipts_undone: load(&counters.receipts_undone),
            external_refused: ExternalRefused {
                deduplicated: load(&counters.external_deduplicated),
                queue_deleted: load(&counters.external_queue_deleted),
                refused: load(&counters.external_refused),
            },
        }
    }
}
