//! All rows of one environment, in one read transaction on a connection of its own. It takes nobody's place, and neither
//! waits for a server that serves the schema nor keeps it waiting; a standby will do.

use std::time::Duration;

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{ChunkRow, EnvironmentRow, MessageRow};
use millpond_core::time::Timestamp;
use millpond_store::{
    PAGE_BYTES, PAGE_ROWS, RowKind, Snapshot, SnapshotHead, Snapshots, StoreError, StoreErrorKind, StoredRow,
};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::row::{
    self, QUEUE_COLUMNS, dedup_columns, delivery_columns, get, known, narrow, newest_counters, sequence,
    text, unsigned,
};
use crate::session::Session;
use crate::settings::PostgresSettings;
use crate::target::Target;
use crate::{schema, text as texts};

type Value = Box<dyn ToSql + Sync + Send>;

/// Counting a backlog of many millions may take so long.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(600);

/// What is read stays as it is for as long as whoever takes it needs; tables are read as a whole, once.
const PREPARATION: &str =
    "set idle_in_transaction_session_timeout = 0; set enable_mergejoin = on; set enable_hashjoin = on";

/// Environments of one schema, which a server may serve meanwhile.
#[derive(Debug)]
pub struct PostgresSnapshots {
    target: Target,
    settings: PostgresSettings,
}

impl PostgresSnapshots {
    /// Looks whether the schema is there.
    ///
    /// # Errors
    /// `Unavailable`: the database is not reachable, there is no such schema, or a server has yet to bring it up to date.
    /// `Corrupt`: it is of a later version.
    pub fn open(url: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
        let settings = PostgresSettings { answer_timeout: ANSWER_TIMEOUT, ..settings };
        let snapshots = Self { target: Target::parse(url)?, settings };
        schema::check_current(&snapshots.connect()?, &snapshots.settings.schema)?;
        Ok(snapshots)
    }

    fn connect(&self) -> Result<Session, StoreError> {
        let session = Session::connect(&self.target, &self.settings)?;
        session.batch(PREPARATION, "preparing a connection")?;
        Ok(session)
    }
}

impl Snapshots for PostgresSnapshots {
    fn environments(&self) -> Result<Vec<String>, StoreError> {
        let rows = self.connect()?.query("select name from environment", &[], "listing environments")?;
        let mut names =
            rows.iter().map(|row| text(row, 0).map(String::from)).collect::<Result<Vec<_>, _>>()?;
        // As it is stored a text may sort otherwise than as it was given.
        names.sort_unstable();
        Ok(names)
    }

    fn snapshot(&self, environment: &str) -> Result<Box<dyn Snapshot>, StoreError> {
        let session = self.connect()?;
        session.batch("begin isolation level repeatable read read only", "beginning to read")?;
        let (number, head) = head(&session, environment)?;
        Ok(Box::new(PostgresSnapshot { session, number, head, at: Some((RowKind::Queue, None)) }))
    }
}

struct PostgresSnapshot {
    /// Within the transaction, which ends with it.
    session: Session,
    number: i32,
    head: SnapshotHead,
    /// The kind to read next, and the key of the last row read of it, as it is stored; none: all was read.
    at: Option<(RowKind, Option<Key>)>,
}

impl Snapshot for PostgresSnapshot {
    fn head(&self) -> &SnapshotHead {
        &self.head
    }

    fn next_page(&mut self) -> Result<Vec<StoredRow>, StoreError> {
        while let Some((kind, after)) = self.at.take() {
            let rows = self.page(kind, after.as_ref())?;
            self.at = match rows.last() {
                Some(last) => Some((kind, Some(Key::of(last)))),
                None => kind.next().map(|kind| (kind, None)),
            };
            if !rows.is_empty() {
                return Ok(rows);
            }
        }
        Ok(Vec::new())
    }
}

impl PostgresSnapshot {
    fn page(&self, kind: RowKind, after: Option<&Key>) -> Result<Vec<StoredRow>, StoreError> {
        let rows = match lengths(kind) {
            None => PAGE_ROWS,
            // What is in the rows is asked for once it is known how many of them are a page.
            Some(lengths) => fitting(&self.ask(kind, lengths, after, PAGE_ROWS)?)?,
        };
        self.ask(kind, &columns(kind), after, rows)?.iter().map(|row| stored(kind, row)).collect()
    }

