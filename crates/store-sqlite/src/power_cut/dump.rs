//! Every row of an environment, by full scans that use no index of the store's own reads. For checks only.

use std::sync::Arc;

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{ChunkRow, Data, EnvironmentRow, MessageRow};
use millpond_core::time::Timestamp;
use millpond_store::{MemoryDump, StoreError, StoreErrorKind};
use rusqlite::{Connection, Error, Row};

use crate::connection::Database;
use crate::error::before_commit;
use crate::factory::SqliteFactory;
use crate::row::{self, CONTENT_COLUMNS, DEDUP_COLUMNS, DELIVERY_COLUMNS, QUEUE_COLUMNS};
use crate::{segment, trigger};

/// Page cache of a dump's connection.
const CACHE_KIB: u32 = 1_024;

impl SqliteFactory {
    /// All rows of an environment, read on a connection of its own, which is closed again.
    ///
    /// # Errors
    /// `Unavailable`: there is no such environment. Otherwise those of reading.
    pub fn dump(&self, environment: &str) -> Result<MemoryDump, StoreError> {
        let place = self.place();
        let Some(entry) = place.catalogue.find(environment)? else {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "environment is not known"));
        };
        let database = Database {
            path: place.environments.join(format!("{}.sqlite", entry.file)),
            vfs: place.vfs.clone(),
            synchronous: place.settings.synchronous,
        };
        let connection = database.open_reader(CACHE_KIB)?;
        let dump = || {
            connection.execute_batch("begin")?;
            let dump = all_rows(&connection)?;
            connection.execute_batch("commit")?;
            Ok(dump)
        };
        let dump = dump().map_err(before_commit("dumping an environment"))?;
        // A queue is read along with its counters, so counters alone would be overlooked.
        let orphans = "select count(*) from counters where queue not in (select number from queue)";
        let orphans: i64 = connection
            .query_row(orphans, [], |row| row.get(0))
            .map_err(before_commit("dumping an environment"))?;
        if orphans > 0 {
            return Err(StoreError::new(
                StoreErrorKind::Corrupt,
                format!("{orphans} counters have no queue"),
            ));
        }
        Ok(dump)
    }
}

fn all_rows(connection: &Connection) -> Result<MemoryDump, Error> {
    let sql = "select commit_seq, incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below \
               from environment";
    let (commit, environment) = connection.query_row(sql, [], environment_row)?;
    let sql = format!(
        "select {QUEUE_COLUMNS} from queue left join counters on counters.queue = number order by number"
    );
    let with_counters = list(connection, &sql, |row| {
        let (queue, counters) = row::queue_with_counters(row)?;
        // Without a row of counters their columns are null.
        Ok((queue, row.get::<_, Option<i64>>(13)?.map(|_| counters)))
    })?;
    let (queues, counters): (Vec<_>, Vec<_>) = with_counters.into_iter().unzip();
    let sql = "select sequence, number, data from chunk not indexed order by sequence, number";
    let chunks = list(connection, sql, |row| {
        let data: Vec<u8> = row.get(2)?;
        Ok(ChunkRow { sequence: Sequence(unsigned(row, 0)?), number: row.get(1)?, data: data.into() })
    })?;
    let sql = "select sequence, chunks from upload not indexed order by sequence";
    let uploads = list(connection, sql, row::upload)?;
    let sql = format!("select {CONTENT_COLUMNS}, sequence from message not indexed order by sequence");
    let messages = list(connection, &sql, |row| {
        let sequence = Sequence(unsigned(row, 5)?);
        let (mut content, count) = row::content(row)?;
        let first = chunks.iter().find(|chunk: &&ChunkRow| chunk.sequence == sequence && chunk.number == 0);
        if let Some(first) = first.filter(|_| count == 1) {
            content.data = Data::from(&*first.data);
        }
        Ok(MessageRow { sequence, content: Arc::new(content), chunks: count })
    })?;
    let sql = format!("select {DELIVERY_COLUMNS} from delivery not indexed order by sequence");
    let deliveries = list(connection, &sql, row::delivery)?;
    let sql = format!("select {DEDUP_COLUMNS} from dedup not indexed order by queue, key");
    let dedup = list(connection, &sql, row::dedup)?;
    let (segments, runs) = segment::all(connection)?;
    let (triggers, secret) = trigger::all(connection)?;
    Ok(MemoryDump {
        commit,
        environment,
        queues,
        counters: counters.into_iter().flatten().collect(),
        messages,
        deliveries,
        dedup,
        chunks,
        uploads,
        segments,
        runs,
        triggers,
        secret,
        low_water: Vec::new(),
        external: Vec::new(),
        claims: Vec::new(),
    })
}

fn environment_row(row: &Row<'_>) -> Result<(CommitSequence, EnvironmentRow), Error> {
    let environment = EnvironmentRow {
        incarnation: Incarnation(unsigned(row, 1)?),
        stamp: Timestamp::from_millis(row.get(2)?),
        next_sequence: Sequence(unsigned(row, 3)?),
        next_queue: QueueNumber(row.get(4)?),
        dedup_count: unsigned(row, 5)?,
        leases_void_below: LeaseGeneration(unsigned(row, 6)?),
    };
    Ok((CommitSequence(unsigned(row, 0)?), environment))
}

fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

fn list<T>(
    connection: &Connection,
    sql: &str,
    read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    connection.prepare(sql)?.query_map([], read)?.collect()
}
