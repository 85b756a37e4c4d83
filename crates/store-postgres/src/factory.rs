//! The environments of one schema, and how one is taken over.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_core::id::{CommitSequence, Incarnation, LeaseGeneration, QueueNumber, Sequence};
use millpond_core::row::{EnvironmentRow, SecretRow};
use millpond_core::time::Timestamp;
use millpond_store::{
    Backup, Lineage, Opened, Store, StoreError, StoreErrorKind, StoreFactory, StoreStats, Wake,
};
use tokio_postgres::Row;

use crate::lineage::{Identity, Seen, Stored, judge};
use crate::pool::Pool;
use crate::presence::Presence;
use crate::row::{self, QUEUE_COLUMNS, get, newest_counters, unsigned};
use crate::session::Session;
use crate::settings::PostgresSettings;
use crate::store::PostgresStore;
use crate::target::Target;
use crate::upkeep::Upkeep;
use crate::watcher::Watcher;
use crate::{pooling, schema, text};

/// Environments kept in one schema of a PostgreSQL database. A clone is another handle to the same.
#[derive(Clone, Debug)]
pub struct PostgresFactory {
    place: Arc<Place>,
}

/// What all open stores share; the server's place is held until the last of them is gone.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) pool: Arc<Pool>,
    pub(crate) presence: Arc<Presence>,
    open: Mutex<HashMap<String, usize>>,
    full_at: Mutex<Option<Instant>>,
    measured: Mutex<Option<(Instant, u64)>>,
    renewing: Option<JoinHandle<()>>,
    pub(crate) watcher: Arc<Watcher>,
    watching: Mutex<Option<JoinHandle<()>>>,
    pub(crate) upkeep: Arc<Upkeep>,
    vacuuming: Option<JoinHandle<()>>,
}

/// One open store, until it is dropped.
#[derive(Debug)]
pub(crate) struct OpenStore {
    pub(crate) place: Arc<Place>,
    name: String,
}

/// After a commit that found no room, new messages are refused for so long.
const FULL_FOR: Duration = Duration::from_secs(5);
/// How old a figure of the size may be.
const MEASURE_EVERY: Duration = Duration::from_secs(60);

const FORGET_ROLES: &str =
    "delete from access a where not exists (select from pg_roles r where r.oid = a.role_number)";

impl PostgresFactory {
    /// Takes a schema for this process, making it if there is none, and bringing it up to date.
    ///
    /// # Errors
    /// `Unavailable`: the database is not reachable, read-only, or another server serves the schema. `Corrupt`: the server
    /// is too old, or the schema is of a later version.
    pub fn open(url: &str, settings: PostgresSettings) -> Result<Self, StoreError> {
        let target = Target::parse(url)?;
        check_schema_name(&settings.schema)?;
        let pool = Arc::new(Pool::new(target, settings));
        pooling::check_own_connections(&pool)?;
        let session = pool.take()?;
        schema::migrate(&session, &pool.settings().schema)?;
        let presence = Presence::take(&pool)?;
        // A dump would have their numbers in place of names.
        session.batch(FORGET_ROLES, "forgetting roles that are gone")?;
        pool.give(session);
        let renewing = Some(presence.renew(Arc::clone(&pool))?);
        let upkeep: Arc<Upkeep> = Arc::default();
        let vacuuming = Some(upkeep.start(Arc::clone(&pool), Arc::clone(&presence))?);
        let place = Place {
            pool,
            presence,
            open: Mutex::default(),
            full_at: Mutex::default(),
            measured: Mutex::default(),
            renewing,
            watcher: Arc::default(),
            watching: Mutex::default(),
            upkeep,
            vacuuming,
        };
        Ok(Self { place: Arc::new(place) })
    }

    /// How far the database's clock is ahead of this machine's, in milliseconds; negative: it is behind. Looked at each second.
    #[must_use]
    pub fn clock_offset_millis(&self) -> i64 {
        self.place.presence.clock_offset_millis()
    }

