//! The memory store: the reference of the contract, and the disk under the simulator.
//!
//! [`MemoryDisk`] is what survives a crash: drop every [`MemoryStore`] and open again. It is deterministic: it asks
//! neither for the time nor for randomness, and everything it walks over is ordered.
//!
//! Invariant: each index set holds exactly the keys of the rows that belong in it (`memory/environment.rs`).

mod beside;
mod environment;
mod intake;
mod snapshot;
mod store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use millpond_core::external::External;
use millpond_core::id::CommitSequence;
use millpond_core::row::{
    ChunkRow, CountersRow, DedupRow, DeliveryRow, EnvironmentRow, MessageRow, QueueRow, RunRow, SecretRow,
    SegmentRow, TriggerRow, UploadRow,
};

use millpond_core::{Claim, LeaseKey, LowWater};

use crate::{Lineage, Opened, Store, StoreError, StoreErrorKind, StoreFactory, Wake};

pub use beside::{BesideError, MemoryBeside};
use environment::Environment;
pub use store::MemoryStore;

/// What survives a crash: environments in memory. A clone is another handle to the same disk.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk {
    shared: Arc<Mutex<Contents>>,
}

/// Every row of one environment, for checks by full scan. Each list is in the order of its key.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct MemoryDump {
    /// The last commit.
    pub commit: CommitSequence,
    /// The environment's row.
    pub environment: EnvironmentRow,
    /// All queues.
    pub queues: Vec<QueueRow>,
    /// All counters.
    pub counters: Vec<CountersRow>,
    /// All messages, with as much of their data as a reader gets.
    pub messages: Vec<MessageRow>,
    /// All deliveries.
    pub deliveries: Vec<DeliveryRow>,
    /// All remembered calls.
    pub dedup: Vec<DedupRow>,
    /// All chunks.
    pub chunks: Vec<ChunkRow>,
    /// All uploads.
    pub uploads: Vec<UploadRow>,
    /// All segments.
    pub segments: Vec<SegmentRow>,
    /// All runs.
    pub runs: Vec<RunRow>,
    /// All triggers.
    pub triggers: Vec<TriggerRow>,
    /// What pushes are signed with.
    pub secret: SecretRow,
    /// All low-water marks.
    pub low_water: Vec<LowWater>,
    /// All external commands that wait, in their order.
    pub external: Vec<External>,
    /// All keys of leases that are stored for good.
    pub claims: Vec<(LeaseKey, Claim)>,
}

/// The disk itself.
#[derive(Debug, Default)]
struct Contents {
    environments: BTreeMap<String, Known>,
    /// Not copied with the data: lineage and last commit of each environment (design-holes A3).
    witnesses: BTreeMap<String, Witness>,
    next_lineage: u64,
    /// How often a copy was put in place of the data.
    restores: u64,
    space_low: bool,
    watcher: Watcher,
}

/// Who wants to know that external commands wait.
#[derive(Clone, Default)]
struct Watcher(Option<Wake>);

impl std::fmt::Debug for Watcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Watcher").field(&self.0.is_some()).finish()
    }
}

/// One environment and its entry in the catalogue.
#[derive(Clone, Debug, Default)]
struct Known {
    data: Environment,
    next_due: Option<i64>,
    open_stores: usize,
}

#[derive(Clone, Copy, Debug)]
struct Witness {
    lineage: u64,
    commit: CommitSequence,
}

impl MemoryDisk {
    /// An empty disk.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy of all data, as a backup would take it: what tells a restart from a restore is not in it, so the
    /// copy opens as [`Lineage::Restored`].
    #[must_use]
    pub fn copy(&self) -> Self {
        let contents = self.lock();
        let mut environments = contents.environments.clone();
        for known in environments.values_mut() {
            known.open_stores = 0;
            known.data.intake.end_all();
        }
        let copy = Contents {
            environments,
            witnesses: BTreeMap::new(),
            next_lineage: contents.next_lineage,
            restores: 0,
            space_low: false,
            watcher: Watcher::default(),
        };
        Self { shared: Arc::new(Mutex::new(copy)) }
    }

