//! A store that fails, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use millpond_core::command::{LeaseRef, PurgeTarget};
use millpond_core::id::{CommitSequence, LeaseGeneration, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::spec::QueueSpec;
use millpond_core::{ChangeSet, Command, Outcome, Page, Rejection, RowKey, Rows, Scan};
use millpond_engine::{Answer, EngineError, Failures, SurveyPage};
use millpond_store::{
    ExternalPage, MemoryDisk, Opened, Resolution, Store, StoreError, StoreErrorKind, StoreFactory,
    StoreReader, StoreStats, Wake,
};
use millpond_test_stores::TestStore;

use crate::support::{ENVIRONMENT, World, send};
use crate::uploads;

/// How the next commits fail.
#[derive(Default)]
pub(crate) struct Faults {
    /// So many commits answer `Unknown` although they happened.
    pub(crate) unknown_happened: AtomicU32,
    /// So many commits answer `Unknown` and are lost, and `resolve` fails too.
    unknown_for_good: AtomicU32,
    /// So many commits answer `Unknown` and are lost.
    pub(crate) unknown_lost: AtomicU32,
    /// So many commits answer `Full`.
    pub(crate) full: AtomicU32,
    /// So many reads fail.
    unreadable: AtomicU32,
    /// So many reads of the intake fail.
    pub(crate) unreadable_intake: AtomicU32,
    /// Commits that began.
    pub(crate) begun: AtomicU32,
    /// Commits wait while a test holds this.
    pub(crate) gate: tokio::sync::Mutex<()>,
    disk: TestStore,
    /// So many openings fail.
    pub(crate) unopenable: AtomicU32,
    /// So many openings panic.
    open_panics: AtomicU32,
    /// So many commits panic.
    commit_panics: AtomicU32,
    /// What is stored cannot be used.
    corrupt: AtomicU32,
}

fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

struct FaultyDisk {
    disk: Arc<dyn StoreFactory>,
    faults: Arc<Faults>,
}

struct FaultyStore {
    store: Box<dyn Store>,
    faults: Arc<Faults>,
}

struct FaultyReader {
    reader: Box<dyn StoreReader>,
    faults: Arc<Faults>,
}

impl StoreReader for FaultyReader {
    fn read(&mut self, keys: &[RowKey]) -> Result<Rows, StoreError> {
        if take(&self.faults.unreadable) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "read"));
        }
        self.reader.read(keys)
    }

    fn contents(&mut self, messages: &[Sequence]) -> Result<Vec<Option<Arc<MessageContent>>>, StoreError> {
        self.reader.contents(messages)
    }

    fn chunk(&mut self, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, StoreError> {
        self.reader.chunk(message, number)
    }

    fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        self.reader.scan(scan)
    }

    fn external(&mut self, limit: usize) -> Result<ExternalPage, StoreError> {
        if take(&self.faults.unreadable_intake) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "external"));
        }
        self.reader.external(limit)
    }
}

impl Store for FaultyStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        self.faults.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.faults.gate.blocking_lock());
        if take(&self.faults.unknown_lost) {
            return Err(StoreError::new(StoreErrorKind::Unknown, "commit"));
        }
        assert!(!take(&self.faults.commit_panics), "planted: the commit panics");
        if take(&self.faults.full) {
            return Err(StoreError::new(StoreErrorKind::Full, "commit"));
        }
        if take(&self.faults.unknown_happened) {
            self.store.commit(changes)?;
            return Err(StoreError::new(StoreErrorKind::Unknown, "commit"));
        }
        if self.faults.unknown_for_good.load(Ordering::SeqCst) > 0 {
            return Err(StoreError::new(StoreErrorKind::Unknown, "commit"));
        }
        self.store.commit(changes)
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        if take(&self.faults.unknown_for_good) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "resolve"));
        }
        self.store.resolve(commit)
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(FaultyReader { reader: self.store.reader()?, faults: Arc::clone(&self.faults) }))
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        self.store.stats()
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.store.close()
    }
}

