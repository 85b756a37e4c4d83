//! Rows as columns. The codes are persisted (`migrations/`); unsigned numbers are kept by their bits.

use millpond_core::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence, Uid};
use millpond_core::remembered::{Remembered, SentIds};
use millpond_core::row::{
    CountersRow, Data, DeadLetter, DedupKey, DedupRow, DeliveryRow, DeliveryState, MessageContent, QueueRow,
    ReadyKey, RunRow, SecretRow, SegmentRow, TriggerRow, UploadRow,
};
use millpond_core::time::Timestamp;
use millpond_core::{LowWater, StoredOrder};
use millpond_store::persisted::{
    LIVE_BYTES, answer_from_text, data_kind_of, dead_reason_of, hold_of, live_from_bytes,
    queue_spec_from_text, role_of, state_code, state_of, trigger_spec_from_text,
};
use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::text::given;

/// Columns that [`delivery`] reads, in its order, of rows that are called so.
macro_rules! delivery_columns {
    ($row:literal) => {
        concat!(
            $row,
            ".sequence, ",
            $row,
            ".queue, ",
            $row,
            ".state, ",
            $row,
            ".priority_descending, ",
            $row,
            ".retried, ",
            $row,
            ".order_at, ",
            $row,
            ".due_at, ",
            $row,
            ".leased_at, ",
            $row,
            ".lease_generation, ",
            $row,
            ".delivery_count, ",
            $row,
            ".failure_count, ",
            $row,
            ".lost_lease_count, ",
            $row,
            ".expires_at, ",
            $row,
            ".nonce, ",
            $row,
            ".sent_at, ",
            $row,
            ".entered, ",
            $row,
            ".dead_at, ",
            $row,
            ".dead_reason, ",
            $row,
            ".dead_queue, ",
            $row,
            ".size_bytes, ",
            $row,
            ".chunks, ",
            $row,
            ".message, ",
            $row,
            ".hold"
        )
    };
}
pub(crate) use delivery_columns;

/// Columns that [`dedup`] reads, in its order, of rows that are called so.
macro_rules! dedup_columns {
    ($row:literal) => {
        concat!(
            $row,
            ".queue, ",
            $row,
            ".key, ",
            $row,
            ".digest, ",
            $row,
            ".sent_at, ",
            $row,
            ".first_sequence, ",
            $row,
            ".count, ",
            $row,
            ".nonce_seed, ",
            $row,
            ".answer, ",
            $row,
            ".expires_at"
        )
    };
}
pub(crate) use dedup_columns;

/// The counters `c` of a queue `q`, to be joined.
macro_rules! newest_counters {
    () => {
        "lateral (select n.* from counters n where n.environment = q.environment and n.queue = q.number \
         order by n.written desc limit 1) c on true"
    };
}
pub(crate) use newest_counters;

/// Columns that [`queue_with_counters`] reads, in its order, of a left join.
pub(crate) const QUEUE_COLUMNS: &str = "q.number, q.name, q.uid, q.generation, q.revision, q.created_at, q.updated_at, \
     q.annotations, q.spec, q.paused_at, q.purged_through, q.deleted, q.sweep_owed, q.dead_purged_through, q.role, q.parent, \
     q.log, q.start, c.ready, c.delayed, c.leased, c.dead, c.completed, c.cancelled, c.waiting_bytes, c.leased_bytes, \
     c.dead_bytes, c.finished_bytes, c.total_sent, c.total_delivered, c.total_undone, c.total_acked, c.total_dead, \
     c.total_expired, c.consumer_seen_at, c.position, q.settled_by_sql";

/// What stands for the queue of a remembered call that is no send; queues count from 0.
const NO_QUEUE: i64 = -1;

/// The column that says of which queue a key is.
pub(crate) fn queue_of(key: &DedupKey) -> i64 {
    key.queue.map_or(NO_QUEUE, |queue| i64::from(queue.0))
}

type Read<T> = Result<T, StoreError>;

/// A column's value; another type than the table has is damage.
pub(crate) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Read<T> {
    row.try_get(column).map_err(|error| damaged(column).with_source(error))
}

/// A code or text that this version does not know is damage.
pub(crate) fn known<T>(column: usize, value: Option<T>) -> Read<T> {
    value.ok_or_else(|| damaged(column))
}

fn damaged(column: usize) -> StoreError {
    StoreError::new(StoreErrorKind::Corrupt, format!("column {column} of a row is not a known value"))
}

pub(crate) fn time(row: &Row, column: usize) -> Read<Timestamp> {
    get(row, column).map(Timestamp::from_millis)
}

pub(crate) fn sequence(row: &Row, column: usize) -> Read<Sequence> {
    unsigned(row, column).map(Sequence)
}

pub(crate) fn unsigned(row: &Row, column: usize) -> Read<u64> {
    get::<i64>(row, column).map(i64::cast_unsigned)
}

/// A number that was narrower before it was stored.
pub(crate) fn narrow<T: TryFrom<i64>>(row: &Row, column: usize) -> Read<T> {
    known(column, T::try_from(get::<i64>(row, column)?).ok())
}

