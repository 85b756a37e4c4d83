//! PostgreSQL for tests: a server of one's own, which can be stopped, killed and started again, and schemas that go with
//! the test that made them. No crate of Millpond's is used; only tests use this one.
//!
//! - [`Cluster`]: a server process on a data directory below the temporary one, on a free port of this machine. It is gone
//!   when it is dropped, and when the process that made it ends in whatever way.
//! - [`Relay`]: between a server and its clients, where what passes can be lost.
//! - [`Bouncer`]: a PgBouncer in front of a server.
//! - [`Apart`]: a file system or a network that only this cluster has.
//! - [`Schema`]: a name that nobody else has, in a database that is there.
//! - [`Kind`]: which store tests run on, as [`STORE`] says it.
//! - `with-postgres COMMAND`: runs a command, the tests' own for one, with a cluster that it finds in [`STORE`].
//!
//! The server flushes as it does for users, unless a test says otherwise.

#![warn(missing_docs)]

mod account;
mod apart;
mod bouncer;
mod cluster;
mod guard;
mod installation;
mod kind;
mod postmaster;
mod relay;
mod schema;

pub use apart::Apart;
pub use bouncer::Bouncer;
pub use cluster::{Base, Cluster, Moment, Part};
pub use installation::BIN;
pub use kind::Kind;
pub use relay::{Loss, Relay};
pub use schema::{Schema, unique_name};

/// The variable that says which store tests run on: see `millpond-test-stores`.
pub const STORE: &str = "MILLPOND_TEST_STORE";

/// Rows of a query, each with its columns as PostgreSQL writes them; `None` is null.
pub type Rows = Vec<Vec<Option<String>>>;

/// Runs statements at a URL; the rows that they answer.
fn run(url: &str, sql: &str) -> anyhow::Result<Rows> {
    use postgres::{Client, NoTls, SimpleQueryMessage};
    let answers = Client::connect(url, NoTls)?.simple_query(sql)?;
    let rows = answers.iter().filter_map(|answer| match answer {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    });
    Ok(rows.map(|row| (0..row.len()).map(|column| row.get(column).map(str::to_owned)).collect()).collect())
}

/// The same in a thread of its own: the client has a runtime, which cannot be entered from within another.
fn run_apart(url: &str, sql: &str) -> anyhow::Result<Rows> {
    std::thread::scope(|scope| {
        let ran = scope.spawn(|| run(url, sql)).join();
        ran.unwrap_or_else(|_| Err(anyhow::anyhow!("the client panicked over {sql:?}")))
    })
}
