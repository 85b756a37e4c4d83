//! The real SQLite store over a disk in memory that loses power (design-holes A1).
//!
//! Every crash is a power cut: at once, or in the middle of a write or flush some way ahead. Flushes fail now and then,
//! which is a commit of unknown outcome. The lineage is random text: nothing of it may reach a trace.

use millpond_store::{MemoryDump, Opened, Store, StoreError, StoreErrorKind, StoreFactory};
use millpond_store_sqlite::power_cut::{Backup, Disk as Medium};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings, Synchronous};

use super::{Disk, ENVIRONMENT};
use crate::auditor::{Breach, Verdict};
use crate::random::Random;

/// A cut in the middle of something comes within so many writes and flushes: a few commits.
const OPERATIONS_AHEAD: u64 = 150;
/// Flushes begin to fail after so many thousandths of the steps.
const FLUSH_FAULT_PERMILLE: u64 = 12;
/// From a checkpoint after each commit to none at all.
const CHECKPOINT_BYTES: [u64; 4] = [0, 20_000, 200_000, u64::MAX / 2];

/// A disk under SQLite.
pub(crate) struct PowerCutDisk {
    medium: Medium,
    settings: SqliteSettings,
    factory: SqliteFactory,
    random: Random,
    is_armed: bool,
    copies: Vec<Backup>,
}

impl PowerCutDisk {
    /// An empty disk, whose faults come from the seed.
    pub(crate) fn new(seed: u64, synchronous: Synchronous) -> Result<Self, StoreError> {
        let mut random = Random::new(seed, "disk");
        let wake_bytes = random.pick(&CHECKPOINT_BYTES).copied().unwrap_or_default();
        let settings =
            SqliteSettings { synchronous, checkpoint_wake_bytes: wake_bytes, ..SqliteSettings::default() };
        let medium = Medium::new()?;
        let factory = medium.factory(settings.clone())?;
        Ok(Self { medium, settings, factory, random, is_armed: false, copies: Vec::new() })
    }

    /// Another process begins: a factory that knows nothing of the one before.
    fn begin(&mut self) -> Verdict {
        self.is_armed = false;
        self.factory = self.medium.factory(self.settings.clone()).map_err(unreadable)?;
        Ok(())
    }
}

fn unreadable(error: StoreError) -> Breach {
    Breach(format!("the disk cannot be read: {:?}: {}, {:?}", error.kind, error, error.source))
}

impl Disk for PowerCutDisk {
    fn open(&self) -> Result<(Box<dyn Store>, Opened), StoreError> {
        self.factory.open(ENVIRONMENT)
    }

    fn dump(&self) -> Result<MemoryDump, Breach> {
        match self.factory.dump(ENVIRONMENT) {
            // Before the first opening there is nothing.
            Err(error) if error.kind == StoreErrorKind::Unavailable && error.source.is_none() => {
                Ok(MemoryDump::default())
            }
            other => other.map_err(unreadable),
        }
    }

    fn back_up(&mut self) {
        self.copies.push(self.medium.back_up());
    }

    fn restore(&mut self, copy: usize) -> Verdict {
        self.copies.truncate(copy + 1);
        if let Some(copy) = self.copies.last() {
            self.medium.fail_flushes(0);
            self.medium.restore(copy);
        }
        self.begin()
    }

    fn crash(&mut self) -> Verdict {
        let random = &mut self.random;
        self.medium.power_cut(&mut || random.bits());
        self.begin()
    }

    fn arm(&mut self) -> bool {
        if self.random.chance(300) {
            return false;
        }
        self.medium.fail_after(1 + self.random.below(OPERATIONS_AHEAD));
        self.is_armed = true;
        true
    }

    fn is_armed(&self) -> bool {
        self.is_armed
    }

    fn has_failed(&self) -> bool {
        self.medium.has_failed()
    }

    fn fail_flushes(&mut self) -> bool {
        if !self.random.chance(FLUSH_FAULT_PERMILLE) {
            return false;
        }
        self.medium.fail_flushes(self.random.between(1, 2));
        true
    }

    fn flushes_fail(&self) -> bool {
        self.medium.failing_flushes() > 0
    }

    fn heal_flushes(&mut self) {
        self.medium.fail_flushes(0);
    }
}