impl StoreFactory for FaultyDisk {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        assert!(!take(&self.faults.open_panics), "planted: the opening panics");
        if take(&self.faults.corrupt) {
            return Err(StoreError::new(StoreErrorKind::Corrupt, "open"));
        }
        if take(&self.faults.unopenable) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "open"));
        }
        let (store, opened) = self.disk.open(environment)?;
        Ok((Box::new(FaultyStore { store, faults: Arc::clone(&self.faults) }), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.disk.create_environment(environment)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.disk.has_environment(environment)
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.disk.set_next_due(environment, next_due)
    }

    fn watch(&self, wake: Wake) {
        self.disk.watch(wake);
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.disk.due_environments(now, limit)
    }
}

pub(crate) async fn world() -> (World, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let world = world_over(Arc::new(faults.disk.clone()), &faults).await;
    (world, faults)
}

/// The same over memory, where a test can write beside the owner.
pub(crate) async fn world_in_memory() -> (World, Arc<Faults>, MemoryDisk) {
    let (faults, memory) = (Arc::new(Faults::default()), MemoryDisk::new());
    let world = world_over(Arc::new(memory.clone()), &faults).await;
    (world, faults, memory)
}

async fn world_over(disk: Arc<dyn StoreFactory>, faults: &Arc<Faults>) -> World {
    let disk = FaultyDisk { disk, faults: Arc::clone(faults) };
    let world = World::over(Arc::new(disk)).await;
    world.create("mail", QueueSpec::default()).await;
    world
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_that_happened_after_all_is_answered_as_such() {
    let (world, faults) = world().await;
    faults.unknown_happened.store(1, Ordering::SeqCst);
    world.send("mail", "hello").await;
    assert_eq!(world.lease("mail", 0).await.len(), 1);
    assert_eq!(world.engine.stats().reopened, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_of_unknown_outcome_is_reported_and_the_environment_opened_again() {
    let (world, faults) = world().await;
    faults.unknown_for_good.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Unknown(_))), "{refused:?}");
    world.send("mail", "kept").await;
    let taken = world.lease("mail", 0).await;
    assert_eq!(taken.iter().map(|(_, data)| data.as_str()).collect::<Vec<_>>(), ["kept"]);
    assert_eq!(world.engine.stats().reopened, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_store_refuses_what_it_cannot_hold_and_goes_on() {
    let (world, faults) = world().await;
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    world.send("mail", "kept").await;
    assert_eq!(world.lease("mail", 0).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_wait_while_a_store_cannot_be_opened_and_are_answered_when_it_can() {
    let (world, faults) = world().await;
    faults.unopenable.store(1, Ordering::SeqCst);
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    let waiting = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.submit(ENVIRONMENT, send("mail", "kept")).await }
    });
    // Time passes slowly enough for the next try to come before callers are told to give up.
    let mut turns = 0u32;
    while !waiting.is_finished() {
        turns += 1;
        if turns.is_multiple_of(5_000) {
            world.pass(Duration::from_millis(20));
        }
        tokio::task::yield_now().await;
    }
    waiting.await.expect("task").expect("answer");
    assert_eq!(world.lease("mail", 0).await.len(), 1);
}

/// Runs a call up to where it waits for its answer: its commit is with the writer then.
async fn begin(call: &mut (impl Future + Unpin)) {
    tokio::select! {
        biased;
        _ = call => panic!("answered at once"),
        () = std::future::ready(()) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_applied_after_a_lost_commit_is_never_written() {
    let (world, faults) = world().await;
    faults.unknown_lost.store(1, Ordering::SeqCst);
    let held = faults.gate.lock().await;
    let mut first = Box::pin(world.engine.submit(ENVIRONMENT, send("mail", "first")));
    begin(&mut first).await;
    let mut second = Box::pin(world.engine.submit(ENVIRONMENT, send("mail", "second")));
    begin(&mut second).await;
    drop(held);
    for refused in [first.await, second.await] {
        assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    }
    assert_eq!(world.view("mail").await.counters.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_read_that_fails_leaves_the_commits_under_way_in_doubt() {
    let (world, faults) = world().await;
    let mut leases = Vec::new();
    for data in ["one", "two"] {
        let Outcome::Sent(sent) = world.run(send("mail", data)).await.outcome else { panic!("not sent") };
        let message = sent.ids[0];
        leases.push(LeaseRef { delivery: message.sequence, message, generation: LeaseGeneration(1) });
    }
    world.engine.shut_down().await;
    let world = Arc::new(
        World::over(Arc::new(FaultyDisk {
            disk: Arc::new(faults.disk.clone()),
            faults: Arc::clone(&faults),
        }))
        .await,
    );
    // Nothing has read the messages since, so each ack has to. The first leaves a reader behind, which the second most
    // likely takes.
    assert!(!world.ack("mail", leases[0]).await, "it was never leased");
    let held = faults.gate.lock().await;
    let before = faults.begun.load(Ordering::SeqCst);
    let mut sent = Box::pin(world.engine.submit(ENVIRONMENT, send("mail", "new")));
    begin(&mut sent).await;
    while faults.begun.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    faults.unreadable.store(1, Ordering::SeqCst);
    // On a thread of its own: whoever finds the store failed waits for the commit.
    let acked = tokio::spawn({
        let (world, lease) = (Arc::clone(&world), leases[1]);
        async move { world.ack("mail", lease).await }
    });
    for _ in 0..100_000 {
        // If it is a new reader it waits for the commit, and the commit succeeds.
        if faults.unreadable.load(Ordering::SeqCst) == 0 {
            break;
        }
        tokio::task::yield_now().await;
    }
    drop(held);
    let (acked, sent) = (acked.await.expect("task"), sent.await);
    assert!(!acked, "it was never leased");
    // The commit may have been answered before the failure was looked at. What it must not be is refused.
    assert!(matches!(sent, Ok(_) | Err(EngineError::Unknown(_))), "{sent:?}");
    assert_eq!(world.view("mail").await.counters.ready, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_refused_while_the_store_was_away_is_not_done_when_it_is_back() {
    let (world, faults) = world().await;
    faults.unopenable.store(u32::MAX, Ordering::SeqCst);
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    world.pass(Duration::from_secs(6));
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "refused")).await;
    assert!(matches!(refused, Err(EngineError::Unavailable(_))), "{refused:?}");
    faults.unopenable.store(0, Ordering::SeqCst);
    while world.engine.stats().reopened == 0 {
        world.pass(Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    assert_eq!(world.view("mail").await.counters.ready, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_a_store_is_answered_and_survived() {
    let (world, faults) = world().await;
    faults.commit_panics.store(1, Ordering::SeqCst);
    faults.open_panics.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Unknown(_))), "{refused:?}");
    let waiting = tokio::spawn({
        let engine = world.engine.clone();
        async move {
            while engine.submit(ENVIRONMENT, send("mail", "kept")).await.is_err() {
                tokio::task::yield_now().await;
            }
        }
    });
    while !waiting.is_finished() {
        world.pass(std::time::Duration::from_millis(200));
        tokio::task::yield_now().await;
    }
    waiting.await.expect("task");
    assert_eq!(world.lease("mail", 0).await.len(), 1);
    world.engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_used_is_refused_at_once() {
    let (world, faults) = world().await;
    faults.full.store(1, Ordering::SeqCst);
    faults.corrupt.store(u32::MAX, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "refused")).await;
    assert!(matches!(refused, Err(EngineError::Corrupt(_))), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_memory_that_kept_its_chunks() {
    let (world, faults) = world().await;
    let message = uploads::send_large(&world, 2).await;
    let before = uploads::open(&world, message).await.pin.expect("data in chunks is pinned");
    before.chunk(0).await.expect("it is there");
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    let after = uploads::open(&world, message).await.pin.expect("data in chunks is pinned");
    let broken = before.chunk(1).await;
    assert!(matches!(broken, Err(EngineError::Unavailable(_))), "{broken:?}");
    // What the old stream gives back is not the new one's.
    drop(before);
    world.run(Command::PurgeQueue { queue: "mail".into(), target: PurgeTarget::Waiting }).await;
    for _ in 0..20 {
        world.run(Command::Tick).await;
    }
    assert_eq!(faults.disk.stored(ENVIRONMENT).chunks.len(), 2);
    after.chunk(1).await.expect("it is kept");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_is_lost_with_the_memory_that_knew_it() {
    let (world, faults) = world().await;
    let Answer { outcome, receipt, .. } = uploads::begin(&world, 0, Duration::ZERO).await;
    let Outcome::UploadBegun(Some(upload)) = outcome else { panic!("{outcome:?}") };
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    let lost = world.run(uploads::finish(upload, 2)).await.outcome;
    assert_eq!(lost, Outcome::Rejected(Rejection::UploadLost));
    drop(receipt);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_seen_of_queues_is_durable() {
    let (world, faults) = world().await;
    let gate = faults.gate.lock().await;
    let begun = faults.begun.load(Ordering::SeqCst);
    let engine = world.engine.clone();
    let sending = tokio::spawn(async move { engine.submit(ENVIRONMENT, send("mail", "kept")).await });
    while faults.begun.load(Ordering::SeqCst) == begun {
        tokio::task::yield_now().await;
    }
    let mut looking = Box::pin(world.engine.survey(ENVIRONMENT, page()));
    tokio::select! {
        biased;
        survey = &mut looking => panic!("{survey:?}"),
        () = tokio::task::yield_now() => {}
    }
    drop(gate);
    sending.await.expect("task").expect("answer");
    let survey = looking.await.expect("it is open");
    assert_eq!(survey.queues[0].counters.ready, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_looks_while_a_commit_fails_sees_nothing_of_it() {
    let (world, faults) = world().await;
    let gate = faults.gate.lock().await;
    faults.full.store(1, Ordering::SeqCst);
    let begun = faults.begun.load(Ordering::SeqCst);
    let engine = world.engine.clone();
    let sending = tokio::spawn(async move { engine.submit(ENVIRONMENT, send("mail", "lost")).await });
    while faults.begun.load(Ordering::SeqCst) == begun {
        tokio::task::yield_now().await;
    }
    let mut looking = Box::pin(world.engine.survey(ENVIRONMENT, page()));
    tokio::select! {
        biased;
        survey = &mut looking => panic!("{survey:?}"),
        () = tokio::task::yield_now() => {}
    }
    drop(gate);
    assert!(sending.await.expect("task").is_err());
    assert_eq!(looking.await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_are_counted_by_what_failed() {
    let (world, faults) = world().await;
    assert_eq!(world.engine.metrics().failures, Failures::default());
    faults.unopenable.store(u32::MAX, Ordering::SeqCst);
    faults.full.store(1, Ordering::SeqCst);
    let refused = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(refused, Err(EngineError::Full)), "{refused:?}");
    world.pass(Duration::from_secs(10));
    while world.engine.metrics().failures.open == 0 {
        tokio::task::yield_now().await;
    }
    let metrics = world.engine.metrics();
    assert_eq!((metrics.failures.commit, metrics.failures.read, metrics.failures.panic), (1, 0, 0));
    assert_eq!([metrics.environments_open, metrics.environments_failed, metrics.reopened], [0, 1, 0]);
    assert_eq!(world.engine.survey(ENVIRONMENT, page()).await, None);

    faults.unopenable.store(0, Ordering::SeqCst);
    while world.engine.metrics().reopened == 0 {
        world.pass(Duration::from_secs(10));
        tokio::task::yield_now().await;
    }
    let metrics = world.engine.metrics();
    assert_eq!([metrics.environments_open, metrics.environments_failed], [1, 0]);
    faults.commit_panics.store(1, Ordering::SeqCst);
    let lost = world.engine.submit(ENVIRONMENT, send("mail", "lost")).await;
    assert!(matches!(lost, Err(EngineError::Unknown(_))), "{lost:?}");
    assert_eq!(world.engine.metrics().failures.panic, 1);
}

fn page() -> SurveyPage {
    SurveyPage { after: None, most: 10, read_heads: false }
}
