//! Rows as columns. The codes are persisted (`schema.rs`); unsigned numbers are kept by their bits.

use millpond_core::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence, Uid};
use millpond_core::remembered::{Remembered, SentIds};
use millpond_core::row::{
    CountersRow, Data, DeadLetter, DedupKey, DedupRow, DeliveryRow, MessageContent, QueueRow, UploadRow,
};
use millpond_core::time::Timestamp;
use millpond_store::persisted::{
    answer_from_text, data_kind_of, dead_reason_of, hold_of, queue_spec_from_text, role_of, state_of,
};
use rusqlite::types::Type;
use rusqlite::{Error, Row};

/// Columns that [`delivery`] reads, in its order.
pub(crate) const DELIVERY_COLUMNS: &str = "sequence, queue, state, priority_descending, retried, order_at, due_at, \
     leased_at, lease_generation, delivery_count, failure_count, lost_lease_count, expires_at, nonce, sent_at, \
     entered, dead_at, dead_reason, dead_queue, size_bytes, chunks, message, hold";

/// Columns that [`dedup`] reads, in its order.
pub(crate) const DEDUP_COLUMNS: &str =
    "queue, key, digest, sent_at, first_sequence, count, nonce_seed, answer, expires_at";

/// What stands for the queue of a remembered call that is no send; queues count from 0.
const NO_QUEUE: i64 = -1;

/// The column that says of which queue a key is.
pub(crate) fn queue_of(key: &DedupKey) -> i64 {
    key.queue.map_or(NO_QUEUE, |queue| i64::from(queue.0))
}

/// Columns that [`queue_with_counters`] reads, in its order.
pub(crate) const QUEUE_COLUMNS: &str = "queue.number, name, uid, generation, revision, created_at, updated_at, \
     annotations, spec, paused_at, purged_through, deleted, sweep_owed, counters.ready, delayed, leased, dead, \
     completed, cancelled, waiting_bytes, leased_bytes, dead_bytes, finished_bytes, total_sent, total_delivered, total_undone, total_acked, total_dead, total_expired, \
     consumer_seen_at, dead_purged_through, position, role, parent, log, start, \
     settled_by_sql";

/// How many they are.
pub(crate) const QUEUE_COLUMN_COUNT: usize = 37;

/// A delivery, from [`DELIVERY_COLUMNS`].
pub(crate) fn delivery(row: &Row<'_>) -> Result<DeliveryRow, Error> {
    let priority: i64 = row.get(3)?;
    let dead_letter = match row.get(16)? {
        None => None,
        Some(at) => Some(Box::new(DeadLetter {
            at: Timestamp::from_millis(at),
            reason: known(17, dead_reason_of(row.get(17)?))?,
            queue: row.get(18)?,
        })),
    };
    let message = row.get::<_, Option<i64>>(21)?.map(|message| Sequence(message.cast_unsigned()));
    let own = sequence(row, 0)?;
    Ok(DeliveryRow {
        sequence: own,
        message: message.unwrap_or(own),
        queue: QueueNumber(row.get(1)?),
        chunks: row.get(20)?,
        nonce: unsigned(row, 13)?,
        sent_at: time(row, 14)?,
        size_bytes: unsigned(row, 19)?,
        entered: sequence(row, 15)?,
        state: known(2, state_of(row.get(2)?))?,
        priority: known(3, priority.checked_neg().and_then(|priority| i32::try_from(priority).ok()))?,
        retried: row.get(4)?,
        order_at: time(row, 5)?,
        due_at: time(row, 6)?,
        leased_at: time(row, 7)?,
        expires_at: time(row, 12)?,
        lease_generation: LeaseGeneration(unsigned(row, 8)?),
        hold: known(22, hold_of(row.get(22)?))?,
        delivery_count: row.get(9)?,
        failure_count: row.get(10)?,
        lost_lease_count: row.get(11)?,
        dead_letter,
    })
}

