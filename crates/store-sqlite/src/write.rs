//! One change set as statements, the fence first. Runs inside a transaction that the caller commits or rolls back.
//!
//! Statements are prepared once per connection. What dominates the cost is the work on B-trees (eleven entries a
//! message's life), so an update leaves the indexes alone whose columns it does not change, and removals of neighbours
//! are one statement.

use std::collections::BTreeSet;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::remembered::Remembered;
use millpond_core::row::{
    CountersRow, DedupKey, DedupRow, DeliveryRow, EnvironmentRow, MessageRow, QueueRow,
};
use millpond_core::{ChangeSet, DeliveryChange, MessageCopy};
use millpond_store::persisted::{
    answer_to_text, data_kind_code, dead_reason_code, hold_code, queue_spec_to_text, role_columns, state_code,
};
use millpond_store::{StoreError, StoreErrorKind};
use rusqlite::{CachedStatement, Connection, Error, OptionalExtension, params};

use crate::error::before_commit;
use crate::row::queue_of;
use crate::{chunk, segment, trigger};

/// Moves the fence and writes everything.
pub(crate) fn write(connection: &Connection, epoch: i64, changes: &ChangeSet) -> Result<(), StoreError> {
    let moved = fence(connection, epoch, changes.commit, &changes.environment);
    if !moved.map_err(before_commit("moving the fence"))? {
        let context = format!("commit {} of epoch {epoch} does not follow what is stored", changes.commit);
        return Err(StoreError::new(StoreErrorKind::Fenced, context));
    }
    let fits = write_rows(connection, changes).map_err(before_commit("writing rows"))?;
    if fits {
        return Ok(());
    }
    Err(StoreError::new(StoreErrorKind::Corrupt, "a row to change, copy or remove is not there"))
}

fn fence(
    connection: &Connection,
    epoch: i64,
    commit: CommitSequence,
    row: &EnvironmentRow,
) -> Result<bool, Error> {
    let sql = "update environment set commit_seq = ?1, incarnation = ?2, stamp = ?3, next_sequence = ?4, \
               next_queue = ?5, dedup_count = ?6, leases_void_below = ?7 \
               where id = 1 and epoch = ?8 and commit_seq = ?1 - 1";
    let values = params![
        commit.0.cast_signed(),
        row.incarnation.0.cast_signed(),
        row.stamp.as_millis(),
        row.next_sequence.0.cast_signed(),
        row.next_queue.0,
        row.dedup_count.cast_signed(),
        row.leases_void_below.0.cast_signed(),
        epoch,
    ];
    Ok(connection.prepare_cached(sql)?.execute(values)? == 1)
}

/// `false`: a row that should be there is not.
fn write_rows(connection: &Connection, changes: &ChangeSet) -> Result<bool, Error> {
    put_queues(connection, &changes.queues_put)?;
    put_counters(connection, &changes.counters)?;
    segment::write(connection, changes)?;
    trigger::write(connection, changes)?;
    for number in &changes.queues_removed {
        connection.prepare_cached("delete from queue where number = ?1")?.execute([number.0])?;
        connection.prepare_cached("delete from counters where queue = ?1")?.execute([number.0])?;
        segment::remove_queue(connection, *number)?;
    }
    if !copy_messages(connection, &changes.copies)? {
        return Ok(false);
    }
    let mut removed: Vec<Sequence> = removals(&changes.deliveries).collect();
    removed.sort_unstable();
    let fits = remove_runs(connection, &removed)? && update_deliveries(connection, &changes.deliveries)?;
    insert_messages(connection, &changes.messages)?;
    insert_deliveries(connection, &changes.deliveries)?;
    put_dedup(connection, &changes.dedup_put)?;
    remove_dedup(connection, &changes.dedup_removed)?;
    Ok(chunk::write(connection, changes)? && fits)
}

