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

/// Writes rows that almost every commit rewrites, each in the place of its newest version, or as a new row. `$columns` of `$arrays` are
/// those of the table behind the environment, in its order, but for the last, `written`, which is `$commit`. What finds the newest is
/// no walk over older versions, which stay while some transaction is open (`migrations/0005_newest.sql`).
macro_rules! put_newest {
    ($table:literal, $arrays:literal, $columns:literal, $condition:literal, $set:literal, $commit:literal) => {
        concat!(
            "with placed as (select n.*, (select t.ctid from ",
            $table,
            " t where t.environment = $1 and ",
            $condition,
            " order by t.written desc limit 1) as place from unnest(",
            $arrays,
            ") n(",
            $columns,
            ")), changed as (update ",
            $table,
            " c set ",
            $set,
            ", written = ",
            $commit,
            " from placed n where c.ctid = n.place) insert into ",
            $table,
            " (environment, ",
            $columns,
            ", written) select $1, ",
            $columns,
            ", ",
            $commit,
            " from placed where place is null"
        )
    };
}

pub(crate) use {delete_keyed, lookup, put_newest};
