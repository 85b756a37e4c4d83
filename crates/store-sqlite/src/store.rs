//! The right to write one environment: one transaction a change set, and what becomes of it when it fails.

use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::ChangeSet;
use millpond_core::id::CommitSequence;
use millpond_store::{CopyProgress, Resolution, Store, StoreError, StoreErrorKind, StoreReader, StoreStats};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, Error, params};

use crate::checkpoint::{Checkpointer, Log};
use crate::connection::{Database, Missing, get};
use crate::copying::Copying;
use crate::error::{at_commit, before_commit};
use crate::factory::OpenStore;
use crate::lineage::Mark;
use crate::reader::SqliteReader;
use crate::space::Known;
use crate::{schema, write};

/// The owner of one environment.
#[derive(Debug)]
pub(crate) struct SqliteStore {
    /// A copy that is under way. Before the connection, so that it is dropped before it.
    copying: Option<Copying>,
    /// `None`: closed.
    connection: Option<Connection>,
    database: Database,
    log: Arc<Log>,
    page_bytes: u64,
    epoch: i64,
    /// Name of its mark, what it says, and when it was written.
    file: String,
    mark: Mark,
    marked_at: Instant,
    /// A commit whose outcome is unknown; nothing is written before it is resolved.
    unresolved: Option<CommitSequence>,
    /// How long the last `commit` statement took: it writes the log and flushes it.
    last_flush: Cell<Option<Duration>>,
    /// Last, so that everything above is closed when the place learns of it.
    open: OpenStore,
}

impl SqliteStore {
    pub(crate) fn new(
        open: OpenStore,
        database: Database,
        connection: Connection,
        epoch: i64,
        file: String,
        mark: Mark,
    ) -> Result<Self, StoreError> {
        let page_bytes = get(&connection, "page_size").map_err(before_commit("opening a database"))?;
        let page_bytes = page_bytes.cast_unsigned();
        let log = Log::new(database.clone(), page_bytes);
        Log::watch(&connection);
        let marked_at = Instant::now();
        let connection = Some(connection);
        Ok(Self {
            copying: None,
            connection,
            database,
            log,
            page_bytes,
            epoch,
            file,
            mark,
            marked_at,
            unresolved: None,
            last_flush: Cell::new(None),
            open,
        })
    }

    fn connection(&self) -> Result<&Connection, StoreError> {
        self.connection.as_ref().ok_or_else(|| StoreError::new(StoreErrorKind::Closed, "the store is closed"))
    }

    fn try_commit(&self, changes: &ChangeSet) -> Result<(), StoreError> {
        let connection = self.connection()?;
        begin(connection)?;
        let result = write::write(connection, self.epoch, changes).and_then(|()| self.end(connection));
        if result.is_err() {
            roll_back(connection);
        }
        result
    }

    fn end(&self, connection: &Connection) -> Result<(), StoreError> {
        Checkpointer::before_commit(&self.log);
        self.last_flush.set(None);
        let begun = Instant::now();
        let commit = || connection.prepare_cached("commit")?.execute([]);
        commit().map(drop).map_err(at_commit("committing"))?;
        self.last_flush.set(Some(begun.elapsed()));
        Ok(())
    }

    fn after_commit(&mut self, commit: CommitSequence) {
        self.mark.commit = commit;
        let place = &self.open.place;
        if self.marked_at.elapsed() >= place.witnesses.interval() {
            place.witnesses.note(&self.file, &self.mark);
            self.marked_at = Instant::now();
        }
        if let Some(connection) = &self.connection {
            // The commit is durable whatever becomes of a checkpoint, and one that fails is tried again after the next.
            let _: Result<(), Error> = place.checkpointer.after_commit(&self.log, connection);
        }
    }

    /// Claims the number of a lost commit on a new connection. The old one stays until that is done: it keeps the log's
    /// index, in which the lost commit is not, so that its half-flushed frames are written over and never read.
    fn claim(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        let (connection, _) =
            self.database.open(Missing::IsLost, self.open.cache_kib, schema::ENVIRONMENT)?;
        Log::watch(&connection);
        begin(&connection)?;
        let claimed =
            claim_number(&connection, self.epoch, commit).map_err(before_commit("claiming a number"));
        let result = match claimed {
            Ok(Some(resolution)) => {
                let end = connection.execute_batch("commit");
                end.map(|()| resolution).map_err(at_commit("claiming a number"))
            }
            Ok(None) => {
                let context = format!("commit {commit} of epoch {} is not what is stored", self.epoch);
                Err(StoreError::new(StoreErrorKind::Fenced, context))
            }
            Err(error) => Err(error),
        };
        if result.is_ok() {
            self.copying = None;
            self.connection = Some(connection);
        }
        result
    }

    fn retry_when_full<T>(
        &mut self,
        mut attempt: impl FnMut(&mut Self) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match attempt(self) {
            Err(error) if error.kind == StoreErrorKind::Full && self.open.place.space.give_up_reserve() => {
                attempt(self)
            }
            other => other,
        }
    }
}

