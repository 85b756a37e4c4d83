//! Transactions of which a page of the intake has a part only: the rest comes with the page, so that what one transaction wrote is taken in
//! by one commit and seen at once.
//!
//! What comes with a page is bounded. A transaction of which more than that lies behind the page comes in parts; one for which no room
//! is left begins the next page, and with it all behind it: transactions keep their order.

use std::collections::HashSet;

use millpond_store::{EXTERNAL_REST_BYTES, EXTERNAL_REST_COMMANDS, StoreError};
use tokio_postgres::Row;

use super::intake_columns;
use crate::row::get;

/// More rows than this of one transaction are neither counted nor read.
pub(crate) const REST_MOST: i64 = EXTERNAL_REST_COMMANDS.cast_signed() as i64 + 1;

/// Rows of one transaction behind a page; its index is the only one that these conditions can use.
macro_rules! behind {
    ($columns:expr) => {
        concat!(
            "select ",
            $columns,
            " from (select i.* from intake i where i.transaction = n.transaction::text::xid8 and i.id + 0 > $3 \
             order by i.id + 0 offset 0) i where i.environment = $1 limit $4"
        )
    };
}

/// How much of each transaction lies behind a page.
pub(crate) const SIZES: &str = concat!(
    "select n.transaction, r.count, r.bytes from unnest($2::bigint[]) n(transaction) cross join lateral \
     (select count(*) as count, coalesce(sum(coalesce(octet_length(b.data), 0) + coalesce(octet_length(b.attributes), 0) \
     + coalesce(octet_length(b.output), 0)), 0)::bigint as bytes from (",
    behind!("data, attributes, output"),
    ") b) r"
);
pub(crate) const REST: &str = concat!(
    "select r.* from unnest($2::bigint[]) n(transaction) cross join lateral (",
    behind!(intake_columns!()),
    ") r"
);

/// What of a page is taken in now, and with which rests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Together {
    whole: Vec<i64>,
    later: HashSet<i64>,
}

/// What of a transaction lies behind a page.
#[derive(Clone, Copy, Debug)]
struct Rest {
    transaction: i64,
    commands: usize,
    bytes: usize,
}

impl Together {
    /// `sizes`: what [`SIZES`] answers, in the order of the transactions on the page.
    pub(crate) fn choose(sizes: &[Row]) -> Result<Self, StoreError> {
        let rests: Vec<Rest> = sizes.iter().map(rest).collect::<Result<_, _>>()?;
        Ok(Self::of(&rests))
    }

    fn of(rests: &[Rest]) -> Self {
        let mut together = Self::default();
        let (mut commands, mut bytes) = (0, 0);
        let mut rests = rests.iter().copied();
        let fits = |commands, bytes| commands <= EXTERNAL_REST_COMMANDS && bytes <= EXTERNAL_REST_BYTES;
        for rest in rests.by_ref() {
            let comes_in_parts = !fits(rest.commands, rest.bytes);
            if rest.commands == 0 || comes_in_parts {
                continue;
            }
            (commands, bytes) = (commands + rest.commands, bytes + rest.bytes);
            if !fits(commands, bytes) {
                together.later.insert(rest.transaction);
                break;
            }
            together.whole.push(rest.transaction);
        }
        together.later.extend(rests.map(|rest| rest.transaction));
        together
    }

    /// Transactions whose rest comes with the page.
    pub(crate) fn whole(&self) -> Vec<i64> {
        self.whole.clone()
    }

    /// Whether a row of the page is taken in now.
    pub(crate) fn keeps(&self, row: &Row) -> bool {
        get::<i64>(row, 1).map_or(true, |transaction| !self.later.contains(&transaction))
    }
}

fn rest(row: &Row) -> Result<Rest, StoreError> {
    let size = |column| get::<i64>(row, column).map(|size| usize::try_from(size).unwrap_or(usize::MAX));
    Ok(Rest { transaction: get(row, 0)?, commands: size(1)?, bytes: size(2)? })
}

/// Transactions of a page, in the order of the first that each wrote.
pub(crate) fn transactions(rows: &[Row]) -> Result<Vec<i64>, StoreError> {
    let mut known = HashSet::new();
    let mut transactions = Vec::new();
    for row in rows {
        let transaction = get(row, 1)?;
        if known.insert(transaction) {
            transactions.push(transaction);
        }
    }
    Ok(transactions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rests: &[(i64, usize, usize)]) -> (Vec<i64>, Vec<i64>) {
        let rests: Vec<_> = rests
            .iter()
            .map(|&(transaction, commands, bytes)| Rest { transaction, commands, bytes })
            .collect();
        let together = Together::of(&rests);
        let mut later: Vec<_> = together.later.into_iter().collect();
        later.sort_unstable();
        (together.whole, later)
    }

    #[test]
    fn rests_come_with_a_page_while_there_is_room_and_transactions_keep_their_order() {
        const { assert!(EXTERNAL_REST_COMMANDS > 3_000 && EXTERNAL_REST_COMMANDS < 6_000) };
        assert_eq!(of(&[(1, 0, 0), (2, 3_000, 10), (3, 0, 0)]), (vec![2], vec![]));
        assert_eq!(of(&[(1, 3_000, 10), (2, 0, 0), (3, 3_000, 10), (4, 0, 0)]), (vec![1], vec![3, 4]));
        assert_eq!(of(&[(1, 2, 20 << 20), (2, 2, 20 << 20), (3, 1, 1)]), (vec![1], vec![2, 3]));
    }

    #[test]
    fn one_that_is_too_large_comes_in_parts_and_keeps_no_other() {
        let too_many = EXTERNAL_REST_COMMANDS + 1;
        assert_eq!(of(&[(1, too_many, 0), (2, 5, 5), (3, 1, EXTERNAL_REST_BYTES + 1)]), (vec![2], vec![]));
    }
}
