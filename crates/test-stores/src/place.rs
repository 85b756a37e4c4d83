//! Where the rows of a test are: opened, and taken away with it.

use std::any::Any;

use millpond_store::{MemoryDisk, StoreFactory};
use millpond_store_postgres::{PostgresFactory, PostgresSettings};
use millpond_store_sqlite::{SqliteFactory, SqliteSettings};
use millpond_test_postgres::{Kind, Schema};

use crate::apart::apart;
use crate::directory;

/// A server's reserve would be written for each test.
const RESERVE_BYTES: u64 = 1 << 20;

/// A factory, and what is taken away when it is dropped.
pub(crate) struct Place {
    // Until it is dropped; in this order, in which they go.
    parts: Option<(Box<dyn StoreFactory>, Box<dyn Any + Send + Sync>)>,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Memory => Self::of(MemoryDisk::new(), ()),
            Kind::Postgres(url) => {
                let schema = Schema::of(&url);
                let settings =
                    PostgresSettings { schema: schema.name().to_owned(), ..PostgresSettings::default() };
                let factory = PostgresFactory::open(&url, settings).expect("it opens");
                Self::of(factory, schema)
            }
            Kind::Sqlite => {
                let directory = directory::new();
                let settings = SqliteSettings { reserve_bytes: RESERVE_BYTES, ..SqliteSettings::default() };
                let factory = SqliteFactory::open(directory.path(), settings);
                Self::of(factory.expect("it opens"), directory)
            }
        }
    }

    fn of(factory: impl StoreFactory + 'static, below: impl Any + Send + Sync) -> Self {
        Self { parts: Some((Box::new(factory), Box::new(below))) }
    }

    pub(crate) fn factory(&self) -> &dyn StoreFactory {
        let (factory, _) = self.parts.as_ref().expect("it is not dropped yet");
        factory.as_ref()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let parts = self.parts.take();
        apart(|| drop(parts));
    }
}
