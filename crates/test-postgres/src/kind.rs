//! Which store tests run on.

use std::fmt;
use std::io::Write as _;
use std::sync::Once;

use crate::STORE;

/// A kind of store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In memory.
    Memory,
    /// PostgreSQL, in the database at this URL.
    Postgres(String),
    /// SQLite.
    Sqlite,
}

impl Kind {
    /// What `MILLPOND_TEST_STORE` says.
    ///
    /// # Panics
    /// It says nothing that is known.
    pub fn of_tests() -> Self {
        match std::env::var(STORE) {
            Ok(text) => Self::parse(&text).unwrap_or_else(|| {
                panic!("{STORE} is {text:?}, expected memory:, sqlite: or a URL that begins with postgres://")
            }),
            Err(std::env::VarError::NotPresent) => Self::Memory,
            Err(error) => panic!("{STORE}: {error}"),
        }
    }

    /// Whether such a store can tell how long a flush took.
    pub fn tells_flushes(&self) -> bool {
        match self {
            Self::Memory | Self::Postgres(_) => false,
            Self::Sqlite => true,
        }
    }

    fn parse(text: &str) -> Option<Self> {
        match text {
            "memory:" => Some(Self::Memory),
            "sqlite:" => Some(Self::Sqlite),
            _ => {
                let of_postgres =
                    ["postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
                of_postgres.then(|| Self::Postgres(text.to_owned()))
            }
        }
    }

    /// Says once a process which store its tests run on; not by a macro, whose output the test runner keeps to itself.
    pub fn announce(&self) {
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            // Who has closed stderr does not want to know.
            let _: std::io::Result<()> = writeln!(std::io::stderr(), "store: {self}");
        });
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Memory => "memory",
            Self::Postgres(_) => "PostgreSQL",
            Self::Sqlite => "SQLite",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_is_not_taken_for_another() {
        let url = "postgres://postgres@127.0.0.1:20000/tests";
        assert_eq!(Kind::parse(url), Some(Kind::Postgres(url.to_owned())));
        assert_eq!(Kind::parse("sqlite:"), Some(Kind::Sqlite));
        assert_eq!(Kind::parse("memory:"), Some(Kind::Memory));
        for text in ["", "sqlite", "sqlite:/data", "mysql://127.0.0.1", "postgres"] {
            assert_eq!(Kind::parse(text), None, "{text}");
        }
    }
}
