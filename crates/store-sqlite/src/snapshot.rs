//! All rows of one environment, in one read transaction: of a data directory that nobody serves, or of a backup.

use std::fs::File;
use std::path::Path;

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{ChunkRow, EnvironmentRow, MessageRow};
use millpond_core::time::Timestamp;
use millpond_store::{
    PAGE_BYTES, PAGE_ROWS, RowKind, Snapshot, SnapshotHead, Snapshots, StoreError, StoreErrorKind, StoredRow,
};
use rusqlite::types::Value;
use rusqlite::{Connection, Error, OptionalExtension, Row, params_from_iter};

use crate::backup::MANIFEST;
use crate::catalogue::Catalogue;
use crate::connection::{Database, Missing};
use crate::error::before_commit;
use crate::restore::SqliteBackup;
use crate::row::{CONTENT_COLUMNS, DEDUP_COLUMNS, DELIVERY_COLUMNS, QUEUE_COLUMNS};
use crate::settings::Synchronous;
use crate::{directory, row, segment, trigger};

/// Page cache of a connection that reads everything once.
const CACHE_KIB: u32 = 4 << 10;

/// Environments of a data directory, which is held meanwhile so that nobody serves it, or of a backup.
#[derive(Debug)]
pub struct SqliteSnapshots {
    place: Source,
}

#[derive(Debug)]
enum Source {
    Backup(SqliteBackup),
    Directory { catalogue: Catalogue, environments: std::path::PathBuf, _lock: File },
}

impl SqliteSnapshots {
    /// Opens what is there.
    ///
    /// # Errors
    /// `Unavailable`: a process serves it, or there is nothing. `Corrupt`: it is neither, or of another version.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        if path.join(MANIFEST).exists() {
            return Ok(Self { place: Source::Backup(SqliteBackup::open(path)?) });
        }
        let lock = directory::take_existing(path)?;
        let catalogue =
            Database { path: path.join("catalogue.sqlite"), vfs: None, synchronous: Synchronous::Full };
        let catalogue = Catalogue::open(&catalogue, Missing::IsLost)?;
        Ok(Self {
            place: Source::Directory { catalogue, environments: path.join("environments"), _lock: lock },
        })
    }
}

impl Snapshots for SqliteSnapshots {
    fn environments(&self) -> Result<Vec<String>, StoreError> {
        match &self.place {
            Source::Backup(backup) => {
                let mut names: Vec<_> = backup.environments().map(|of| of.environment.clone()).collect();
                names.sort_unstable();
                Ok(names)
            }
            Source::Directory { catalogue, .. } => catalogue.names(),
        }
    }

    fn snapshot(&self, environment: &str) -> Result<Box<dyn Snapshot>, StoreError> {
        let connection = match &self.place {
            Source::Backup(backup) => backup.open_checked(environment)?,
            Source::Directory { catalogue, environments, .. } => {
                let Some(entry) = catalogue.find(environment)? else {
                    let context = format!("there is no environment {environment}");
                    return Err(StoreError::new(StoreErrorKind::Unavailable, context));
                };
                let path = environments.join(format!("{}.sqlite", entry.file));
                if entry.missing == Missing::Create && !path.exists() {
                    return Ok(Box::new(Empty(SnapshotHead::default())));
                }
                let database = Database { path: path.clone(), vfs: None, synchronous: Synchronous::Full };
                let connection = database.open_reader(CACHE_KIB)?;
                crate::backup::check_marks(&connection, &path)?;
                connection
            }
        };
        connection.execute_batch("begin").map_err(before_commit("beginning to read"))?;
        let head = head(&connection)?;
        Ok(Box::new(SqliteSnapshot { connection, head, at: Some((RowKind::Queue, Vec::new())) }))
    }
}

/// An environment that is known and was never opened.
struct Empty(SnapshotHead);

impl Snapshot for Empty {
    fn head(&self) -> &SnapshotHead {
        &self.0
    }

    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        Ok(Vec::new())
    }
}

