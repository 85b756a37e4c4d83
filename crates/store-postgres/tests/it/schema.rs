//! `schema.sql` says what the steps make.

use millpond_test_postgres::Cluster;

use crate::factory;
use crate::schema_text::{SCHEMA, text};

const KEPT: &str = include_str!("../../schema.sql");

#[test]
fn the_schema_that_is_kept_is_the_one_that_the_steps_make() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    drop(factory(&cluster.url("postgres")));
    cluster.create_database("kept").expect("it is made");
    cluster.sql("kept", KEPT).expect("it is valid");
    let (stepped, version) = text(&cluster, "postgres");
    let (kept, _) = text(&cluster, "kept");
    assert_eq!(lines(&kept), lines(&stepped));
    assert!(stepped.contains(&format!("create view {SCHEMA}.messages")), "{stepped}");
    let told_by =
        KEPT.lines().find_map(|line| line.strip_prefix("-- As PostgreSQL ")?.strip_suffix(" tells it."));
    let command = "cargo run -p millpond-store-postgres --example schema > crates/store-postgres/schema.sql";
    // Another version words views and functions in another way.
    assert!(told_by != Some(&version) || KEPT == stepped, "schema.sql is old; write it anew: {command}");
}

/// Lines, so that a difference can be read.
fn lines(text: &str) -> Vec<&str> {
    text.lines().collect()
}
