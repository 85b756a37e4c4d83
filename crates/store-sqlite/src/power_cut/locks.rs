//! Locks between connections of one process: on the database file, and on the slots of the log's index.

use std::collections::BTreeMap;

/// How strongly a connection holds a database file, weakest first, as SQLite numbers them.
pub(super) type Level = i32;

pub(super) const SHARED: Level = 1;
pub(super) const RESERVED: Level = 2;
pub(super) const PENDING: Level = 3;
pub(super) const EXCLUSIVE: Level = 4;

/// Slots of the log's index.
pub(super) const SLOTS: usize = 8;

/// Who holds a database file how strongly; handles by number.
#[derive(Debug, Default)]
pub(super) struct FileLocks {
    held: BTreeMap<u64, Level>,
}

impl FileLocks {
    /// Raises a handle's level; `false`: another one is in the way.
    pub(super) fn raise(&mut self, handle: u64, level: Level) -> bool {
        let strongest = self.others(handle);
        let is_free = match level {
            SHARED => strongest < PENDING,
            RESERVED => strongest < RESERVED,
            _ => strongest == 0,
        };
        if is_free {
            let own = self.held.entry(handle).or_insert(0);
            *own = level.max(*own);
        }
        is_free
    }

    /// Lowers a handle's level.
    pub(super) fn lower(&mut self, handle: u64, level: Level) {
        if level == 0 {
            self.held.remove(&handle);
        } else if let Some(own) = self.held.get_mut(&handle) {
            *own = level.min(*own);
        }
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.held.values().any(|&level| level >= RESERVED)
    }

    fn others(&self, handle: u64) -> Level {
        self.held.iter().filter(|(other, _)| **other != handle).map(|(_, &level)| level).max().unwrap_or(0)
    }
}

/// Who holds which slots of the log's index.
#[derive(Debug, Default)]
pub(super) struct SlotLocks {
    slots: [Slot; SLOTS],
}

#[derive(Debug, Default)]
struct Slot {
    sharers: Vec<u64>,
    owner: Option<u64>,
}

impl SlotLocks {
    /// Takes slots together or not at all.
    pub(super) fn take(&mut self, handle: u64, slots: std::ops::Range<usize>, exclusive: bool) -> bool {
        let Some(slots) = self.slots.get_mut(slots) else { return false };
        let is_free = |slot: &Slot| {
            let no_owner = slot.owner.is_none_or(|owner| owner == handle);
            no_owner && (!exclusive || slot.sharers.iter().all(|&sharer| sharer == handle))
        };
        if !slots.iter().all(is_free) {
            return false;
        }
        for slot in slots {
            if exclusive {
                slot.owner = Some(handle);
            } else if !slot.sharers.contains(&handle) {
                slot.sharers.push(handle);
            }
        }
        true
    }

    pub(super) fn release(&mut self, handle: u64, slots: std::ops::Range<usize>) {
        for slot in self.slots.get_mut(slots).unwrap_or_default() {
            slot.owner.take_if(|owner| *owner == handle);
            slot.sharers.retain(|&sharer| sharer != handle);
        }
    }
}
