//! The ordered scans. Each walks one index from one key on (`tests` below ask SQLite for its plan, and for that of the one read
//! that is not by primary key).
//!
//! SQLite compares a row value with an index column by column, but not with the rowid that ends it. So a page behind a
//! key is read in two steps, each a range of the index: the rest of the rows that tie with the key, then those beyond.
//! A million rows of one time would otherwise be walked once a page.
//!
//! One row more than asked for is read, so that the end is exact.

use millpond_core::id::Sequence;
use millpond_core::row::DueKey;
use millpond_core::{Page, Scan};
use millpond_store::persisted::state_code;
use rusqlite::{Connection, Error, Params, Row, params_from_iter};

use crate::row::{self, DEDUP_COLUMNS, DELIVERY_COLUMNS};

/// Reads one page; the caller fills in the snapshot.
pub(crate) fn page(connection: &Connection, scan: &Scan) -> Result<Page, Error> {
    if let Scan::DedupExpiry { from, limit } = scan {
        let values = (from.as_millis(), one_more(*limit));
        let mut dedup = rows(connection, &dedup_expiry_sql(), values, row::dedup)?;
        let end = cut(&mut dedup, *limit);
        return Ok(Page { dedup, end, ..Page::default() });
    }
    if let Scan::Uploads { after, limit } = scan {
        // Sequences begin at 1.
        let values = (after.map_or(0, signed), one_more(*limit));
        let mut uploads = rows(connection, UPLOADS, values, row::upload)?;
        let end = cut(&mut uploads, *limit);
        return Ok(Page { uploads, end, ..Page::default() });
    }
    let Some((order, from, limit)) = walk(scan) else { return Ok(Page::default()) };
    let mut deliveries = Vec::new();
    let beyond = if let Some((key, sequence)) = &from.after {
        let ties = from.fixed.iter().chain(key).copied().chain([signed(*sequence), one_more(limit)]);
        deliveries = rows(connection, &order.ties_sql(), params_from_iter(ties), row::delivery)?;
        order.beyond_sql()
    } else {
        order.all_sql()
    };
    if deliveries.len() <= limit {
        let missing = one_more(limit - deliveries.len());
        let key = from.after.iter().flat_map(|(key, _)| key);
        let values = from.fixed.iter().chain(key).copied().chain([missing]);
        deliveries.extend(rows(connection, &beyond, params_from_iter(values), row::delivery)?);
    }
    let end = cut(&mut deliveries, limit);
    Ok(Page { deliveries, end, ..Page::default() })
}

/// An index over deliveries and how a scan uses it.
#[derive(Clone, Copy)]
struct Order {
    index: &'static str,
    /// Condition on the columns that are the same for the whole scan.
    fixed: &'static str,
    fixed_count: usize,
    /// Columns that order it; the rowid breaks ties.
    key: &'static [&'static str],
}

const READY: Order = Order {
    index: "delivery_ready",
    fixed: "queue = ?1 and state = 1",
    fixed_count: 1,
    key: &["priority_descending", "retried", "order_at"],
};
const DUE: Order = Order {
    index: "delivery_due",
    fixed: "queue = ?1 and state = ?2 and state <> 1",
    fixed_count: 2,
    key: &["due_at"],
};
const EXPIRY: Order = Order { index: "delivery_expiry", fixed: "true", fixed_count: 0, key: &["expires_at"] };

/// Values of one scan: those of the fixed columns, and the key behind which it begins.
struct From {
    fixed: Vec<i64>,
    after: Option<(Vec<i64>, Sequence)>,
}

fn walk(scan: &Scan) -> Option<(Order, From, usize)> {
    let due = |key: &DueKey| (vec![key.due_at.as_millis()], key.sequence);
    Some(match scan {
        Scan::Ready { queue, after, limit } => {
            let after = after.map(|key| {
                let columns = vec![key.priority_descending, i64::from(key.retried), key.order_at.as_millis()];
                (columns, key.sequence)
            });
            (READY, From { fixed: vec![i64::from(queue.0)], after }, *limit)
        }
        Scan::Due { queue, state, after, limit } => {
            let fixed = vec![i64::from(queue.0), state_code(*state)];
            (DUE, From { fixed, after: after.as_ref().map(due) }, *limit)
        }
        Scan::Expiry { after, limit } => {
            (EXPIRY, From { fixed: Vec::new(), after: after.as_ref().map(due) }, *limit)
        }
        Scan::DedupExpiry { .. } | Scan::Uploads { .. } => return None,
    })
}

