//! Queues, counters, segments, runs, triggers and the secret of one change set, as statements.

use millpond_core::ChangeSet;
use millpond_store::persisted::{live_to_bytes, queue_spec_to_text, role_columns, trigger_spec_to_text};

use crate::keyed::{delete_keyed, put_newest};
use crate::row::order_columns;

use super::{Step, Steps, Value, column, small, step, text_of};

pub(crate) const PUT_QUEUES: &str = "insert into queue \
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

pub(crate) const REMOVE_QUEUES: &str = concat!(
    "with counts as (",
    delete_keyed!("counters", "unnest($2::bigint[]) n(number)", "t.queue = n.number"),
    "), segments as (",
    delete_keyed!("segment", "unnest($2::bigint[]) n(number)", "t.log = n.number"),
    "), runs as (",
    delete_keyed!("run", "unnest($2::bigint[]) n(number)", "t.cursor = n.number"),
    "), marks as (",
    delete_keyed!("low_water", "unnest($2::bigint[]) n(number)", "t.queue = n.number"),
    ") ",
    delete_keyed!("queue", "unnest($2::bigint[]) n(number)", "t.number = n.number")
);

pub(super) fn put_queues(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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

pub(crate) const PUT_COUNTERS: &str = put_newest!(
    "counters",
    "$2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], \
     $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[], $15::bigint[], \
     $16::bigint[], $17::bigint[], $18::bigint[], $19::bigint[], $20::bigint[]",
    "queue, ready, delayed, leased, dead, completed, cancelled, waiting_bytes, leased_bytes, dead_bytes, \
     finished_bytes, total_sent, total_delivered, total_undone, total_acked, total_dead, total_expired, \
     consumer_seen_at, position",
    "t.queue = n.queue",
    "ready = n.ready, delayed = n.delayed, leased = n.leased, dead = n.dead, completed = n.completed, cancelled = \
     n.cancelled, waiting_bytes = n.waiting_bytes, leased_bytes = n.leased_bytes, dead_bytes = n.dead_bytes, \
     finished_bytes = n.finished_bytes, total_sent = n.total_sent, total_delivered = n.total_delivered, \
     total_undone = n.total_undone, total_acked = n.total_acked, total_dead = n.total_dead, total_expired = \
     n.total_expired, consumer_seen_at = n.consumer_seen_at, position = n.position",
    "$21::bigint"
);

pub(super) fn put_counters(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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
        changes.commit.0.cast_signed(),
    );
}

pub(crate) const PUT_LOW_WATER: &str = put_newest!(
    "low_water",
    "$2::bigint[], $3::smallint[], $4::bigint[], $5::boolean[], $6::bigint[], $7::bigint[]",
    "queue, kind, priority_descending, retried, order_at, sequence",
    "t.queue = n.queue and t.kind = n.kind",
    "priority_descending = n.priority_descending, retried = n.retried, order_at = n.order_at, sequence = n.sequence",
    "$8::bigint"
);

pub(super) fn put_low_water(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    let marks = &changes.low_water;
    if marks.is_empty() {
        return;
    }
    step!(
        steps,
        PUT_LOW_WATER,
        environment,
        column(marks, |mark| order_columns(mark.order).0),
        column(marks, |mark| order_columns(mark.order).1),
        column(marks, |mark| mark.after.priority_descending),
        column(marks, |mark| mark.after.retried),
        column(marks, |mark| mark.after.order_at.as_millis()),
        column(marks, |mark| mark.after.sequence.0.cast_signed()),
        changes.commit.0.cast_signed(),
    );
}

pub(crate) const CLEAR_SEGMENTS: &str =
    delete_keyed!("segment", "unnest($2::bigint[]) n(log)", "t.log = n.log");
pub(crate) const REMOVE_SEGMENTS: &str = delete_keyed!(
    "segment",
    "unnest($2::bigint[], $3::bigint[]) n(log, place)",
    "t.log = n.log and t.place = n.place"
);
pub(crate) const PUT_SEGMENTS: &str = "insert into segment select $1, n.* from unnest($2::bigint[], $3::bigint[], $4::bytea[]) n \
     on conflict (environment, log, place) do update set live = excluded.live";
pub(crate) const REMOVE_RUNS: &str = delete_keyed!(
    "run",
    "unnest($2::bigint[], $3::bigint[]) n(cursor, first)",
    "t.cursor = n.cursor and t.first = n.first order by t.written desc limit 1"
);
pub(crate) const PUT_RUNS: &str = put_newest!(
    "run",
    "$2::bigint[], $3::bigint[], $4::bigint[]",
    "cursor, first, last",
    "t.cursor = n.cursor and t.first = n.first",
    "last = n.last",
    "$5::bigint"
);

/// Clears, then removes, then writes.
pub(super) fn put_logs(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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
            changes.commit.0.cast_signed(),
        );
    }
}

pub(crate) const REMOVE_TRIGGERS: &str = "delete from trigger where environment = $1 and id = any($2)";
pub(crate) const PUT_TRIGGERS: &str = "insert into trigger \
     select $1, n.* from unnest($2::text[], $3::bigint[], $4::bytea[], $5::bigint[], $6::text[], $7::text[], $8::text[], \
     $9::text[], $10::text[]) n \
     on conflict (environment, id) do update set number = excluded.number, uid = excluded.uid, \
     created_at = excluded.created_at, deployment = excluded.deployment, topic = excluded.topic, \
     consumer = excluded.consumer, target = excluded.target, spec = excluded.spec";
pub(crate) const PUT_SECRET: &str = "insert into secret values ($1, $2, $3, $4, $5) \
     on conflict (environment) do update set current = excluded.current, previous = excluded.previous, \
     previous_until = excluded.previous_until, since = excluded.since";

/// Removes, then writes.
pub(super) fn put_triggers(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
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

/// A queue leaves with what it has here, whichever role it had, and whatever this commit wrote of it.
pub(super) fn remove_queues(steps: &mut Steps, environment: i32, changes: &ChangeSet) {
    if !changes.queues_removed.is_empty() {
        let numbers = column(&changes.queues_removed, |number| i64::from(number.0));
        step!(steps, REMOVE_QUEUES, environment, numbers);
    }
}
