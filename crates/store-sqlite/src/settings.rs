//! What can be set. Defaults are those of a server; tests shrink them.

/// Settings of a [`crate::SqliteFactory`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqliteSettings {
    /// Take what is found for what the last owner left, whatever the lineage says: for a data directory that was
    /// moved. Default: off.
    pub assume_restart: bool,
    /// Page cache of one environment, the first that is opened, in KiB; each of its readers has half. Default: 8,192.
    pub cache_first_kib: u32,
    /// Page cache of each other open environment, in KiB; each of its readers has half. Default: 1,024.
    pub cache_other_kib: u32,
    /// So many bytes of log that are not in the database yet wake the checkpoint thread. Default: 4 MiB.
    pub checkpoint_wake_bytes: u64,
    /// At so many bytes of log the writer itself finishes the checkpoint, so that the log begins again. Default: 64 MiB.
    pub checkpoint_inline_bytes: u64,
    /// Size of the file that is given up when the disk is full; 0: none. Default: 32 MiB.
    pub reserve_bytes: u64,
    /// Room is short below so many free bytes. Default: 64 MiB.
    pub space_low_bytes: u64,
    /// Room is short below so many thousandths of the file system. Default: 10.
    pub space_low_permille: u32,
    /// Whether commits are flushed. Anything but the default is for showing that a test notices.
    pub synchronous: Synchronous,
}

/// Whether commits are flushed before they are answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Synchronous {
    /// Each commit is flushed.
    Full,
    /// Nothing is flushed: a loss of power loses commits that were answered.
    Off,
}

impl Default for SqliteSettings {
    fn default() -> Self {
        Self {
            assume_restart: false,
            cache_first_kib: 8 << 10,
            cache_other_kib: 1 << 10,
            checkpoint_wake_bytes: 4 << 20,
            checkpoint_inline_bytes: 64 << 20,
            reserve_bytes: 32 << 20,
            space_low_bytes: 64 << 20,
            space_low_permille: 10,
            synchronous: Synchronous::Full,
        }
    }
}
