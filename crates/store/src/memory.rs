//! Memory.
/// Disk.
pub struct MemoryDisk;
/// Store.
pub struct MemoryStore;
