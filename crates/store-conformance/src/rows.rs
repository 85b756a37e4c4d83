//! Rows to test with, and an [`Owner`] that numbers commits.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::id::{
    CommitSequence, Incarnation, LeaseGeneration, LogNumber, QueueNumber, Sequence, Uid,
};
use millpond_core::remembered::{Remembered, SentIds};
use millpond_core::row::{
    ChunkRow, CountersRow, DataKind, DeadLetter, DeadReason, DedupKey, DedupRow, DeliveryRow, DeliveryState,
    EnvironmentRow, Hold, MessageContent, MessageRow, QueueRow, Role, RunRow, SecretRow, SegmentRow,
    TriggerRow, UploadRow,
};
use millpond_core::spec::{
    AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec, TriggerSpec,
};
use millpond_core::time::Timestamp;
use millpond_core::{ChangeSet, DeliveryChange, MessageCopy, Page, ProgressKey, RowKey, Scan};
use millpond_store::{Opened, Store, StoreError, StoreErrorKind, StoreFactory, StoreReader};

/// The environment that most rules use.
pub const ENVIRONMENT: &str = "orgs/o/projects/p/envs/e";

/// Milliseconds as a time.
#[must_use]
pub const fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// A ready delivery in queue 1, all of whose times are its sequence.
#[must_use]
pub fn delivery(sequence: u64) -> DeliveryRow {
    let time = at(i64::try_from(sequence).expect("sequences are below 2^40"));
    DeliveryRow {
        sequence: Sequence(sequence),
        message: Sequence(sequence),
        queue: QueueNumber(1),
        chunks: 0,
        nonce: sequence.wrapping_mul(0x9e37_79b9) & 0xff_ffff_ffff,
        sent_at: time,
        size_bytes: 7 + sequence,
        entered: Sequence(sequence),
        state: DeliveryState::Ready,
        priority: 0,
        retried: false,
        order_at: time,
        due_at: time,
        leased_at: Timestamp::ZERO,
        expires_at: time,
        lease_generation: LeaseGeneration(0),
        hold: Hold::Granted,
        delivery_count: 0,
        failure_count: 0,
        lost_lease_count: 0,
        dead_letter: None,
    }
}

/// A delivery no field of which has its default: a group's progress with a message of its own.
#[must_use]
pub fn odd_delivery(sequence: u64) -> DeliveryRow {
    let dead_letter =
        DeadLetter { at: at(-5), reason: DeadReason::LeasesLost, queue: "a'b\"c\u{0}\u{fffd}ü".into() };
    DeliveryRow {
        message: Sequence(sequence ^ 1),
        queue: QueueNumber(u32::MAX),
        chunks: u32::MAX - 3,
        nonce: 0xff_ffff_ffff,
        sent_at: at(i64::MIN),
        size_bytes: u64::MAX,
        entered: Sequence((1 << 40) - 1),
        state: DeliveryState::Dead,
        priority: i32::MIN,
        retried: true,
        order_at: at(i64::MAX),
        due_at: at(-1),
        leased_at: at(i64::MIN + 1),
        expires_at: Timestamp::NEVER,
        lease_generation: LeaseGeneration((1 << 53) - 1),
        hold: Hold::Reserved,
        delivery_count: u32::MAX,
        failure_count: u32::MAX - 1,
        lost_lease_count: u32::MAX - 2,
        dead_letter: Some(Box::new(dead_letter)),
        ..delivery(sequence)
    }
}

/// A ready delivery that is the progress of a cursor with a message, otherwise like [`delivery`].
#[must_use]
pub fn progress(sequence: u64, cursor: u32, message: u64) -> DeliveryRow {
    DeliveryRow { message: Sequence(message), queue: QueueNumber(cursor), ..delivery(sequence) }
}

/// A segment no two words of which are alike, the first and last bit of all among those set.
#[must_use]
pub fn segment(log: u32, index: u64) -> SegmentRow {
    let mut live = [0; SegmentRow::WORDS];
    for (word, number) in live.iter_mut().zip(1u64..) {
        *word = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(log) ^ (index << 32);
    }
    live[0] |= 1;
    live[SegmentRow::WORDS - 1] |= 1 << 63;
    SegmentRow { log: QueueNumber(log), index, live }
}