impl Store for SqliteStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        if let Some(commit) = self.unresolved {
            let context = format!("commit {commit} has to be resolved first");
            return Err(StoreError::new(StoreErrorKind::Unavailable, context));
        }
        let result = self.retry_when_full(|store| store.try_commit(changes));
        match &result {
            Ok(()) => self.after_commit(changes.commit),
            Err(error) if error.kind == StoreErrorKind::Unknown => self.unresolved = Some(changes.commit),
            Err(_) => {}
        }
        result
    }

    fn last_flush(&self) -> Option<Duration> {
        self.last_flush.get()
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        let resolution = self.retry_when_full(|store| store.claim(commit))?;
        self.unresolved = None;
        self.after_commit(commit);
        Ok(resolution)
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        Ok(Box::new(SqliteReader::new(self.database.open_reader(self.open.cache_kib / 2)?)))
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        let connection = self.connection()?;
        let count = |pragma| get(connection, pragma).map_err(before_commit("counting pages"));
        let size_bytes = count("page_count")?.cast_unsigned() * self.page_bytes;
        let reusable_bytes = count("freelist_count")?.cast_unsigned() * self.page_bytes;
        let known = || {
            let file = |path: &Path| std::fs::metadata(path).map(|file| file.len());
            let mut log = self.database.path.clone().into_os_string();
            log.push("-wal");
            Known {
                log_bytes: file(Path::new(&log)).unwrap_or(0),
                owed_bytes: size_bytes.saturating_sub(file(&self.database.path).unwrap_or(size_bytes)),
                reusable_bytes,
            }
        };
        let space = &self.open.place.space;
        if self.log.bytes() > 0 && space.is_tight(&known()) {
            // If somebody uses the log right now, it is asked for again at the next look.
            let _: Result<(), Error> = self.log.give_back(connection);
        }
        let space_low = space.is_low(&known());
        Ok(StoreStats { used_bytes: size_bytes + self.log.bytes(), space_low })
    }

    fn begin_copy(&mut self, to: &Path) -> Result<(), StoreError> {
        self.copying = None;
        let begun = Copying::begin(self.connection()?, to).map_err(before_commit("beginning a copy"))?;
        self.copying = Some(begun);
        Ok(())
    }

    fn copy_on(&mut self, pages: u32) -> Result<CopyProgress, StoreError> {
        let Some(mut copying) = self.copying.take() else {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "there is no copy under way"));
        };
        let progress = copying.step(pages).map_err(before_commit("copying"))?;
        if progress.pages_left > 0 {
            self.copying = Some(copying);
        }
        Ok(progress)
    }

    fn end_copy(&mut self) {
        self.copying = None;
    }

    fn close(mut self: Box<Self>) -> Result<(), StoreError> {
        self.copying = None;
        self.open.place.witnesses.note(&self.file, &self.mark);
        self.log.close();
        let Some(connection) = self.connection.take() else { return Ok(()) };
        let context = "closing a database";
        // The last connection moves the log into the database and removes it; if readers are left, that is done here.
        self.log.checkpoint(&connection).map_err(before_commit(context))?;
        let checkpoint_is_off = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        connection.set_db_config(checkpoint_is_off, false).map_err(before_commit(context))?;
        connection.close().map_err(|(_, error)| before_commit(context)(error))
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        self.copying = None;
        if self.unresolved.is_some()
            && let Some(connection) = self.connection.take()
        {
            self.open.place.keep_until_reopened(&self.file, connection);
        }
    }
}

fn begin(connection: &Connection) -> Result<(), StoreError> {
    let begin = || connection.prepare_cached("begin immediate")?.execute([]);
    begin().map(drop).map_err(before_commit("beginning"))
}

/// SQLite rolls back by itself after some errors; whatever is left is rolled back here. If even that fails, the
/// connection says so at the next statement.
fn roll_back(connection: &Connection) {
    if !connection.is_autocommit() {
        let _: Result<(), Error> = connection.execute_batch("rollback");
    }
}

/// `Lost` if the number was free and is now taken, `Happened` if this owner's commit has it, `None` if neither.
fn claim_number(
    connection: &Connection,
    epoch: i64,
    commit: CommitSequence,
) -> Result<Option<Resolution>, Error> {
    let number = commit.0.cast_signed();
    let sql = "update environment set commit_seq = ?1 where epoch = ?2 and commit_seq = ?1 - 1";
    if connection.execute(sql, params![number, epoch])? == 1 {
        return Ok(Some(Resolution::Lost));
    }
    let sql = "select count(*) from environment where epoch = ?2 and commit_seq = ?1";
    let found: i64 = connection.query_row(sql, params![number, epoch], |row| row.get(0))?;
    Ok((found == 1).then_some(Resolution::Happened))
}
