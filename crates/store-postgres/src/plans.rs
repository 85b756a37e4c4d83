//! The plans of what the server asks again and again: the same whatever the planner thinks of a table.

use std::collections::HashMap;

use millpond_test_postgres::Cluster;

use crate::session::preparation;
use crate::write::{messages, queues};
use crate::{external, reader, scan, sweep, watcher, write};

/// Statements whose order or bound is that of an index over a whole environment, and which read no more of it than they answer.
const WALKS: &[&str] = &[scan::EXPIRY, scan::UPLOADS, external::PAGE];

/// Statements that take the orders over all queues.
const BY_EXPIRY: &[&str] = &[scan::DEDUP_EXPIRY, scan::EXPIRY, scan::EXPIRY_AFTER];

const STATEMENTS: &[&str] = &[
    reader::CHUNK,
    reader::CONTENTS,
    reader::DEDUP,
    reader::DELIVERIES,
    reader::PROGRESS,
    scan::DEDUP_EXPIRY,
    scan::DUE,
    scan::DUE_AFTER,
    scan::EXPIRY,
    scan::EXPIRY_AFTER,
    scan::READY,
    scan::READY_AFTER,
    scan::UPLOADS,
    write::END_CLAIMS,
    write::FENCE,
    write::TAKE_EXTERNAL,
    reader::COMMIT_NUMBER,
    messages::COPY_CHUNKS,
    messages::COPY_MESSAGES,
    messages::REMOVE_CHUNKS,
    messages::REMOVE_DEDUP,
    messages::REMOVE_DELIVERIES,
    messages::REMOVE_UPLOADS,
    messages::UPDATE_DELIVERIES,
    queues::CLEAR_SEGMENTS,
    queues::REMOVE_QUEUES,
    queues::REMOVE_RUNS,
    queues::REMOVE_SEGMENTS,
    queues::PUT_COUNTERS,
    queues::PUT_LOW_WATER,
    queues::PUT_RUNS,
    external::CLAIM,
    external::CLAIMED,
    external::PAGE,
    external::RAISE_FLOOR,
    external::REST,
    external::SIZES,
    sweep::MARK,
    sweep::REMOVE,
    watcher::LATE,
    watcher::NEW,
];

/// How many parameters a statement has.
fn parameters(statement: &str) -> usize {
    (1..).take_while(|number| statement.contains(&format!("${number}"))).count()
}

/// The columns of each index, in order.
type Indexes = HashMap<String, Vec<String>>;

fn indexes(cluster: &Cluster, database: &str) -> Indexes {
    let sql = "select c.relname, string_agg(pg_get_indexdef(i.indexrelid, n, true), ',' order by n) from pg_index i \
         join pg_class c on c.oid = i.indexrelid cross join generate_series(1, i.indnkeyatts) n \
         where c.relnamespace = 'millpond'::regnamespace group by 1";
    let rows = cluster.sql(database, sql).expect("the server runs");
    let columns = |columns: String| columns.split(',').map(|column| bare(column).to_owned()).collect();
    rows.into_iter()
        .map(|row| {
            let [name, keys] = row.try_into().expect("two columns");
            (name.expect("a name"), columns(keys.expect("an index has columns")))
        })
        .collect()
}

fn bare(column: &str) -> &str {
    column.trim_matches(['(', ')'])
}

/// The columns that a part of an index condition is about, and whether rows are compared, of which the walk has to end at a bound.
fn conditioned(part: &str) -> (Vec<&str>, bool) {
    let part = part.trim_start_matches('(');
    let operator = [" <= ", " >= ", " = ", " < ", " > "].into_iter().find(|operator| part.contains(operator));
    let left = operator.and_then(|operator| part.split(operator).next()).unwrap_or(part);
    match left.strip_prefix("ROW(") {
        Some(row) => {
            (bare(row).split(", ").collect(), operator.is_some_and(|operator| operator.contains('<')))
        }
        None => (vec![bare(left)], false),
    }
}

/// Whether a scan of an index reads more than it answers: it passes over one of the columns, or does not end where the condition does.
/// (A walk ends at a comparison of rows only if their first column decides.)
fn walks_too_far(indexes: &Indexes, scan: &str, condition: &str) -> bool {
    let Some(index) = scan.split(" using ").nth(1).and_then(|rest| rest.split(' ').next()) else {
        return false;
    };
    let parts: Vec<_> = condition.split(" AND ").map(conditioned).collect();
    let used: Vec<_> = parts.iter().flat_map(|(columns, _)| columns).copied().collect();
    let mut gap = false;
    let leaves_out = indexes[index].iter().any(|column| {
        gap |= !used.contains(&column.as_str());
        gap && used.contains(&column.as_str())
    });
    leaves_out || parts.iter().any(|(_, is_bound)| *is_bound)
}

