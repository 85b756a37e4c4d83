//! Messages, deliveries, remembered calls and chunks of one change set, as statements.

use std::collections::BTreeSet;

use millpond_core::id::Sequence;
use millpond_core::remembered::Remembered;
use millpond_core::row::{Data, DeliveryRow, MessageRow};
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::persisted::{answer_to_text, data_kind_code, dead_reason_code, hold_code, state_code};
use millpond_store::{StoreError, StoreErrorKind};

use super::{Step, Steps, Value, column, count_of, small, step, text_of};
use crate::keyed::{delete_keyed, lookup};
use crate::row::queue_of;

pub(crate) const COPY_CHUNKS: &str = concat!(
    "with wanted as (select n.target, t.sequence, t.chunks from ",
    lookup!("unnest($2::bigint[], $3::bigint[]) n(source, target)", "message", "t.sequence = n.source"),
    "), copied as (insert into chunk select $1, n.target, t.number, t.data from ",
    lookup!("wanted n", "chunk", "t.sequence = n.sequence and t.number < n.chunks"),
    " returning 1) \
     select demand((select count(*) from copied), (select coalesce(sum(chunks), 0)::bigint from wanted), 'MP002')"
);
pub(crate) const COPY_MESSAGES: &str = concat!(
    "with copied as (insert into message \
     select $1, n.target, t.attributes, t.data_kind, t.data_bytes, t.chunks, t.data from ",
    lookup!("unnest($2::bigint[], $3::bigint[]) n(source, target)", "message", "t.sequence = n.source"),
    " returning 1) select demand(count(*), $4, 'MP002') from copied"
);

/// Before anything is removed: a message may leave with the commit that copies it.
pub(super) fn copy_messages(
    steps: &mut Steps,
    environment: i32,
    changes: &ChangeSet,
) -> Result<(), StoreError> {
    let copies = &changes.copies;
    if copies.is_empty() {
        return Ok(());
    }
    let new: BTreeSet<Sequence> = copies.iter().map(|copy| copy.to).collect();
    if copies.iter().any(|copy| new.contains(&copy.from)) {
        return Err(StoreError::new(StoreErrorKind::Corrupt, "a message to copy is not there yet"));
    }
    let from = column(copies, |copy| copy.from.0.cast_signed());
    let to = column(copies, |copy| copy.to.0.cast_signed());
    step!(steps, COPY_CHUNKS, environment, from.clone(), to.clone());
    step!(steps, COPY_MESSAGES, environment, from, to, count_of(copies));
    Ok(())
}

pub(crate) const REMOVE_DELIVERIES: &str = concat!(
    "with gone as (",
    delete_keyed!("delivery", "unnest($2::bigint[]) n(sequence)", "t.sequence = n.sequence"),
    " returning 1), content as (",
    delete_keyed!("message", "unnest($2::bigint[]) n(sequence)", "t.sequence = n.sequence"),
    ") select demand(count(*), $3, 'MP002') from gone"
);

/// The columns of a delivery but for the environment, as arrays from `$2` on.
macro_rules! delivery_arrays {
    () => {
        "unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], \
         $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], \
         $16::bigint[], $17::bigint[], $18::bigint[], $19::smallint[], $20::text[], $21::bigint[], $22::bigint[], \
         $23::bigint[], $24::smallint[])"
    };
}

pub(crate) const INSERT_DELIVERIES: &str =
    concat!("insert into delivery select $1, n.* from ", delivery_arrays!(), " n");
pub(crate) const UPDATE_DELIVERIES: &str = concat!(
    "with changed as (update delivery d set queue = n.queue, state = n.state, \
     priority_descending = n.priority_descending, retried = n.retried, order_at = n.order_at, due_at = n.due_at, \
     leased_at = n.leased_at, lease_generation = n.lease_generation, delivery_count = n.delivery_count, \
     failure_count = n.failure_count, lost_lease_count = n.lost_lease_count, expires_at = n.expires_at, nonce = n.nonce, \
     sent_at = n.sent_at, entered = n.entered, dead_at = n.dead_at, dead_reason = n.dead_reason, dead_queue = n.dead_queue, \
     size_bytes = n.size_bytes, chunks = n.chunks, message = n.message, hold = n.hold from (select n.*, \
     (select t.ctid from delivery t where t.environment = $1 and t.sequence = n.sequence) as place from ",
    delivery_arrays!(),
    " n(sequence, queue, state, priority_descending, retried, order_at, due_at, leased_at, lease_generation, \
     delivery_count, failure_count, lost_lease_count, expires_at, nonce, sent_at, entered, dead_at, dead_reason, dead_queue, \
     size_bytes, chunks, message, hold)) n where d.ctid = n.place returning 1) \
     select demand(count(*), $25, 'MP002') from changed"
);

