//! Prints the whole schema, as `schema.sql` keeps it.

#[path = "../tests/it/schema_text.rs"]
mod schema_text;

use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_test_postgres::Cluster;

fn main() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let settings = PostgresSettings { schema: schema_text::SCHEMA.to_owned(), ..PostgresSettings::default() };
    drop(PostgresFactory::open(&cluster.url("postgres"), settings).expect("it is made"));
    print!("{}", schema_text::text(&cluster, "postgres").0);
}
