//! Chunks and uploads of one change set as statements.
//!
//! A row of 256 KiB takes 64 pages that nothing else shares, so each is a statement of its own: there is nothing to win by
//! doing several at once.

use millpond_core::ChangeSet;
use millpond_core::id::Sequence;
use millpond_core::row::Data;
use rusqlite::{Connection, Error, params};

/// Writes and removes; `false`: a chunk that should be there is not.
pub(crate) fn write(connection: &Connection, changes: &ChangeSet) -> Result<bool, Error> {
    for message in changes.messages.iter().filter(|message| message.chunks == 1) {
        if let Data::Whole(data) = &message.content.data {
            insert(connection, message.sequence, 0, data)?;
        }
    }
    for chunk in &changes.chunks {
        insert(connection, chunk.sequence, chunk.number, &chunk.data)?;
    }
    let mut fits = true;
    for range in &changes.chunks_removed {
        let sql = "delete from chunk where sequence = ?1 and number >= ?2 and number < ?3";
        let values = params![range.sequence.0.cast_signed(), range.from, range.until];
        let removed = connection.prepare_cached(sql)?.execute(values)?;
        fits &= u32::try_from(removed) == Ok(range.until.saturating_sub(range.from));
    }
    for upload in &changes.uploads_put {
        let sql = "insert or replace into upload values (?1, ?2)";
        let values = params![upload.sequence.0.cast_signed(), upload.chunks];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    for sequence in &changes.uploads_removed {
        let sql = "delete from upload where sequence = ?1";
        connection.prepare_cached(sql)?.execute([sequence.0.cast_signed()])?;
    }
    Ok(fits)
}

/// Copies the chunks of a message. One that is not there is null, which the table refuses. One by one, because a statement that reads
/// the table that it writes would first put them all aside.
pub(crate) fn copy(connection: &Connection, from: Sequence, to: Sequence, chunks: u32) -> Result<(), Error> {
    let sql =
        "insert into chunk values (?2, ?3, (select data from chunk where sequence = ?1 and number = ?3))";
    let mut statement = connection.prepare_cached(sql)?;
    for number in 0..chunks {
        statement.execute(params![from.0.cast_signed(), to.0.cast_signed(), number])?;
    }
    Ok(())
}

fn insert(connection: &Connection, sequence: Sequence, number: u32, data: &[u8]) -> Result<(), Error> {
    let sql = "insert into chunk values (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![sequence.0.cast_signed(), number, data])?;
    Ok(())
}