/// A run of a cursor.
#[must_use]
pub fn run(cursor: u32, first: u64, last: u64) -> RunRow {
    RunRow { cursor: QueueNumber(cursor), first: LogNumber(first), last: LogNumber(last) }
}

/// A trigger with default policies.
#[must_use]
pub fn trigger(id: &str) -> TriggerRow {
    TriggerRow {
        id: id.into(),
        number: 1,
        uid: Uid(3),
        created_at: at(1),
        deployment: None,
        topic: "t".into(),
        group: "g".into(),
        target: "http://127.0.0.1/".into(),
        spec: TriggerSpec::default(),
    }
}

/// A trigger no field of which has its default.
#[must_use]
pub fn odd_trigger(id: &str) -> TriggerRow {
    let spec = TriggerSpec {
        retry_after: Duration::MAX,
        initial_delay: Duration::from_nanos(1),
        max_deliveries: Some(u32::MAX),
        max_concurrency: Some(0),
        dead_letter_queue: Some("dead'\"\u{0}ü".into()),
        lease: Duration::from_millis(1_500),
    };
    TriggerRow {
        id: id.into(),
        number: u64::MAX,
        uid: Uid(u128::MAX - 1),
        created_at: at(i64::MIN),
        deployment: Some("d'\u{0}e".into()),
        topic: "t\"\u{0}*".into(),
        group: "ü".into(),
        target: "http://[::1]:1/?a='b'\n\u{0}".into(),
        spec,
    }
}

/// A secret that took the place of another.
#[must_use]
pub fn secret(since: i64) -> SecretRow {
    let previous = Some((format!("before'\u{0}{since}").into(), at(i64::MAX)));
    SecretRow { current: format!("now\"\u{0}{since}").into(), previous, since: at(since) }
}

/// A message with a little JSON in it.
#[must_use]
pub fn message(sequence: u64) -> MessageRow {
    let content = MessageContent {
        attributes: r#"{"type":"t"}"#.into(),
        data_kind: DataKind::Json,
        data: format!("{{\"n\":{sequence}}}").into_bytes().into(),
    };
    MessageRow { sequence: Sequence(sequence), content: Arc::new(content), chunks: 0 }
}

/// A queue with default policies.
#[must_use]
pub fn queue(number: u32) -> QueueRow {
    QueueRow {
        number: QueueNumber(number),
        role: Role::Queue,
        name: format!("queue-{number}").into(),
        uid: Uid(u128::MAX - u128::from(number)),
        generation: 1,
        revision: 1,
        created_at: at(1),
        updated_at: at(2),
        annotations: "{}".into(),
        spec: QueueSpec::default(),
        paused_at: None,
        purged_through: Sequence(0),
        dead_purged_through: Sequence(0),
        deleted: false,
        sweep_owed: false,
        settled_by_sql: false,
    }
}

/// A queue no field of which has its default.
#[must_use]
pub fn odd_queue(number: u32) -> QueueRow {
    let spec = QueueSpec {
        at_limit: AtLimit::MoveTo { queue: "dead'\"\u{0}ü".into(), otherwise: Gone::DeadLetterSet },
        attempt_limit: Some(AttemptLimit { max: u32::MAX, counts: Counted::Failures }),
        backoff: Some(Backoff {
            initial: Duration::MAX,
            factor_permille: u32::MAX,
            max: Duration::new(1, 1),
            jitter_permille: (0, u32::MAX),
        }),
        concurrency_max: Some(0),
        delay: Duration::from_nanos(1),
        finished_retention: Duration::from_millis(1_500),
        fresh_first: true,
        leased_max: 1,
        lost_lease: LostLease { backs_off: true, in_a_row_max: Some(10), spends_attempt: false },
        order: Order::Sent,
        retention: None,
        visibility_timeout: Duration::ZERO,
    };
    QueueRow {
        number: QueueNumber(number),
        role: Role::Cursor {
            group: QueueNumber(u32::MAX),
            log: QueueNumber(u32::MAX - 1),
            start: LogNumber(u64::MAX),
        },
        name: "n'a\"m\u{0}e".into(),
        uid: Uid(1),
        generation: 1 << 62,
        revision: (1 << 62) + 1,
        created_at: at(i64::MIN),
        updated_at: at(i64::MAX),
        annotations: "{\"labels\":{\"a\":\"\\u0000\"}}\n\u{0}".into(),
        spec,
        paused_at: Some(at(-1)),
        purged_through: Sequence((1 << 40) - 1),
        dead_purged_through: Sequence((1 << 40) - 2),
        deleted: true,
        sweep_owed: true,
        settled_by_sql: true,
    }
}

