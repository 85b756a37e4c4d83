//! The store that the server runs on: files in a data directory, or what `MILLPOND_TEST_STORE` says.
//!
//! A test names a data directory either way. On PostgreSQL that stands for a schema: the same directory is the same schema
//! for as long as the test's process runs. The schemas stay in the database, which is expected to be one for tests;
//! `with-postgres` gives one and takes it away.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use millpond_test_postgres::{Kind, STORE, unique_name};

/// What `millpond serve` is told about its store.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Files(PathBuf),
    Schema { url: String, name: String },
}

impl Store {
    /// The store that tests run on, which this directory stands for.
    pub(crate) fn of(data_dir: &Path) -> Self {
        match kind() {
            Kind::Postgres(url) => Self::Schema { url, name: schema(data_dir) },
            Kind::Memory | Kind::Sqlite => Self::Files(data_dir.to_owned()),
        }
    }

    /// The directory itself, for a test that is about its files.
    ///
    /// # Panics
    /// The tests run on another store. There this test can neither pass nor fail: it has to be left out by its name.
    #[track_caller]
    pub(crate) fn files(data_dir: &Path) -> Self {
        let kind = kind();
        assert!(
            kind == Kind::Sqlite,
            "about files: on {kind} it has to be in tests/left-out-on-postgres.txt"
        );
        Self::Files(data_dir.to_owned())
    }

    pub(crate) fn arguments(&self) -> Vec<OsString> {
        match self {
            Self::Files(directory) => vec!["--data-dir".into(), directory.into()],
            Self::Schema { url, name } => {
                vec!["--database-url".into(), url.into(), "--database-schema".into(), name.into()]
            }
        }
    }
}

/// What the binary has unless told is not the store in memory.
fn kind() -> Kind {
    let kind = match std::env::var_os(STORE) {
        None => Kind::Sqlite,
        Some(_) => Kind::of_tests(),
    };
    assert!(kind != Kind::Memory, "{STORE}: the binary has no store in memory");
    kind.announce();
    kind
}

fn schema(data_dir: &Path) -> String {
    static NAMES: Mutex<Option<HashMap<PathBuf, String>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    names.entry(data_dir.to_owned()).or_insert_with(unique_name).clone()
}
