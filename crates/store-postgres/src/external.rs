//! What SQL wrote, as commands: reads of the intake.
//!
//! A page begins at the environment's low-water key, below which nothing is or will be: so it never walks over what was taken.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_core::command::{LeaseRef, MessageRef, NewMessage};
use millpond_core::external::{
    External, ExternalAction, ExternalCommand, ExternalId, ExternalSend, ExternalSettle,
};
use millpond_core::id::{LeaseGeneration, MessageId, Sequence};
use millpond_core::row::MessageContent;
use millpond_store::StoreError;
use millpond_store::persisted::data_kind_of;
use tokio_postgres::Row;

use crate::row::{get, known, time, unsigned};
use crate::watcher::Floor;

mod claims;
mod together;

pub(crate) use claims::Claims;
#[cfg(test)]
pub(crate) use claims::{CLAIM, CLAIMED};
pub(crate) use together::{REST, REST_MOST, SIZES, Together, transactions};

/// Columns of the intake that [`commands`] reads, in its order.
macro_rules! intake_columns {
    () => {
        "id, transaction::text::bigint, kind, queue, partition, sequence, sent_at, nonce, attributes, data_kind, data, delay, \
         visible_at, priority, time_to_live, key, delivery, generation, output, extend_by"
    };
}
pub(crate) use intake_columns;

/// Asked as a range, so that only the index by environment gives the order.
pub(crate) const PAGE: &str = concat!(
    "select ",
    intake_columns!(),
    " from intake where (environment, id) >= ($1, greatest($2, (select f.number from intake_floor f \
     where f.environment = $1 order by f.number desc limit 1))) \
     and environment <= $1 order by environment, id limit $3"
);

/// The database is told where pages begin when that has risen by so much: an owner that begins walks over no more than this.
const FLOOR_STEP: i64 = 1_000;
/// In the place of its newest version, or as a new row.
pub(crate) const RAISE_FLOOR: &str = "with placed as (select (select f.ctid from intake_floor f where f.environment = $1 \
     order by f.number desc limit 1) as place), raised as (update intake_floor f set number = greatest(f.number, $2) \
     from placed n where f.ctid = n.place) insert into intake_floor select $1, $2 from placed where place is null";

/// Where the pages of one environment begin.
#[derive(Debug, Default)]
pub(crate) struct LowWater {
    floor: Mutex<Floor>,
    stored: Mutex<Stored>,
}

#[derive(Debug, Default)]
struct Stored {
    /// Behind the highest number that was taken.
    taken: i64,
    /// What the database was told.
    floor: i64,
}

impl LowWater {
    /// `floor`: as it is now. What was noted before the database may have gone back says nothing.
    pub(crate) fn get(&self, floor: Floor) -> i64 {
        let low = self.lock();
        if low.resets == floor.resets { low.number } else { 0 }
    }

    /// A page was read. Below `floor`, asked for before, everything is committed or never will be.
    pub(crate) fn note(&self, first: Option<ExternalId>, floor: Floor) {
        let number = first.map_or(i64::MAX, |id| id.0.cast_signed()).min(floor.number);
        let mut low = self.lock();
        if low.resets < floor.resets {
            *low = Floor { number, ..floor };
        } else if low.resets == floor.resets {
            low.number = low.number.max(number);
        }
    }

    /// Where pages begin, if it is time to store that. `taken`: what the commit takes that stores it.
    ///
    /// Never above what was taken: after a crash, numbers may be drawn again that are higher than all that were committed.
    pub(crate) fn to_store(&self, floor: Floor, taken: &[ExternalId]) -> Option<i64> {
        let highest = taken.iter().map(|id| id.0.cast_signed() + 1).max()?;
        let low = self.get(floor);
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        stored.taken = stored.taken.max(highest);
        let number = low.min(stored.taken);
        if number - stored.floor < FLOOR_STEP {
            return None;
        }
        stored.floor = number;
        Some(number)
    }

    fn lock(&self) -> MutexGuard<'_, Floor> {
        self.floor.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The commands of a page; those of one transaction together, where its first stands.
pub(crate) fn commands(rows: &[Row]) -> Result<Vec<External>, StoreError> {
    let mut places = HashMap::new();
    let mut placed = Vec::new();
    for row in rows {
        let transaction: i64 = get(row, 1)?;
        let next = places.len();
        placed.push((*places.entry(transaction).or_insert(next), command(row)?));
    }
    // Stable: within a transaction they stay in order.
    placed.sort_by_key(|(place, _)| *place);
    Ok(placed.into_iter().map(|(_, external)| external).collect())
}

fn command(row: &Row) -> Result<External, StoreError> {
    let command = match get::<i16>(row, 2)? {
        0 => ExternalCommand::Send(Box::new(send(row)?)),
        1 => {
            let action = ExternalAction::Complete { output: optional_written(row, 18)? };
            ExternalCommand::Settle(ExternalSettle { lease: lease(row)?, action })
        }
        2 => {
            let action = ExternalAction::Fail { output: optional_written(row, 18)?, delay: millis(row, 11)? };
            ExternalCommand::Settle(ExternalSettle { lease: lease(row)?, action })
        }
        3 => ExternalCommand::Extend {
            queue: written(row, 3)?,
            lease: lease(row)?,
            by: known(19, millis(row, 19)?)?,
        },
        4 => ExternalCommand::Cancel(MessageRef { queue: written(row, 3)?, message: message(row)? }),
        5 => ExternalCommand::AllowSettle { queue: written(row, 3)? },
        _ => known(2, None)?,
    };
    Ok(External { id: ExternalId(unsigned(row, 0)?), command })
}

fn send(row: &Row) -> Result<ExternalSend, StoreError> {
    let content = MessageContent {
        attributes: written(row, 8)?,
        data_kind: known(9, data_kind_of(get::<i16>(row, 9)?.into()))?,
        data: get::<&[u8]>(row, 10)?.into(),
    };
    let content = NewMessage {
        content: Arc::new(content),
        delay: millis(row, 11)?,
        priority: get(row, 13)?,
        time_to_live: millis(row, 14)?,
    };
    Ok(ExternalSend {
        queue: written(row, 3)?,
        partition: optional_written(row, 4)?,
        message: message(row)?,
        content,
        visible_at: get::<Option<i64>>(row, 12)?.map(millpond_core::time::Timestamp::from_millis),
        key: optional_written(row, 15)?,
    })
}

/// A text as SQL wrote it: what stands for U+0000 elsewhere stands for itself here.
fn written(row: &Row, column: usize) -> Result<Box<str>, StoreError> {
    get::<String>(row, column).map(Into::into)
}

fn optional_written(row: &Row, column: usize) -> Result<Option<Box<str>>, StoreError> {
    get::<Option<String>>(row, column).map(|text| text.map(Into::into))
}

fn message(row: &Row) -> Result<MessageId, StoreError> {
    Ok(MessageId { sent_at: time(row, 6)?, sequence: Sequence(unsigned(row, 5)?), nonce: unsigned(row, 7)? })
}

fn lease(row: &Row) -> Result<LeaseRef, StoreError> {
    Ok(LeaseRef {
        delivery: Sequence(unsigned(row, 16)?),
        message: message(row)?,
        generation: LeaseGeneration(unsigned(row, 17)?),
    })
}

fn millis(row: &Row, column: usize) -> Result<Option<Duration>, StoreError> {
    let Some(millis) = get::<Option<i64>>(row, column)? else { return Ok(None) };
    known(column, u64::try_from(millis).ok()).map(|millis| Some(Duration::from_millis(millis)))
}