/// A remembered call, from [`DEDUP_COLUMNS`].
pub(crate) fn dedup(row: &Row<'_>) -> Result<DedupRow, Error> {
    let queue = match row.get(0)? {
        NO_QUEUE => None,
        number => Some(QueueNumber(known(0, u32::try_from(number).ok())?)),
    };
    let answer = match row.get_ref(7)?.as_str_or_null()? {
        Some(text) => known(7, answer_from_text(text))?,
        None => Remembered::Sent(SentIds {
            sent_at: time(row, 3)?,
            first_sequence: sequence(row, 4)?,
            count: row.get(5)?,
            nonce_seed: unsigned(row, 6)?,
        }),
    };
    Ok(DedupRow {
        key: DedupKey { queue, key: row.get(1)? },
        digest: u128::from_be_bytes(row.get(2)?),
        answer,
        expires_at: time(row, 8)?,
    })
}

/// Columns that [`content`] reads, in its order.
pub(crate) const CONTENT_COLUMNS: &str = "attributes, data_kind, data_bytes, chunks, data";

/// A message's content, from [`CONTENT_COLUMNS`], and how many chunks hold its data. Data that is not in the row is named by
/// its length.
pub(crate) fn content(row: &Row<'_>) -> Result<(MessageContent, u32), Error> {
    let chunks = row.get(3)?;
    let data = match chunks {
        0 => Data::Whole(row.get_ref(4)?.as_blob()?.into()),
        _ => Data::Chunked { bytes: unsigned(row, 2)? },
    };
    let data_kind = known(1, data_kind_of(row.get(1)?))?;
    Ok((MessageContent { attributes: row.get(0)?, data_kind, data }, chunks))
}

/// An upload, from `sequence, chunks`.
pub(crate) fn upload(row: &Row<'_>) -> Result<UploadRow, Error> {
    Ok(UploadRow { sequence: sequence(row, 0)?, chunks: row.get(1)? })
}

/// A queue and its counters, from [`QUEUE_COLUMNS`] of a left join.
pub(crate) fn queue_with_counters(row: &Row<'_>) -> Result<(QueueRow, CountersRow), Error> {
    let queue = QueueRow {
        number: QueueNumber(row.get(0)?),
        role: known(32, role_of((row.get(32)?, row.get(33)?, row.get(34)?, row.get(35)?)))?,
        name: row.get(1)?,
        uid: Uid(u128::from_be_bytes(row.get(2)?)),
        generation: unsigned(row, 3)?,
        revision: unsigned(row, 4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
        annotations: row.get(7)?,
        spec: known(8, queue_spec_from_text(row.get_ref(8)?.as_str()?))?,
        paused_at: row.get::<_, Option<i64>>(9)?.map(Timestamp::from_millis),
        purged_through: sequence(row, 10)?,
        deleted: row.get(11)?,
        sweep_owed: row.get(12)?,
        settled_by_sql: row.get(36)?,
        dead_purged_through: sequence(row, 30)?,
    };
    let count = |column| row.get::<_, Option<i64>>(column).map(|count| count.unwrap_or(0).cast_unsigned());
    let counters = CountersRow {
        queue: queue.number,
        ready: count(13)?,
        delayed: count(14)?,
        leased: count(15)?,
        dead: count(16)?,
        completed: count(17)?,
        cancelled: count(18)?,
        waiting_bytes: count(19)?,
        leased_bytes: count(20)?,
        dead_bytes: count(21)?,
        finished_bytes: count(22)?,
        total_sent: count(23)?,
        total_delivered: count(24)?,
        total_undone: count(25)?,
        total_acked: count(26)?,
        total_dead: count(27)?,
        total_expired: count(28)?,
        consumer_seen_at: Timestamp::from_millis(count(29)?.cast_signed()),
        position: LogNumber(count(31)?),
    };
    Ok((queue, counters))
}

pub(crate) fn time(row: &Row<'_>, column: usize) -> Result<Timestamp, Error> {
    row.get(column).map(Timestamp::from_millis)
}

fn sequence(row: &Row<'_>, column: usize) -> Result<Sequence, Error> {
    unsigned(row, column).map(Sequence)
}

pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    row.get::<_, i64>(column).map(i64::cast_unsigned)
}

/// A code or text that this version does not know is damage.
pub(crate) fn known<T>(column: usize, value: Option<T>) -> Result<T, Error> {
    value.ok_or_else(|| Error::FromSqlConversionFailure(column, Type::Null, "not a known value".into()))
}
