//! The right to write one environment of a [`MemoryDisk`], and its readers.

use std::sync::Arc;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::{ChangeSet, Page, RowKey, Rows, Scan};

use super::environment::Environment;
use super::{MemoryDisk, Witness};
use crate::{ExternalPage, Resolution, Store, StoreError, StoreErrorKind, StoreReader, StoreStats};

/// The right to write one environment of a [`MemoryDisk`].
#[derive(Debug)]
pub struct MemoryStore {
    disk: MemoryDisk,
    environment: String,
    epoch: u64,
}

impl MemoryStore {
    pub(super) fn new(disk: MemoryDisk, environment: &str, epoch: u64) -> Self {
        Self { disk, environment: environment.to_owned(), epoch }
    }
}

impl Store for MemoryStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        let contents = &mut *self.disk.lock();
        let Some(known) = contents.environments.get_mut(&self.environment) else { return Err(gone()) };
        known.data.claim(self.epoch, changes.commit)?;
        known.data.check(changes)?;
        known.data.write(changes);
        if let Some(witness) = contents.witnesses.get_mut(&self.environment) {
            witness.commit = changes.commit;
        }
        Ok(())
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        let contents = &mut *self.disk.lock();
        let Some(known) = contents.environments.get_mut(&self.environment) else { return Err(gone()) };
        if known.data.epoch == self.epoch && known.data.commit == commit {
            return Ok(Resolution::Happened);
        }
        known.data.claim(self.epoch, commit)?;
        known.data.commit = commit;
        let lineage = known.data.lineage;
        contents.witnesses.insert(self.environment.clone(), Witness { lineage, commit });
        Ok(Resolution::Lost)
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(MemoryReader { disk: self.disk.clone(), environment: self.environment.clone() }))
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        let contents = self.disk.lock();
        let known = contents.environments.get(&self.environment).ok_or_else(gone)?;
        Ok(StoreStats { used_bytes: known.data.used_bytes(), space_low: contents.space_low })
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Drop for MemoryStore {
    fn drop(&mut self) {
        if let Some(known) = self.disk.lock().environments.get_mut(&self.environment) {
            known.open_stores = known.open_stores.saturating_sub(1);
        }
    }
}

/// Reads of one environment; it outlives the store that made it.
#[derive(Debug)]
struct MemoryReader {
    disk: MemoryDisk,
    environment: String,
}

impl MemoryReader {
    fn with<T>(&self, read: impl FnOnce(&mut Environment) -> T) -> Result<T, StoreError> {
        let contents = &mut *self.disk.lock();
        contents.environments.get_mut(&self.environment).map(|known| read(&mut known.data)).ok_or_else(gone)
    }
}

impl StoreReader for MemoryReader {
    fn read(&mut self, keys: &[RowKey]) -> Result<Rows, StoreError> {
        self.with(|environment| environment.read(keys))
    }

    fn contents(&mut self, messages: &[Sequence]) -> Result<Vec<Option<Arc<MessageContent>>>, StoreError> {
        self.with(|environment| messages.iter().map(|&message| environment.content(message)).collect())
    }

    fn chunk(&mut self, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|environment| environment.chunk(message, number))
    }

    fn external(&mut self, limit: usize) -> Result<ExternalPage, StoreError> {
        self.with(|environment| {
            let (commands, more) = environment.intake.page(limit);
            ExternalPage { snapshot: environment.commit, commands, more }
        })
    }

    fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        self.with(|environment| environment.scan(scan))
    }
}

fn gone() -> StoreError {
    StoreError::new(StoreErrorKind::Unavailable, "a copy without this environment was restored")
}
