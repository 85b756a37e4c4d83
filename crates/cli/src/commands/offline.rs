//! What the commands share that open a data directory themselves.

use std::fmt::Write as _;

use millpond_store::{StoreError, StoreErrorKind};

use crate::exit::{Exit, Failure};

/// The name of an environment, as `--environment` takes it.
pub(crate) fn environment_name(text: &str) -> Result<String, String> {
    let name = millpond_server::config::environment_name(text);
    name.map_err(|_| format!("{text} is no environment, expected orgs/ORG/projects/PROJECT/envs/ENV"))
}

/// A store failed. `what` completes "cannot".
pub(crate) fn store_failure(what: &str, error: &StoreError) -> Failure {
    let mut why = error.context.clone();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        // A string takes everything.
        let _ = write!(why, ": {error}");
        cause = error.source();
    }
    let failure = Failure::new(Exit::Refused, format!("cannot {what}"), why);
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
