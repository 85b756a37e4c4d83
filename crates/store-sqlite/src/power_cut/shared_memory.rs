//! The log's index, which the connections of a database share: memory at addresses that stay, and its locks.
#![allow(unsafe_code, reason = "SQLite takes this memory by its address")]

use std::sync::{Mutex, PoisonError};

use super::locks::SlotLocks;

/// Bytes of a region, as SQLite asks for them.
pub(super) const REGION_BYTES: usize = 32 << 10;

/// Words, so that the memory is aligned as SQLite expects.
type Region = [u64; REGION_BYTES / 8];

/// The index of one log; it lives as long as the last handle that uses it.
#[derive(Debug, Default)]
pub(super) struct SharedMemory {
    regions: Mutex<Vec<Address>>,
    pub(super) locks: Mutex<SlotLocks>,
}

#[derive(Debug)]
struct Address(*mut Region);

// Safety: the address is only handed to SQLite, which guards what is behind it by `locks`.
unsafe impl Send for Address {}

impl SharedMemory {
    /// The address of a region; `None`: it is not there and was not asked to be.
    pub(super) fn region(&self, index: usize, extend: bool) -> Option<*mut u8> {
        let mut regions = self.regions.lock().unwrap_or_else(PoisonError::into_inner);
        while extend && regions.len() <= index {
            regions.push(Address(Box::into_raw(Box::new([0; REGION_BYTES / 8]))));
        }
        regions.get(index).map(|address| address.0.cast())
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        let regions = self.regions.get_mut().unwrap_or_else(PoisonError::into_inner);
        for Address(region) in regions.drain(..) {
            // Safety: it came from `Box::into_raw` above, and no handle is left that could use it.
            drop(unsafe { Box::from_raw(region) });
        }
    }
}
