//! Segments of logs and runs of cursors: those of one change set as statements, and all of them as rows.
//!
//! Both lie in tables without rowid, so those of one log or cursor are neighbours and leave by one statement.

use millpond_core::ChangeSet;
use millpond_core::id::{LogNumber, QueueNumber};
use millpond_core::row::{RunRow, SegmentRow};
use millpond_store::persisted::{LIVE_BYTES, live_from_bytes, live_to_bytes};
use rusqlite::{Connection, Error, Row, params};

/// Clears, then removes, then writes.
pub(crate) fn write(connection: &Connection, changes: &ChangeSet) -> Result<(), Error> {
    for log in &changes.segments_cleared {
        remove_segments(connection, *log)?;
    }
    for (log, place) in &changes.segments_removed {
        let sql = "delete from segment where log = ?1 and place = ?2";
        connection.prepare_cached(sql)?.execute(params![log.0, place.cast_signed()])?;
    }
    for row in &changes.segments_put {
        let sql = "insert or replace into segment values (?1, ?2, ?3)";
        let values = params![row.log.0, row.index.cast_signed(), live_to_bytes(&row.live)];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    for (cursor, first) in &changes.runs_removed {
        let sql = "delete from run where cursor = ?1 and first = ?2";
        connection.prepare_cached(sql)?.execute(params![cursor.0, first.0.cast_signed()])?;
    }
    for row in &changes.runs_put {
        let sql = "insert or replace into run values (?1, ?2, ?3)";
        let values = params![row.cursor.0, row.first.0.cast_signed(), row.last.0.cast_signed()];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// A queue leaves with what it has here, whichever role it had.
pub(crate) fn remove_queue(connection: &Connection, number: QueueNumber) -> Result<(), Error> {
    remove_segments(connection, number)?;
    connection.prepare_cached("delete from run where cursor = ?1")?.execute([number.0])?;
    Ok(())
}

fn remove_segments(connection: &Connection, log: QueueNumber) -> Result<(), Error> {
    connection.prepare_cached("delete from segment where log = ?1")?.execute([log.0])?;
    Ok(())
}

/// All segments and all runs, in the order of their keys.
pub(crate) fn all(connection: &Connection) -> Result<(Vec<SegmentRow>, Vec<RunRow>), Error> {
    let sql = format!("select {SEGMENT_COLUMNS} from segment order by log, place");
    let segments = connection.prepare(&sql)?.query_map([], segment)?.collect::<Result<_, _>>()?;
    let sql = format!("select {RUN_COLUMNS} from run order by cursor, first");
    let runs = connection.prepare(&sql)?.query_map([], run)?.collect::<Result<_, _>>()?;
    Ok((segments, runs))
}

/// Columns that [`segment`] reads, in its order.
pub(crate) const SEGMENT_COLUMNS: &str = "log, place, live";

/// Columns that [`run`] reads, in its order.
pub(crate) const RUN_COLUMNS: &str = "cursor, first, last";

/// A segment, from [`SEGMENT_COLUMNS`].
pub(crate) fn segment(row: &Row<'_>) -> Result<SegmentRow, Error> {
    let bytes: [u8; LIVE_BYTES] = row.get(2)?;
    let live = live_from_bytes(&bytes);
    Ok(SegmentRow { log: QueueNumber(row.get(0)?), index: row.get::<_, i64>(1)?.cast_unsigned(), live })
}

/// A run, from [`RUN_COLUMNS`].
pub(crate) fn run(row: &Row<'_>) -> Result<RunRow, Error> {
    let number = |column| row.get::<_, i64>(column).map(|number| LogNumber(number.cast_unsigned()));
    Ok(RunRow { cursor: QueueNumber(row.get(0)?), first: number(1)?, last: number(2)? })
}
