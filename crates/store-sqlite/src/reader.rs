//! Reads on a connection of their own. Each call is one short read transaction that also reads the commit number,
//! so no snapshot outlives a call and the log can always be reset.

use std::sync::Arc;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::{Claim, Page, RowKey, Rows, Scan};
use millpond_store::{StoreError, StoreReader};
use rusqlite::{Connection, Error, OptionalExtension, params};

use crate::error::before_commit;
use crate::row::{self, CONTENT_COLUMNS, DEDUP_COLUMNS, DELIVERY_COLUMNS};
use crate::scan;

/// Reads of one environment.
#[derive(Debug)]
pub(crate) struct SqliteReader {
    connection: Connection,
}

impl SqliteReader {
    pub(crate) fn new(connection: Connection) -> Self {
        Self { connection }
    }

    fn in_snapshot<T>(
        &self,
        context: &'static str,
        read: impl FnOnce(&Connection, CommitSequence) -> Result<T, Error>,
    ) -> Result<T, StoreError> {
        let connection = &self.connection;
        let whole = || {
            connection.prepare_cached("begin")?.execute([])?;
            let sql = "select commit_seq from environment";
            let commit = connection.prepare_cached(sql)?.query_row([], |row| row.get::<_, i64>(0))?;
            read(connection, CommitSequence(commit.cast_unsigned()))
        };
        let result = whole();
        if !connection.is_autocommit() {
            let end = connection.prepare_cached("commit").and_then(|mut commit| commit.execute([]));
            end.map_err(before_commit(context))?;
        }
        result.map_err(before_commit(context))
    }
}

impl StoreReader for SqliteReader {
    fn read(&mut self, keys: &[RowKey]) -> Result<Rows, StoreError> {
        self.in_snapshot("reading rows", |connection, snapshot| {
            let delivery_sql = format!("select {DELIVERY_COLUMNS} from delivery where sequence = ?1");
            let dedup_sql = format!("select {DEDUP_COLUMNS} from dedup where queue = ?1 and key = ?2");
            let mut delivery = connection.prepare_cached(&delivery_sql)?;
            let mut dedup = connection.prepare_cached(&dedup_sql)?;
            let mut progress = connection.prepare_cached(&progress_sql())?;
            let mut rows = Rows { snapshot, ..Rows::default() };
            for key in keys {
                match key {
                    RowKey::Delivery(sequence) => {
                        let found =
                            delivery.query_row([sequence.0.cast_signed()], row::delivery).optional()?;
                        rows.deliveries.push((*sequence, found));
                    }
                    RowKey::Dedup(key) => {
                        let found =
                            dedup.query_row(params![row::queue_of(key), key.key], row::dedup).optional()?;
                        rows.dedup.push((key.clone(), found));
                    }
                    RowKey::Progress(key) => {
                        let values = params![key.cursor.0, key.message.0.cast_signed()];
                        let found = progress.query_row(values, row::delivery).optional()?;
                        rows.progress.push((*key, found));
                    }
                    // Nobody else writes here.
                    RowKey::Claim(key) => rows.claims.push((*key, Claim::Free)),
                }
            }
            Ok(rows)
        })
    }

    fn contents(&mut self, messages: &[Sequence]) -> Result<Vec<Option<Arc<MessageContent>>>, StoreError> {
        self.in_snapshot("reading messages", |connection, _| {
            let sql = format!("select {CONTENT_COLUMNS} from message where sequence = ?1");
            let mut statement = connection.prepare_cached(&sql)?;
            let mut content = |&message: &Sequence| {
                let found = statement.query_row([message.0.cast_signed()], row::content).optional()?;
                let Some((mut content, chunks)) = found else { return Ok(None) };
                if chunks == 1 {
                    let data = chunk(connection, message, 0)?.ok_or(Error::QueryReturnedNoRows)?;
                    content.data = data.into();
                }
                Ok(Some(Arc::new(content)))
            };
            messages.iter().map(&mut content).collect()
        })
    }

    fn chunk(&mut self, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, StoreError> {
        self.in_snapshot("reading a chunk", |connection, _| chunk(connection, message, number))
    }

    fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        self.in_snapshot("scanning", |connection, snapshot| {
            let page = scan::page(connection, scan)?;
            Ok(Page { snapshot, ..page })
        })
    }
}

/// A group's progress with one message, by cursor and message.
pub(crate) fn progress_sql() -> String {
    format!(
        "select {DELIVERY_COLUMNS} from delivery indexed by delivery_message where queue = ?1 and message = ?2 limit 1"
    )
}

fn chunk(connection: &Connection, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, Error> {
    let sql = "select data from chunk where sequence = ?1 and number = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    statement.query_row(params![message.0.cast_signed(), number], |row| row.get(0)).optional()
}
