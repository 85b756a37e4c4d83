//! Notices what SQL wrote (design-holes B11), and tells the engine which environments have something waiting.
//!
//! Numbers of the intake are drawn in order but committed in any. What is missing below the highest that was drawn is kept as
//! ranges, each with a transaction that began when it was noticed: once all before that have ended, whatever is still missing
//! was rolled back. (The bound that a snapshot tells will not do: transactions that run may lie beyond it.) So a look reads only what is new and what is missing, and never walks over what was taken.
//!
//! While commands come it looks every 10 ms. After 50 ms without it says that it sleeps, so that who writes next notifies it. A
//! notification that is lost costs [`LOOK_AT_LEAST_EVERY`].

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use futures_util::future::{join, join3};
use millpond_store::{Outage, StoreError, StoreErrorKind, Wake};
use tokio_postgres::Row;

use crate::error::before_commit;
use crate::pool::Pool;
use crate::row::{get, text};
use crate::session::Session;
use crate::sweep::Sweep;

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Looks that found nothing before it sleeps.
const LOOKS_BEFORE_SLEEP: u32 = 5;
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_millis(250);
/// Environments in which commands wait for longer are told again.
const REMIND_EVERY: Duration = Duration::from_secs(1);
/// Commands of one look.
const PAGE: i64 = 10_000;

/// Numbers that were drawn and not seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Missing {
    first: i64,
    last: i64,
    /// Whoever drew one of them has a lower transaction than this.
    before: i64,
}

/// What is known of the intake's numbers.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
struct Seen {
    /// All up to this one were seen or are missing.
    highest: i64,
    missing: Vec<Missing>,
}

/// What one look found: transactions before `oldest` have ended.
#[derive(Debug)]
struct Look {
    /// The last number that was drawn, asked for before all else.
    drawn: i64,
    oldest: i64,
    /// Numbers above the highest, in order; a full page may not be all.
    new: Vec<i64>,
    is_full: bool,
    /// Missing ones that have come.
    late: Vec<i64>,
}

impl Seen {
    /// Below this number everything is committed or never will be.
    fn floor(&self) -> i64 {
        self.missing.iter().map(|range| range.first).min().unwrap_or(self.highest + 1)
    }

    /// What lies between the numbers that a look saw.
    fn gaps(&self, look: &Look) -> Vec<(i64, i64)> {
        let mut gaps = Vec::new();
        let mut next = self.highest + 1;
        for number in look.new.iter().copied().chain([self.highest_of(look) + 1]) {
            if next < number {
                gaps.push((next, number - 1));
            }
            next = number + 1;
        }
        gaps
    }

    fn highest_of(&self, look: &Look) -> i64 {
        let last = look.new.last().copied().unwrap_or(self.highest);
        // Behind a full page there may be more.
        if look.is_full { last } else { last.max(look.drawn) }
    }

    /// `begun` began after the look; 0 will do if it left no gaps.
    fn note(&mut self, look: &Look, begun: i64) {
        // What was missing and is not there, although all who could bring it have ended, never comes.
        self.missing.retain(|range| range.before > look.oldest);
        for &late in &look.late {
            self.come(late);
        }
        let gaps = self.gaps(look);
        self.missing.extend(gaps.into_iter().map(|(first, last)| Missing { first, last, before: begun }));
        self.highest = self.highest_of(look);
    }

    /// One that was missing is there.
    fn come(&mut self, number: i64) {
        let Some(at) = self.missing.iter().position(|range| (range.first..=range.last).contains(&number))
        else {
            return;
        };
        let range = self.missing.swap_remove(at);
        let parts = [Missing { last: number - 1, ..range }, Missing { first: number + 1, ..range }];
        self.missing.extend(parts.into_iter().filter(|part| part.first <= part.last));
    }
}

/// Below this number everything in the intake is committed or never will be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Floor {
    pub(crate) number: i64,
    /// How often the database may have gone back in time: what was seen before says nothing of it.
    pub(crate) resets: u64,
}

