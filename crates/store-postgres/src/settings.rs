//! What can be set. Defaults are those of a server.

use std::time::Duration;

/// Settings of a [`crate::PostgresFactory`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PostgresSettings {
    /// The schema, made if it is not there: 1 to 63 bytes, not beginning with `pg_`. Default: `millpond`.
    pub schema: String,
    /// Take what is found for what the last owner left, whatever the lineage says: for a cluster that was moved. Default:
    /// off.
    pub assume_restart: bool,
    /// A connection that is not made within this time failed. Default: 5 s.
    pub connect_timeout: Duration,
    /// A statement or commit that is not answered within this time failed, and its connection is given up. Default: 30 s.
    pub answer_timeout: Duration,
    /// A table is vacuumed by the server when so many of its rows, and a fifth of those that are there, are dead. Default:
    /// 100,000.
    pub vacuum_after: u64,
}

impl Default for PostgresSettings {
    fn default() -> Self {
        Self {
            schema: "millpond".to_owned(),
            assume_restart: false,
            connect_timeout: Duration::from_secs(5),
            answer_timeout: Duration::from_secs(30),
            vacuum_after: 100_000,
        }
    }
}