    /// Puts the data of `copy` in place of this disk's, under the feet of whoever has it open. What tells a restart
    /// from a restore stays, so an older copy opens as [`Lineage::Restored`], and one of this very moment as
    /// [`Lineage::Restarted`].
    pub fn restore(&self, copy: &Self) {
        let mut environments = copy.lock().environments.clone();
        environments.values_mut().for_each(|known| known.data.intake.end_all());
        let mut contents = self.lock();
        contents.restores += 1;
        let before = std::mem::replace(&mut contents.environments, environments);
        for (name, known) in &mut contents.environments {
            known.open_stores = before.get(name).map_or(0, |old| old.open_stores);
        }
    }

    /// All rows of an environment; empty if there is none of that name.
    #[must_use]
    pub fn dump(&self, environment: &str) -> MemoryDump {
        self.lock().environments.get(environment).map(|known| known.data.dump()).unwrap_or_default()
    }

    /// What [`Store::stats`] says about room from now on.
    pub fn set_space_low(&self, space_low: bool) {
        self.lock().space_low = space_low;
    }

    /// Tells whoever watches that commands wait.
    fn wake(&self, environment: &str) {
        let wake = self.lock().watcher.0.clone();
        if let Some(wake) = wake {
            wake(environment);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Contents> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Contents {
    /// Raises the epoch, settles the lineage, and says what is there.
    fn open(&mut self, name: &str) -> (u64, Opened) {
        let known = self.environments.entry(name.to_owned()).or_default();
        let witness = self.witnesses.get(name);
        let lineage = match witness {
            _ if known.data.lineage == 0 => Lineage::New,
            Some(witness) if witness.lineage == known.data.lineage && witness.commit <= known.data.commit => {
                Lineage::Restarted
            }
            _ => Lineage::Restored,
        };
        if lineage != Lineage::Restarted {
            self.next_lineage += 1;
            known.data.lineage = self.next_lineage;
        }
        if lineage == Lineage::Restored {
            known.data.void_leases();
        }
        known.data.epoch += 1;
        known.open_stores += 1;
        known.next_due = Some(i64::MIN);
        let witness = Witness { lineage: known.data.lineage, commit: known.data.commit };
        self.witnesses.insert(name.to_owned(), witness);
        (known.data.epoch, known.data.opened(lineage))
    }
}

impl StoreFactory for MemoryDisk {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let (epoch, opened) = self.lock().open(environment);
        Ok((Box::new(MemoryStore::new(self.clone(), environment, epoch)), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        let mut contents = self.lock();
        let is_new = !contents.environments.contains_key(environment);
        contents.environments.entry(environment.to_owned()).or_default();
        Ok(is_new)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        Ok(self.lock().environments.contains_key(environment))
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        match self.lock().environments.get_mut(environment) {
            Some(known) => known.next_due = next_due,
            None => return Err(StoreError::new(StoreErrorKind::Unavailable, "environment is not known")),
        }
        Ok(())
    }

    fn watch(&self, wake: Wake) {
        let mut contents = self.lock();
        contents.watcher = Watcher(Some(Arc::clone(&wake)));
        let waiting = contents.environments.iter().filter(|(_, known)| !known.data.intake.is_empty());
        let waiting: Vec<_> = waiting.map(|(name, _)| name.clone()).collect();
        drop(contents);
        waiting.iter().for_each(|name| wake(name));
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        let contents = self.lock();
        let closed = contents.environments.iter().filter(|(_, known)| known.open_stores == 0);
        let mut due: Vec<(i64, &String)> = closed
            .filter_map(|(name, known)| known.next_due.filter(|&due| due <= now).map(|due| (due, name)))
            .collect();
        due.sort_unstable();
        Ok(due.into_iter().take(limit).map(|(_, name)| name.clone()).collect())
    }
}