    fn ask(
        &self,
        kind: RowKind,
        columns: &str,
        after: Option<&Key>,
        rows: usize,
    ) -> Result<Vec<Row>, StoreError> {
        let limit = i64::try_from(rows).unwrap_or(i64::MAX);
        let key = after.map(Key::values).unwrap_or_default();
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&self.number, &limit];
        values.extend(key.iter().map(|value| &**value as &(dyn ToSql + Sync)));
        self.session.query(page_sql(kind, columns, after.is_some()).as_str(), &values, "reading rows")
    }
}

/// The environment's number and row, and how many rows there are of each kind.
fn head(session: &Session, name: &str) -> Result<(i32, SnapshotHead), StoreError> {
    let context = "counting rows";
    let sql = "select number, commit_seq, incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below \
               from environment join head on environment = number where name = $1 order by commit_seq desc limit 1";
    let rows = session.query(sql, &[&texts::stored(name)], context)?;
    let Some(row) = rows.first() else {
        return Err(StoreError::new(StoreErrorKind::Unavailable, format!("there is no environment {name}")));
    };
    let number: i32 = get(row, 0)?;
    let environment = EnvironmentRow {
        incarnation: Incarnation(unsigned(row, 2)?),
        stamp: Timestamp::from_millis(get(row, 3)?),
        next_sequence: Sequence(unsigned(row, 4)?),
        next_queue: QueueNumber(narrow(row, 5)?),
        dedup_count: unsigned(row, 6)?,
        leases_void_below: LeaseGeneration(unsigned(row, 7)?),
    };
    let commit = CommitSequence(unsigned(row, 1)?);
    let count = |table: &str| {
        let sql = format!("select count(*) from {table} where environment = $1");
        let rows = session.query(sql.as_str(), &[&number], context)?;
        rows.first().map_or(Ok(0), |row| unsigned(row, 0))
    };
    let waiting = count("intake")?;
    if waiting > 0 {
        let what = format!(
            "{waiting} of what SQL has sent to {name} is not taken in yet: a server has to serve the schema until it is"
        );
        return Err(StoreError::new(StoreErrorKind::Unavailable, what));
    }
    let mut head = SnapshotHead { commit, environment, ..SnapshotHead::default() };
    for kind in RowKind::ALL {
        // Tables are called by the words for what is in them.
        head.counts.add(kind, count(kind.word())?);
    }
    let sql = "select m.sequence from message m where m.environment = $1 and not exists \
               (select from delivery d where d.environment = $1 and d.sequence = m.sequence) limit 1";
    match session.query(sql, &[&number], context)?.first() {
        None => Ok((number, head)),
        Some(row) => {
            let context = format!("message {} has no delivery", sequence(row, 0)?);
            Err(StoreError::new(StoreErrorKind::Corrupt, context))
        }
    }
}

/// The key of a row, as it is stored.
enum Key {
    One(i64),
    Two(i64, i64),
    Named(String),
    Keyed(i64, String),
}

impl Key {
    fn of(row: &StoredRow) -> Self {
        let one = |sequence: Sequence| Self::One(sequence.0.cast_signed());
        match row {
            StoredRow::Queue(queue, _) => Self::One(queue.number.0.into()),
            StoredRow::Segment(row) => Self::Two(row.log.0.into(), row.index.cast_signed()),
            StoredRow::Run(row) => Self::Two(row.cursor.0.into(), row.first.0.cast_signed()),
            StoredRow::Trigger(row) => Self::Named(texts::stored(&row.id).into_owned()),
            StoredRow::Secret(_) => Self::One(0),
            StoredRow::Dedup(row) => {
                Self::Keyed(row::queue_of(&row.key), texts::stored(&row.key.key).into_owned())
            }
            StoredRow::Chunk(row) => Self::Two(row.sequence.0.cast_signed(), row.number.into()),
            StoredRow::Upload(row) => one(row.sequence),
            StoredRow::Delivery(row, _) => one(row.sequence),
        }
    }

    fn values(&self) -> Vec<Value> {
        match self {
            Self::One(one) => vec![Box::new(*one)],
            Self::Two(one, two) => vec![Box::new(*one), Box::new(*two)],
            Self::Named(name) => vec![Box::new(name.clone())],
            Self::Keyed(queue, key) => vec![Box::new(*queue), Box::new(key.clone())],
        }
    }
}

/// Columns of its key behind the environment, as the primary key has them.
fn key_columns(kind: RowKind) -> &'static [&'static str] {
    match kind {
        RowKind::Queue => &["q.number"],
        RowKind::Segment => &["log", "place"],
        RowKind::Run => &["cursor", "first"],
        RowKind::Trigger => &["id"],
        // There is one row; its key is the environment.
        RowKind::Secret => &["0::bigint"],
        RowKind::Dedup => &["c.queue", "c.key"],
        RowKind::Chunk => &["sequence", "number"],
        RowKind::Upload => &["sequence"],
        RowKind::Delivery => &["d.sequence"],
    }
}

