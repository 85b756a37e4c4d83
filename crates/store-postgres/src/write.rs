//! One change set as one transaction, sent as a whole: `begin`, the fence, a statement a kind of row, `commit`. The answers
//! come in the same order; the first that is an error tells what went wrong, and makes of the commit a rollback.
//!
//! A kind of row is written by one statement over arrays, one array a column. What has to be there is demanded inside
//! the statement (`demand` in `migrations/`), so nobody has to look between two statements.

use std::collections::BTreeSet;
use std::future::Future as _;
use std::task::Poll;

use futures_util::future::{BoxFuture, maybe_done, poll_fn};
use millpond_core::id::Sequence;
use millpond_core::remembered::Remembered;
use millpond_core::row::{Data, DeliveryRow, MessageRow};
use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::persisted::{
    answer_to_text, data_kind_code, dead_reason_code, hold_code, live_to_bytes, queue_spec_to_text,
    role_columns, state_code, trigger_spec_to_text,
};
use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::error::{before_commit, is_refusal};
use crate::row::queue_of;
use crate::session::Session;
use crate::text::stored;

type Value = Box<dyn ToSql + Sync + Send>;

/// One statement with its values.
struct Step {
    sql: &'static str,
    values: Vec<Value>,
}

/// Statements of one transaction, in order.
#[derive(Default)]
struct Steps {
    steps: Vec<Step>,
}

macro_rules! step {
    ($steps:expr, $sql:expr, $($value:expr),+ $(,)?) => {
        $steps.steps.push(Step { sql: $sql, values: vec![$(Box::new($value) as Value),+] })
    };
}