impl Order {
    /// Rows with the same key as the last one and a higher sequence.
    fn ties_sql(&self) -> String {
        let number = |offset: usize| self.fixed_count + offset + 1;
        let equal: Vec<String> =
            self.key.iter().zip(0..).map(|(name, at)| format!("{name} = ?{}", number(at))).collect();
        let sequence = number(self.key.len());
        let condition = format!("{} and sequence > ?{sequence}", equal.join(" and "));
        self.sql(&condition, sequence + 1)
    }

    /// Rows behind every row with the same key.
    fn beyond_sql(&self) -> String {
        let numbers: Vec<String> =
            (1..=self.key.len()).map(|at| format!("?{}", self.fixed_count + at)).collect();
        let condition = format!("({}) > ({})", self.key.join(", "), numbers.join(", "));
        self.sql(&condition, self.fixed_count + self.key.len() + 1)
    }

    fn all_sql(&self) -> String {
        self.sql("true", self.fixed_count + 1)
    }

    fn sql(&self, condition: &str, limit: usize) -> String {
        let Self { index, fixed, key, .. } = self;
        let key = key.join(", ");
        format!(
            "select {DELIVERY_COLUMNS} from delivery indexed by {index} where {fixed} and {condition} \
             order by {key}, sequence limit ?{limit}"
        )
    }
}

fn dedup_expiry_sql() -> String {
    format!(
        "select {DEDUP_COLUMNS} from dedup indexed by dedup_expiry where expires_at >= ?1 order by expires_at limit ?2"
    )
}

const UPLOADS: &str = "select sequence, chunks from upload where sequence > ?1 order by sequence limit ?2";

fn rows<T>(
    connection: &Connection,
    sql: &str,
    values: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    connection.prepare_cached(sql)?.query_map(values, read)?.collect()
}

/// Cuts a list that was read with [`one_more`] to its limit; `true`: nothing was cut.
fn cut<T>(rows: &mut Vec<T>, limit: usize) -> bool {
    let end = rows.len() <= limit;
    rows.truncate(limit);
    end
}

fn one_more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}

fn signed(sequence: Sequence) -> i64 {
    i64::try_from(sequence.0).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::progress_sql;
    use crate::schema;

    fn plan(sql: &str) -> String {
        let connection = Connection::open_in_memory().expect("memory opens");
        connection.execute_batch(schema::ENVIRONMENT).expect("the schema is valid");
        let mut statement = connection.prepare(&format!("explain query plan {sql}")).expect("it is valid");
        let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
        steps.collect::<Result<Vec<_>, _>>().expect("steps are text").join("\n")
    }

    #[test]
    fn each_scan_walks_its_index_from_its_key_and_sorts_nothing() {
        let ready = "SEARCH delivery USING INDEX delivery_ready (queue=?";
        let key = "priority_descending=? AND retried=? AND order_at=? AND rowid>?";
        assert_eq!(plan(&READY.ties_sql()), format!("{ready} AND {key})"));
        let key = "(priority_descending,retried,order_at)>(?,?,?)";
        assert_eq!(plan(&READY.beyond_sql()), format!("{ready} AND {key})"));
        assert_eq!(plan(&READY.all_sql()), format!("{ready})"));

        let due = "SEARCH delivery USING INDEX delivery_due (queue=? AND state=?";
        assert_eq!(plan(&DUE.ties_sql()), format!("{due} AND due_at=? AND rowid>?)"));
        assert_eq!(plan(&DUE.beyond_sql()), format!("{due} AND due_at>?)"));
        assert_eq!(plan(&DUE.all_sql()), format!("{due})"));

        let expiry = "SEARCH delivery USING INDEX delivery_expiry";
        assert_eq!(plan(&EXPIRY.ties_sql()), format!("{expiry} (expires_at=? AND rowid>?)"));
        assert_eq!(plan(&EXPIRY.beyond_sql()), format!("{expiry} (expires_at>?)"));
        assert_eq!(plan(&EXPIRY.all_sql()), "SCAN delivery USING INDEX delivery_expiry");

        assert_eq!(plan(&dedup_expiry_sql()), "SEARCH dedup USING INDEX dedup_expiry (expires_at>?)");
        let progress = "SEARCH delivery USING INDEX delivery_message (queue=? AND message=?)";
        assert_eq!(plan(&progress_sql()), progress);
        assert_eq!(plan(UPLOADS), "SEARCH upload USING INTEGER PRIMARY KEY (rowid>?)");
    }
}
