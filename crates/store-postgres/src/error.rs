//! The driver's errors as the store's kinds. Nothing else in this crate looks at a driver's code.

use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

/// Raised by the statement that moves the fence.
pub(crate) const STATE_FENCED: &str = "MP001";
/// Raised where rows are not there that have to be.
pub(crate) const STATE_CORRUPT: &str = "MP002";

/// Something went wrong before a commit was sent, or in a read: nothing happened.
pub(crate) fn before_commit(context: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| StoreError::new(kind_of(&error), context).with_source(told(error))
}

/// What the server says, with the connection's part left out.
fn told(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error.as_db_error() {
        Some(database) => format!("{} (SQLSTATE {})", database.message(), database.code().code()).into(),
        None => Box::new(error),
    }
}

/// Whether the server itself refused: then it is known that nothing happened.
pub(crate) fn is_refusal(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| !error.code().code().starts_with("57P"))
}

/// The kind of an error, if nothing happened.
pub(crate) fn kind_of(error: &Error) -> StoreErrorKind {
    let Some(state) = error.code() else {
        // A value that is not of the type that the statement names is no matter of the network.
        let damaged = error.to_string().starts_with("error deserializing")
            || error.to_string().starts_with("error serializing");
        return if damaged { StoreErrorKind::Corrupt } else { StoreErrorKind::Unavailable };
    };
    match state.code() {
        STATE_FENCED => return StoreErrorKind::Fenced,
        STATE_CORRUPT => return StoreErrorKind::Corrupt,
        _ => {}
    }
    if *state == SqlState::T_R_SERIALIZATION_FAILURE || *state == SqlState::T_R_DEADLOCK_DETECTED {
        return StoreErrorKind::Conflict;
    }
    match state.code().get(..2) {
        Some("53") if *state == SqlState::DISK_FULL => StoreErrorKind::Full,
        // Data exceptions, broken constraints, tables or columns that are not there, damaged pages.
        Some("21" | "22" | "23" | "42" | "XX") => StoreErrorKind::Corrupt,
        // Connections, resources, an operator, a read-only standby, a lock that is held: all of it may pass.
        _ => StoreErrorKind::Unavailable,
    }
}
