//! The driver's errors as the store's kinds. Nothing else in this crate looks at a driver's code.

use millpond_store::{StoreError, StoreErrorKind};
use tokio_postgres::Error;
use tokio_postgres::error::Severity;

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

/// Whether the server itself refused: then it is known that nothing happened. What ends the connection tells nothing about a
/// commit, nor does a pooler in between that has lost its server.
pub(crate) fn is_refusal(error: &Error) -> bool {
    error.as_db_error().is_some_and(|error| {
        // A pooler says the severity in one form only.
        let goes_on =
            error.parsed_severity().map_or(error.severity() == "ERROR", |said| said == Severity::Error);
        goes_on && tells_outcome(error.code().code())
    })
}

/// Whether an error of this state says that nothing happened.
fn tells_outcome(state: &str) -> bool {
    !state.starts_with("08") && !state.starts_with("57P") && state != "40003"
}

/// The kind of an error, if nothing happened.
pub(crate) fn kind_of(error: &Error) -> StoreErrorKind {
    let Some(state) = error.code() else {
        // A value that is not of the type that the statement names is no matter of the network.
        let damaged = error.to_string().starts_with("error deserializing")
            || error.to_string().starts_with("error serializing");
        return if damaged { StoreErrorKind::Corrupt } else { StoreErrorKind::Unavailable };
    };
    kind_of_state(state.code())
}

fn kind_of_state(state: &str) -> StoreErrorKind {
    match state {
        STATE_FENCED => StoreErrorKind::Fenced,
        STATE_CORRUPT => StoreErrorKind::Corrupt,
        // Serialization, a deadlock.
        "40001" | "40P01" => StoreErrorKind::Conflict,
        "53100" => StoreErrorKind::Full,
        // A right that was taken away comes back when it is given; a statement that is there already is a pooler's doing.
        "42501" | "42P05" => StoreErrorKind::Unavailable,
        _ => match state.get(..2) {
            // Data exceptions, broken constraints, tables or columns that are not there, damaged pages.
            Some("21" | "22" | "23" | "42" | "XX") => StoreErrorKind::Corrupt,
            // Connections, resources, an operator, a read-only standby, a lock that is held: all of it may pass.
            _ => StoreErrorKind::Unavailable,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_state_has_its_kind() {
        let kinds: &[(StoreErrorKind, &[&str])] = &[
            (StoreErrorKind::Fenced, &["MP001"]),
            (
                StoreErrorKind::Corrupt,
                &["MP002", "21000", "22003", "23505", "42P01", "42703", "XX000", "XX001"],
            ),
            (StoreErrorKind::Conflict, &["40001", "40P01"]),
            (StoreErrorKind::Full, &["53100"]),
            (
                StoreErrorKind::Unavailable,
                &["08006", "08P01", "0A000", "25006", "25P02", "25P03", "26000", "28P01"],
            ),
            (
                StoreErrorKind::Unavailable,
                &["3D000", "40003", "42501", "42P05", "53000", "53200", "53300", "53400"],
            ),
            (
                StoreErrorKind::Unavailable,
                &["54000", "55P03", "57014", "57P01", "57P02", "57P03", "57P05", "58030"],
            ),
        ];
        for (kind, states) in kinds {
            for state in *states {
                assert_eq!(kind_of_state(state), *kind, "{state}");
            }
        }
    }

    #[test]
    fn a_lost_connection_does_not_tell_what_became_of_a_commit() {
        for state in ["08006", "08P01", "57P01", "57P02", "57P03", "40003"] {
            assert!(!tells_outcome(state), "{state}");
        }
        for state in ["40001", "53100", "57014", "25006", "MP001"] {
            assert!(tells_outcome(state), "{state}");
        }
    }
}