fn optional_narrow(row: &Row, column: usize) -> Read<Option<u32>> {
    get::<Option<i64>>(row, column)?.map(|number| known(column, u32::try_from(number).ok())).transpose()
}

pub(crate) fn text(row: &Row, column: usize) -> Read<Box<str>> {
    known(column, given(get(row, column)?)).map(Into::into)
}

pub(crate) fn optional_text(row: &Row, column: usize) -> Read<Option<Box<str>>> {
    let Some(stored) = get::<Option<String>>(row, column)? else { return Ok(None) };
    known(column, given(stored)).map(|text| Some(text.into()))
}

fn sixteen_bytes(row: &Row, column: usize) -> Read<u128> {
    let bytes: &[u8] = get(row, column)?;
    known(column, bytes.try_into().ok()).map(u128::from_be_bytes)
}

/// A delivery, from [`delivery_columns`].
pub(crate) fn delivery(row: &Row) -> Read<DeliveryRow> {
    let priority: i64 = get(row, 3)?;
    let dead_letter = match get::<Option<i64>>(row, 16)? {
        None => None,
        Some(at) => Some(Box::new(DeadLetter {
            at: Timestamp::from_millis(at),
            reason: known(17, dead_reason_of(get::<i16>(row, 17)?.into()))?,
            queue: text(row, 18)?,
        })),
    };
    let message = get::<Option<i64>>(row, 21)?.map(|message| Sequence(message.cast_unsigned()));
    let own = sequence(row, 0)?;
    Ok(DeliveryRow {
        sequence: own,
        message: message.unwrap_or(own),
        queue: QueueNumber(narrow(row, 1)?),
        chunks: narrow(row, 20)?,
        nonce: unsigned(row, 13)?,
        sent_at: time(row, 14)?,
        size_bytes: unsigned(row, 19)?,
        entered: sequence(row, 15)?,
        state: known(2, state_of(get::<i16>(row, 2)?.into()))?,
        priority: known(3, priority.checked_neg().and_then(|priority| i32::try_from(priority).ok()))?,
        retried: get(row, 4)?,
        order_at: time(row, 5)?,
        due_at: time(row, 6)?,
        leased_at: time(row, 7)?,
        expires_at: time(row, 12)?,
        lease_generation: LeaseGeneration(unsigned(row, 8)?),
        hold: known(22, hold_of(get::<i16>(row, 22)?.into()))?,
        delivery_count: narrow(row, 9)?,
        failure_count: narrow(row, 10)?,
        lost_lease_count: narrow(row, 11)?,
        dead_letter,
    })
}

/// A remembered call, from [`dedup_columns`].
pub(crate) fn dedup(row: &Row) -> Read<DedupRow> {
    let queue = match get::<i64>(row, 0)? {
        NO_QUEUE => None,
        number => Some(QueueNumber(known(0, u32::try_from(number).ok())?)),
    };
    let answer = match get::<Option<String>>(row, 7)? {
        Some(stored) => known(7, given(stored).and_then(|text| answer_from_text(&text)))?,
        None => Remembered::Sent(SentIds {
            sent_at: time(row, 3)?,
            first_sequence: sequence(row, 4)?,
            count: narrow(row, 5)?,
            nonce_seed: unsigned(row, 6)?,
        }),
    };
    Ok(DedupRow {
        key: DedupKey { queue, key: text(row, 1)? },
        digest: sixteen_bytes(row, 2)?,
        answer,
        expires_at: time(row, 8)?,
    })
}

/// A message's content, from `attributes, data_kind, data_bytes, chunks, data` behind `first`. Data that is not in the row is
/// named by its length.
pub(crate) fn content(row: &Row, first: usize) -> Read<(MessageContent, u32)> {
    let chunks = narrow(row, first + 3)?;
    let data = match chunks {
        0 => Data::Whole(get::<&[u8]>(row, first + 4)?.into()),
        _ => Data::Chunked { bytes: unsigned(row, first + 2)? },
    };
    let data_kind = known(first + 1, data_kind_of(get::<i16>(row, first + 1)?.into()))?;
    Ok((MessageContent { attributes: text(row, first)?, data_kind, data }, chunks))
}

/// An upload, from `sequence, chunks`.
pub(crate) fn upload(row: &Row) -> Read<UploadRow> {
    Ok(UploadRow { sequence: sequence(row, 0)?, chunks: narrow(row, 1)? })
}

