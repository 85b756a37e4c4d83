//! Which store the server runs on. Nothing else in the workspace names a backend, tests apart.

use std::path::Path;
use std::sync::Arc;

use millpond_engine::clock::{Clock, Reading, SystemClock};
use millpond_server::Settings;
use millpond_server::config::Database;
use millpond_store::{Backup, Snapshots, StoreError, StoreFactory};
use millpond_store_postgres::{PostgresFactory, PostgresSettings, PostgresSnapshots};
use millpond_store_sqlite::{SqliteBackup, SqliteFactory, SqliteSettings, SqliteSnapshots};

/// A store, and the clock by which its environments live.
pub(crate) struct Opened {
    pub(crate) factory: Arc<dyn StoreFactory>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Where the data is, for messages.
    pub(crate) place: String,
}

pub(crate) fn open_store(settings: &Settings) -> Result<Opened, StoreError> {
    if let Some(database) = &settings.database {
        let factory = open_database(database, settings.assume_restart)?;
        let clock = DatabaseClock { own: SystemClock::default(), factory: factory.clone() };
        let place = database.to_string();
        return Ok(Opened { factory: Arc::new(factory), clock: Arc::new(clock), place });
    }
    let sqlite = SqliteSettings { assume_restart: settings.assume_restart, ..SqliteSettings::default() };
    let factory = Arc::new(SqliteFactory::open(&settings.data_dir, sqlite)?);
    let place = settings.data_dir.display().to_string();
    Ok(Opened { factory, clock: Arc::new(SystemClock::default()), place })
}

/// Takes a schema of a database, making it if there is none.
pub(crate) fn open_database(
    database: &Database,
    assume_restart: bool,
) -> Result<PostgresFactory, StoreError> {
    let settings =
        PostgresSettings { schema: database.schema.clone(), assume_restart, ..PostgresSettings::default() };
    PostgresFactory::open(&database.url, settings)
}

/// The wall clock of the database, on the monotonic clock of this machine: whichever server owns an environment, its times are
/// of one clock (design-holes A12).
struct DatabaseClock {
    own: SystemClock,
    factory: PostgresFactory,
}

impl Clock for DatabaseClock {
    fn read(&self) -> Reading {
        let own = self.own.read();
        Reading { wall_millis: own.wall_millis.saturating_add(self.factory.clock_offset_millis()), ..own }
    }
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

/// What can be exported of a schema of a database, which a server may serve.
pub(crate) fn snapshots_of_database(database: &Database) -> Result<Box<dyn Snapshots>, StoreError> {
    let settings = PostgresSettings { schema: database.schema.clone(), ..PostgresSettings::default() };
    Ok(Box::new(PostgresSnapshots::open(&database.url, settings)?))
}

/// What can be exported of a backup, or of a data directory that nobody serves.
pub(crate) fn snapshots(path: &Path) -> Result<Box<dyn Snapshots>, StoreError> {
    Ok(Box::new(SqliteSnapshots::open(path)?))
}