/// The thread that watches, and what others know of it.
#[derive(Debug, Default)]
pub(crate) struct Watcher {
    floor: Mutex<Floor>,
    ended: Mutex<bool>,
    end: Condvar,
    /// Whether it is known to be asleep, by itself.
    asleep: AtomicBool,
}

impl Watcher {
    /// Below this number everything in the intake is committed or never will be.
    pub(crate) fn floor(&self) -> Floor {
        *self.lock_floor()
    }

    /// The database may have gone back in time, and its numbers with it.
    pub(crate) fn reset(&self) {
        let mut floor = self.lock_floor();
        *floor = Floor { number: 0, resets: floor.resets + 1 };
    }

    fn lock_floor(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(
        self: &Arc<Self>,
        pool: Arc<Pool>,
        server: String,
        channel: String,
        wake: Wake,
    ) -> Result<JoinHandle<()>, StoreError> {
        let watcher = Arc::clone(self);
        let thread = std::thread::Builder::new().name("millpond-watcher".to_owned());
        let failed =
            |error| StoreError::new(StoreErrorKind::Unavailable, "starting a thread").with_source(error);
        let (seen, begun, outage) = (Seen::default(), Instant::now(), Outage::default());
        let run = Run { watcher, pool, server, channel, wake, seen, resets: 0, begun, outage };
        thread.spawn(move || run.run()).map_err(failed)
    }

    pub(crate) fn stop(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.end.notify_all();
    }

    /// Waits; `true`: it is over.
    fn wait(&self, time: Duration) -> bool {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.end.wait_timeout_while(ended, time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

struct Run {
    watcher: Arc<Watcher>,
    pool: Arc<Pool>,
    server: String,
    channel: String,
    wake: Wake,
    seen: Seen,
    /// What is seen is of the database after so many resets.
    resets: u64,
    begun: Instant,
    /// Since when nothing is noticed.
    outage: Outage,
}

impl Run {
    fn run(mut self) {
        let mut wait = Duration::ZERO;
        while !self.watcher.wait(wait) {
            let watched = self.pool.connect().and_then(|mut session| self.watch(&mut session));
            if let Err(error) = watched
                && let Some(lasted) = self.outage.failed(self.begun.elapsed())
            {
                tracing::warn!(%error, ?lasted, "what SQL sends is not noticed");
            }
            wait = LOOK_AT_LEAST_EVERY.mul_f64(0.5 + fastrand::f64());
        }
    }

    /// Looks until the connection fails or it is over.
    fn watch(&mut self, session: &mut Session) -> Result<(), StoreError> {
        session.batch(&format!("listen {}", self.channel), "listening")?;
        self.set_asleep(session, false)?;
        // After a crash, numbers that only transactions drew which were undone may be drawn again; and so many that nothing
        // shows it.
        self.watcher.reset();
        let (mut in_vain, mut reminded, mut sweep) = (0, Instant::now(), Sweep::default());
        let mut may_wait = true;
        loop {
            let (found, is_full) = self.look(session)?;
            if let Some(lasted) = self.outage.over(self.begun.elapsed()) {
                tracing::info!(?lasted, "what SQL sends is noticed again");
            }
            let asleep = self.watcher.asleep.load(Ordering::Relaxed);
            in_vain = if found { 0 } else { in_vain + 1 };
            may_wait |= found;
            if may_wait && reminded.elapsed() >= REMIND_EVERY {
                may_wait = self.remind(session)?;
                reminded = Instant::now();
            }
            sweep.step(session)?;
            if is_full {
                continue;
            }
            if found && asleep {
                self.set_asleep(session, false)?;
            } else if in_vain == LOOKS_BEFORE_SLEEP && !asleep {
                // It looks once more before it sleeps: who wrote before this was seen did not notify.
                self.set_asleep(session, true)?;
                continue;
            }
            if self.watcher.asleep.load(Ordering::Relaxed) {
                session.await_notification(if sweep.goes_on() { LOOK_EVERY } else { LOOK_AT_LEAST_EVERY });
                session.take_notification();
                if self.watcher.wait(Duration::ZERO) {
                    return Ok(());
                }
            } else if self.watcher.wait(LOOK_EVERY) {
                return Ok(());
            }
        }
    }

    fn set_asleep(&self, session: &Session, asleep: bool) -> Result<(), StoreError> {
        let sql = "insert into watcher values ($1::text::uuid, $2) \
                   on conflict (server) do update set asleep = excluded.asleep";
        session.query(sql, &[&self.server, &asleep], "saying whether to be notified")?;
        if !asleep {
            session.query(
                "delete from watcher where server <> $1::text::uuid",
                &[&self.server],
                "listening",
            )?;
        }
        self.watcher.asleep.store(asleep, Ordering::Relaxed);
        Ok(())
    }

    /// Whether it found anything, and whether there may be more.
    fn look(&mut self, session: &mut Session) -> Result<(bool, bool), StoreError> {
        let firsts: Vec<i64> = self.seen.missing.iter().map(|range| range.first).collect();
        let lasts: Vec<i64> = self.seen.missing.iter().map(|range| range.last).collect();
        let [drawn, snapshot, new, late] = ask(session, self.seen.highest, &firsts, &lasts)?;
        let single = |rows: &[Row], column| rows.first().map_or(Ok(0), |row| get::<i64>(row, column));
        let numbers = |rows: &[Row]| rows.iter().map(|row| get::<i64>(row, 0)).collect::<Result<Vec<_>, _>>();
        let look = Look {
            drawn: single(&drawn, 0)?,
            oldest: single(&snapshot, 0)?,
            is_full: new.len() >= usize::try_from(PAGE).unwrap_or(usize::MAX),
            new: numbers(&new)?,
            late: numbers(&late)?,
        };
        if look.drawn < self.seen.highest {
            self.watcher.reset();
        }
        let begun = match self.seen.gaps(&look).is_empty() {
            true => 0,
            false => single(&session.query(BEGUN, &[], "looking for what SQL sent")?, 0)?,
        };
        self.seen.note(&look, begun);
        let environments: BTreeSet<i32> =
            new.iter().chain(&late).map(|row| get::<i32>(row, 1)).collect::<Result<_, _>>()?;
        // First: a page that is read after it is woken begins no later than what woke it.
        if !self.publish_floor() {
            return Ok((true, true));
        }
        let names = names(session, &environments)?;
        names.values().for_each(|name| (self.wake)(name));
        Ok((!environments.is_empty(), look.is_full))
    }

    /// `false`: the database went back meanwhile, and all begins anew.
    fn publish_floor(&mut self) -> bool {
        let mut floor = self.watcher.lock_floor();
        if floor.resets != self.resets {
            self.resets = floor.resets;
            self.seen = Seen::default();
            return false;
        }
        floor.number = self.seen.floor();
        true
    }

    /// Tells again of what has been waiting: an environment that was told may have failed since. Whether there is any.
    fn remind(&self, session: &Session) -> Result<bool, StoreError> {
        let sql = "select e.name from environment e where exists (select from intake i where i.environment = e.number \
                   and i.id >= coalesce((select f.number from intake_floor f where f.environment = e.number \
                   order by f.number desc limit 1), 0) and i.id <= $1)";
        let waiting = session.query(sql, &[&self.seen.highest], "looking for what waits")?;
        for row in &waiting {
            (self.wake)(&text(row, 0)?);
        }
        Ok(!waiting.is_empty())
    }
}

pub(crate) const DRAWN: &str = "select case when is_called then last_value else 0 end from intake_id";
pub(crate) const SNAPSHOT: &str = "select pg_snapshot_xmin(pg_current_snapshot())::text::bigint";
pub(crate) const BEGUN: &str = "select pg_current_xact_id()::text::bigint";
pub(crate) const NEW: &str = "select id, environment from intake where id > $1 order by id limit $2";
pub(crate) const LATE: &str = "select t.id, t.environment from unnest($1::bigint[], $2::bigint[]) n(first, last) \
     cross join lateral (select i.id, i.environment from intake i where i.id between n.first and n.last order by i.id offset 0) t";

/// The number drawn last, then all else in one snapshot that is younger.
fn ask(
    session: &mut Session,
    highest: i64,
    firsts: &[i64],
    lasts: &[i64],
) -> Result<[Vec<Row>; 4], StoreError> {
    session.prepare(&[DRAWN, SNAPSHOT, NEW, LATE])?;
    let context = "looking for what SQL sent";
    let client = session.client();
    let (drawn, snapshot) = (session.statement(DRAWN)?, session.statement(SNAPSHOT)?);
    let (new, late) = (session.statement(NEW)?, session.statement(LATE)?);
    let new_values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&highest, &PAGE];
    let late_values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&firsts, &lasts];
    let work = join3(
        client.query(drawn, &[]),
        join3(
            client.batch_execute("begin isolation level repeatable read read only"),
            client.query(snapshot, &[]),
            join(client.query(new, &new_values), client.query(late, &late_values)),
        ),
        client.batch_execute("commit"),
    );
    let no_answer = || StoreError::new(StoreErrorKind::Unavailable, format!("{context}: no answer"));
    let (drawn, (begun, snapshot, (new, late)), ended) = session.run(work).ok_or_else(no_answer)?;
    let failed = || before_commit(context);
    begun.map_err(failed())?;
    ended.map_err(failed())?;
    Ok([
        drawn.map_err(failed())?,
        snapshot.map_err(failed())?,
        new.map_err(failed())?,
        late.map_err(failed())?,
    ])
}

fn names(session: &Session, environments: &BTreeSet<i32>) -> Result<HashMap<i32, Box<str>>, StoreError> {
    if environments.is_empty() {
        return Ok(HashMap::new());
    }
    let numbers: Vec<i32> = environments.iter().copied().collect();
    let sql = "select number, name from environment where number = any($1)";
    let rows = session.query(sql, &[&numbers], "looking environments up")?;
    rows.iter().map(|row| Ok((get(row, 0)?, text(row, 1)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(drawn: i64, oldest: i64, new: &[i64], late: &[i64]) -> Look {
        Look { drawn, oldest, new: new.to_vec(), is_full: false, late: late.to_vec() }
    }

    #[test]
    fn what_is_missing_is_waited_for_until_nobody_can_bring_it() {
        let mut seen = Seen::default();
        seen.note(&look(6, 100, &[2, 5], &[]), 110);
        assert_eq!((seen.highest, seen.floor()), (6, 1));
        let ranges: Vec<_> = seen.missing.iter().map(|range| (range.first, range.last)).collect();
        assert_eq!(ranges, [(1, 1), (3, 4), (6, 6)]);
        seen.note(&look(6, 109, &[], &[4]), 0);
        assert_eq!(seen.floor(), 1, "one of before 110 still runs");
        seen.note(&look(7, 110, &[], &[]), 120);
        assert_eq!((seen.highest, seen.floor()), (7, 7), "all of before 110 have ended; 7 was drawn since");
        seen.note(&look(7, 130, &[], &[7]), 0);
        assert_eq!((seen.highest, seen.floor(), seen.missing.len()), (7, 8, 0));
    }

    #[test]
    fn one_that_comes_splits_its_range() {
        let mut seen = Seen::default();
        seen.note(&look(9, 1, &[], &[]), 5);
        seen.come(5);
        let mut ranges: Vec<_> = seen.missing.iter().map(|range| (range.first, range.last)).collect();
        ranges.sort_unstable();
        assert_eq!(ranges, [(1, 4), (6, 9)]);
        seen.come(1);
        seen.come(9);
        seen.come(9);
        assert_eq!(seen.floor(), 2);
    }

    #[test]
    fn a_full_page_says_nothing_of_what_lies_behind_it() {
        let mut seen = Seen::default();
        seen.note(&Look { is_full: true, ..look(100, 1, &[1, 2, 4], &[]) }, 5);
        assert_eq!((seen.highest, seen.floor()), (4, 3));
        seen.note(&look(100, 1, &[5], &[]), 5);
        assert_eq!((seen.highest, seen.floor()), (100, 3));
    }
}