/// What is wrong with a plan: it reads rows that it does not want.
fn faults(statement: &str, plan: &str, indexes: &Indexes) -> Vec<String> {
    let walks = WALKS.contains(&statement);
    let lines: Vec<_> = plan.lines().map(str::trim).collect();
    let is_bad = |(number, line): (usize, &&str)| {
        // Of the newest row, of which there is one.
        let newest = ["head_pkey", "intake_floor_pkey"].map(|key| format!("Index Scan Backward using {key}"));
        let is_newest = number > 0 && newest.iter().any(|scan| lines[number - 1].contains(scan));
        let too_far = number > 0
            && line
                .strip_prefix("Index Cond: (")
                .is_some_and(|condition| walks_too_far(indexes, lines[number - 1], condition));
        too_far
            || ["Seq Scan", "Join Filter", "Sort", "Bitmap", "Hash", "Merge"]
                .iter()
                .any(|bad| line.contains(bad))
            || (*line == "Index Cond: (environment = $1)" && !walks && !is_newest)
            || (line.contains("_expiry on ") && !BY_EXPIRY.contains(&statement))
            || (line.starts_with("Filter:")
                && !is_of_one_row(statement)
                && *line != "Filter: (place IS NULL)")
    };
    let found = lines.iter().enumerate().filter(|line| is_bad((line.0, line.1)));
    found.map(|(_, line)| (*line).to_owned()).collect()
}

/// What is asked besides the key, of the one row that has it, or of the rows of a page.
fn is_of_one_row(statement: &str) -> bool {
    let of_one = [external::CLAIM, sweep::MARK, write::FENCE, write::TAKE_EXTERNAL];
    // Or of the commands of one transaction.
    of_one.contains(&statement) || [external::REST, external::SIZES].contains(&statement)
}

fn check(cluster: &Cluster, database: &str, state: &str) {
    let indexes = indexes(cluster, database);
    let mut bad = Vec::new();
    for statement in STATEMENTS {
        let nothing = vec!["null"; parameters(statement)].join(", ");
        let asked = format!(
            "{}; prepare asked as {statement}; explain (costs off) execute asked({nothing})",
            preparation("millpond")
        );
        let rows = cluster.sql(database, &asked).expect("it can be planned");
        let plan: Vec<_> = rows.into_iter().filter_map(|row| row.into_iter().next().flatten()).collect();
        let plan = plan.join("\n");
        assert!(plan.contains("Scan") || plan.contains("Result"), "{statement}\n{plan}");
        let found = faults(statement, &plan, &indexes);
        if !found.is_empty() {
            bad.push(format!("{state}: {statement}\n{plan}\n{found:?}\n"));
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// Rows of one environment in each table that grows.
const FILL: &str = "\
    insert into delivery select 1, n, 0, n % 6, 0, false, n, n, n, n, 1, 0, 0, n, n, n, n, null, null, null, 1, 0, null, 0 \
        from generate_series($from, $to) n; \
    insert into message select 1, n, '{}', 0, 0, 0, '' from generate_series($from, $to) n; \
    insert into dedup select 1, n, n::text, '', n, n, 1, 1, null, n from generate_series($from, $to) n; \
    insert into chunk select 1, n, 0, '' from generate_series($from, $to) n; \
    insert into upload select 1, n, 1 from generate_series($from, $to) n; \
    insert into head (environment, commit_seq) select 1, n from generate_series($from, $to) n; \
    insert into counters select 1, 1, n, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n from generate_series($from, $to) n; \
    insert into low_water select 1, 1, 1, 0, false, n, n, n from generate_series($from, $to) n; \
    insert into segment select 1, 0, n, '' from generate_series($from, $to) n; \
    insert into run select 1, 0, n, n, n from generate_series($from, $to) n; \
    insert into settlement select 1, n, n, true, null from generate_series($from, $to) n; \
    insert into intake (id, environment, transaction, kind) select n, 1, '1', 1 from generate_series($from, $to) n";

const EMPTY: &str = "\
    delete from delivery; delete from message; delete from dedup; delete from chunk; delete from upload; delete from head; \
    delete from counters; delete from low_water; delete from segment; delete from run; delete from settlement; delete from intake";

#[test]
fn plans_do_not_depend_on_what_is_known_of_the_tables() {
    let cluster = Cluster::start_with(&[("autovacuum", "off")]).expect("PostgreSQL is installed");
    let url = cluster.create_database("planned").expect("the server runs");
    let factory = crate::PostgresFactory::open(&url, crate::PostgresSettings::default()).expect("it opens");
    drop(factory);
    let sql = |text: &str| {
        cluster.sql("planned", &format!("set search_path = millpond; {text}")).expect("the server runs");
    };
    let fill = |from: u64, to: u64| {
        sql(&FILL.replace("$from", &from.to_string()).replace("$to", &to.to_string()));
    };
    check(&cluster, "planned", "new");
    sql("analyze");
    check(&cluster, "planned", "analyzed when it was empty");
    fill(1, 1);
    sql("analyze");
    check(&cluster, "planned", "analyzed with one row");
    fill(2, 20_000);
    check(&cluster, "planned", "grown since");
    sql("analyze");
    check(&cluster, "planned", "analyzed with many rows");
    // The table is short then, its indexes are not.
    sql(EMPTY);
    cluster.sql("planned", "vacuum (analyze)").expect("the server runs");
    check(&cluster, "planned", "emptied");
    fill(1, 20_000);
    check(&cluster, "planned", "filled again");
}