struct SqliteSnapshot {
    connection: Connection,
    head: SnapshotHead,
    /// The kind to read next, and the key of the last row read of it, empty at first; none: all was read.
    at: Option<(RowKind, Vec<Value>)>,
}

impl Snapshot for SqliteSnapshot {
    fn head(&self) -> &SnapshotHead {
        &self.head
    }

    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        while let Some((kind, after)) = self.at.take() {
            let rows = page(&self.connection, kind, &after).map_err(before_commit("reading rows"))?;
            self.at = match rows.last() {
                Some(last) => Some((kind, key(last))),
                None => kind.next().map(|kind| (kind, Vec::new())),
            };
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }
}

/// The environment's row, and how many rows there are of each kind.
pub(crate) fn head(connection: &Connection) -> Result<SnapshotHead, StoreError> {
    let context = "counting rows";
    let sql = "select incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below, commit_seq \
               from environment";
    let read = |row: &Row<'_>| {
        let environment = EnvironmentRow {
            incarnation: Incarnation(row::unsigned(row, 0)?),
            stamp: Timestamp::from_millis(row.get(1)?),
            next_sequence: Sequence(row::unsigned(row, 2)?),
            next_queue: QueueNumber(row.get(3)?),
            dedup_count: row::unsigned(row, 4)?,
            leases_void_below: LeaseGeneration(row::unsigned(row, 5)?),
        };
        Ok((environment, CommitSequence(row::unsigned(row, 6)?)))
    };
    let (environment, commit) = connection.query_row(sql, [], read).map_err(before_commit(context))?;
    let mut head = SnapshotHead { commit, environment, ..SnapshotHead::default() };
    for kind in RowKind::ALL {
        let sql = format!("select count(*) from {}", kind.word());
        let count = connection.query_row(&sql, [], |row| row.get::<_, i64>(0));
        head.counts.add(kind, count.map_err(before_commit(context))?.cast_unsigned());
    }
    let sql = "select sequence from message where not exists \
               (select 1 from delivery where delivery.sequence = message.sequence) limit 1";
    let orphan = connection.query_row(sql, [], |row| row.get::<_, i64>(0)).optional();
    match orphan.map_err(before_commit(context))? {
        None => Ok(head),
        Some(sequence) => {
            let context = format!("message {sequence} has no delivery");
            Err(StoreError::new(StoreErrorKind::Corrupt, context))
        }
    }
}

/// Columns of its key, which the primary key or an index over it has in this order.
fn key_columns(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Queue => &["number"],
        RowKind::Segment => &["log", "place"],
        RowKind::Run => &["cursor", "first"],
        RowKind::Trigger | RowKind::Secret => &["id"],
        RowKind::Dedup => &["queue", "key"],
        RowKind::Chunk => &["sequence", "number"],
        RowKind::Upload | RowKind::Delivery => &["sequence"],
    }
}

/// The key of a row, in the columns of [`key_columns`].
fn key(row: &StoredRow) -> Vec<Value> {
    let sequence = |sequence: Sequence| Value::from(sequence.0.cast_signed());
    match row {
        StoredRow::Queue(queue, _) => vec![queue.number.0.into()],
        StoredRow::Segment(row) => vec![row.log.0.into(), row.index.cast_signed().into()],
        StoredRow::Run(row) => vec![row.cursor.0.into(), row.first.0.cast_signed().into()],
        StoredRow::Trigger(row) => vec![row.id.to_string().into()],
        StoredRow::Secret(_) => vec![1.into()],
        StoredRow::Dedup(row) => vec![row::queue_of(&row.key).into(), row.key.key.to_string().into()],
        StoredRow::Chunk(row) => vec![sequence(row.sequence), row.number.into()],
        StoredRow::Upload(row) => vec![sequence(row.sequence)],
        StoredRow::Delivery(row, _) => vec![sequence(row.sequence)],
    }
}

