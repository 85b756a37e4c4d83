//! The plans of what the server asks again and again: the same whatever the planner thinks of a table.

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

/// What is wrong with a plan: it reads rows that it does not want.
fn faults(statement: &str, plan: &str) -> Vec<String> {
    let walks = WALKS.contains(&statement);
    let lines: Vec<_> = plan.lines().map(str::trim).collect();
    let is_bad = |(number, line): (usize, &&str)| {
        // Of the newest row, of which there is one.
        let newest = ["head_pkey", "intake_floor_pkey"].map(|key| format!("Index Scan Backward using {key}"));
        let is_newest = number > 0 && newest.iter().any(|scan| lines[number - 1].contains(scan));
        ["Seq Scan", "Join Filter", "Sort", "Bitmap", "Hash", "Merge"].iter().any(|bad| line.contains(bad))
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
    [external::CLAIM, sweep::MARK, write::FENCE, write::TAKE_EXTERNAL].contains(&statement)
}

fn check(cluster: &Cluster, database: &str, state: &str) {
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
        let found = faults(statement, &plan);
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
}