/// A queue and its counters, from [`QUEUE_COLUMNS`].
pub(crate) fn queue_with_counters(row: &Row) -> Read<(QueueRow, CountersRow)> {
    let role = (
        i64::from(get::<i16>(row, 14)?),
        optional_narrow(row, 15)?,
        optional_narrow(row, 16)?,
        get(row, 17)?,
    );
    let queue = QueueRow {
        number: QueueNumber(narrow(row, 0)?),
        role: known(14, role_of(role))?,
        name: text(row, 1)?,
        uid: Uid(sixteen_bytes(row, 2)?),
        generation: unsigned(row, 3)?,
        revision: unsigned(row, 4)?,
        created_at: time(row, 5)?,
        updated_at: time(row, 6)?,
        annotations: text(row, 7)?,
        spec: known(8, given(get(row, 8)?).and_then(|text| queue_spec_from_text(&text)))?,
        paused_at: get::<Option<i64>>(row, 9)?.map(Timestamp::from_millis),
        purged_through: sequence(row, 10)?,
        deleted: get(row, 11)?,
        sweep_owed: get(row, 12)?,
        dead_purged_through: sequence(row, 13)?,
        settled_by_sql: get(row, 36)?,
    };
    let count = |column| get::<Option<i64>>(row, column).map(|count| count.unwrap_or(0).cast_unsigned());
    let counters = CountersRow {
        queue: queue.number,
        ready: count(18)?,
        delayed: count(19)?,
        leased: count(20)?,
        dead: count(21)?,
        completed: count(22)?,
        cancelled: count(23)?,
        waiting_bytes: count(24)?,
        leased_bytes: count(25)?,
        dead_bytes: count(26)?,
        finished_bytes: count(27)?,
        total_sent: count(28)?,
        total_delivered: count(29)?,
        total_undone: count(30)?,
        total_acked: count(31)?,
        total_dead: count(32)?,
        total_expired: count(33)?,
        consumer_seen_at: Timestamp::from_millis(count(34)?.cast_signed()),
        position: LogNumber(count(35)?),
    };
    Ok((queue, counters))
}

/// A segment, from `log, place, live`.
pub(crate) fn segment(row: &Row) -> Read<SegmentRow> {
    let bytes: &[u8; LIVE_BYTES] = known(2, get::<&[u8]>(row, 2)?.try_into().ok())?;
    Ok(SegmentRow {
        log: QueueNumber(narrow(row, 0)?),
        index: unsigned(row, 1)?,
        live: live_from_bytes(bytes),
    })
}

/// A run, from `cursor, first, last`.
pub(crate) fn run(row: &Row) -> Read<RunRow> {
    let number = |column| unsigned(row, column).map(LogNumber);
    Ok(RunRow { cursor: QueueNumber(narrow(row, 0)?), first: number(1)?, last: number(2)? })
}

/// A trigger, from `id, number, uid, created_at, deployment, topic, consumer, target, spec`.
pub(crate) fn trigger(row: &Row) -> Read<TriggerRow> {
    Ok(TriggerRow {
        id: text(row, 0)?,
        number: unsigned(row, 1)?,
        uid: Uid(sixteen_bytes(row, 2)?),
        created_at: time(row, 3)?,
        deployment: optional_text(row, 4)?,
        topic: text(row, 5)?,
        group: text(row, 6)?,
        target: text(row, 7)?,
        spec: known(8, given(get(row, 8)?).and_then(|text| trigger_spec_from_text(&text)))?,
    })
}

/// The secret, from `current, previous, previous_until, since`.
pub(crate) fn secret(row: &Row) -> Read<SecretRow> {
    let until = get::<Option<i64>>(row, 2)?.map(Timestamp::from_millis);
    let previous = match (optional_text(row, 1)?, until) {
        (None, None) => None,
        (Some(secret), Some(until)) => Some((secret, until)),
        _ => known(1, None)?,
    };
    Ok(SecretRow { current: text(row, 0)?, previous, since: time(row, 3)? })
}

/// What `low_water` has for an order: `queue` and `kind`.
pub(crate) fn order_columns(order: StoredOrder) -> (i64, i16) {
    let state = |state| i16::try_from(state_code(state)).unwrap_or(i16::MAX);
    match order {
        StoredOrder::Ready(queue) => (i64::from(queue.0), state(DeliveryState::Ready)),
        StoredOrder::Due(queue, of) => (i64::from(queue.0), state(of)),
        StoredOrder::Expiry => (NO_QUEUE, 0),
        StoredOrder::DedupExpiry => (NO_QUEUE, 1),
    }
}

/// A low-water mark, from `queue, kind, priority_descending, retried, order_at, sequence`.
pub(crate) fn low_water(row: &Row) -> Read<LowWater> {
    let (number, kind): (i64, i16) = (get(row, 0)?, get(row, 1)?);
    let order = if number == NO_QUEUE {
        known(
            1,
            [StoredOrder::Expiry, StoredOrder::DedupExpiry].get(usize::from(kind.cast_unsigned())).copied(),
        )?
    } else {
        let queue = QueueNumber(known(0, u32::try_from(number).ok())?);
        match known(1, state_of(i64::from(kind)))? {
            DeliveryState::Ready => StoredOrder::Ready(queue),
            state => StoredOrder::Due(queue, state),
        }
    };
    let after = ReadyKey {
        priority_descending: get(row, 2)?,
        retried: get(row, 3)?,
        order_at: Timestamp::from_millis(get(row, 4)?),
        sequence: sequence(row, 5)?,
    };
    Ok(LowWater { order, after })
}
