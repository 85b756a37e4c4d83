//! Reads on connections of the pool. Each call is one transaction with one snapshot that also reads the commit number,
//! sent as a whole, so no snapshot outlives a call.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::{join, join_all, join3};
use millpond_core::external::ExternalId;
use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::{Page, RowKey, Rows, Scan};
use millpond_store::{ExternalPage, StoreError, StoreErrorKind, StoreReader};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::error::before_commit;
use crate::external::{self, Claims, LowWater, REST, REST_MOST, SIZES, Together};
use crate::factory::Place;
use crate::keyed::lookup;
use crate::lineage::Seen;
use crate::row::{self, dedup_columns, delivery_columns, get};
use crate::scan::{Walk, page};
use crate::session::Session;

/// Reads of one environment.
#[derive(Debug)]
pub(crate) struct PostgresReader {
    place: Arc<Place>,
    environment: i32,
    epoch: i64,
    /// The owner's last commit: a database that does not have it went back in time.
    durable: Arc<AtomicU64>,
    low_water: Arc<LowWater>,
    claims: Arc<Claims>,
}

type Query<'a> = (&'static str, Vec<&'a (dyn ToSql + Sync)>);

const BEGIN: &str = "begin isolation level repeatable read read only";
pub(crate) const COMMIT_NUMBER: &str =
    "select commit_seq, epoch from head where environment = $1 order by commit_seq desc limit 1";

impl PostgresReader {
    pub(crate) fn new(
        place: Arc<Place>,
        (environment, epoch): (i32, i64),
        durable: Arc<AtomicU64>,
        low_water: Arc<LowWater>,
        claims: Arc<Claims>,
    ) -> Self {
        Self { place, environment, epoch, durable, low_water, claims }
    }

