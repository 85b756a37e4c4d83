//! Opening databases: flags and pragmas, the same for every connection of a kind.
//!
//! Invariant: no connection checkpoints by itself, neither after a commit nor when it is dropped, so that a dropped
//! store is a crash and a writer never waits for a checkpoint it did not ask for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use millpond_store::{StoreError, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, OpenFlags};

use crate::error::before_commit;
use crate::schema::{APPLICATION_ID, LAYOUT};
use crate::settings::Synchronous;

/// How long a connection waits for another one's write lock; only a take-over ever meets one.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Statements kept prepared by each connection: all that a writer uses.
const STATEMENTS: usize = 48;

/// Where a database is and how it is written.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) path: PathBuf,
    pub(crate) vfs: Option<String>,
    pub(crate) synchronous: Synchronous,
}

/// Whether a database may be made where there is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missing {
    Create,
    IsLost,
}

impl Database {
    /// A connection that writes. A new database gets `schema`; `true`: it was new.
    pub(crate) fn open(
        &self,
        missing: Missing,
        cache_kib: u32,
        schema: &str,
    ) -> Result<(Connection, bool), StoreError> {
        let connection = self.connect_writer(missing)?;
        let is_new = self.prepare_writer(&connection, missing, cache_kib, schema)?;
        Ok((connection, is_new))
    }

    /// The first half of [`Self::open`], which writes nothing.
    pub(crate) fn connect_writer(&self, missing: Missing) -> Result<Connection, StoreError> {
        let create = match missing {
            Missing::Create => OpenFlags::SQLITE_OPEN_CREATE,
            Missing::IsLost => OpenFlags::empty(),
        };
        match self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE | create) {
            Err(Error::SqliteFailure(failure, _))
                if missing == Missing::IsLost && failure.code == rusqlite::ErrorCode::CannotOpen =>
            {
                let context = format!("{} cannot be opened: is it lost?", self.path.display());
                Err(StoreError::new(StoreErrorKind::Corrupt, context))
            }
            other => other.map_err(before_commit("opening a database")),
        }
    }

    /// A connection that only reads.
    pub(crate) fn open_reader(&self, cache_kib: u32) -> Result<Connection, StoreError> {
        let context = "opening a reader";
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(before_commit(context))?;
        set(&connection, "query_only", true).map_err(before_commit(context))?;
        set(&connection, "cache_size", -i64::from(cache_kib)).map_err(before_commit(context))?;
        Ok(connection)
    }

    /// A connection that does nothing but checkpoints.
    pub(crate) fn open_checkpointer(&self) -> Result<Connection, Error> {
        let connection = self.connect(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        set(&connection, "cache_size", 0)?;
        set(&connection, "synchronous", self.synchronous_text())?;
        Ok(connection)
    }

    fn connect(&self, flags: OpenFlags) -> Result<Connection, Error> {
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = match &self.vfs {
            None => Connection::open_with_flags(&self.path, flags)?,
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.path, flags, vfs.as_str())?,
        };
        connection.busy_timeout(BUSY_TIMEOUT)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        set(&connection, "wal_autocheckpoint", 0)?;
        Ok(connection)
    }

    /// The second half: pragmas, and the schema of a new database.
    pub(crate) fn prepare_writer(
        &self,
        connection: &Connection,
        missing: Missing,
        cache_kib: u32,
        schema: &str,
    ) -> Result<bool, StoreError> {
        let failed = |error| before_commit("preparing a database")(error);
        let version: i64 = get(connection, "user_version").map_err(failed)?;
        let application: i64 = get(connection, "application_id").map_err(failed)?;
        // A new database turns to WAL by a rollback journal. Only `extra` makes its deletion durable: one that comes back
        // after a loss of power undoes the turn, and with it every commit in the log.
        let while_turning = if self.synchronous == Synchronous::Full { "extra" } else { "off" };
        set(connection, "synchronous", while_turning).map_err(failed)?;
        set(connection, "journal_mode", "wal").map_err(failed)?;
        set(connection, "synchronous", self.synchronous_text()).map_err(failed)?;
        set(connection, "cache_size", -i64::from(cache_kib)).map_err(failed)?;
        match (application, version) {
            (APPLICATION_ID, LAYOUT) => Ok(false),
            (0, 0) if missing == Missing::Create => {
                create(connection, schema).map_err(failed)?;
                Ok(true)
            }
            _ => Err(self.refused(application, version)),
        }
    }

    fn refused(&self, application: i64, version: i64) -> StoreError {
        let path = self.path.display();
        let context = if application == APPLICATION_ID {
            format!("{path} has layout {version}, this server reads layout {LAYOUT}")
        } else {
            format!("{path} is not a database of Millpond")
        };
        StoreError::new(StoreErrorKind::Corrupt, context)
    }

    fn synchronous_text(&self) -> &'static str {
        match self.synchronous {
            Synchronous::Full => "full",
            Synchronous::Off => "off",
        }
    }
}

/// Makes the whole schema or nothing.
fn create(connection: &Connection, schema: &str) -> Result<(), Error> {
    let marks = format!("pragma application_id = {APPLICATION_ID}; pragma user_version = {LAYOUT};");
    let result = connection.execute_batch(&format!("begin immediate; {schema}; {marks} commit;"));
    if result.is_err() && !connection.is_autocommit() {
        connection.execute_batch("rollback")?;
    }
    result
}

/// Flushes a directory, so that files made in it stay.
pub(crate) fn sync_directory(path: &Path) -> std::io::Result<()> {
    std::fs::File::open(path)?.sync_all()
}

/// Reads a pragma.
pub(crate) fn get(connection: &Connection, pragma: &str) -> Result<i64, Error> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Sets a pragma.
pub(crate) fn set(connection: &Connection, pragma: &str, value: impl rusqlite::ToSql) -> Result<(), Error> {
    connection.pragma_update(None, pragma, value)
}
