//! What the PostgreSQL store has to do, on a PostgreSQL of its own.

mod beside;
mod checks;
mod claims;
mod conformance;
mod documented;
mod failures;
mod lineages;
mod pooler;
mod provoked;
mod schema;
mod schema_text;
mod sql;
mod tls;
mod upkeep;
mod versions;

use millpond_store_postgres::{PostgresFactory, PostgresSettings};

/// A factory over a database's own schema.
fn factory(url: &str) -> PostgresFactory {
    PostgresFactory::open(url, PostgresSettings::default()).expect("the database is reachable")
}