    fn create(&self, session: &Session, name: &str) -> Result<bool, StoreError> {
        let sql = "with made as (insert into environment (name) values ($1) on conflict (name) do nothing returning number) \
                   insert into head (environment) select number from made returning 1";
        let rows = session.query(sql, &[&text::stored(name)], "making an environment known")?;
        Ok(!rows.is_empty())
    }

    fn try_open(&self, session: &mut Session, name: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let place = &self.place;
        let hold = place.presence.hold().ok_or_else(not_held)?;
        self.create(session, name)?;
        let identity = Identity::of(session)?;
        if !place.presence.is_in(&identity) {
            return Err(not_held());
        }
        let open = OpenStore::new(place, name);
        let taken = take_over(session, name, &identity, place)?;
        let opened = read_all(session, &taken)?;
        let seen = Seen { epoch: taken.epoch, commit: taken.commit };
        place.presence.memory.begin(name, seen);
        Ok((Box::new(PostgresStore::new(open, taken.number, seen, hold)), opened))
    }
}

impl StoreFactory for PostgresFactory {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        self.place.pool.with(|session| self.try_open(session, environment))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.place.pool.with(|session| self.create(session, environment))
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        let sql = "select 1 from environment where name = $1";
        let rows = self
            .place
            .pool
            .with(|session| session.query(sql, &[&text::stored(environment)], "looking an environment up"))?;
        Ok(!rows.is_empty())
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        let sql = "update environment set next_due = $2 where name = $1 returning 1";
        let rows = self.place.pool.with(|session| {
            session.query(sql, &[&text::stored(environment), &next_due], "noting when an environment is due")
        })?;
        match rows.is_empty() {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "environment is not known")),
            false => Ok(()),
        }
    }

    fn begin_backup(&self, _to: &Path) -> Result<Box<dyn Backup>, StoreError> {
        let what = "the data is in PostgreSQL, whose own backups hold it: pg_dump of the database, or of the schema alone, \
                    pg_basebackup, or what the host of the database offers";
        Err(StoreError::new(StoreErrorKind::Unavailable, what))
    }

    fn hold(&self) -> Option<u64> {
        self.place.presence.hold()
    }

    fn watch(&self, wake: Wake) {
        let mut watching = lock(&self.place.watching);
        if watching.is_some() {
            tracing::error!("what SQL sends is watched already");
            return;
        }
        match self.place.start_watching(wake) {
            Ok(thread) => *watching = Some(thread),
            Err(error) => tracing::error!(%error, "what SQL sends is not noticed"),
        }
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        let open = self.place.open().clone();
        let most = i64::try_from(limit.saturating_add(open.len())).unwrap_or(i64::MAX);
        let sql = "select name from environment where next_due <= $1 order by next_due, name limit $2";
        let rows =
            self.place.pool.with(|session| session.query(sql, &[&now, &most], "asking what is due"))?;
        let mut due = Vec::new();
        for row in &rows {
            let name = String::from(row::text(row, 0)?);
            if !open.contains_key(&name) {
                due.push(name);
            }
        }
        due.truncate(limit);
        Ok(due)
    }
}

impl Place {
    /// Whether what is read may be told to anybody.
    pub(crate) fn check_held(&self) -> Result<(), StoreError> {
        self.presence.hold().map(drop).ok_or_else(not_held)
    }

    pub(crate) fn note_full(&self) {
        *lock(&self.full_at) = Some(Instant::now());
    }

    pub(crate) fn stats(&self) -> Result<StoreStats, StoreError> {
        let space_low = lock(&self.full_at).is_some_and(|at| at.elapsed() < FULL_FOR);
        if let Some((_, used_bytes)) = lock(&self.measured).filter(|(at, _)| at.elapsed() < MEASURE_EVERY) {
            return Ok(StoreStats { used_bytes, space_low });
        }
        let sql = "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c \
                   where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace";
        let rows = self.pool.with(|session| session.query(sql, &[], "measuring the schema"))?;
        let used_bytes = rows.first().map_or(Ok(0), |row| unsigned(row, 0))?;
        *lock(&self.measured) = Some((Instant::now(), used_bytes));
        Ok(StoreStats { used_bytes, space_low })
    }