/// What an array of a column is made of.
fn column<R, T>(rows: &[R], value: impl FnMut(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn text_of(text: &str) -> String {
    stored(text).into_owned()
}

fn count_of<T>(rows: &[T]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// Writes everything and commits.
pub(crate) fn commit(
    session: &mut Session,
    environment: i32,
    epoch: i64,
    changes: &ChangeSet,
) -> Result<(), StoreError> {
    let steps = steps_of(environment, epoch, changes)?;
    let texts: Vec<_> = steps.steps.iter().map(|step| step.sql).collect();
    session.prepare(&texts)?;
    session.take_warning();
    let answers = {
        let mut sent: Vec<BoxFuture<'_, Result<(), Error>>> = Vec::new();
        let client = session.client();
        sent.push(Box::pin(client.batch_execute("begin")));
        for step in &steps.steps {
            let statement = session.statement(step.sql)?;
            let values: Vec<&(dyn ToSql + Sync)> =
                step.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
            sent.push(Box::pin(async move { client.execute(statement, &values).await.map(drop) }));
        }
        sent.push(Box::pin(client.batch_execute("commit")));
        session.run(answers_in_order(sent))
    };
    let unknown = |why: &str| StoreError::new(StoreErrorKind::Unknown, format!("committing: {why}"));
    let answers = match answers {
        None => return Err(unknown("no answer")),
        // The connection is given up, and with it the transaction.
        Some(Err(unsent)) => {
            let what = "a statement could not be sent";
            return Err(StoreError::new(StoreErrorKind::Unavailable, what).with_source(unsent));
        }
        Some(Ok(answers)) => answers,
    };
    match answers.into_iter().find_map(Result::err) {
        // It is committed here, and perhaps nowhere else (design-holes B9).
        None if session.take_warning() => Err(unknown("the database warned")),
        None => Ok(()),
        Some(error) if is_refusal(&error) => Err(before_commit("committing")(error)),
        Some(error) => Err(unknown("the connection was lost").with_source(error)),
    }
}

/// Sends all, each as soon as the one before it is on its way, and waits for the answers.
///
/// # Errors
/// One could not be sent, and so none behind it was: above all not `commit`.
async fn answers_in_order(
    statements: Vec<BoxFuture<'_, Result<(), Error>>>,
) -> Result<Vec<Result<(), Error>>, Error> {
    let mut sent = Vec::new();
    for statement in statements {
        let mut statement = Box::pin(maybe_done(statement));
        // The driver writes a statement down when it is first polled.
        poll_fn(|context| {
            let _: Poll<()> = statement.as_mut().poll(context);
            Poll::Ready(())
        })
        .await;
        match statement.as_mut().take_output() {
            None => sent.push(statement),
            Some(Err(error)) => return Err(error),
            Some(Ok(())) => {}
        }
    }
    let mut answers = Vec::new();
    for mut statement in sent {
        statement.as_mut().await;
        answers.extend(statement.as_mut().take_output());
    }
    Ok(answers)
}

fn steps_of(environment: i32, epoch: i64, changes: &ChangeSet) -> Result<Steps, StoreError> {
    let mut steps = Steps::default();
    fence(&mut steps, environment, epoch, changes);
    put_queues(&mut steps, environment, changes);
    put_counters(&mut steps, environment, changes);
    put_logs(&mut steps, environment, changes);
    put_triggers(&mut steps, environment, changes);
    if !changes.queues_removed.is_empty() {
        let numbers = column(&changes.queues_removed, |number| i64::from(number.0));
        step!(steps, REMOVE_QUEUES, environment, numbers);
    }
    copy_messages(&mut steps, environment, changes)?;
    write_deliveries(&mut steps, environment, changes);
    put_dedup(&mut steps, environment, changes);
    write_chunks(&mut steps, environment, changes);
    take_external(&mut steps, environment, changes);
    Ok(steps)
}

const FENCE: &str = "with moved as ( \
     update environment set commit_seq = $3, incarnation = $4, stamp = $5, next_sequence = $6, next_queue = $7, \
     dedup_count = $8, leases_void_below = $9 where number = $1 and epoch = $2 and commit_seq = $3::bigint - 1 returning 1) \
     select demand(count(*), 1, 'MP001') from moved";

fn fence(steps: &mut Steps, environment: i32, epoch: i64, changes: &ChangeSet) {
    let row = &changes.environment;
    step!(
        steps,
        FENCE,
        environment,
        epoch,
        changes.commit.0.cast_signed(),
        row.incarnation.0.cast_signed(),
        row.stamp.as_millis(),
        row.next_sequence.0.cast_signed(),
        i64::from(row.next_queue.0),
        row.dedup_count.cast_signed(),
        row.leases_void_below.0.cast_signed(),
    );
}

const PUT_QUEUES: &str = "insert into queue \
     select $1, n.* from unnest($2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::text[], $10::text[], $11::bigint[], $12::bigint[], $13::boolean[], $14::boolean[], $15::bigint[], \
     $16::smallint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::boolean[]) n \
     on conflict (environment, number) do update set name = excluded.name, uid = excluded.uid, \
     generation = excluded.generation, revision = excluded.revision, created_at = excluded.created_at, \
     updated_at = excluded.updated_at, annotations = excluded.annotations, spec = excluded.spec, \
     paused_at = excluded.paused_at, purged_through = excluded.purged_through, deleted = excluded.deleted, \
     sweep_owed = excluded.sweep_owed, dead_purged_through = excluded.dead_purged_through, role = excluded.role, \
     parent = excluded.parent, log = excluded.log, start = excluded.start, \
     settled_by_sql = excluded.settled_by_sql";

const REMOVE_QUEUES: &str = "with counts as (delete from counters where environment = $1 and queue = any($2)), \
     segments as (delete from segment where environment = $1 and log = any($2)), \
     runs as (delete from run where environment = $1 and cursor = any($2)) \
     delete from queue where environment = $1 and number = any($2)";

fn put_queues(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let rows = &changes.queues_put;
    if rows.is_empty() {
        return;
    }
    step!(
        steps,
        PUT_QUEUES,
        environment,
        column(rows, |row| i64::from(row.number.0)),
        column(rows, |row| text_of(&row.name)),
        column(rows, |row| row.uid.0.to_be_bytes().to_vec()),
        column(rows, |row| row.generation.cast_signed()),
        column(rows, |row| row.revision.cast_signed()),
        column(rows, |row| row.created_at.as_millis()),
        column(rows, |row| row.updated_at.as_millis()),
        column(rows, |row| text_of(&row.annotations)),
        column(rows, |row| text_of(&queue_spec_to_text(&row.spec))),
        column(rows, |row| row.paused_at.map(|at| at.as_millis())),
        column(rows, |row| row.purged_through.0.cast_signed()),
        column(rows, |row| row.deleted),
        column(rows, |row| row.sweep_owed),
        column(rows, |row| row.dead_purged_through.0.cast_signed()),
        column(rows, |row| small(role_columns(row.role).0)),
        column(rows, |row| role_columns(row.role).1.map(i64::from)),
        column(rows, |row| role_columns(row.role).2.map(i64::from)),
        column(rows, |row| role_columns(row.role).3),
        column(rows, |row| row.settled_by_sql),
    );
}

/// A code; all of them are small.
fn small(code: i64) -> i16 {
    i16::try_from(code).unwrap_or(i16::MAX)
}

const PUT_COUNTERS: &str = "insert into counters \
     select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], \
     $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[]) n \
     on conflict (environment, queue) do update set ready = excluded.ready, delayed = excluded.delayed, \
     leased = excluded.leased, dead = excluded.dead, completed = excluded.completed, cancelled = excluded.cancelled, \
     waiting_bytes = excluded.waiting_bytes, leased_bytes = excluded.leased_bytes, dead_bytes = excluded.dead_bytes, \
     finished_bytes = excluded.finished_bytes, total_sent = excluded.total_sent, \
     total_delivered = excluded.total_delivered, total_undone = excluded.total_undone, total_acked = excluded.total_acked, \
     total_dead = excluded.total_dead, total_expired = excluded.total_expired, \
     consumer_seen_at = excluded.consumer_seen_at, position = excluded.position";

fn put_counters(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let rows = &changes.counters;
    if rows.is_empty() {
        return;
    }
    step!(
        steps,
        PUT_COUNTERS,
        environment,
        column(rows, |row| i64::from(row.queue.0)),
        column(rows, |row| row.ready.cast_signed()),
        column(rows, |row| row.delayed.cast_signed()),
        column(rows, |row| row.leased.cast_signed()),
        column(rows, |row| row.dead.cast_signed()),
        column(rows, |row| row.completed.cast_signed()),
        column(rows, |row| row.cancelled.cast_signed()),
        column(rows, |row| row.waiting_bytes.cast_signed()),
        column(rows, |row| row.leased_bytes.cast_signed()),
        column(rows, |row| row.dead_bytes.cast_signed()),
        column(rows, |row| row.finished_bytes.cast_signed()),
        column(rows, |row| row.total_sent.cast_signed()),
        column(rows, |row| row.total_delivered.cast_signed()),
        column(rows, |row| row.total_undone.cast_signed()),
        column(rows, |row| row.total_acked.cast_signed()),
        column(rows, |row| row.total_dead.cast_signed()),
        column(rows, |row| row.total_expired.cast_signed()),
        column(rows, |row| row.consumer_seen_at.as_millis()),
        column(rows, |row| row.position.0.cast_signed()),
    );
}

const CLEAR_SEGMENTS: &str = "delete from segment where environment = $1 and log = any($2)";
const REMOVE_SEGMENTS: &str = "delete from segment s using unnest($2::bigint[], $3::bigint[]) n(log, place) \
     where s.environment = $1 and s.log = n.log and s.place = n.place";
const PUT_SEGMENTS: &str = "insert into segment select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bytea[]) n \
     on conflict (environment, log, place) do update set live = excluded.live";
const REMOVE_RUNS: &str = "delete from run r using unnest($2::bigint[], $3::bigint[]) n(cursor, first) \
     where r.environment = $1 and r.cursor = n.cursor and r.first = n.first";
const PUT_RUNS: &str = "insert into run select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bigint[]) n \
     on conflict (environment, cursor, first) do update set last = excluded.last";

/// Clears, then removes, then writes.
fn put_logs(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    if !changes.segments_cleared.is_empty() {
        step!(steps, CLEAR_SEGMENTS, environment, column(&changes.segments_cleared, |log| i64::from(log.0)));
    }
    let removed = &changes.segments_removed;
    if !removed.is_empty() {
        let logs = column(removed, |(log, _)| i64::from(log.0));
        step!(steps, REMOVE_SEGMENTS, environment, logs, column(removed, |(_, place)| place.cast_signed()));
    }
    let rows = &changes.segments_put;
    if !rows.is_empty() {
        step!(
            steps,
            PUT_SEGMENTS,
            environment,
            column(rows, |row| i64::from(row.log.0)),
            column(rows, |row| row.index.cast_signed()),
            column(rows, |row| live_to_bytes(&row.live).to_vec()),
        );
    }
    let removed = &changes.runs_removed;
    if !removed.is_empty() {
        let cursors = column(removed, |(cursor, _)| i64::from(cursor.0));
        step!(steps, REMOVE_RUNS, environment, cursors, column(removed, |(_, first)| first.0.cast_signed()));
    }
    let rows = &changes.runs_put;
    if !rows.is_empty() {
        step!(
            steps,
            PUT_RUNS,
            environment,
            column(rows, |row| i64::from(row.cursor.0)),
            column(rows, |row| row.first.0.cast_signed()),
            column(rows, |row| row.last.0.cast_signed()),
        );
    }
}

const REMOVE_TRIGGERS: &str = "delete from trigger where environment = $1 and id = any($2)";
const PUT_TRIGGERS: &str = "insert into trigger \
     select $1, n.* from unnest($2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::text[], $7::text[], $8::text[], \
     $9::text[], $10::text[]) n \
     on conflict (environment, id) do update set number = excluded.number, uid = excluded.uid, \
     created_at = excluded.created_at, deployment = excluded.deployment, topic = excluded.topic, \
     consumer = excluded.consumer, target = excluded.target, spec = excluded.spec";
const PUT_SECRET: &str = "insert into secret values ($1, $2, $3, $4, $5) \
     on conflict (environment) do update set current = excluded.current, previous = excluded.previous, \
     previous_until = excluded.previous_until, since = excluded.since";

/// Removes, then writes.
fn put_triggers(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    if !changes.triggers_removed.is_empty() {
        step!(steps, REMOVE_TRIGGERS, environment, column(&changes.triggers_removed, |id| text_of(id)));
    }
    let rows = &changes.triggers_put;
    if !rows.is_empty() {
        step!(
            steps,
            PUT_TRIGGERS,
            environment,
            column(rows, |row| text_of(&row.id)),
            column(rows, |row| row.number.cast_signed()),
            column(rows, |row| row.uid.0.to_be_bytes().to_vec()),
            column(rows, |row| row.created_at.as_millis()),
            column(rows, |row| row.deployment.as_deref().map(text_of)),
            column(rows, |row| text_of(&row.topic)),
            column(rows, |row| text_of(&row.group)),
            column(rows, |row| text_of(&row.target)),
            column(rows, |row| text_of(&trigger_spec_to_text(&row.spec))),
        );
    }
    if let Some(row) = &changes.secret {
        let (previous, until) =
            row.previous.as_ref().map(|(secret, until)| (text_of(secret), until.as_millis())).unzip();
        step!(steps, PUT_SECRET, environment, text_of(&row.current), previous, until, row.since.as_millis());
    }
}

const COPY_CHUNKS: &str = "with wanted as ( \
     select n.target, m.sequence, m.chunks from unnest($2::bigint[], $3::bigint[]) n(source, target) \
     join message m on m.environment = $1 and m.sequence = n.source), \
     copied as (insert into chunk select $1, wanted.target, c.number, c.data from wanted \
     join chunk c on c.environment = $1 and c.sequence = wanted.sequence and c.number < wanted.chunks returning 1) \
     select demand((select count(*) from copied), (select coalesce(sum(chunks), 0)::bigint from wanted), 'MP002')";
const COPY_MESSAGES: &str = "with copied as (insert into message \
     select $1, n.target, m.attributes, m.data_kind, m.data_bytes, m.chunks, m.data \
     from unnest($2::bigint[], $3::bigint[]) n(source, target) \
     join message m on m.environment = $1 and m.sequence = n.source returning 1) \
     select demand(count(*), $4, 'MP002') from copied";

/// Before anything is removed: a message may leave with the commit that copies it.
fn copy_messages(steps: &mut Steps, environment: i32, changes: &ChangeSet) -> Result<(), StoreError> {
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

const REMOVE_DELIVERIES: &str = "with gone as ( \
     delete from delivery where environment = $1 and sequence = any($2) returning 1), \
     content as (delete from message where environment = $1 and sequence = any($2)) \
     select demand(count(*), $3, 'MP002') from gone";

/// The columns of a delivery but for the environment, as arrays from `$2` on.
macro_rules! delivery_arrays {
    () => {
        "unnest($2::bigint[], $3::bigint[], $4::smallint[], $5::bigint[], $6::boolean[], $7::bigint[], $8::bigint[], \
         $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], \
         $16::bigint[], $17::bigint[], $18::bigint[], $19::smallint[], $20::text[], $21::bigint[], $22::bigint[], \
         $23::bigint[], $24::smallint[])"
    };
}

const INSERT_DELIVERIES: &str =
    concat!("insert into delivery select $1, n.* from ", delivery_arrays!(), " n");
const UPDATE_DELIVERIES: &str = concat!(
    "with changed as (update delivery d set queue = n.queue, state = n.state, \
     priority_descending = n.priority_descending, retried = n.retried, order_at = n.order_at, due_at = n.due_at, \
     leased_at = n.leased_at, lease_generation = n.lease_generation, delivery_count = n.delivery_count, \
     failure_count = n.failure_count, lost_lease_count = n.lost_lease_count, expires_at = n.expires_at, nonce = n.nonce, \
     sent_at = n.sent_at, entered = n.entered, dead_at = n.dead_at, dead_reason = n.dead_reason, dead_queue = n.dead_queue, \
     size_bytes = n.size_bytes, chunks = n.chunks, message = n.message, hold = n.hold from ",
    delivery_arrays!(),
    " n(sequence, queue, state, priority_descending, retried, order_at, due_at, leased_at, lease_generation, \
     delivery_count, failure_count, lost_lease_count, expires_at, nonce, sent_at, entered, dead_at, dead_reason, dead_queue, \
     size_bytes, chunks, message, hold) where d.environment = $1 and d.sequence = n.sequence returning 1) \
     select demand(count(*), $25, 'MP002') from changed"
);

const INSERT_MESSAGES: &str = "insert into message \
     select $1, n.* from unnest($2::bigint[], $3::text[], $4::smallint[], $5::bigint[], $6::bigint[], $7::bytea[]) n";

/// Far beyond, so that nobody who draws at this moment is set back, and most pages of an import find it done.
const PASS_SEQUENCE: &str = "select setval('external_sequence', least($1::bigint + 1000000, 281474976710655)) \
     from external_sequence where last_value <= $1::bigint";

fn write_deliveries(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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

const PUT_DEDUP: &str = "insert into dedup \
     select $1, n.* from unnest($2::bigint[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[], $7::bigint[], \
     $8::bigint[], $9::text[], $10::bigint[]) n \
     on conflict (environment, queue, key) do update set digest = excluded.digest, sent_at = excluded.sent_at, \
     first_sequence = excluded.first_sequence, count = excluded.count, nonce_seed = excluded.nonce_seed, \
     answer = excluded.answer, expires_at = excluded.expires_at";
const REMOVE_DEDUP: &str = "delete from dedup c using unnest($2::bigint[], $3::text[]) n(queue, key) \
     where c.environment = $1 and c.queue = n.queue and c.key = n.key collate \"C\"";

fn put_dedup(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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

const INSERT_CHUNKS: &str =
    "insert into chunk select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bytea[]) n";
const REMOVE_CHUNKS: &str = "with gone as (delete from chunk c \
     using unnest($2::bigint[], $3::bigint[], $4::bigint[]) n(sequence, first, behind) \
     where c.environment = $1 and c.sequence = n.sequence and c.number >= n.first and c.number < n.behind returning 1) \
     select demand(count(*), $5, 'MP002') from gone";
const PUT_UPLOADS: &str = "insert into upload select $1, n.* from unnest($2::bigint[], $3::bigint[]) n \
     on conflict (environment, sequence) do update set chunks = excluded.chunks";
const REMOVE_UPLOADS: &str = "delete from upload where environment = $1 and sequence = any($2)";

fn write_chunks(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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

const TAKE_EXTERNAL: &str = "with taken as (delete from intake where environment = $1 and id = any($2) returning 1) \
     select demand(count(*), $3, 'MP002') from taken";
/// They stay until nobody can still see the lease as held: see the function `complete`.
const END_CLAIMS: &str = "update settlement s set ended_by = pg_current_xact_id() \
     from unnest($2::bigint[], $3::bigint[]) n(delivery, generation) \
     where s.environment = $1 and s.delivery = n.delivery and s.generation = n.generation";

fn take_external(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let taken = &changes.external_taken;
    if !taken.is_empty() {
        let ids = column(taken, |id| id.0.cast_signed());
        step!(steps, TAKE_EXTERNAL, environment, ids, count_of(taken));
    }
    let ended = &changes.claims_removed;
    if !ended.is_empty() {
        let generations = column(ended, |lease| lease.generation.0.cast_signed());
        let deliveries = column(ended, |lease| lease.delivery.0.cast_signed());
        step!(steps, END_CLAIMS, environment, deliveries, generations);
    }
}
