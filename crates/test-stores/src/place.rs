//! Where the rows of a test are: opened, and taken away with it.

use std::any::Any;

use millpond_store::{MemoryDisk, StoreFactory};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};
use millpond_test_postgres::Kind;

/// A server's reserve would be written for each test.
const RESERVE_BYTES: u64 = 1 << 20;

/// A factory, and what is taken away when it is dropped.
pub(crate) struct Place {
    // In this order, in which they are dropped.
    factory: Box<dyn StoreFactory>,
    _below: Box<dyn Any + Send + Sync>,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Self { factory: Box::new(MemoryDisk::new()), _below: Box::new(()) },
            // Here the PostgreSQL store plugs in: a factory on a `Schema` of that URL, which is what lies below.
            Kind::Postgres(url) => panic!("{url}: there is no store for PostgreSQL yet"),
            Kind::Sqlite => {
                let directory = tempfile::Builder::new().prefix("millpond-test-").tempdir();
                let directory = directory.expect("a directory can be made");
                let settings = SqliteSettings { reserve_bytes: RESERVE_BYTES, ..SqliteSettings::default() };
                let factory = SqliteFactory::open(directory.path(), settings);
                Self { factory: Box::new(factory.expect("it opens")), _below: Box::new(directory) }
            }
        }
    }

    pub(crate) fn factory(&self) -> &dyn StoreFactory {
        self.factory.as_ref()
    }
}
