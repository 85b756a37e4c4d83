//! One server at a time, as the database sees it (design-holes A7, B9).
//!
//! A server has one row, which it renews each second. Its place is free when the row is five seconds old by the database's
//! clock, when it says that it stopped, or when its process was on this machine and is gone. A server that has not renewed for
//! four seconds, counted from before the renewal was sent, answers nothing until it has the place again; what was
//! opened before is opened anew then.
//!
//! A row's age says nothing in a database that is itself there for less than five seconds: it may have gone back in time while
//! somebody still holds the place. Then the row is watched for five seconds.
//!
//! A server that finds its own row older than it left it, or finds it in another database, on another timeline or without commits
//! that it saw durable, opens all anew: what it remembers is not there any more.

mod clock;
mod memory;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_store::{Outage, StoreError, StoreErrorKind};

use crate::lineage::Identity;
use crate::pool::Pool;
use crate::presence::clock::{CLOCK_SAMPLES_FIRST, ClockSamples};
use crate::presence::memory::Memory;
use crate::process;
use crate::row::get;
use crate::session::Session;

const RENEW_EVERY: Duration = Duration::from_secs(1);
/// After a renewal that failed.
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// For so long after a renewal was sent the place is held: a second less than it takes until another may have it.
const HELD_FOR: Duration = Duration::from_secs(4);
/// A renewal that is not answered within this time is sent again, on a new connection: an old one may be dead and not know it.
const ANSWER_WITHIN: Duration = Duration::from_millis(2_500);
/// A row that nobody renews for so long is free.
const FREE_AFTER: Duration = Duration::from_secs(5);
/// How long a server that starts waits for a row to get old.
const PATIENCE: Duration = Duration::from_secs(7);
const PATIENCE_STEP: Duration = Duration::from_millis(250);
/// What the column `process` says of a server that stopped in order.
const STOPPED: &str = "stopped";

/// What all parts of a server know of its place.
#[derive(Debug)]
pub(crate) struct Presence {
    id: String,
    begun: Instant,
    /// Nanoseconds since `begun` until which the place is held.
    held_until: AtomicU64,
    /// Counts how often the place was taken.
    hold: AtomicU64,
    /// A server was seen within a minute before this one took the place.
    lived_lately: AtomicBool,
    /// How far the database's clock is ahead of this machine's, in milliseconds.
    clock_offset: AtomicI64,
    /// Which database has the row, and when the row was renewed last: microseconds by the database's clock.
    renewed: Mutex<(Identity, i64)>,
    pub(crate) memory: Memory,
    /// Somebody else's row, and since when it is seen as it is.
    watched: Mutex<Option<(String, Instant)>>,
    ended: Mutex<bool>,
    end: Condvar,
}

/// What came of asking for the place.
enum Asked {
    Taken { lived_lately: bool, identity: Identity, seen_at: i64 },
    Busy { name: String, seen_at: String, age: f64 },
}

impl Presence {
    /// Takes the place, waiting for a row that nobody renews to get old.
    pub(crate) fn take(pool: &Pool) -> Result<Arc<Self>, StoreError> {
        let presence = Self {
            id: uuid(),
            begun: Instant::now(),
            held_until: AtomicU64::new(0),
            hold: AtomicU64::new(0),
            lived_lately: AtomicBool::new(false),
            clock_offset: AtomicI64::new(0),
            renewed: Mutex::default(),
            memory: Memory::default(),
            watched: Mutex::default(),
            ended: Mutex::new(false),
            end: Condvar::new(),
        };
        let mut first_seen: Option<String> = None;
        loop {
            match presence.ask(pool)? {
                Asked::Taken { .. } => {
                    let mut clock = ClockSamples::default();
                    for _ in 0..CLOCK_SAMPLES_FIRST {
                        let offset = pool.with(|session| clock.add(session))?;
                        presence.clock_offset.store(offset, Ordering::Relaxed);
                    }
                    return Ok(Arc::new(presence));
                }
                Asked::Busy { name, seen_at, age } => {
                    let is_renewed = first_seen.as_ref().is_some_and(|first| *first != seen_at);
                    if is_renewed || presence.begun.elapsed() > PATIENCE {
                        let what = format!(
                            "another server, {name}, serves this schema; it was there {age:.1} s ago. Stop it, or use \
                             another schema"
                        );
                        return Err(StoreError::new(StoreErrorKind::Unavailable, what));
                    }
                    if first_seen.replace(seen_at).is_none() {
                        tracing::info!(
                            server = name,
                            "waiting for a server that was here just now to be gone"
                        );
                    }
                    std::thread::sleep(PATIENCE_STEP);
                }
            }
        }
    }

