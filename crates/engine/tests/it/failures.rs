//! A store that fails, and comes back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use millpond_core::ChangeSet;
use millpond_core::id::CommitSequence;
use millpond_core::spec::QueueSpec;
use millpond_engine::EngineError;
use millpond_store::{
    MemoryDisk, Opened, Resolution, Store, StoreError, StoreErrorKind, StoreFactory, StoreReader, StoreStats,
};

use crate::support::{ENVIRONMENT, World, send};

/// How the next commits fail.
#[derive(Default)]
struct Faults {
    /// So many commits answer `Unknown` although they happened.
    unknown_happened: AtomicU32,
    /// So many commits answer `Unknown` and are lost, and `resolve` fails too.
    unknown_for_good: AtomicU32,
    /// So many commits answer `Full`.
    full: AtomicU32,
    /// So many openings fail.
    unopenable: AtomicU32,
}

fn take(count: &AtomicU32) -> bool {
    count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

struct FaultyDisk {
    disk: MemoryDisk,
    faults: Arc<Faults>,
}

struct FaultyStore {
    store: Box<dyn Store>,
    faults: Arc<Faults>,
}

impl Store for FaultyStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
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
        self.store.reader()
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

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.disk.due_environments(now, limit)
    }
}

async fn world() -> (World, Arc<Faults>) {
    let faults = Arc::new(Faults::default());
    let disk = FaultyDisk { disk: MemoryDisk::new(), faults: Arc::clone(&faults) };
    let world = World::over(Arc::new(disk)).await;
    world.create("mail", QueueSpec::default()).await;
    (world, faults)
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
    while !waiting.is_finished() {
        world.pass(std::time::Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    waiting.await.expect("task").expect("answer");
    assert_eq!(world.lease("mail", 0).await.len(), 1);
}
