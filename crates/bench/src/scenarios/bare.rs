//! How much of what the store could do is left: the changes of a lifecycle run, recorded, and written again to a new
//! database by a loop that does nothing else.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use millpond_core::ChangeSet;
use millpond_core::id::CommitSequence;
use millpond_core::spec::QueueSpec;
use millpond_load::Processes;
use millpond_store::{Opened, Resolution, Store, StoreError, StoreFactory, StoreReader, StoreStats};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};
use serde_json::{Value, json};

use crate::Options;
use crate::load::{ENVIRONMENT, Target, closed_loop};

type Record = Arc<Mutex<Vec<ChangeSet>>>;

/// Messages that are recorded; enough for a few seconds of the loop.
const MESSAGES_RECORDED: usize = 400_000;

struct Recording {
    factory: SqliteFactory,
    record: Record,
}

struct RecordingStore {
    store: Box<dyn Store>,
    record: Record,
}

impl Store for RecordingStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        self.store.commit(changes)?;
        if let Ok(mut record) = self.record.lock() {
            record.push(changes.clone());
        }
        Ok(())
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
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

impl StoreFactory for Recording {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let (store, opened) = self.factory.open(environment)?;
        Ok((Box::new(RecordingStore { store, record: Arc::clone(&self.record) }), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.factory.create_environment(environment)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.factory.has_environment(environment)
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.factory.set_next_due(environment, next_due)
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.factory.due_environments(now, limit)
    }
}

/// Records a run, then writes it bare.
pub(super) async fn run(path: &Path, options: &Options, in_flight: usize) -> anyhow::Result<Value> {
    let record = Record::default();
    let factory = SqliteFactory::open(&path.join("engine"), SqliteSettings::default())?;
    let factory = Arc::new(Recording { factory, record: Arc::clone(&record) });
    let target = Target::over(factory, options.data_bytes).await?;
    target.create("bench", QueueSpec::default()).await?;
    let caller = target.clone();
    let seconds = Duration::from_secs(options.seconds.min(5));
    closed_loop(&target, in_flight, Duration::ZERO, seconds, move |_, _| {
        let caller = caller.clone();
        async move { caller.lifecycle("bench").await }
    })
    .await?;
    target.engine.shut_down().await;
    let mut record = std::mem::take(&mut *record.lock().map_err(|_| anyhow::anyhow!("record is poisoned"))?);
    let mut messages = 0;
    record.retain(|changes| {
        messages += changes.messages.len();
        messages <= MESSAGES_RECORDED
    });
    let acked = acked(&record);
    let factory = SqliteFactory::open(&path.join("bare"), SqliteSettings::default())?;
    factory.create_environment(ENVIRONMENT)?;
    let (mut store, _) = factory.open(ENVIRONMENT)?;
    let (begun, cpu) = (Instant::now(), Processes::Own.cpu_micros());
    for changes in &record {
        store.commit(changes)?;
    }
    let elapsed = begun.elapsed().as_secs_f64();
    let cpu = Processes::Own.cpu_micros() - cpu;
    Ok(json!({
        "per_second": (acked as f64 / elapsed).round(),
        "cpu_micros_each": cpu as f64 / acked.max(1) as f64,
        "messages_per_commit": acked as f64 / record.len().max(1) as f64,
        "rows_per_message": record.iter().map(ChangeSet::row_count).sum::<usize>() as f64 / acked.max(1) as f64,
    }))
}

/// Messages whose whole life is in the record.
fn acked(record: &[ChangeSet]) -> u64 {
    let counters = record.iter().rev().find_map(|changes| changes.counters.first());
    counters.map_or(0, |counters| counters.total_acked)
}
