//! One change set as one transaction, sent as a whole: `begin`, the fence, a statement a kind of row, `commit`. The answers
//! come in the same order; the first that is an error tells what went wrong, and makes of the commit a rollback.
//!
//! A kind of row is written by one statement over arrays, one array a column. What has to be there is demanded inside
//! the statement (`demand` in `migrations/`), so nobody has to look between two statements.

pub(crate) mod messages;
pub(crate) mod queues;

use std::future::Future as _;
use std::task::Poll;

use futures_util::future::{BoxFuture, maybe_done, poll_fn};
use millpond_core::ChangeSet;
use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::error::{before_commit, is_refusal};
use crate::external::RAISE_FLOOR;
use crate::keyed::delete_keyed;
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

use step;

/// What an array of a column is made of.
fn column<R, T>(rows: &[R], value: impl FnMut(&R) -> T) -> Vec<T> {
    rows.iter().map(value).collect()
}

fn text_of(text: &str) -> String {
    stored(text).into_owned()
}

/// A code; all of them are small.
fn small(code: i64) -> i16 {
    i16::try_from(code).unwrap_or(i16::MAX)
}

fn count_of<T>(rows: &[T]) -> i64 {
    i64::try_from(rows.len()).unwrap_or(i64::MAX)
}

/// What is written beside the changes, if it is to be.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beside {
    /// Where pages of the intake begin.
    pub(crate) intake_floor: Option<i64>,
    /// Whether the environment is being imported, so that SQL leaves it alone.
    pub(crate) importing: Option<bool>,
}

const IMPORTING: &str = "update environment set importing = $2 where number = $1 and importing <> $2";

/// Writes everything and commits.
pub(crate) fn commit(
    session: &mut Session,
    environment: i32,
    epoch: i64,
    changes: &ChangeSet,
    beside: Beside,
) -> Result<(), StoreError> {
    let mut steps = steps_of(environment, epoch, changes)?;
    if let Some(number) = beside.intake_floor {
        step!(steps, RAISE_FLOOR, environment, number);
    }
    if let Some(importing) = beside.importing {
        step!(steps, IMPORTING, environment, importing);
    }
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
    queues::put_queues(&mut steps, environment, changes);
    queues::put_counters(&mut steps, environment, changes);
    queues::put_low_water(&mut steps, environment, changes);
    queues::put_logs(&mut steps, environment, changes);
    queues::put_triggers(&mut steps, environment, changes);
    queues::remove_queues(&mut steps, environment, changes);
    messages::copy_messages(&mut steps, environment, changes)?;
    messages::write_deliveries(&mut steps, environment, changes);
    messages::put_dedup(&mut steps, environment, changes);
    messages::write_chunks(&mut steps, environment, changes);
    take_external(&mut steps, environment, changes);
    Ok(steps)
}

pub(crate) const FENCE: &str = "with moved as ( \
     update head set commit_seq = $3, incarnation = $4, stamp = $5, next_sequence = $6, next_queue = $7, \
     dedup_count = $8, leases_void_below = $9 where environment = $1 and epoch = $2 and commit_seq = $3::bigint - 1 returning 1) \
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

pub(crate) const TAKE_EXTERNAL: &str = concat!(
    "with taken as (",
    delete_keyed!("intake", "unnest($2::bigint[]) n(id)", "t.id = n.id"),
    " returning 1) select demand(count(*), $3, 'MP002') from taken"
);
/// They stay until nobody can still see the lease as held: see the function `complete`.
pub(crate) const END_CLAIMS: &str = "update settlement s set ended_by = pg_current_xact_id() \
     from (select (select t.ctid from settlement t where t.environment = $1 and t.delivery = n.delivery \
     and t.generation = n.generation) as place from unnest($2::bigint[], $3::bigint[]) n(delivery, generation)) n \
     where s.ctid = n.place";

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