    /// Asks all of it in one snapshot.
    fn ask(
        &self,
        queries: &[Query<'_>],
        context: &'static str,
    ) -> Result<(CommitSequence, Vec<Vec<Row>>), StoreError> {
        self.place.check_held()?;
        let durable = self.durable.load(Ordering::Acquire);
        let (Seen { epoch, commit }, answers) =
            self.place.pool.with(|session| in_snapshot(session, self.environment, queries, context))?;
        if epoch != self.epoch || commit.0 < durable {
            self.place.pool.forget_free();
            let what = format!("{context}: commit {commit} of epoch {epoch} is not what was stored last");
            return Err(StoreError::new(StoreErrorKind::Fenced, what));
        }
        Ok((commit, answers))
    }

    /// Adds to a page what else its transactions wrote. Read in later snapshots than the page, which see less of it only by what was
    /// taken meanwhile: whoever took that knows that it is on the page of an earlier one.
    fn complete(&self, rows: &mut Vec<Row>) -> Result<(), StoreError> {
        let Some(last) = rows.last().map(|row| get::<i64>(row, 0)).transpose()? else { return Ok(()) };
        let context = "reading what SQL sent";
        let environment = self.environment;
        let transactions = external::transactions(rows)?;
        let sizes: [Query<'_>; 1] = [(SIZES, vec![&environment, &transactions, &last, &REST_MOST])];
        let (_, answers) = self.ask(&sizes, context)?;
        let together = Together::choose(&answers.concat())?;
        rows.retain(|row| together.keeps(row));
        let whole = together.whole();
        if !whole.is_empty() {
            let rest: [Query<'_>; 1] = [(REST, vec![&environment, &whole, &last, &REST_MOST])];
            rows.extend(self.ask(&rest, context)?.1.into_iter().flatten());
        }
        Ok(())
    }
}

fn in_snapshot(
    session: &mut Session,
    environment: i32,
    queries: &[Query<'_>],
    context: &'static str,
) -> Result<(Seen, Vec<Vec<Row>>), StoreError> {
    let mut texts = vec![COMMIT_NUMBER];
    texts.extend(queries.iter().map(|(sql, _)| *sql));
    session.prepare(&texts)?;
    let client = session.client();
    let mut asked = Vec::new();
    for (sql, values) in queries {
        asked.push(client.query(session.statement(sql)?, values));
    }
    let number = session.statement(COMMIT_NUMBER)?;
    let numbered: [&(dyn ToSql + Sync); 1] = [&environment];
    let work = join(
        join3(client.batch_execute(BEGIN), client.query(number, &numbered), join_all(asked)),
        client.batch_execute("commit"),
    );
    let no_answer = || StoreError::new(StoreErrorKind::Unavailable, format!("{context}: no answer"));
    let ((begun, number, answers), ended) = session.run(work).ok_or_else(no_answer)?;
    begun.map_err(before_commit(context))?;
    let number = number.map_err(before_commit(context))?;
    let answers: Vec<Vec<Row>> =
        answers.into_iter().collect::<Result<_, _>>().map_err(before_commit(context))?;
    ended.map_err(before_commit(context))?;
    let gone = || StoreError::new(StoreErrorKind::Unavailable, "the environment is not there any more");
    let number = number.first().ok_or_else(gone)?;
    let seen = Seen { commit: CommitSequence(row::unsigned(number, 0)?), epoch: get(number, 1)? };
    Ok((seen, answers))
}

pub(crate) const DELIVERIES: &str = concat!(
    "select ",
    delivery_columns!("t"),
    " from ",
    lookup!("unnest($2::bigint[]) n(sequence)", "delivery", "t.sequence = n.sequence")
);
pub(crate) const PROGRESS: &str = concat!(
    "select ",
    delivery_columns!("t"),
    " from ",
    lookup!(
        "unnest($2::bigint[], $3::bigint[]) n(queue, message)",
        "delivery",
        "t.queue = n.queue and t.message = n.message"
    )
);
pub(crate) const DEDUP: &str = concat!(
    "select ",
    dedup_columns!("t"),
    " from ",
    lookup!(
        "unnest($2::bigint[], $3::text[]) n(queue, key)",
        "dedup",
        "t.queue = n.queue and t.key = n.key collate \"C\""
    )
);
pub(crate) const CONTENTS: &str = concat!(
    "select t.sequence, t.attributes, t.data_kind, t.data_bytes, t.chunks, case when t.chunks = 1 then (select c.data from chunk c \
     where c.environment = $1 and c.sequence = t.sequence and c.number = 0) else t.data end from ",
    lookup!("unnest($2::bigint[]) n(sequence)", "message", "t.sequence = n.sequence")
);
pub(crate) const CHUNK: &str =
    "select data from chunk where environment = $1 and sequence = $2 and number = $3";

impl StoreReader for PostgresReader {
    fn read(&mut self, keys: &[RowKey]) -> Result<Rows, StoreError> {
        let (mut sequences, mut cursors, mut messages) = (Vec::new(), Vec::new(), Vec::new());
        let (mut queues, mut texts, mut leases) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            match key {
                RowKey::Delivery(sequence) => sequences.push(sequence.0.cast_signed()),
                RowKey::Dedup(key) => {
                    queues.push(row::queue_of(key));
                    texts.push(crate::text::stored(&key.key));
                }
                RowKey::Progress(key) => {
                    cursors.push(i64::from(key.cursor.0));
                    messages.push(key.message.0.cast_signed());
                }
                RowKey::Claim(lease) => leases.push(*lease),
            }
        }
        let environment = self.environment;
        let mut queries: Vec<Query<'_>> = Vec::new();
        if !sequences.is_empty() {
            queries.push((DELIVERIES, vec![&environment, &sequences]));
        }
        if !cursors.is_empty() {
            queries.push((PROGRESS, vec![&environment, &cursors, &messages]));
        }
        if !queues.is_empty() {
            queries.push((DEDUP, vec![&environment, &queues, &texts]));
        }
        let (snapshot, answers) = self.ask(&queries, "reading rows")?;
        let (mut deliveries, mut progress, mut dedup) = (HashMap::new(), HashMap::new(), HashMap::new());
        for ((sql, _), rows) in queries.iter().zip(&answers) {
            for found in rows {
                if *sql == DEDUP {
                    let found = row::dedup(found)?;
                    dedup.insert(found.key.clone(), found);
                    continue;
                }
                let found = row::delivery(found)?;
                if *sql == DELIVERIES {
                    deliveries.insert(found.sequence, found);
                } else if let Some(key) = found.progress_key() {
                    progress.insert(key, found);
                }
            }
        }
        let mut claims = HashMap::new();
        if !leases.is_empty() {
            let owner = (environment, self.epoch);
            claims = self.place.pool.with(|session| self.claims.claim(session, owner, &leases))?;
        }
        let mut rows = Rows { snapshot, ..Rows::default() };
        for key in keys {
            match key {
                RowKey::Delivery(sequence) => {
                    rows.deliveries.push((*sequence, deliveries.get(sequence).cloned()));
                }
                RowKey::Dedup(key) => rows.dedup.push((key.clone(), dedup.get(key).cloned())),
                RowKey::Progress(key) => rows.progress.push((*key, progress.get(key).cloned())),
                RowKey::Claim(lease) => {
                    rows.claims.extend(claims.get(lease).map(|claim| (*lease, *claim)));
                }
            }
        }
        Ok(rows)
    }

    fn contents(&mut self, messages: &[Sequence]) -> Result<Vec<Option<Arc<MessageContent>>>, StoreError> {
        let sequences: Vec<i64> = messages.iter().map(|message| message.0.cast_signed()).collect();
        let environment = self.environment;
        let queries: [Query<'_>; 1] = [(CONTENTS, vec![&environment, &sequences])];
        let (_, answers) = self.ask(&queries, "reading messages")?;
        let mut found = HashMap::new();
        for answer in answers.iter().flatten() {
            let (mut content, chunks) = row::content(answer, 1)?;
            if chunks == 1 {
                content.data = get::<&[u8]>(answer, 5)?.into();
            }
            found.insert(row::sequence(answer, 0)?, Arc::new(content));
        }
        Ok(messages.iter().map(|message| found.get(message).cloned()).collect())
    }

    fn chunk(&mut self, message: Sequence, number: u32) -> Result<Option<Vec<u8>>, StoreError> {
        let (environment, sequence, number) = (self.environment, message.0.cast_signed(), i64::from(number));
        let queries: [Query<'_>; 1] = [(CHUNK, vec![&environment, &sequence, &number])];
        let (_, answers) = self.ask(&queries, "reading a chunk")?;
        answers.iter().flatten().next().map(|answer| get(answer, 0)).transpose()
    }

    fn scan(&mut self, scan: &Scan) -> Result<Page, StoreError> {
        let walk = Walk::of(self.environment, scan);
        let values = walk.values.iter().map(|value| &**value as &(dyn ToSql + Sync)).collect();
        let (snapshot, answers) = self.ask(&[(walk.sql, values)], "scanning")?;
        let rows: Vec<Row> = answers.into_iter().flatten().collect();
        Ok(Page { snapshot, ..page(scan, &rows)? })
    }

    fn external(&mut self, limit: usize) -> Result<ExternalPage, StoreError> {
        let floor = self.place.watcher.floor();
        let low = self.low_water.get(floor);
        let one_more = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let environment = self.environment;
        let queries: [Query<'_>; 1] = [(external::PAGE, vec![&environment, &low, &one_more])];
        let (snapshot, answers) = self.ask(&queries, "reading what SQL sent")?;
        let mut rows: Vec<Row> = answers.into_iter().flatten().collect();
        let more = rows.len() > limit;
        rows.truncate(limit);
        let first = rows.first().map(|row| row::unsigned(row, 0)).transpose()?;
        self.low_water.note(first.map(ExternalId), floor);
        if more {
            self.complete(&mut rows)?;
        }
        Ok(ExternalPage { snapshot, commands: external::commands(&rows)?, more })
    }
}
