//! How far the database's clock is from this machine's (design-holes A12).

use std::collections::VecDeque;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use millpond_store::StoreError;

use crate::row::get;
use crate::session::Session;

/// Looks at the clock before the first answer.
pub(super) const CLOCK_SAMPLES_FIRST: usize = 3;
/// Looks at the clock that count: those of the last minute.
const CLOCK_SAMPLES: usize = 60;

/// Looks at the database's clock. Half the round trip is how far each may be off, so the shortest counts.
#[derive(Debug, Default)]
pub(super) struct ClockSamples {
    /// Round trips and offsets, the latest last.
    samples: VecDeque<(Duration, i64)>,
}

impl ClockSamples {
    /// Looks once; answers how far the database is ahead, in milliseconds.
    pub(super) fn add(&mut self, session: &Session) -> Result<i64, StoreError> {
        let begun = Instant::now();
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let sql = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
        let rows = session.query(sql, &[], "looking at the clock")?;
        let round_trip = begun.elapsed();
        let own = i64::try_from((wall + round_trip / 2).as_millis()).unwrap_or(i64::MAX);
        let database: i64 = rows.first().map_or(Ok(own), |row| get(row, 0))?;
        self.samples.push_back((round_trip, database.saturating_sub(own)));
        if self.samples.len() > CLOCK_SAMPLES {
            self.samples.pop_front();
        }
        Ok(self.samples.iter().min().map_or(0, |(_, offset)| *offset))
    }
}
