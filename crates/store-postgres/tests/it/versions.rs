//! Which databases are served. The version: the same test on each, with whichever is installed.

use millpond_store::{StoreErrorKind, StoreFactory as _};
use millpond_store_postgres::{PostgresFactory, PostgresSettings};

use crate::failures::{DATABASE, ENVIRONMENT, cluster, sql};

#[test]
fn a_database_is_served_if_it_is_of_version_14_or_later() {
    let cluster = cluster();
    let said = sql(
        &cluster,
        "select current_setting('server_version_num')::int >= 140000, current_setting('server_version')",
    );
    let [Some(is_served), Some(version)] = &said[0][..] else { panic!("{said:?}") };
    println!("on PostgreSQL {version}");
    match PostgresFactory::open(&cluster.url(DATABASE), PostgresSettings::default()) {
        Ok(factory) => {
            assert_eq!(is_served, "t", "{version}");
            assert!(factory.create_environment(ENVIRONMENT).expect("it works"));
        }
        Err(error) => {
            assert_eq!(is_served, "f", "{version}: {error}");
            assert_eq!(error.kind, StoreErrorKind::Corrupt);
            assert!(error.to_string().contains(version.as_str()), "{error}");
            let schemas = sql(&cluster, "select 1 from pg_namespace where nspname = 'millpond'");
            assert!(schemas.is_empty(), "nothing is stored where nothing is served");
        }
    }
}

#[test]
fn a_database_that_cannot_hold_every_text_is_refused() {
    let cluster = cluster();
    sql(&cluster, "create database latin encoding 'LATIN1' locale 'C' template template0");
    let refused =
        PostgresFactory::open(&cluster.url("latin"), PostgresSettings::default()).expect_err("LATIN1");
    assert_eq!(refused.kind, StoreErrorKind::Corrupt);
    assert!(refused.to_string().contains("encoding is LATIN1"), "{refused}");
}