fn put_queues(connection: &Connection, rows: &[QueueRow]) -> Result<(), Error> {
    for row in rows {
        let sql = "insert or replace into queue \
                   values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, \
                   ?19)";
        let (role, parent, log, start) = role_columns(row.role);
        connection.prepare_cached(sql)?.execute(params![
            row.number.0,
            row.name,
            row.uid.0.to_be_bytes(),
            row.generation.cast_signed(),
            row.revision.cast_signed(),
            row.created_at.as_millis(),
            row.updated_at.as_millis(),
            row.annotations,
            queue_spec_to_text(&row.spec),
            row.paused_at.map(|at| at.as_millis()),
            row.purged_through.0.cast_signed(),
            row.deleted,
            row.sweep_owed,
            row.dead_purged_through.0.cast_signed(),
            role,
            parent,
            log,
            start,
            row.settled_by_sql,
        ])?;
    }
    Ok(())
}

fn put_counters(connection: &Connection, rows: &[CountersRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let sql = "insert or replace into counters \
               values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19)";
    let mut statement = connection.prepare_cached(sql)?;
    for row in rows {
        statement.execute(params![
            row.queue.0,
            row.ready.cast_signed(),
            row.delayed.cast_signed(),
            row.leased.cast_signed(),
            row.dead.cast_signed(),
            row.completed.cast_signed(),
            row.cancelled.cast_signed(),
            row.waiting_bytes.cast_signed(),
            row.leased_bytes.cast_signed(),
            row.dead_bytes.cast_signed(),
            row.finished_bytes.cast_signed(),
            row.total_sent.cast_signed(),
            row.total_delivered.cast_signed(),
            row.total_undone.cast_signed(),
            row.total_acked.cast_signed(),
            row.total_dead.cast_signed(),
            row.total_expired.cast_signed(),
            row.consumer_seen_at.as_millis(),
            row.position.0.cast_signed(),
        ])?;
    }
    Ok(())
}

fn insert_messages(connection: &Connection, rows: &[MessageRow]) -> Result<(), Error> {
    let rows: Vec<&MessageRow> = rows.iter().collect();
    insert_in_groups(connection, "message", MESSAGE_COLUMNS, &rows, |statement, first, row| {
        let content = &row.content;
        statement.raw_bind_parameter(first, row.sequence.0.cast_signed())?;
        statement.raw_bind_parameter(first + 1, &*content.attributes)?;
        statement.raw_bind_parameter(first + 2, data_kind_code(content.data_kind))?;
        statement.raw_bind_parameter(first + 3, content.data.size_bytes().cast_signed())?;
        statement.raw_bind_parameter(first + 4, row.chunks)?;
        let data = if row.chunks == 0 { content.data.held() } else { &[] };
        statement.raw_bind_parameter(first + 5, data)
    })
}

/// Before anything is removed: a message may leave with the commit that copies it.
fn copy_messages(connection: &Connection, copies: &[MessageCopy]) -> Result<bool, Error> {
    let new: BTreeSet<Sequence> = copies.iter().map(|copy| copy.to).collect();
    for MessageCopy { from, to } in copies {
        let sql = "insert into message select ?2, attributes, data_kind, data_bytes, chunks, data from message \
                   where sequence = ?1 returning chunks";
        let bounds = [from.0.cast_signed(), to.0.cast_signed()];
        let mut statement = connection.prepare_cached(sql)?;
        let copied = statement.query_row(bounds, |row| row.get(0)).optional()?;
        let Some(chunks) = copied.filter(|_| !new.contains(from)) else { return Ok(false) };
        chunk::copy(connection, *from, *to, chunks)?;
    }
    Ok(true)
}

const MESSAGE_COLUMNS: usize = 6;
const DELIVERY_COLUMNS: usize = 23;

/// Rows that one statement inserts. While it runs its cursors stay at the end of each B-tree, which saves the walk from
/// the root; beyond sixteen rows nothing more is won.
const GROUP: usize = 16;

fn insert_deliveries(connection: &Connection, changes: &[DeliveryChange]) -> Result<(), Error> {
    let rows: Vec<&DeliveryRow> = changes
        .iter()
        .filter_map(|change| match change {
            DeliveryChange::Insert(row) => Some(row),
            DeliveryChange::Update(_) | DeliveryChange::Remove(_) => None,
        })
        .collect();
    insert_in_groups(connection, "delivery", DELIVERY_COLUMNS, &rows, |statement, first, row| {
        bind_delivery(statement, first, row)
    })
}

/// Inserts whole groups by one statement and what is left by another.
fn insert_in_groups<T>(
    connection: &Connection,
    table: &str,
    columns: usize,
    rows: &[T],
    bind: impl Fn(&mut CachedStatement<'_>, usize, &T) -> Result<(), Error>,
) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let insert = |rows_at_once: usize, rows: &[T]| {
        let row = vec!["?"; columns].join(", ");
        let values = vec![format!("({row})"); rows_at_once].join(", ");
        let mut statement = connection.prepare_cached(&format!("insert into {table} values {values}"))?;
        for group in rows.chunks_exact(rows_at_once) {
            for (row, at) in group.iter().zip(0..) {
                bind(&mut statement, at * columns + 1, row)?;
            }
            statement.raw_execute()?;
        }
        Ok(())
    };
    let (groups, rest) = rows.split_at(rows.len() - rows.len() % GROUP);
    insert(GROUP, groups)?;
    insert(1, rest)
}

/// Sets what a lease, a nack or a promotion changes, if the row stays where it is by expiry and message, which keeps those
/// indexes as they are: SQLite decides by the columns that are named, not by their values, which entries it writes again.
const UPDATE_DELIVERY: &str = "update delivery set state = ?3, retried = ?5, order_at = ?6, due_at = ?7, \
    leased_at = ?8, lease_generation = ?9, delivery_count = ?10, failure_count = ?11, lost_lease_count = ?12, \
    nonce = ?14, sent_at = ?15, entered = ?16, dead_at = ?17, dead_reason = ?18, dead_queue = ?19, \
    size_bytes = ?20, chunks = ?21, hold = ?23 \
    where sequence = ?1 and queue = ?2 and priority_descending = ?4 and expires_at = ?13 and message is ?22";

/// Sets everything.
const REWRITE_DELIVERY: &str = "update delivery set queue = ?2, state = ?3, priority_descending = ?4, \
    retried = ?5, order_at = ?6, due_at = ?7, leased_at = ?8, lease_generation = ?9, delivery_count = ?10, \
    failure_count = ?11, lost_lease_count = ?12, expires_at = ?13, nonce = ?14, sent_at = ?15, entered = ?16, \
    dead_at = ?17, dead_reason = ?18, dead_queue = ?19, size_bytes = ?20, chunks = ?21, message = ?22, \
    hold = ?23 \
    where sequence = ?1";

fn update_deliveries(connection: &Connection, changes: &[DeliveryChange]) -> Result<bool, Error> {
    let mut statement = connection.prepare_cached(UPDATE_DELIVERY)?;
    for change in changes {
        if let DeliveryChange::Update(row) = change
            && execute_with_delivery(&mut statement, row)? == 0
            && execute_with_delivery(&mut connection.prepare_cached(REWRITE_DELIVERY)?, row)? == 0
        {
            return Ok(false);
        }
    }
    Ok(true)
}

fn execute_with_delivery(statement: &mut CachedStatement<'_>, row: &DeliveryRow) -> Result<usize, Error> {
    bind_delivery(statement, 1, row)?;
    statement.raw_execute()
}

/// Binds every column of a delivery, in the order of the table.
fn bind_delivery(statement: &mut CachedStatement<'_>, first: usize, row: &DeliveryRow) -> Result<(), Error> {
    let dead_letter = row.dead_letter.as_deref();
    statement.raw_bind_parameter(first, row.sequence.0.cast_signed())?;
    statement.raw_bind_parameter(first + 1, row.queue.0)?;
    statement.raw_bind_parameter(first + 2, state_code(row.state))?;
    statement.raw_bind_parameter(first + 3, -i64::from(row.priority))?;
    statement.raw_bind_parameter(first + 4, row.retried)?;
    statement.raw_bind_parameter(first + 5, row.order_at.as_millis())?;
    statement.raw_bind_parameter(first + 6, row.due_at.as_millis())?;
    statement.raw_bind_parameter(first + 7, row.leased_at.as_millis())?;
    statement.raw_bind_parameter(first + 8, row.lease_generation.0.cast_signed())?;
    statement.raw_bind_parameter(first + 9, row.delivery_count)?;
    statement.raw_bind_parameter(first + 10, row.failure_count)?;
    statement.raw_bind_parameter(first + 11, row.lost_lease_count)?;
    statement.raw_bind_parameter(first + 12, row.expires_at.as_millis())?;
    statement.raw_bind_parameter(first + 13, row.nonce.cast_signed())?;
    statement.raw_bind_parameter(first + 14, row.sent_at.as_millis())?;
    statement.raw_bind_parameter(first + 15, row.entered.0.cast_signed())?;
    statement.raw_bind_parameter(first + 16, dead_letter.map(|dead| dead.at.as_millis()))?;
    statement.raw_bind_parameter(first + 17, dead_letter.map(|dead| dead_reason_code(dead.reason)))?;
    statement.raw_bind_parameter(first + 18, dead_letter.map(|dead| &*dead.queue))?;
    statement.raw_bind_parameter(first + 19, row.size_bytes.cast_signed())?;
    statement.raw_bind_parameter(first + 20, row.chunks)?;
    let message = row.is_progress().then_some(row.message.0.cast_signed());
    statement.raw_bind_parameter(first + 21, message)?;
    statement.raw_bind_parameter(first + 22, hold_code(row.hold))
}

fn removals(changes: &[DeliveryChange]) -> impl Iterator<Item = Sequence> {
    changes.iter().filter_map(|change| match change {
        DeliveryChange::Remove(sequence) => Some(*sequence),
        DeliveryChange::Insert(_) | DeliveryChange::Update(_) => None,
    })
}

/// Removes deliveries and messages, one pair of statements for each run of neighbours.
fn remove_runs(connection: &Connection, sorted: &[Sequence]) -> Result<bool, Error> {
    if sorted.is_empty() {
        return Ok(true);
    }
    let mut delivery = connection.prepare_cached("delete from delivery where sequence between ?1 and ?2")?;
    let mut message = connection.prepare_cached("delete from message where sequence between ?1 and ?2")?;
    for run in sorted.chunk_by(|before, after| before.next() == *after) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let bounds = [first.0.cast_signed(), last.0.cast_signed()];
        if delivery.execute(bounds)? != run.len() {
            return Ok(false);
        }
        message.execute(bounds)?;
    }
    Ok(true)
}

