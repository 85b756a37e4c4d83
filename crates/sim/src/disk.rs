//! What survives the process of a world: the memory disk, or one under SQLite that loses what was not flushed.

#[cfg(feature = "power-cut")]
mod power_cut;

use std::collections::BTreeSet;

use millpond_core::row::Role;
use millpond_store::{MemoryDisk, MemoryDump, Opened, Store, StoreError, StoreFactory};

use crate::auditor::{Breach, Verdict};

#[cfg(feature = "power-cut")]
pub(crate) use power_cut::PowerCutDisk;

/// The name of the one environment.
const ENVIRONMENT: &str = "world";

/// A disk with the data of one world. Chance of its own is drawn from a stream of its own.
pub(crate) trait Disk {
    /// Opens the environment, as its new owner.
    fn open(&self) -> Result<(Box<dyn Store>, Opened), StoreError>;

    /// Everything that is stored, read past the store's own reads.
    fn dump(&self) -> Result<MemoryDump, Breach>;

    /// Copies all data.
    fn back_up(&mut self);

    /// Puts the copy of this number in place and forgets those that were made after it.
    fn restore(&mut self, copy: usize) -> Verdict;

    /// The process dies. What was not flushed is kept, lost or torn.
    fn crash(&mut self) -> Verdict {
        Ok(())
    }

    /// Lets the power go in the middle of some write or flush that is still to come; `false`: it cannot, or it would
    /// rather have it go at once.
    fn arm(&mut self) -> bool {
        false
    }

    /// The power is about to go, or gone.
    fn is_armed(&self) -> bool {
        false
    }

    /// The power is gone: the process is dead.
    fn has_failed(&self) -> bool {
        false
    }

    /// Now and then lets the next flushes fail; `true`: it does.
    fn fail_flushes(&mut self) -> bool {
        false
    }

    /// Flushes are still to fail.
    fn flushes_fail(&self) -> bool {
        false
    }

    /// Flushes work again.
    fn heal_flushes(&mut self) {}
}

/// Marks all as deleted that belongs to something deleted, or gone by now: its own row does not say so.
pub(crate) fn mark_orphans(dump: &mut MemoryDump) {
    let mut alive = BTreeSet::new();
    // In the order of their numbers: what belongs to another was made after it.
    for row in &mut dump.queues {
        row.deleted |= match row.role {
            Role::Queue | Role::Topic => false,
            Role::Partition { topic } | Role::Group { topic } => !alive.contains(&topic),
            Role::Cursor { group, log, .. } => !alive.contains(&group) || !alive.contains(&log),
        };
        if !row.deleted {
            alive.insert(row.number);
        }
    }
}

/// The disk of the memory store: all that was committed is there, and copies cost little.
#[derive(Default)]
pub(crate) struct PlainDisk {
    disk: MemoryDisk,
    copies: Vec<MemoryDisk>,
}

impl Disk for PlainDisk {
    fn open(&self) -> Result<(Box<dyn Store>, Opened), StoreError> {
        self.disk.open(ENVIRONMENT)
    }

    fn dump(&self) -> Result<MemoryDump, Breach> {
        Ok(self.disk.dump(ENVIRONMENT))
    }

    fn back_up(&mut self) {
        self.copies.push(self.disk.copy());
    }

    fn restore(&mut self, copy: usize) -> Verdict {
        self.copies.truncate(copy + 1);
        if let Some(copy) = self.copies.last() {
            self.disk.restore(copy);
        }
        Ok(())
    }
}
