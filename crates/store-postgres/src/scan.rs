//! The ordered scans. Each walks one index from one key on, by a comparison of rows, and reads one row more than asked for, so
//! that the end is exact.

use millpond_core::row::DueKey;
use millpond_core::{Page, Scan};
use millpond_store::StoreError;
use millpond_store::persisted::state_code;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use crate::row::{self, dedup_columns, delivery_columns};

type Value = Box<dyn ToSql + Sync + Send>;

macro_rules! deliveries {
    ($condition:literal, $order:literal) => {
        concat!(
            "select ",
            delivery_columns!("d"),
            " from delivery d where d.environment = $1 and ",
            $condition,
            " order by ",
            $order,
            " limit $2"
        )
    };
}

pub(crate) const READY: &str = deliveries!(
    "d.queue = $3 and d.state = 1",
    "d.environment, d.queue, d.priority_descending, d.retried, d.order_at, d.sequence"
);
pub(crate) const READY_AFTER: &str = deliveries!(
    "d.queue = $3 and d.state = 1 \
     and (d.priority_descending, d.retried, d.order_at, d.sequence) > ($4, $5, $6, $7)",
    "d.environment, d.queue, d.priority_descending, d.retried, d.order_at, d.sequence"
);
pub(crate) const DUE: &str = deliveries!(
    "d.queue = $3 and d.state = $4 and d.state <> 1",
    "d.environment, d.queue, d.state, d.due_at, d.sequence"
);
pub(crate) const DUE_AFTER: &str = deliveries!(
    "d.queue = $3 and d.state = $4 and d.state <> 1 and (d.due_at, d.sequence) > ($5, $6)",
    "d.environment, d.queue, d.state, d.due_at, d.sequence"
);
pub(crate) const EXPIRY: &str = deliveries!("d.state >= 0", "d.environment, d.expires_at, d.sequence");
pub(crate) const EXPIRY_AFTER: &str = deliveries!(
    "d.state >= 0 and (d.expires_at, d.sequence) > ($3, $4)",
    "d.environment, d.expires_at, d.sequence"
);
pub(crate) const DEDUP_EXPIRY: &str = concat!(
    "select ",
    dedup_columns!("c"),
    " from dedup c where c.environment = $1 and c.expires_at >= $3 and c.queue >= -1 \
     order by c.environment, c.expires_at limit $2"
);
pub(crate) const UPLOADS: &str =
    "select sequence, chunks from upload where environment = $1 and sequence > $3 order by sequence limit $2";

/// What a scan asks for.
pub(crate) struct Walk {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
}

impl Walk {
    pub(crate) fn of(environment: i32, scan: &Scan) -> Self {
        let due = |key: &DueKey| -> [Value; 2] {
            [Box::new(key.due_at.as_millis()), Box::new(key.sequence.0.cast_signed())]
        };
        let (sql, limit, rest): (_, _, Vec<Value>) = match scan {
            Scan::Ready { queue, after: None, limit } => (READY, limit, vec![Box::new(i64::from(queue.0))]),
            Scan::Ready { queue, after: Some(key), limit } => {
                let values: Vec<Value> = vec![
                    Box::new(i64::from(queue.0)),
                    Box::new(key.priority_descending),
                    Box::new(key.retried),
                    Box::new(key.order_at.as_millis()),
                    Box::new(key.sequence.0.cast_signed()),
                ];
                (READY_AFTER, limit, values)
            }
            Scan::Due { queue, state, after, limit } => {
                let code = i16::try_from(state_code(*state)).unwrap_or(i16::MAX);
                let mut values: Vec<Value> = vec![Box::new(i64::from(queue.0)), Box::new(code)];
                values.extend(after.as_ref().into_iter().flat_map(due));
                (if after.is_some() { DUE_AFTER } else { DUE }, limit, values)
            }
            Scan::Expiry { after: None, limit } => (EXPIRY, limit, Vec::new()),
            Scan::Expiry { after: Some(key), limit } => (EXPIRY_AFTER, limit, due(key).into()),
            Scan::DedupExpiry { from, limit } => (DEDUP_EXPIRY, limit, vec![Box::new(from.as_millis())]),
            Scan::Uploads { after, limit } => {
                // Sequences begin at 1.
                (UPLOADS, limit, vec![Box::new(after.map_or(0, |sequence| sequence.0.cast_signed()))])
            }
        };
        let one_more = i64::try_from(*limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut values: Vec<Value> = vec![Box::new(environment), Box::new(one_more)];
        values.extend(rest);
        Self { sql, values }
    }
}

/// The page that the rows are; the caller fills in the snapshot.
pub(crate) fn page(scan: &Scan, rows: &[Row]) -> Result<Page, StoreError> {
    let (Scan::Ready { limit, .. }
    | Scan::Due { limit, .. }
    | Scan::Expiry { limit, .. }
    | Scan::DedupExpiry { limit, .. }
    | Scan::Uploads { limit, .. }) = scan;
    let end = rows.len() <= *limit;
    let rows = rows.get(..*limit).unwrap_or(rows);
    let mut page = Page { end, ..Page::default() };
    match scan {
        Scan::DedupExpiry { .. } => page.dedup = rows.iter().map(row::dedup).collect::<Result<_, _>>()?,
        Scan::Uploads { .. } => page.uploads = rows.iter().map(row::upload).collect::<Result<_, _>>()?,
        _ => page.deliveries = rows.iter().map(row::delivery).collect::<Result<_, _>>()?,
    }
    Ok(page)
}