fn columns(kind: RowKind) -> String {
    match kind {
        RowKind::Queue => format!("{QUEUE_COLUMNS}, c.queue"),
        RowKind::Segment => "log, place, live".to_owned(),
        RowKind::Run => "cursor, first, last".to_owned(),
        RowKind::Trigger => {
            "id, number, uid, created_at, deployment, topic, consumer, target, spec".to_owned()
        }
        RowKind::Secret => "current, previous, previous_until, since".to_owned(),
        RowKind::Dedup => dedup_columns!("c").to_owned(),
        RowKind::Chunk => "sequence, number, data".to_owned(),
        RowKind::Upload => "sequence, chunks".to_owned(),
        RowKind::Delivery => format!(
            "{}, m.sequence, m.attributes, m.data_kind, m.data_bytes, m.chunks, m.data",
            delivery_columns!("d")
        ),
    }
}

/// Where in a delivery's row its message is.
const MESSAGE: usize = 23;

/// How many bytes of contents a row has, for kinds that have any; found out without reading them.
fn lengths(kind: RowKind) -> Option<&'static str> {
    match kind {
        RowKind::Chunk => Some("octet_length(data)::bigint"),
        RowKind::Delivery => Some("coalesce(octet_length(m.attributes) + octet_length(m.data), 0)::bigint"),
        _ => None,
    }
}

fn page_sql(kind: RowKind, columns: &str, is_behind: bool) -> String {
    let (table, environment) = match kind {
        RowKind::Queue => (concat!("queue q left join ", newest_counters!()), "q.environment"),
        RowKind::Dedup => ("dedup c", "c.environment"),
        RowKind::Delivery => (
            "delivery d left join message m on m.environment = d.environment and m.sequence = d.sequence",
            "d.environment",
        ),
        other => (other.word(), "environment"),
    };
    let key = key_columns(kind).join(", ");
    let behind = match (is_behind, key_columns(kind).len()) {
        (false, _) => "",
        (true, 1) => &format!(" and {key} > $3"),
        (true, _) => &format!(" and ({key}) > ($3, $4)"),
    };
    format!(
        "select {columns} from {table} where {environment} = $1{behind} order by {environment}, {key} limit $2"
    )
}

/// How many of the rows of these lengths are a page.
fn fitting(lengths: &[Row]) -> Result<usize, StoreError> {
    let mut bytes = 0;
    for (row, number) in lengths.iter().zip(1..) {
        bytes += unsigned(row, 0)?;
        if bytes >= PAGE_BYTES as u64 {
            return Ok(number);
        }
    }
    Ok(lengths.len())
}

fn stored(kind: RowKind, found: &Row) -> Result<StoredRow, StoreError> {
    Ok(match kind {
        RowKind::Queue => {
            let (queue, counters) = row::queue_with_counters(found)?;
            let has_counters = get::<Option<i64>>(found, found.len() - 1)?.is_some();
            StoredRow::Queue(Box::new(queue), has_counters.then(|| Box::new(counters)))
        }
        RowKind::Segment => StoredRow::Segment(Box::new(row::segment(found)?)),
        RowKind::Run => StoredRow::Run(row::run(found)?),
        RowKind::Trigger => StoredRow::Trigger(Box::new(row::trigger(found)?)),
        RowKind::Secret => StoredRow::Secret(row::secret(found)?),
        RowKind::Dedup => StoredRow::Dedup(Box::new(row::dedup(found)?)),
        RowKind::Chunk => StoredRow::Chunk(ChunkRow {
            sequence: sequence(found, 0)?,
            number: narrow(found, 1)?,
            data: get::<&[u8]>(found, 2)?.into(),
        }),
        RowKind::Upload => StoredRow::Upload(row::upload(found)?),
        RowKind::Delivery => {
            let delivery = row::delivery(found)?;
            let message = match get::<Option<i64>>(found, MESSAGE)? {
                None => None,
                Some(own) => {
                    known(MESSAGE, (own.cast_unsigned() == delivery.sequence.0).then_some(()))?;
                    let (content, chunks) = row::content(found, MESSAGE + 1)?;
                    Some(MessageRow { sequence: delivery.sequence, content: content.into(), chunks })
                }
            };
            StoredRow::Delivery(Box::new(delivery), message)
        }
    })
}