pub(crate) const INSERT_MESSAGES: &str = "insert into message \
     select $1, n.* from unnest($2::bigint[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bytea[]) n";

/// Far beyond, so that nobody who draws at this moment is set back, and most pages of an import find it done.
pub(crate) const PASS_SEQUENCE: &str = "select setval('external_sequence', least($1::bigint + 1000000, 281474976710655)) \
     from external_sequence where last_value <= $1::bigint";

pub(super) fn write_deliveries(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let (mut removed, mut updated, mut inserted) = (Vec::new(), Vec::new(), Vec::new());
    for change in &changes.deliveries {
        match change {
            DeliveryChange::Insert(row) => inserted.push(row),
            DeliveryChange::Update(row) => updated.push(row),
            DeliveryChange::Remove(sequence) => removed.push(sequence.0.cast_signed()),
        }
    }
    if !removed.is_empty() {
        let count = count_of(&removed);
        step!(steps, REMOVE_DELIVERIES, environment, removed, count);
    }
    if !updated.is_empty() {
        step_of_deliveries(steps, UPDATE_DELIVERIES, environment, &updated);
        if let Some(step) = steps.steps.last_mut() {
            step.values.push(Box::new(count_of(&updated)));
        }
    }
    let messages: &[MessageRow] = &changes.messages;
    if !messages.is_empty() {
        step!(
            steps,
            INSERT_MESSAGES,
            environment,
            column(messages, |row| row.sequence.0.cast_signed()),
            column(messages, |row| text_of(&row.content.attributes)),
            column(messages, |row| small(data_kind_code(row.content.data_kind))),
            column(messages, |row| row.content.data.size_bytes().cast_signed()),
            column(messages, |row| i64::from(row.chunks)),
            column(messages, |row| if row.chunks == 0 {
                row.content.data.held().to_vec()
            } else {
                Vec::new()
            }),
        );
    }
    if !inserted.is_empty() {
        step_of_deliveries(steps, INSERT_DELIVERIES, environment, &inserted);
    }
    // With nothing taken in they were drawn elsewhere, and are imported.
    let external = inserted.iter().map(|row| row.sequence).filter(|sequence| sequence.is_external());
    if let Some(highest) = external.max().filter(|_| changes.external_taken.is_empty()) {
        step!(steps, PASS_SEQUENCE, highest.0.cast_signed());
    }
}

fn step_of_deliveries(steps: &mut Steps, sql: &'static str, environment: i32, rows: &[&DeliveryRow]) {
    let dead = |row: &&DeliveryRow| row.dead_letter.clone();
    step!(
        steps,
        sql,
        environment,
        column(rows, |row| row.sequence.0.cast_signed()),
        column(rows, |row| i64::from(row.queue.0)),
        column(rows, |row| small(state_code(row.state))),
        column(rows, |row| -i64::from(row.priority)),
        column(rows, |row| row.retried),
        column(rows, |row| row.order_at.as_millis()),
        column(rows, |row| row.due_at.as_millis()),
        column(rows, |row| row.leased_at.as_millis()),
        column(rows, |row| row.lease_generation.0.cast_signed()),
        column(rows, |row| i64::from(row.delivery_count)),
        column(rows, |row| i64::from(row.failure_count)),
        column(rows, |row| i64::from(row.lost_lease_count)),
        column(rows, |row| row.expires_at.as_millis()),
        column(rows, |row| row.nonce.cast_signed()),
        column(rows, |row| row.sent_at.as_millis()),
        column(rows, |row| row.entered.0.cast_signed()),
        column(rows, |row| dead(row).map(|dead| dead.at.as_millis())),
        column(rows, |row| dead(row).map(|dead| small(dead_reason_code(dead.reason)))),
        column(rows, |row| dead(row).map(|dead| text_of(&dead.queue))),
        column(rows, |row| row.size_bytes.cast_signed()),
        column(rows, |row| i64::from(row.chunks)),
        column(rows, |row| row.is_progress().then_some(row.message.0.cast_signed())),
        column(rows, |row| small(hold_code(row.hold))),
    );
}