fn page_sql(kind: RowKind, is_first: bool) -> String {
    let columns = match kind {
        RowKind::Queue => format!("{QUEUE_COLUMNS}, counters.queue"),
        RowKind::Segment => segment::SEGMENT_COLUMNS.to_owned(),
        RowKind::Run => segment::RUN_COLUMNS.to_owned(),
        RowKind::Trigger => trigger::TRIGGER_COLUMNS.to_owned(),
        RowKind::Secret => trigger::SECRET_COLUMNS.to_owned(),
        RowKind::Dedup => DEDUP_COLUMNS.to_owned(),
        RowKind::Chunk => "sequence, number, data".to_owned(),
        RowKind::Upload => "sequence, chunks".to_owned(),
        RowKind::Delivery => DELIVERY_COLUMNS.to_owned(),
    };
    // Tables are called by the words for what is in them.
    let table = match kind {
        RowKind::Queue => "queue left join counters on counters.queue = number",
        other => other.word(),
    };
    let key = key_columns(kind).join(", ");
    let behind = if is_first {
        String::new()
    } else {
        let numbers: Vec<String> = (1..=key_columns(kind).len()).map(|at| format!("?{at}")).collect();
        format!("where ({key}) > ({}) ", numbers.join(", "))
    };
    format!("select {columns} from {table} {behind}order by {key}")
}

fn page(connection: &Connection, kind: RowKind, after: &[Value]) -> Result<Vec<StoredRow>, Error> {
    let mut statement = connection.prepare_cached(&page_sql(kind, after.is_empty()))?;
    let mut found = statement.query(params_from_iter(after))?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < PAGE_ROWS && bytes < PAGE_BYTES {
        let Some(row) = found.next()? else { break };
        let stored = stored(connection, kind, row)?;
        bytes += stored.held_bytes();
        page.push(stored);
    }
    Ok(page)
}

fn stored(connection: &Connection, kind: RowKind, found: &Row<'_>) -> Result<StoredRow, Error> {
    Ok(match kind {
        RowKind::Queue => {
            let (queue, counters) = row::queue_with_counters(found)?;
            let has_counters = found.get::<_, Option<i64>>(row::QUEUE_COLUMN_COUNT)?.is_some();
            StoredRow::Queue(Box::new(queue), has_counters.then(|| Box::new(counters)))
        }
        RowKind::Segment => StoredRow::Segment(Box::new(segment::segment(found)?)),
        RowKind::Run => StoredRow::Run(segment::run(found)?),
        RowKind::Trigger => StoredRow::Trigger(Box::new(trigger::trigger(found)?)),
        RowKind::Secret => StoredRow::Secret(trigger::secret(found)?),
        RowKind::Dedup => StoredRow::Dedup(Box::new(row::dedup(found)?)),
        RowKind::Chunk => StoredRow::Chunk(ChunkRow {
            sequence: Sequence(row::unsigned(found, 0)?),
            number: found.get(1)?,
            data: found.get_ref(2)?.as_blob()?.into(),
        }),
        RowKind::Upload => StoredRow::Upload(row::upload(found)?),
        RowKind::Delivery => {
            let delivery = row::delivery(found)?;
            let message = message(connection, delivery.sequence)?;
            StoredRow::Delivery(Box::new(delivery), message)
        }
    })
}

fn message(connection: &Connection, sequence: Sequence) -> Result<Option<MessageRow>, Error> {
    let sql = format!("select {CONTENT_COLUMNS} from message where sequence = ?1");
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_row([sequence.0.cast_signed()], row::content).optional()?;
    Ok(found.map(|(content, chunks)| MessageRow { sequence, content: content.into(), chunks }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    #[test]
    fn each_page_begins_behind_its_key_and_sorts_nothing() {
        let connection = Connection::open_in_memory().expect("memory opens");
        connection.execute_batch(schema::ENVIRONMENT).expect("the schema is valid");
        for kind in RowKind::ALL {
            let sql = format!("explain query plan {}", page_sql(kind, false));
            let mut statement = connection.prepare(&sql).expect("it is valid");
            let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
            let steps = steps.collect::<Result<Vec<_>, _>>().expect("steps are text");
            assert!(steps.iter().all(|step| step.starts_with("SEARCH")), "{kind:?}: {steps:?}");
        }
    }
}
