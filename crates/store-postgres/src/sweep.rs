//! Removes what was stored of leases that ended, once no transaction is open that could still see them held.
//!
//! It goes by pages, between two looks of the watcher, so that no look is late, and on until nothing is left to do.

use std::time::{Duration, Instant};

use millpond_store::StoreError;
use tokio_postgres::Row;

use crate::row::get;
use crate::session::{Session, Values};

/// How often it begins.
const EVERY: Duration = Duration::from_secs(10);
/// One sweep in so many looks for leases that ended without a commit of their own.
const MARK_EVERY: u32 = 6;
/// Rows of one page.
const PAGE: i64 = 1_000;

/// Marks those of a page, by keys, whose lease has ended and which do not say so; answers the last of the page, if there may be more.
pub(crate) const MARK: &str = "with page as materialized (select t.environment, t.delivery, t.generation, t.ended_by, t.ctid as place \
     from settlement t where (t.environment, t.delivery, t.generation) > ($1, $2, $3) \
     order by t.environment, t.delivery, t.generation limit $4), \
     marked as (update settlement s set ended_by = pg_current_xact_id() where s.ctid = any(array(select p.place from page p \
     where p.ended_by is null and not exists (select from (select d.state, d.lease_generation from delivery d \
     where d.environment = p.environment and d.sequence = p.delivery offset 0) d \
     where d.state = 2 and d.lease_generation = p.generation)))) \
     select environment, delivery, generation from page limit 1 offset $4 - 1";
/// Whoever has a snapshot from before the end of a lease may still see it as held: keys of leases that ended stay until the
/// oldest snapshot, and the oldest transaction, are younger. Answers whether the page was full.
pub(crate) const REMOVE: &str = "with gone as (delete from settlement s where s.ctid = any(array( \
     select t.ctid from settlement t where t.ended_by < (select least(pg_snapshot_xmin(pg_current_snapshot()), \
     greatest(0, pg_snapshot_xmax(pg_current_snapshot())::text::bigint \
     - coalesce((select max(age(a.backend_xmin)) from pg_stat_activity a), 0))::text::xid8)) \
     order by t.ended_by limit $1)) returning 1) select count(*) >= $1 from gone";

/// Sweeps of the watcher.
#[derive(Debug, Default)]
pub(crate) struct Sweep {
    /// When the last one began.
    begun: Option<Instant>,
    count: u32,
    /// What is left to do of it.
    marks: Option<Key>,
    removes: bool,
}

/// Of a row: environment, delivery, generation.
type Key = (i32, i64, i64);
const BEFORE_ALL: Key = (i32::MIN, i64::MIN, i64::MIN);

impl Sweep {
    /// Whether it has more to do at once.
    pub(crate) fn goes_on(&self) -> bool {
        self.marks.is_some() || self.removes
    }

    /// Works off a page, if it is time.
    pub(crate) fn step(&mut self, session: &Session) -> Result<(), StoreError> {
        if !self.goes_on() && self.begun.is_none_or(|begun| begun.elapsed() >= EVERY) {
            self.begun = Some(Instant::now());
            self.marks = self.count.is_multiple_of(MARK_EVERY).then_some(BEFORE_ALL);
            self.removes = true;
            self.count += 1;
        }
        if let Some((environment, delivery, generation)) = self.marks {
            let values: Values<'_> = &[&environment, &delivery, &generation, &PAGE];
            let last = ask(session, MARK, values)?;
            let key = |row: &Row| Ok::<Key, StoreError>((get(row, 0)?, get(row, 1)?, get(row, 2)?));
            self.marks = last.first().map(key).transpose()?;
        } else if self.removes {
            let full = ask(session, REMOVE, &[&PAGE])?;
            self.removes = full.first().map_or(Ok(false), |row| get(row, 0))?;
        }
        Ok(())
    }
}

fn ask(session: &Session, sql: &str, values: Values<'_>) -> Result<Vec<Row>, StoreError> {
    session.query(sql, values, "sweeping claims")
}