pub(crate) const PUT_DEDUP: &str = "insert into dedup \
     select $1, n.* from unnest($2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::text[], $10::bigint[]) n \
     on conflict (environment, queue, key) do update set digest = excluded.digest, sent_at = excluded.sent_at, \
     first_sequence = excluded.first_sequence, count = excluded.count, nonce_seed = excluded.nonce_seed, \
     answer = excluded.answer, expires_at = excluded.expires_at";
pub(crate) const REMOVE_DEDUP: &str = delete_keyed!(
    "dedup",
    "unnest($2::bigint[], $3::text[]) n(queue, key)",
    "t.queue = n.queue and t.key = n.key collate \"C\""
);

pub(super) fn put_dedup(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let rows = &changes.dedup_put;
    if !rows.is_empty() {
        let sent = |answer: &Remembered| match answer {
            Remembered::Sent(sent) => Some(*sent),
            _ => None,
        };
        step!(
            steps,
            PUT_DEDUP,
            environment,
            column(rows, |row| queue_of(&row.key)),
            column(rows, |row| text_of(&row.key.key)),
            column(rows, |row| row.digest.to_be_bytes().to_vec()),
            column(rows, |row| sent(&row.answer).map(|sent| sent.sent_at.as_millis())),
            column(rows, |row| sent(&row.answer).map(|sent| sent.first_sequence.0.cast_signed())),
            column(rows, |row| sent(&row.answer).map(|sent| i64::from(sent.count))),
            column(rows, |row| sent(&row.answer).map(|sent| sent.nonce_seed.cast_signed())),
            column(rows, |row| answer_to_text(&row.answer).map(|text| text_of(&text))),
            column(rows, |row| row.expires_at.as_millis()),
        );
    }
    let keys = &changes.dedup_removed;
    if !keys.is_empty() {
        step!(
            steps,
            REMOVE_DEDUP,
            environment,
            column(keys, queue_of),
            column(keys, |key| text_of(&key.key))
        );
    }
}

pub(crate) const INSERT_CHUNKS: &str =
    "insert into chunk select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bytea[]) n";
pub(crate) const REMOVE_CHUNKS: &str = concat!(
    "with gone as (",
    delete_keyed!(
        "chunk",
        "unnest($2::bigint[], $3::bigint[], $4::bigint[]) n(sequence, first, behind)",
        "t.sequence = n.sequence and t.number >= n.first and t.number < n.behind"
    ),
    " returning 1) select demand(count(*), $5, 'MP002') from gone"
);
pub(crate) const PUT_UPLOADS: &str = "insert into upload select $1, n.* from unnest($2::bigint[], $3::bigint[]) n \
     on conflict (environment, sequence) do update set chunks = excluded.chunks";
pub(crate) const REMOVE_UPLOADS: &str =
    delete_keyed!("upload", "unnest($2::bigint[]) n(sequence)", "t.sequence = n.sequence");

pub(super) fn write_chunks(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let (mut sequences, mut numbers, mut data) = (Vec::new(), Vec::new(), Vec::new());
    for message in changes.messages.iter().filter(|message| message.chunks == 1) {
        if let Data::Whole(whole) = &message.content.data {
            sequences.push(message.sequence.0.cast_signed());
            numbers.push(0_i64);
            data.push(whole.to_vec());
        }
    }
    for chunk in &changes.chunks {
        sequences.push(chunk.sequence.0.cast_signed());
        numbers.push(i64::from(chunk.number));
        data.push(chunk.data.to_vec());
    }
    if !sequences.is_empty() {
        step!(steps, INSERT_CHUNKS, environment, sequences, numbers, data);
    }
    let ranges = &changes.chunks_removed;
    if !ranges.is_empty() {
        let count: i64 = ranges.iter().map(|range| i64::from(range.until.saturating_sub(range.from))).sum();
        step!(
            steps,
            REMOVE_CHUNKS,
            environment,
            column(ranges, |range| range.sequence.0.cast_signed()),
            column(ranges, |range| i64::from(range.from)),
            column(ranges, |range| i64::from(range.until)),
            count,
        );
    }
    let uploads = &changes.uploads_put;
    if !uploads.is_empty() {
        let numbers = column(uploads, |upload| i64::from(upload.chunks));
        step!(
            steps,
            PUT_UPLOADS,
            environment,
            column(uploads, |upload| upload.sequence.0.cast_signed()),
            numbers
        );
    }
    let removed = &changes.uploads_removed;
    if !removed.is_empty() {
        step!(steps, REMOVE_UPLOADS, environment, column(removed, |sequence| sequence.0.cast_signed()));
    }
}