    /// Renews the place until [`Presence::stop`].
    pub(crate) fn renew(self: &Arc<Self>, pool: Arc<Pool>) -> Result<JoinHandle<()>, StoreError> {
        let presence = Arc::clone(self);
        let thread = std::thread::Builder::new().name("millpond-presence".to_owned());
        let failed =
            |error| StoreError::new(StoreErrorKind::Unavailable, "starting a thread").with_source(error);
        thread.spawn(move || presence.run(&pool)).map_err(failed)
    }

    /// Ends the renewals; the thread then gives the place up.
    pub(crate) fn stop(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.notify_all();
    }

    /// The number of the hold, if the place is held right now.
    pub(crate) fn hold(&self) -> Option<u64> {
        let hold = self.hold.load(Ordering::Acquire);
        let until = Duration::from_nanos(self.held_until.load(Ordering::Acquire));
        (self.begun.elapsed() < until).then_some(hold)
    }

    /// Whether a server was here within a minute before this one.
    pub(crate) fn lived_lately(&self) -> bool {
        self.lived_lately.load(Ordering::Acquire)
    }

    /// Whether the place is held in this database.
    pub(crate) fn is_in(&self, identity: &Identity) -> bool {
        lock(&self.renewed).0 == *identity
    }

    /// How far the database's clock is ahead of this machine's, in milliseconds.
    pub(crate) fn clock_offset_millis(&self) -> i64 {
        self.clock_offset.load(Ordering::Relaxed)
    }