/// Counters with a value of its own in each field.
#[must_use]
pub fn counters(queue: u32, base: u64) -> CountersRow {
    CountersRow {
        queue: QueueNumber(queue),
        ready: base,
        delayed: base + 1,
        leased: base + 2,
        dead: base + 3,
        completed: base + 4,
        cancelled: base + 5,
        waiting_bytes: base + 6,
        leased_bytes: base + 7,
        dead_bytes: base + 8,
        finished_bytes: base + 9,
        total_sent: base + 10,
        total_delivered: base + 11,
        total_undone: base + 12,
        total_acked: base + 13,
        total_dead: base + 14,
        total_expired: base + 15,
        consumer_seen_at: at(i64::try_from(base + 16).expect("test counters are small")),
        position: LogNumber(base + 17),
    }
}

/// A remembered send.
#[must_use]
pub fn dedup(queue: u32, key: &str, expires_at: i64) -> DedupRow {
    DedupRow {
        key: DedupKey { queue: Some(QueueNumber(queue)), key: key.into() },
        digest: u128::MAX - 7,
        answer: Remembered::Sent(SentIds {
            sent_at: at(3),
            first_sequence: Sequence(9),
            count: u32::MAX,
            nonce_seed: u64::MAX - 1,
        }),
        expires_at: at(expires_at),
    }
}

/// A chunk of as many bytes as its number and one, each of which tells it apart.
#[must_use]
pub fn chunk(sequence: u64, number: u32) -> ChunkRow {
    let length = usize::try_from(number).map_or(1, |number| number + 1);
    let byte = u8::try_from((sequence + u64::from(number)) % 251).unwrap_or_default();
    ChunkRow { sequence: Sequence(sequence), number, data: vec![byte; length].into() }
}

/// A remembered call that is no send.
#[must_use]
pub fn call(key: &str, answer: Remembered, expires_at: i64) -> DedupRow {
    DedupRow { key: DedupKey { queue: None, key: key.into() }, digest: 7, answer, expires_at: at(expires_at) }
}

/// An environment's row as commit `n` would leave it.
#[must_use]
pub fn environment(n: u64) -> EnvironmentRow {
    EnvironmentRow {
        incarnation: Incarnation(n + 1),
        stamp: at(i64::try_from(n).unwrap_or(i64::MAX)),
        next_sequence: Sequence(n + 2),
        next_queue: QueueNumber(u32::try_from(n % 1_000).unwrap_or(0)),
        dedup_count: n + 3,
        leases_void_below: LeaseGeneration(5 << 20),
    }
}

/// An open environment, its reader, and the number of its last commit.
pub struct Owner {
    /// The right to write.
    pub store: Box<dyn Store>,
    /// Reads it.
    pub reader: Box<dyn StoreReader>,
    /// What was found at open.
    pub opened: Opened,
    /// The last commit that worked.
    pub commit: u64,
}

impl Owner {
    /// Opens the environment that most rules use.
    #[must_use]
    pub fn open(factory: &dyn StoreFactory) -> Self {
        Self::open_named(factory, ENVIRONMENT)
    }

    /// Opens an environment.
    #[must_use]
    pub fn open_named(factory: &dyn StoreFactory, name: &str) -> Self {
        let (mut store, opened) = factory.open(name).expect("the environment opens");
        let reader = store.reader().expect("an open store gives readers");
        let commit = opened.commit.0;
        Self { store, reader, opened, commit }
    }

    /// Commits under the next number what `fill` puts into the set.
    ///
    /// # Errors
    /// Those of the store.
    pub fn try_commit(&mut self, fill: impl FnOnce(&mut ChangeSet)) -> Result<(), StoreError> {
        let number = self.commit + 1;
        let mut changes = ChangeSet {
            commit: CommitSequence(number),
            environment: environment(number),
            ..ChangeSet::default()
        };
        fill(&mut changes);
        self.store.commit(&changes)?;
        self.commit = changes.commit.0;
        Ok(())
    }

