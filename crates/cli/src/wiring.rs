//! Which store the server runs on. Nothing else in the workspace names a backend, tests apart.

use std::path::Path;
use std::sync::Arc;

use millpond_server::Settings;
use millpond_store::{Backup, Snapshots, StoreError, StoreFactory};
use millpond_store_sqlite::{SqliteBackup, SqliteFactory, SqliteSettings, SqliteSnapshots};

pub(crate) fn open_store(settings: &Settings) -> Result<Arc<dyn StoreFactory>, StoreError> {
    let sqlite = SqliteSettings { assume_restart: settings.assume_restart, ..SqliteSettings::default() };
    Ok(Arc::new(SqliteFactory::open(&settings.data_dir, sqlite)?))
}

/// Takes a data directory that is there.
pub(crate) fn open_directory(path: &Path) -> Result<SqliteFactory, StoreError> {
    SqliteFactory::open_existing(path, SqliteSettings::default())
}

/// Takes a data directory, making it if there is none.
pub(crate) fn make_directory(path: &Path) -> Result<SqliteFactory, StoreError> {
    SqliteFactory::open(path, SqliteSettings::default())
}

/// Begins a backup of a data directory.
pub(crate) fn begin_backup(of: &SqliteFactory, to: &Path) -> Result<Box<dyn Backup>, StoreError> {
    of.begin_backup(to)
}

/// A backup that is to be restored.
pub(crate) fn open_backup(path: &Path) -> Result<SqliteBackup, StoreError> {
    SqliteBackup::open(path)
}

/// What can be exported of a backup, or of a data directory that nobody serves.
pub(crate) fn snapshots(path: &Path) -> Result<Box<dyn Snapshots>, StoreError> {
    Ok(Box::new(SqliteSnapshots::open(path)?))
}
