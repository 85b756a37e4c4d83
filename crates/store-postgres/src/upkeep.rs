//! Tables are kept in shape by the server itself.
//!
//! Each message leaves two dead deliveries and a dead message behind. The database's own vacuum comes once a minute, and slowly, so that
//! it may be gentle to others: at full speed tables grow to gigabytes meanwhile, and each commit pays for pages that are not in memory.
//! The server knows how much it removes, so it looks after some hundred thousand rows, and vacuums what has become a fifth dead.
//! Small tables are vacuumed in a fraction of a second.
//!
//! A transaction that is open keeps all that was removed since from being vacuumed. As long as the oldest one is the same as before,
//! another vacuum would find nothing, so there is none.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millpond_core::{ChangeSet, DeliveryChange};
use millpond_store::{StoreError, StoreErrorKind};

use crate::pool::Pool;
use crate::presence::Presence;
use crate::row::{get, text};
use crate::session::{Session, quoted};

/// How often it is asked whether much was removed.
const ASK_EVERY: Duration = Duration::from_secs(1);
/// After an error.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// A vacuum of a large table, with its indexes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3_600);
/// A table is vacuumed for a tenth of the time at most, unless that would be less often than this.
const REST_MOST: Duration = Duration::from_secs(60);

/// Tables of which much is dead, and the oldest transaction that may still see something. A vacuum sees nothing that others keep.
pub(crate) const UNTIDY: &str = "select s.relname::text, least(pg_snapshot_xmin(pg_current_snapshot())::text::bigint, \
     pg_snapshot_xmax(pg_current_snapshot())::text::bigint - coalesce((select max(age(a.backend_xmin)) \
     from pg_stat_activity a where a.backend_type <> 'autovacuum worker'), 0)) \
     from pg_stat_user_tables s where s.schemaname = current_schema() and s.n_dead_tup > $1 + s.n_live_tup / 5 \
     order by s.relname";

/// What is shared with those who commit.
#[derive(Debug, Default)]
pub(crate) struct Upkeep {
    /// Rows that were replaced or removed since tables were looked at.
    replaced: AtomicU64,
    /// The database's process that vacuums; 0: none does.
    vacuuming: AtomicI32,
    ended: Mutex<bool>,
    end: Condvar,
}

/// The last vacuum of a table.
struct Last {
    /// The oldest transaction when it began.
    oldest: i64,
    ended: Instant,
    took: Duration,
}

impl Upkeep {
    /// Counts what a commit leaves behind.
    pub(crate) fn note(&self, changes: &ChangeSet) {
        let is_replaced = |change: &&DeliveryChange| !matches!(change, DeliveryChange::Insert(_));
        let rows = changes.deliveries.iter().filter(is_replaced).count()
            + changes.external_taken.len()
            + changes.counters.len()
            + changes.runs_put.len();
        self.replaced.fetch_add(rows as u64, Ordering::Relaxed);
    }

    /// Works until [`Upkeep::stop`].
    pub(crate) fn start(
        self: &Arc<Self>,
        pool: Arc<Pool>,
        presence: Arc<Presence>,
    ) -> Result<JoinHandle<()>, StoreError> {
        let upkeep = Arc::clone(self);
        let thread = std::thread::Builder::new().name("millpond-upkeep".to_owned());
        let failed =
            |error| StoreError::new(StoreErrorKind::Unavailable, "starting a thread").with_source(error);
        thread.spawn(move || upkeep.run(&pool, &presence)).map_err(failed)
    }

    /// Ends it, and a vacuum that is under way.
    pub(crate) fn stop(&self, pool: &Pool) {
        *self.lock_ended() = true;
        self.end.notify_all();
        let process = self.vacuuming.load(Ordering::Acquire);
        if process != 0 {
            let cancel = |session: &mut Session| {
                session.query("select pg_cancel_backend($1)", &[&process], "ending a vacuum").map(drop)
            };
            if let Err(error) = pool.with(cancel) {
                tracing::warn!(%error, "a vacuum goes on until it is done");
            }
        }
    }

    fn run(&self, pool: &Pool, presence: &Presence) {
        let mut last = HashMap::new();
        let mut wait = ASK_EVERY;
        while !self.wait(wait) {
            wait = ASK_EVERY;
            let look_after = pool.settings().vacuum_after / 2;
            if self.replaced.load(Ordering::Relaxed) < look_after || presence.hold().is_none() {
                continue;
            }
            self.replaced.store(0, Ordering::Relaxed);
            if let Err(error) = self.tidy(pool, &mut last)
                && !*self.lock_ended()
            {
                tracing::warn!(%error, "tables are not vacuumed for a minute but by the database itself");
                wait = RETRY_AFTER;
            }
        }
    }

    fn tidy(&self, pool: &Pool, last: &mut HashMap<Box<str>, Last>) -> Result<(), StoreError> {
        let dead = pool.settings().vacuum_after.cast_signed();
        let untidy = pool.with(|session| session.query(UNTIDY, &[&dead], "looking at tables"))?;
        let mut tables = Vec::new();
        for row in &untidy {
            let (table, oldest): (Box<str>, i64) = (text(row, 0)?, get(row, 1)?);
            if last.get(&table).is_none_or(|last| last.is_over(oldest)) {
                tables.push((table, oldest));
            }
        }
        if tables.is_empty() {
            return Ok(());
        }
        let session = pool.connect_for(ANSWER_TIMEOUT)?;
        // That a table was passed over, because somebody else vacuums it, is no warning to anybody.
        session.batch("set client_min_messages = error", "preparing a vacuum")?;
        let rows = session.query("select pg_backend_pid()", &[], "preparing a vacuum")?;
        let process = rows.first().map_or(Ok(0), |row| get(row, 0))?;
        self.vacuuming.store(process, Ordering::Release);
        let result =
            tables.into_iter().try_for_each(|(table, oldest)| self.vacuum(&session, table, oldest, last));
        self.vacuuming.store(0, Ordering::Release);
        result
    }

    fn vacuum(
        &self,
        session: &Session,
        table: Box<str>,
        oldest: i64,
        last: &mut HashMap<Box<str>, Last>,
    ) -> Result<(), StoreError> {
        if *self.lock_ended() {
            return Ok(());
        }
        let begun = Instant::now();
        // Nobody waits for it, and it waits for nobody. Making a file shorter would lock the table.
        let sql = format!("vacuum (skip_locked, truncate false, parallel 0) {}", quoted(&table));
        session.batch(&sql, "vacuuming")?;
        let (ended, took) = (Instant::now(), begun.elapsed());
        tracing::debug!(%table, ?took, "vacuumed");
        last.insert(table, Last { oldest, ended, took });
        Ok(())
    }

    /// Waits; `true`: it is over.
    fn wait(&self, time: Duration) -> bool {
        let waited = self.end.wait_timeout_while(self.lock_ended(), time, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock_ended(&self) -> MutexGuard<'_, bool> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Last {
    /// Whether another vacuum can find more, and enough time has passed.
    fn is_over(&self, oldest: i64) -> bool {
        oldest != self.oldest && self.ended.elapsed() >= REST_MOST.min(self.took * 9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vacuum_that_would_find_nothing_is_not_made() {
        let last = Last { oldest: 700, ended: Instant::now(), took: Duration::ZERO };
        assert!(!last.is_over(700), "the same transaction is open still");
        assert!(last.is_over(701));
    }

    #[test]
    fn a_table_that_takes_long_rests() {
        let ended = Instant::now();
        let after = |took: u64| Last { oldest: 1, ended, took: Duration::from_secs(took) }.is_over(2);
        assert!(after(0));
        assert!(!after(2));
    }
}