    /// As [`Owner::try_commit`], which must work.
    pub fn commit(&mut self, fill: impl FnOnce(&mut ChangeSet)) {
        self.try_commit(fill).expect("the commit works");
    }

    /// Commits deliveries, with messages of their own unless they are progress.
    pub fn send(&mut self, rows: impl IntoIterator<Item = DeliveryRow>) {
        self.commit(|changes| rows.into_iter().for_each(|row| insert(changes, row)));
    }

    /// Commits removals.
    pub fn remove(&mut self, sequences: impl IntoIterator<Item = u64>) {
        let removals = sequences.into_iter().map(|sequence| DeliveryChange::Remove(Sequence(sequence)));
        self.commit(|changes| changes.deliveries.extend(removals));
    }

    /// One delivery as it is stored.
    pub fn delivery(&mut self, sequence: u64) -> Option<DeliveryRow> {
        let rows = self.reader.read(&[RowKey::Delivery(Sequence(sequence))]).expect("reads work");
        assert_eq!(rows.deliveries.len(), 1, "one answer for one key");
        rows.deliveries.into_iter().next().and_then(|(_, row)| row)
    }

    /// A group's progress with one message as it is stored.
    pub fn progress(&mut self, cursor: u32, message: u64) -> Option<DeliveryRow> {
        let key = ProgressKey { cursor: QueueNumber(cursor), message: Sequence(message) };
        let rows = self.reader.read(&[RowKey::Progress(key)]).expect("reads work");
        assert_eq!(rows.progress.len(), 1, "one answer for one key");
        rows.progress.into_iter().next().and_then(|(_, row)| row)
    }

    /// One remembered call as it is stored.
    pub fn dedup(&mut self, key: &DedupKey) -> Option<DedupRow> {
        let rows = self.reader.read(&[RowKey::Dedup(key.clone())]).expect("reads work");
        assert_eq!(rows.dedup.len(), 1, "one answer for one key");
        rows.dedup.into_iter().next().and_then(|(_, row)| row)
    }

    /// Content of one message.
    pub fn content(&mut self, sequence: u64) -> Option<Arc<MessageContent>> {
        let contents = self.reader.contents(&[Sequence(sequence)]).expect("reads work");
        assert_eq!(contents.len(), 1, "one answer for one message");
        contents.into_iter().next().flatten()
    }

    /// One chunk.
    pub fn chunk(&mut self, sequence: u64, number: u32) -> Option<Vec<u8>> {
        self.reader.chunk(Sequence(sequence), number).expect("reads work")
    }

    /// All uploads.
    pub fn uploads(&mut self) -> Vec<UploadRow> {
        let page = self.scan(&Scan::Uploads { after: None, limit: 1_000 });
        assert!(page.end, "tests have few of them");
        page.uploads
    }

    /// One page.
    pub fn scan(&mut self, scan: &Scan) -> Page {
        self.reader.scan(scan).expect("scans work")
    }

    /// Closes in good order.
    pub fn close(self) {
        drop(self.reader);
        self.store.close().expect("the store closes");
    }
}

/// Puts a new delivery into a set, with a message unless it is progress.
pub fn insert(changes: &mut ChangeSet, row: DeliveryRow) {
    if !row.is_progress() {
        changes.messages.push(message(row.sequence.0));
    }
    changes.deliveries.push(DeliveryChange::Insert(row));
}

/// Puts a delivery into a set whose message is a copy.
pub fn insert_copy(changes: &mut ChangeSet, from: u64, row: DeliveryRow) {
    changes.copies.push(MessageCopy { from: Sequence(from), to: row.sequence });
    changes.deliveries.push(DeliveryChange::Insert(row));
}

/// Asserts the kind of an error.
///
/// # Panics
/// When there is none, or another one.
#[track_caller]
pub fn assert_fails<T>(result: Result<T, StoreError>, kind: StoreErrorKind) {
    match result {
        Ok(_) => panic!("expected an error of kind {kind:?}"),
        Err(error) => assert_eq!(error.kind, kind, "{error}: {:?}", error.source),
    }
}
