//! Rows by their keys.
//!
//! A join of keys with a table is planned by how many rows the table is thought to have; right after it was empty that is wrong by orders
//! of magnitude, and the plan may well walk over the whole environment for each commit. In these forms there is one plan only: each key
//! is looked up for itself (`offset 0` keeps a subquery from being merged into a join), and what is found is written by its place.

/// Rows of a table as `t`, one lookup a key: `from` this. `$keys` is a list of keys, such as `unnest($2::bigint[]) n(sequence)`.
macro_rules! lookup {
    ($keys:literal, $table:literal, $condition:literal) => {
        concat!(
            $keys,
            " cross join lateral (select t.* from ",
            $table,
            " t where t.environment = $1 and ",
            $condition,
            " offset 0) t"
        )
    };
}

/// Deletes rows of a table by their keys.
macro_rules! delete_keyed {
    ($table:literal, $keys:literal, $condition:literal) => {
        concat!(
            "delete from ",
            $table,
            " where ctid = any(array(select t.place from ",
            $keys,
            " cross join lateral (select t.ctid as place from ",
            $table,
            " t where t.environment = $1 and ",
            $condition,
            " offset 0) t))"
        )
    };
}

pub(crate) use {delete_keyed, lookup};
