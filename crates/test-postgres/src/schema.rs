//! Schemas that nobody else has.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::{Rows, run_apart};

/// A schema of a database: its name, and that it is dropped with this. Whoever uses it makes it.
#[derive(Debug)]
pub struct Schema {
    url: String,
    name: String,
}

impl Schema {
    /// A schema with a name of its own.
    pub fn of(url: &str) -> Self {
        Self { url: url.to_owned(), name: unique_name() }
    }

    /// The URL of the database.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The schema's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs statements that find this schema's tables without its name; the rows that they answer.
    ///
    /// # Errors
    /// The database is not reached, or refuses.
    pub fn sql(&self, sql: &str) -> anyhow::Result<Rows> {
        run_apart(&self.url, &format!("set search_path to {}; {sql}", self.name))
    }
}

impl Drop for Schema {
    fn drop(&mut self) {
        // Somebody may hold locks for ever, and a test has to end.
        let drop = format!("set lock_timeout to '10s'; drop schema if exists {} cascade", self.name);
        if let Err(error) = run_apart(&self.url, &drop) {
            eprintln!("the schema {} cannot be dropped: {error:#}", self.name);
        }
    }
}

/// A name for a schema or a database that no other test uses, in this process or another, now or later.
pub fn unique_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("millpond_test_{}_{}_{count}", since.as_millis(), std::process::id())
}
