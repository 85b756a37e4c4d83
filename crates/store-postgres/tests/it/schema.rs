//! `schema.sql` says what the steps make.

use millpond_store_conformance::rows::Owner;
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
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

#[test]
fn a_schema_may_have_any_name() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let url = cluster.url("postgres");
    for name in ["a b", "100%", "o'clock", "say \"x\"", "%s'\"\\"] {
        let settings = PostgresSettings { schema: name.to_owned(), ..PostgresSettings::default() };
        let factory = PostgresFactory::open(&url, settings).expect(name);
        drop(Owner::open_named(&factory, "orgs/default/projects/default/envs/default"));
        let quoted = format!("\"{}\"", name.replace('"', "\"\""));
        let grant = format!(
            "select {quoted}.grant_access('pg_monitor'); set role pg_monitor; select * from {quoted}.refused"
        );
        cluster.sql("postgres", &grant).expect(name);
    }
}
