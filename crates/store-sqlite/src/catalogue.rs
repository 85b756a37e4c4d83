//! The environments of a data directory: their files, and when closed ones are due (design-holes B8).
//!
//! Invariant: `opened` is set before an environment is handed to its owner, so a file that is missing afterwards was
//! lost, and is never made again in silence.

use std::sync::{Mutex, MutexGuard, PoisonError};

use millpond_store::{StoreError, StoreErrorKind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OptionalExtension, params};

use crate::connection::{Database, Missing, set};
use crate::error::before_commit;
use crate::schema;

/// Page cache of the catalogue.
const CACHE_KIB: u32 = 512;

/// Pages of log at which it is moved into the database.
const CHECKPOINT_PAGES: i64 = 1_000;

/// Names of environments and what is known of each.
#[derive(Debug)]
pub(crate) struct Catalogue {
    connection: Mutex<Connection>,
}

/// One environment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// Its random name, in `environments/` and `lineage/`.
    pub(crate) file: String,
    /// Whether its file has to exist.
    pub(crate) missing: Missing,
}

impl Catalogue {
    pub(crate) fn open(database: &Database, missing: Missing) -> Result<Self, StoreError> {
        let (connection, _) = database.open(missing, CACHE_KIB, schema::CATALOGUE)?;
        // It is written seldom and by whoever needs it, so it may checkpoint as SQLite does by itself.
        let context = "opening the catalogue";
        set(&connection, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(before_commit(context))?;
        let checkpoint_is_off = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(checkpoint_is_off, false).map_err(before_commit(context))?;
        Ok(Self { connection: Mutex::new(connection) })
    }

    /// Makes a name known. `false`: it was.
    pub(crate) fn create(&self, name: &str) -> Result<bool, StoreError> {
        let sql =
            "insert into environment values (?1, lower(hex(randomblob(16))), 0, null) on conflict do nothing";
        self.write(sql, params![name]).map(|changed| changed == 1)
    }

    /// What is known of a name.
    pub(crate) fn find(&self, name: &str) -> Result<Option<Entry>, StoreError> {
        let sql = "select file, opened from environment where name = ?1";
        let entry = |row: &rusqlite::Row<'_>| {
            let missing = if row.get(1)? { Missing::IsLost } else { Missing::Create };
            Ok(Entry { file: row.get(0)?, missing })
        };
        let connection = self.lock();
        let find = || connection.prepare_cached(sql)?.query_row([name], entry).optional();
        find().map_err(before_commit("reading the catalogue"))
    }

    /// All names, in their order.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let connection = self.lock();
        let names = || {
            let mut statement = connection.prepare_cached("select name from environment order by name")?;
            statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()
        };
        names().map_err(before_commit("reading the catalogue"))
    }

    /// A name for a file that nobody has.
    pub(crate) fn draw_file(&self) -> Result<String, StoreError> {
        let draw = self.lock().query_row("select lower(hex(randomblob(16)))", [], |row| row.get(0));
        draw.map_err(before_commit("drawing a name"))
    }

    /// Names other files for environments, or new environments, all in one commit; returns the files that were theirs.
    pub(crate) fn replace(&self, files: &[(&str, &str)]) -> Result<Vec<String>, StoreError> {
        let mut connection = self.lock();
        let mut replace = || {
            let transaction = connection.transaction()?;
            let mut before = Vec::new();
            for (name, file) in files {
                let sql = "select file from environment where name = ?1";
                before.extend(transaction.query_row(sql, [name], |row| row.get(0)).optional()?);
                let sql = "insert or replace into environment values (?1, ?2, 1, ?3)";
                transaction.execute(sql, params![name, file, i64::MIN])?;
            }
            transaction.commit()?;
            Ok(before)
        };
        replace().map_err(before_commit("writing the catalogue"))
    }

    /// Its file exists, and until its owner says more it is due at once.
    pub(crate) fn note_open(&self, name: &str) -> Result<(), StoreError> {
        let sql = "update environment set opened = 1, next_due = ?2 \
                   where name = ?1 and (opened = 0 or next_due is not ?2)";
        self.write(sql, params![name, i64::MIN]).map(drop)
    }

    /// When a closed one has to be opened by itself.
    pub(crate) fn set_next_due(&self, name: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        let sql = "update environment set next_due = ?2 where name = ?1";
        match self.write(sql, params![name, next_due])? {
            0 => Err(StoreError::new(StoreErrorKind::Unavailable, "environment is not known")),
            _ => Ok(()),
        }
    }

    /// Those due at or before `now`, those due first in front.
    pub(crate) fn due(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        let sql = "select name from environment where next_due <= ?1 order by next_due, name limit ?2";
        let connection = self.lock();
        let due = || {
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            connection
                .prepare_cached(sql)?
                .query_map([now, limit], |row| row.get(0))?
                .collect::<Result<Vec<String>, _>>()
        };
        due().map_err(before_commit("reading the catalogue"))
    }

    fn write(&self, sql: &str, values: impl rusqlite::Params) -> Result<usize, StoreError> {
        let connection = self.lock();
        let write = || connection.prepare_cached(sql)?.execute(values);
        write().map_err(before_commit("writing the catalogue"))
    }

    fn lock(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
