//! What the commands share that open a data directory or a database themselves.

use std::fmt::{self, Display, Write as _};
use std::path::{Path, PathBuf};

use millpond_server::config::Database;
use millpond_store::{Snapshots, StoreError, StoreErrorKind, StoreFactory};

use crate::exit::{Exit, Failure, Outcome};
use crate::serve_arguments::DatabaseArguments;
use crate::wiring;

/// The name of an environment, as `--environment` takes it.
pub(crate) fn environment_name(text: &str) -> Result<String, String> {
    let name = millpond_server::config::environment_name(text);
    name.map_err(|_| format!("{text} is no environment, expected orgs/ORG/projects/PROJECT/envs/ENV"))
}

/// Where environments are.
#[derive(Debug)]
pub(crate) enum Place {
    /// A schema of a database.
    Database(Database),
    /// A data directory, or a backup.
    Directory(PathBuf),
}

impl Display for Place {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(database) => database.fmt(formatter),
            Self::Directory(path) => path.display().fmt(formatter),
        }
    }
}

impl Place {
    /// The one that was named. `what` completes "cannot".
    pub(crate) fn of(what: &str, directory: Option<&Path>, database: &DatabaseArguments) -> Outcome<Self> {
        let refused = |why: &str| {
            let advice =
                "give --data-dir DIR or --database-url URL, not both; MILLPOND_DATABASE_URL counts as given";
            Err(Failure::usage(format!("cannot {what}"), why).advise(advice))
        };
        match (directory, database.database()) {
            (Some(directory), None) => Ok(Self::Directory(directory.to_owned())),
            (None, Some(database)) => Ok(Self::Database(database)),
            (None, None) => refused("neither a directory nor a database is named"),
            (Some(_), Some(_)) => refused("both a directory and a database are named"),
        }
    }

    /// What can be exported of it.
    pub(crate) fn snapshots(&self) -> Result<Box<dyn Snapshots>, StoreError> {
        match self {
            Self::Database(database) => wiring::snapshots_of_database(database),
            Self::Directory(path) => wiring::snapshots(path),
        }
    }

    /// Takes it, making it if there is none.
    pub(crate) fn make(&self) -> Result<Box<dyn StoreFactory>, StoreError> {
        Ok(match self {
            Self::Database(database) => Box::new(wiring::open_database(database, false)?),
            Self::Directory(path) => Box::new(wiring::make_directory(path)?),
        })
    }

    /// It failed. `what` completes "cannot".
    pub(crate) fn failure(&self, what: &str, error: &StoreError) -> Failure {
        if matches!(self, Self::Directory(_)) {
            return store_failure(what, error);
        }
        let failure =
            Failure::new(Exit::Refused, format!("cannot {what}"), format!("{self}: {}", told(error)));
        failure.advise(match error.kind {
            StoreErrorKind::Unavailable if error.context.starts_with("another server") => {
                "an export reads beside a server, anything else waits until it is stopped"
            }
            StoreErrorKind::Unavailable if error.context.contains("is not taken in yet") => {
                "let `millpond serve` run on it for a moment, then try again"
            }
            StoreErrorKind::Full => "make room for the database",
            StoreErrorKind::Fenced => "a server has taken the schema meanwhile: stop it, and try again",
            _ => "check the address, the name of the schema, and what the role may do there",
        })
    }
}

/// What went wrong, with its causes.
fn told(error: &StoreError) -> String {
    let mut why = error.context.clone();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // A string takes everything.
        let _ = write!(why, ": {error}");
        cause = error.source();
    }
    why
}

/// A data directory failed. `what` completes "cannot".
pub(crate) fn store_failure(what: &str, error: &StoreError) -> Failure {
    let failure = Failure::new(Exit::Refused, format!("cannot {what}"), told(error));
    match error.kind {
        StoreErrorKind::Unavailable if error.context.starts_with("another process serves") => failure.advise(
            "`millpond backup --server URL` has the server make a backup, which `export --data-dir` and `restore --from` take; \
             anything else waits until the server is stopped",
        ),
        StoreErrorKind::Corrupt => failure.advise("take another copy, if there is one; nothing was changed"),
        StoreErrorKind::Full => failure.advise("make room on the disk"),
        _ => failure.advise("check the path, and who may read and write there"),
    }
}