    fn start_watching(&self, wake: Wake) -> Result<JoinHandle<()>, StoreError> {
        let rows = self.pool.with(|session| {
            let sql = "select md5($1)";
            session.query(sql, &[&self.pool.settings().schema], "listening")
        })?;
        let digest: String = rows.first().map_or_else(|| Ok(String::new()), |row| get(row, 0))?;
        let (pool, server) = (Arc::clone(&self.pool), self.presence.id().to_owned());
        self.watcher.start(pool, server, format!("millpond_{digest}"), wake)
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        lock(&self.open)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A thread can only have ended by a panic, which was told already.
        let join = |thread: Option<JoinHandle<()>>| drop(thread.map(JoinHandle::join));
        self.upkeep.stop(&self.pool);
        join(self.vacuuming.take());
        self.watcher.stop();
        join(lock(&self.watching).take());
        self.presence.stop();
        join(self.renewing.take());
    }
}

impl OpenStore {
    fn new(place: &Arc<Place>, name: &str) -> Self {
        *place.open().entry(name.to_owned()).or_default() += 1;
        Self { place: Arc::clone(place), name: name.to_owned() }
    }

    /// Remembers what was seen durable, so that a database that goes back in time is noticed.
    pub(crate) fn note(&self, seen: Seen) {
        self.place.presence.memory.note(&self.name, seen);
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        let mut open = self.place.open();
        if let Some(count) = open.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.name);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_held() -> StoreError {
    let what = "this server has not reached the database in time, or another server has taken its place";
    StoreError::new(StoreErrorKind::Unavailable, what)
}

fn check_schema_name(name: &str) -> Result<(), StoreError> {
    let fits = (1..=63).contains(&name.len()) && !name.starts_with("pg_") && !name.contains('\0');
    if fits && name != "information_schema" {
        return Ok(());
    }
    let what = format!("schema {name:?} cannot be used: 1 to 63 bytes, not one of PostgreSQL's own");
    Err(StoreError::new(StoreErrorKind::Unavailable, what))
}

/// What taking an environment over found.
struct Taken {
    number: i32,
    epoch: i64,
    commit: CommitSequence,
    environment: EnvironmentRow,
    lineage: Lineage,
}

/// Raises the epoch in a transaction of its own, which fences whoever was the owner, and settles the lineage.
fn take_over(session: &Session, name: &str, identity: &Identity, place: &Place) -> Result<Taken, StoreError> {
    let result = take_over_in_transaction(session, name, identity, place);
    if result.is_err() {
        // The error that counts is the one that led here.
        let _: Result<(), StoreError> = session.batch("rollback", "taking an environment over");
    }
    result
}

fn take_over_in_transaction(
    session: &Session,
    name: &str,
    identity: &Identity,
    place: &Place,
) -> Result<Taken, StoreError> {
    let context = "taking an environment over";
    session.batch("begin", context)?;
    let sql = "select number, system, timeline, database from environment where name = $1 for update";
    let rows = session.query(sql, &[&text::stored(name)], context)?;
    let gone = || StoreError::new(StoreErrorKind::Corrupt, "an environment just made is not there");
    let known = rows.first().ok_or_else(gone)?;
    let number: i32 = get(known, 0)?;
    // Waits for a commit that is under way.
    let sql = "select epoch, commit_seq, incarnation, stamp, next_sequence, next_queue, dedup_count, leases_void_below \
               from head where environment = $1 order by commit_seq desc limit 1 for update";
    let rows = session.query(sql, &[&number], context)?;
    let head = rows.first().ok_or_else(gone)?;
    let (stored, mut environment) = stored(known, head)?;
    let seen = place.presence.memory.of(name);
    let judged = judge(&stored, identity, seen, place.presence.lived_lately());
    if judged == Lineage::Restored {
        // Numbers of transactions may be of where it came from: the keys of leases ended now.
        let sql = "update settlement set ended_by = pg_current_xact_id() where environment = $1 and ended_by is not null";
        session.query(sql, &[&number], context)?;
    }
    let lineage = match judged {
        Lineage::Restored if place.pool.settings().assume_restart => Lineage::Restarted,
        judged => judged,
    };
    if lineage == Lineage::Restored {
        place.watcher.reset();
        // Along with the lineage: an owner that dies before its first commit leaves its successor the same.
        environment.leases_void_below = LeaseGeneration::HIGHEST;
    }
    let epoch = stored.epoch + 1;
    let sql = "update head set epoch = $2, leases_void_below = $3 where environment = $1 and commit_seq = $4";
    let void_below = environment.leases_void_below.0.cast_signed();
    session.query(sql, &[&number, &epoch, &void_below, &stored.commit.0.cast_signed()], context)?;
    let sql =
        "update environment set system = $2, timeline = $3, database = $4, next_due = $5 where number = $1";
    let Identity { system, timeline, database } = identity;
    session.query(sql, &[&number, system, timeline, database, &i64::MIN], context)?;
    session.take_warning();
    session.batch("commit", context)?;
    if session.take_warning() {
        let what = "the database warns that a failover may lose what is read";
        return Err(StoreError::new(StoreErrorKind::Unavailable, what));
    }
    Ok(Taken { number, epoch, commit: stored.commit, environment, lineage })
}

fn stored(known: &Row, head: &Row) -> Result<(Stored, EnvironmentRow), StoreError> {
    let identity = Identity { system: get(known, 1)?, timeline: get(known, 2)?, database: get(known, 3)? };
    let stored = Stored { identity, epoch: get(head, 0)?, commit: CommitSequence(unsigned(head, 1)?) };
    let environment = EnvironmentRow {
        incarnation: Incarnation(unsigned(head, 2)?),
        stamp: Timestamp::from_millis(get(head, 3)?),
        next_sequence: Sequence(unsigned(head, 4)?),
        next_queue: QueueNumber(row::known(5, u32::try_from(get::<i64>(head, 5)?).ok())?),
        dedup_count: unsigned(head, 6)?,
        leases_void_below: LeaseGeneration(unsigned(head, 7)?),
    };
    Ok((stored, environment))
}

/// What an owner begins with. It alone writes these rows, so they are read one kind after the other.
fn read_all(session: &Session, taken: &Taken) -> Result<Opened, StoreError> {
    let context = "reading an environment";
    let read = |sql: &str| session.query(sql, &[&taken.number], context);
    let counters = newest_counters!();
    let sql = format!(
        "select {QUEUE_COLUMNS} from queue q left join {counters} where q.environment = $1 order by q.number"
    );
    let queues = read(&sql)?.iter().map(row::queue_with_counters).collect::<Result<_, _>>()?;
    let sql = "select log, place, live from segment where environment = $1 order by log, place";
    let segments = read(sql)?.iter().map(row::segment).collect::<Result<_, _>>()?;
    let sql = "select cursor, first, last from run where environment = $1 order by cursor, first";
    let runs = read(sql)?.iter().map(row::run).collect::<Result<_, _>>()?;
    let sql = "select id, number, uid, created_at, deployment, topic, consumer, target, spec from trigger \
               where environment = $1";
    let mut triggers = read(sql)?.iter().map(row::trigger).collect::<Result<Vec<_>, _>>()?;
    // As it is stored a text may sort otherwise than as it was given.
    triggers.sort_unstable_by(|one, other| one.id.cmp(&other.id));
    let sql = "select queue, kind, priority_descending, retried, order_at, sequence from low_water \
               where environment = $1";
    let mut low_water = read(sql)?.iter().map(row::low_water).collect::<Result<Vec<_>, _>>()?;
    low_water.sort_unstable_by_key(|mark| mark.order);
    let sql = "select current, previous, previous_until, since from secret where environment = $1";
    let secret = read(sql)?.first().map_or_else(|| Ok(SecretRow::default()), row::secret)?;
    Ok(Opened {
        commit: taken.commit,
        environment: taken.environment.clone(),
        queues,
        segments,
        runs,
        triggers,
        secret,
        low_water,
        lineage: taken.lineage,
    })
}
