//! Schemas of one's own.

use millpond_test_postgres::{Cluster, Schema};

#[test]
fn schemas_are_apart_and_go_with_their_owners() {
    let cluster = Cluster::start().expect("PostgreSQL runs");
    let url = cluster.create_database("tests").expect("it is made");
    let (one, two) = (Schema::of(&url), Schema::of(&url));
    for schema in [&one, &two] {
        schema.sql(&format!("create schema {}", schema.name())).expect("it is made");
        schema.sql("create table t (n integer); insert into t values (1)").expect("it is made");
    }
    let schemas = || {
        let sql = "select count(*) from pg_namespace where nspname like 'millpond_test%'";
        cluster.sql("tests", sql).expect("an answer")[0][0].clone().expect("a number")
    };
    assert_eq!((one.sql("select n from t").expect("an answer").len(), schemas()), (1, "2".to_owned()));
    drop(one);
    assert_eq!((two.sql("select n from t").expect("an answer").len(), schemas()), (1, "1".to_owned()));
    // One that nobody has made.
    drop(Schema::of(&url));
    drop(two);
    assert_eq!(schemas(), "0");
}
