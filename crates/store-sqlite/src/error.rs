//! SQLite's errors as the store's kinds. Nothing else in this crate looks at a driver's code.

use millpond_store::{StoreError, StoreErrorKind};
use rusqlite::{Error, ErrorCode};

/// Something went wrong before COMMIT, or in a read: nothing happened.
pub(crate) fn before_commit(context: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| {
        let kind = match &error {
            Error::SqliteFailure(failure, _) => kind_of(failure.code),
            _ => StoreErrorKind::Corrupt,
        };
        StoreError::new(kind, context).with_source(error)
    }
}

/// COMMIT failed: after an error of input or output nobody knows whether the log holds it.
pub(crate) fn at_commit(context: &'static str) -> impl FnOnce(Error) -> StoreError {
    move |error| match &error {
        Error::SqliteFailure(failure, _) if failure.code == ErrorCode::SystemIoFailure => {
            StoreError::new(StoreErrorKind::Unknown, context).with_source(error)
        }
        _ => before_commit(context)(error),
    }
}

/// An error of the file system, outside SQLite.
pub(crate) fn of_file(context: impl Into<String>) -> impl FnOnce(std::io::Error) -> StoreError {
    let context = context.into();
    move |error| {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => StoreErrorKind::Full,
            _ => StoreErrorKind::Unavailable,
        };
        StoreError::new(kind, context).with_source(error)
    }
}

fn kind_of(code: ErrorCode) -> StoreErrorKind {
    match code {
        ErrorCode::DiskFull => StoreErrorKind::Full,
        ErrorCode::ConstraintViolation
        | ErrorCode::DatabaseCorrupt
        | ErrorCode::NotADatabase
        | ErrorCode::SchemaChanged
        | ErrorCode::TooBig
        | ErrorCode::TypeMismatch
        | ErrorCode::Unknown => StoreErrorKind::Corrupt,
        _ => StoreErrorKind::Unavailable,
    }
}
