//! The store that tests run on: the one in memory, or what `MILLPOND_TEST_STORE` says.
//!
//! | `MILLPOND_TEST_STORE` | each store is |
//! | --- | --- |
//! | not set, `memory:` | in memory |
//! | `sqlite:` | a data directory of its own below the temporary one |
//! | `postgres://…` | a schema of its own in that database; `with-postgres` gives one |
//!
//! [`new_store`] is all that a test needs. What it makes goes with the last handle to it;
//! what a process leaves behind that ends before, as a directory the next test takes away, and as a schema with its database. A test that wants to see what is
//! stored asks [`TestStore::stored`], which reads it by the store's own reader. A wrong value is a panic: no test may run
//! on another store than was asked for.

#![warn(missing_docs)]

mod apart;
mod directory;
mod place;
mod stored;
mod watch;

use std::sync::Arc;

use millpond_store::{Opened, Store, StoreError, StoreFactory, Wake};

pub use millpond_test_postgres::Kind;
pub use stored::Stored;

use apart::apart;
use place::Place;
use watch::{Watch, WatchedStore};

/// A store that is empty, of the kind that tests run on.
///
/// # Panics
/// It cannot be made.
pub fn new_store() -> TestStore {
    let kind = Kind::of_tests();
    kind.announce();
    TestStore { place: Arc::new(apart(|| Place::new(kind))), watch: Arc::default() }
}

/// A store of a test. Clones are the same store, whose rows go with the last of them.
#[derive(Clone)]
pub struct TestStore {
    place: Arc<Place>,
    watch: Arc<Watch>,
}

impl TestStore {
    /// Rows of an environment as the store's own reader finds them: all that commits have left there since this store was
    /// made, and nothing that they have removed.
    ///
    /// # Panics
    /// The environment was never opened; or it cannot be read.
    pub fn stored(&self, environment: &str) -> Stored {
        apart(|| self.watch.stored(environment))
    }

    fn factory(&self) -> &dyn StoreFactory {
        self.place.factory()
    }
}

impl Default for TestStore {
    fn default() -> Self {
        new_store()
    }
}

impl StoreFactory for TestStore {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let (store, opened) = self.factory().open(environment)?;
        let store = WatchedStore::new(store, Arc::clone(&self.watch), environment)?;
        Ok((Box::new(store), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.factory().create_environment(environment)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.factory().has_environment(environment)
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.factory().set_next_due(environment, next_due)
    }

    fn hold(&self) -> Option<u64> {
        self.factory().hold()
    }

    fn watch(&self, wake: Wake) {
        self.factory().watch(wake);
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.factory().due_environments(now, limit)
    }
}
