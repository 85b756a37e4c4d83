//! Notes which keys commits write, so that a test can have those rows read back. No store can list its chunks, since nothing
//! but a test asks for that.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_core::change::DeliveryChange;
use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::UploadRow;
use millpond_core::{ChangeSet, RowKey, Scan};
use millpond_store::{Resolution, Store, StoreError, StoreErrorKind, StoreReader, StoreStats};

use crate::stored::Stored;

/// Rows of one page of a scan.
const PAGE: usize = 1_000;

/// What is noted of each environment.
#[derive(Default)]
pub(crate) struct Watch {
    environments: Mutex<HashMap<String, Noted>>,
}

#[derive(Default)]
struct Noted {
    /// Of the last opening; it may outlive its store.
    reader: Option<Box<dyn StoreReader>>,
    deliveries: BTreeSet<Sequence>,
    chunks: BTreeSet<(Sequence, u32)>,
}

impl Noted {
    /// Takes in what a commit has written, or perhaps has: what is not there is not found.
    fn note(&mut self, changes: &ChangeSet) {
        let inserted = changes.deliveries.iter().filter_map(|change| match change {
            DeliveryChange::Insert(row) => Some(row.sequence),
            DeliveryChange::Update(_) | DeliveryChange::Remove(_) => None,
        });
        self.deliveries.extend(inserted);
        self.chunks.extend(changes.chunks.iter().map(|chunk| (chunk.sequence, chunk.number)));
        for copy in &changes.copies {
            let of_original: Vec<u32> = self
                .chunks
                .range((copy.from, 0)..=(copy.from, u32::MAX))
                .map(|(_, number)| *number)
                .collect();
            self.chunks.extend(of_original.into_iter().map(|number| (copy.to, number)));
        }
    }

    fn read(&mut self) -> Result<Stored, StoreError> {
        let reader = self.reader.as_mut().expect("the environment is open");
        let keys: Vec<RowKey> = self.deliveries.iter().map(|sequence| RowKey::Delivery(*sequence)).collect();
        let deliveries = reader.read(&keys)?.deliveries.into_iter().filter_map(|(_, row)| row).collect();
        let mut gone = Vec::new();
        for (sequence, number) in &self.chunks {
            if reader.chunk(*sequence, *number)?.is_none() {
                gone.push((*sequence, *number));
            }
        }
        // They never come back, and a test that waits looks often.
        self.chunks.retain(|chunk| !gone.contains(chunk));
        let chunks = self.chunks.iter().copied().collect();
        Ok(Stored { deliveries, chunks, uploads: uploads(reader.as_mut())? })
    }
}

fn uploads(reader: &mut dyn StoreReader) -> Result<Vec<UploadRow>, StoreError> {
    let mut found: Vec<UploadRow> = Vec::new();
    loop {
        let after = found.last().map(|row| row.sequence);
        let page = reader.scan(&Scan::Uploads { after, limit: PAGE })?;
        found.extend(page.uploads);
        if page.end {
            return Ok(found);
        }
    }
}

impl Watch {
    pub(crate) fn stored(&self, environment: &str) -> Stored {
        let mut environments = self.lock();
        let noted = environments.get_mut(environment).expect("the environment was opened");
        noted.read().unwrap_or_else(|error| panic!("{environment} cannot be read: {error}"))
    }

    fn with<T>(&self, environment: &str, act: impl FnOnce(&mut Noted) -> T) -> T {
        act(self.lock().entry(environment.to_owned()).or_default())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Noted>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A store whose commits are noted.
pub(crate) struct WatchedStore {
    store: Box<dyn Store>,
    watch: Arc<Watch>,
    environment: String,
}

impl WatchedStore {
    pub(crate) fn new(
        mut store: Box<dyn Store>,
        watch: Arc<Watch>,
        environment: &str,
    ) -> Result<Self, StoreError> {
        let reader = store.reader()?;
        watch.with(environment, |noted| noted.reader = Some(reader));
        Ok(Self { store, watch, environment: environment.to_owned() })
    }
}

impl Store for WatchedStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        let committed = self.store.commit(changes);
        if !committed.as_ref().is_err_and(|error| error.kind != StoreErrorKind::Unknown) {
            self.watch.with(&self.environment, |noted| noted.note(changes));
        }
        committed
    }

    fn last_flush(&self) -> Option<Duration> {
        self.store.last_flush()
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