fn put_dedup(connection: &Connection, rows: &[DedupRow]) -> Result<(), Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let sql = "insert or replace into dedup values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
    let mut statement = connection.prepare_cached(sql)?;
    for row in rows {
        let sent = match &row.answer {
            Remembered::Sent(sent) => Some(sent),
            _ => None,
        };
        statement.execute(params![
            queue_of(&row.key),
            row.key.key,
            row.digest.to_be_bytes(),
            sent.map(|sent| sent.sent_at.as_millis()),
            sent.map(|sent| sent.first_sequence.0.cast_signed()),
            sent.map(|sent| sent.count),
            sent.map(|sent| sent.nonce_seed.cast_signed()),
            answer_to_text(&row.answer),
            row.expires_at.as_millis(),
        ])?;
    }
    Ok(())
}

fn remove_dedup(connection: &Connection, keys: &[DedupKey]) -> Result<(), Error> {
    if keys.is_empty() {
        return Ok(());
    }
    let mut statement = connection.prepare_cached("delete from dedup where queue = ?1 and key = ?2")?;
    for key in keys {
        statement.execute(params![queue_of(key), key.key])?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema;

    /// B-trees that a statement may write: the table and indexes.
    fn written(sql: &str) -> usize {
        let connection = Connection::open_in_memory().expect("memory opens");
        connection.execute_batch(schema::ENVIRONMENT).expect("the schema is valid");
        let mut statement = connection.prepare(&format!("explain {sql}")).expect("it is valid");
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(1));
        steps.filter(|step| step.as_ref().is_ok_and(|step| step == "OpenWrite")).count()
    }

    #[test]
    fn an_update_leaves_the_indexes_by_expiry_and_message_alone() {
        assert_eq!((written(UPDATE_DELIVERY), written(REWRITE_DELIVERY)), (3, 5));
    }
}