    /// This server's row.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    fn run(&self, pool: &Pool) {
        let mut session: Option<Session> = None;
        let mut clock = ClockSamples::default();
        let (mut wait, mut outage) = (RENEW_EVERY, Outage::default());
        loop {
            let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
            let until = self.end.wait_timeout_while(ended, wait, |ended| !*ended);
            if *until.unwrap_or_else(PoisonError::into_inner).0 {
                break;
            }
            let result = self.connected(session.take(), pool).and_then(|(connected, found)| {
                if found.is_some() {
                    // It may lead to another machine.
                    clock = ClockSamples::default();
                }
                self.renew_once(&connected, pool, found)?;
                self.clock_offset.store(clock.add(&connected)?, Ordering::Relaxed);
                Ok(connected)
            });
            match result {
                Ok(connected) => {
                    session = Some(connected);
                    wait = RENEW_EVERY;
                    if let Some(lasted) = outage.over(self.begun.elapsed()) {
                        tracing::info!(?lasted, "this server's place in the database is held again");
                    }
                }
                Err(error) => {
                    pool.forget_free();
                    if self.hold().is_none()
                        && let Some(lasted) = outage.failed(self.begun.elapsed())
                    {
                        tracing::warn!(%error, ?lasted, "this server's place in the database is not held");
                    }
                    wait = RETRY_AFTER.mul_f64(0.5 + fastrand::f64());
                }
            }
        }
        if let Ok(session) = session.map_or_else(|| pool.connect(), Ok) {
            let sql = "update server set process = $2 where id = $1::text::uuid";
            // Nobody is harmed if it stays: it gets old.
            let _: Result<_, StoreError> = session.query(sql, &[&self.id, &STOPPED], "leaving");
        }
    }

    fn renew_once(&self, session: &Session, pool: &Pool, found: Option<Found>) -> Result<(), StoreError> {
        let sent = self.begun.elapsed();
        let sql = "with before as (select id, seen_at from server where id = $1::text::uuid for update) \
                   update server s set seen_at = clock_timestamp() from before b where s.id = b.id \
                   returning (extract(epoch from b.seen_at) * 1000000)::bigint, \
                   (extract(epoch from s.seen_at) * 1000000)::bigint";
        if let Some(row) = session.query(sql, &[&self.id], "renewing this server's place")?.first() {
            self.note_found(found, get(row, 0)?, get(row, 1)?);
            self.note_renewed(sent);
            return Ok(());
        }
        // Somebody else has, or had, the place: what is in memory is of the past.
        if self.held_until.swap(0, Ordering::AcqRel) != 0 {
            tracing::error!(
                "another server has taken the place of this one, which answers nothing until it is gone"
            );
        }
        match self.ask(pool)? {
            Asked::Taken { .. } => Ok(()),
            Asked::Busy { name, .. } => {
                Err(StoreError::new(StoreErrorKind::Unavailable, format!("{name} has taken over")))
            }
        }
    }

    /// Compares the row with what was left there. `before` and `now` are when it was renewed, in microseconds.
    fn note_found(&self, found: Option<Found>, before: i64, now: i64) {
        let mut renewed = lock(&self.renewed);
        let lacks = found.as_ref().is_some_and(|found| found.lacks);
        let went_back = before < renewed.1 || lacks;
        let moved = found.map(|found| found.identity).filter(|identity| *identity != renewed.0);
        if went_back || moved.is_some() {
            tracing::warn!(
                went_back,
                moved = moved.is_some(),
                "the database failed over or was restored: all is opened anew"
            );
            self.lived_lately.store(now.saturating_sub(before) < LATELY_MICROS, Ordering::Release);
            self.hold.fetch_add(1, Ordering::AcqRel);
        }
        let identity = moved.unwrap_or_else(|| std::mem::take(&mut renewed.0));
        *renewed = (identity, now);
    }

    /// A connection, and, if it is a new one, to what it leads.
    fn connected(
        &self,
        session: Option<Session>,
        pool: &Pool,
    ) -> Result<(Session, Option<Found>), StoreError> {
        if let Some(session) = session {
            return Ok((session, None));
        }
        let session = pool.connect_for(ANSWER_WITHIN)?;
        let found = Found { identity: Identity::of(&session)?, lacks: self.memory.is_lost(&session)? };
        Ok((session, Some(found)))
    }

    fn note_renewed(&self, sent: Duration) {
        let until = sent.saturating_add(HELD_FOR).as_nanos();
        self.held_until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::Release);
    }

    /// Takes the place if it is free.
    fn ask(&self, pool: &Pool) -> Result<Asked, StoreError> {
        let sent = self.begun.elapsed();
        let asked = pool.with(|session| {
            let result = self.ask_in_transaction(session);
            if result.is_err() {
                // The error that counts is the one that led here.
                let _: Result<(), StoreError> = session.batch("rollback", "asking for the server's place");
            }
            result
        })?;
        if let Asked::Taken { lived_lately, identity, seen_at } = &asked {
            *lock(&self.renewed) = (identity.clone(), *seen_at);
            self.lived_lately.store(*lived_lately, Ordering::Release);
            self.hold.fetch_add(1, Ordering::AcqRel);
            self.note_renewed(sent);
        }
        Ok(asked)
    }

    fn ask_in_transaction(&self, session: &Session) -> Result<Asked, StoreError> {
        let context = "asking for the server's place";
        session.batch("begin; lock table server in exclusive mode", context)?;
        let mut youngest = f64::INFINITY;
        for row in session.query(OTHERS, &[&self.id], context)? {
            let (process, seen_at): (String, String) = (get(&row, 1)?, get(&row, 2)?);
            let (age, is_old): (f64, bool) = (get(&row, 3)?, get(&row, 4)?);
            youngest = youngest.min(age);
            let is_free = process == STOPPED || is_old || process::is_gone(&process);
            if !is_free && !self.has_watched(&seen_at) {
                session.batch("rollback", context)?;
                return Ok(Asked::Busy { name: get(&row, 0)?, seen_at, age });
            }
        }
        let identity = Identity::of(session)?;
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let name = format!("{} process {}", host.trim(), std::process::id());
        let sql = "insert into server values ($1::text::uuid, $2, $3, clock_timestamp(), clock_timestamp()) \
                   on conflict (id) do update set seen_at = excluded.seen_at, process = excluded.process \
                   returning (extract(epoch from seen_at) * 1000000)::bigint";
        let rows = session.query(sql, &[&self.id, &name, &process::this()], context)?;
        let seen_at = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        session.query("delete from server where id <> $1::text::uuid", &[&self.id], context)?;
        session.batch("commit", context)?;
        Ok(Asked::Taken { lived_lately: youngest < 60.0, identity, seen_at })
    }

    /// Whether a row has stayed as it is for long enough while this server looked on.
    fn has_watched(&self, seen_at: &str) -> bool {
        let mut watched = lock(&self.watched);
        match &*watched {
            Some((before, since)) if before == seen_at => since.elapsed() > FREE_AFTER,
            _ => {
                *watched = Some((seen_at.to_owned(), Instant::now()));
                false
            }
        }
    }
}

/// What a new connection leads to.
struct Found {
    identity: Identity,
    /// Something that was seen durable is not there.
    lacks: bool,
}

/// All other rows, and whether one is old. That cannot be told where the database was started, promoted or, as only a new
/// timeline shows for a while, is promoted just now: somebody may have renewed the row where the database was before.
const OTHERS: &str = "select name, process, seen_at::text, extract(epoch from clock_timestamp() - seen_at)::float8, \
     clock_timestamp() - greatest(seen_at, pg_postmaster_start_time(), c.checkpoint_time) > interval '5 seconds' \
     and c.timeline_id = ('x' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8))::bit(32)::int \
     from server, pg_control_checkpoint() c where id <> $1::text::uuid order by seen_at desc";

/// A server that was there within this time counts as having been there lately.
const LATELY_MICROS: i64 = 60_000_000;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A random identifier.
fn uuid() -> String {
    let bits = fastrand::u128(..);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
