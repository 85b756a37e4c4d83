//! The load under which backends are measured: messages sent, claimed and removed, so many operations a commit.
//!
//! It writes what the engine would write for a queue in steady state (the message, its delivery, the counters, the
//! environment's row) and nothing else is done: this is the bare loop that design.md, section 10, compares with.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::id::{CommitSequence, LeaseGeneration, Sequence};
use millpond_core::row::{CountersRow, DataKind, DeliveryRow, DeliveryState, MessageContent, MessageRow};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::{Store, StoreError};

use crate::rows::{counters, delivery, environment, queue};

/// How hard to drive a store.
#[derive(Clone, Copy, Debug)]
pub struct Lifecycle {
    /// Operations a commit: a third each of sends, claims and removals.
    pub operations_per_commit: usize,
    /// Messages that lie between a send and its claim, and between a claim and its removal.
    pub distance: u64,
    /// Bytes of data of each message.
    pub data_bytes: usize,
}

/// What it took.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Messages that went through all three.
    pub messages: u64,
    /// Commits made.
    pub commits: u64,
    /// Wall clock.
    pub elapsed: Duration,
    /// The slowest commit.
    pub slowest: Duration,
}

impl Measured {
    /// Whole lifecycles a second.
    #[must_use]
    pub fn messages_per_second(&self) -> f64 {
        self.messages as f64 / self.elapsed.as_secs_f64()
    }
}

/// Lifecycles under way in one environment.
#[derive(Clone, Debug)]
pub struct Run {
    load: Lifecycle,
    first: u64,
    sent: u64,
    claimed: u64,
    removed: u64,
    commit: CommitSequence,
}

impl Run {
    /// Begins after commit `last`, the last one of the store.
    #[must_use]
    pub fn new(load: Lifecycle, last: CommitSequence) -> Self {
        let first = last.0 * 10_000 + 1;
        Self { load, first, sent: first, claimed: first, removed: first, commit: last }
    }

    /// Goes on for at least `duration`.
    ///
    /// # Errors
    /// The store's.
    pub fn go_on(&mut self, store: &mut dyn Store, duration: Duration) -> Result<Measured, StoreError> {
        let (start, mut slowest, mut commits) = (Instant::now(), Duration::ZERO, 0);
        let removed = self.removed;
        while start.elapsed() < duration {
            let changes = self.changes();
            let before = Instant::now();
            store.commit(&changes)?;
            slowest = slowest.max(before.elapsed());
            commits += 1;
        }
        Ok(Measured { messages: self.removed - removed, commits, elapsed: start.elapsed(), slowest })
    }

    /// The changes of the next commit.
    pub fn changes(&mut self) -> ChangeSet {
        let count = u64::try_from(self.load.operations_per_commit / 3).unwrap_or(1).max(1);
        self.next(count)
    }

    fn next(&mut self, count: u64) -> ChangeSet {
        self.commit = self.commit.next();
        let counters =
            CountersRow { total_sent: self.sent, total_acked: self.removed, ..counters(1, self.commit.0) };
        let mut changes = ChangeSet {
            commit: self.commit,
            environment: environment(self.commit.0),
            counters: vec![counters],
            ..ChangeSet::default()
        };
        if self.sent == self.first {
            changes.queues_put.push(queue(1));
        }
        for _ in 0..count {
            let removable = self.claimed - self.removed > self.load.distance;
            if removable {
                changes.deliveries.push(DeliveryChange::Remove(Sequence(self.removed)));
                self.removed += 1;
            }
        }
        for _ in 0..count {
            if self.sent - self.claimed > self.load.distance {
                changes.deliveries.push(DeliveryChange::Update(claimed(self.claimed, self.commit)));
                self.claimed += 1;
            }
        }
        for _ in 0..count {
            changes.messages.push(self.message());
            changes.deliveries.push(DeliveryChange::Insert(sent(self.sent)));
            self.sent += 1;
        }
        changes
    }

    fn message(&self) -> MessageRow {
        let content = MessageContent {
            attributes: r#"{"type":"com.example.order","source":"/orders"}"#.into(),
            data_kind: DataKind::Json,
            data: vec![b'x'; self.load.data_bytes].into(),
        };
        MessageRow { sequence: Sequence(self.sent), content: Arc::new(content), chunks: 0 }
    }
}

const EPOCH_MILLIS: i64 = 1_790_000_000_000;

fn millis_after_epoch(count: u64) -> Timestamp {
    Timestamp::from_millis(EPOCH_MILLIS + i64::try_from(count).unwrap_or(0))
}

fn sent(sequence: u64) -> DeliveryRow {
    let now = millis_after_epoch(sequence / 100);
    DeliveryRow {
        sent_at: now,
        order_at: now,
        due_at: now,
        expires_at: now.plus(Duration::from_secs(14 * 86_400)),
        ..delivery(sequence)
    }
}

fn claimed(sequence: u64, commit: CommitSequence) -> DeliveryRow {
    let now = millis_after_epoch(commit.0);
    DeliveryRow {
        state: DeliveryState::Leased,
        due_at: now.plus(Duration::from_secs(30)),
        leased_at: now,
        lease_generation: LeaseGeneration(208_000_000 << 20),
        delivery_count: 1,
        ..sent(sequence)
    }
}
