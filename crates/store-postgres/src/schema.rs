//! The schema, step by step. A step that was released is never changed: what comes later is another step.

use millpond_store::{StoreError, StoreErrorKind};

use crate::session::{Session, quoted};

/// One step of the schema. `@schema@` stands for the schema's name as SQL has it.
struct Step {
    name: &'static str,
    sql: &'static str,
}

/// All steps; the first has number 1.
const STEPS: &[Step] = &[
    Step { name: "tables", sql: include_str!("../migrations/0001_tables.sql") },
    Step { name: "functions", sql: include_str!("../migrations/0002_functions.sql") },
    Step { name: "views", sql: include_str!("../migrations/0003_views.sql") },
    Step { name: "orders", sql: include_str!("../migrations/0004_orders.sql") },
    Step { name: "newest", sql: include_str!("../migrations/0005_newest.sql") },
    Step { name: "intake", sql: include_str!("../migrations/0006_intake.sql") },
    Step { name: "sweeps", sql: include_str!("../migrations/0007_sweeps.sql") },
    Step { name: "checks", sql: include_str!("../migrations/0008_checks.sql") },
    Step { name: "sends", sql: include_str!("../migrations/0009_sends.sql") },
];

/// The oldest PostgreSQL that will do, and the newest that tests run on: numbers as `server_version_num` has them.
const VERSION_MIN: i32 = 140_000;
const VERSION_TESTED: i32 = 189_999;

/// Makes the schema what this version needs.
pub(crate) fn migrate(session: &Session, schema: &str) -> Result<(), StoreError> {
    check_version(session)?;
    let (applied, known) = (applied(session, schema)?, known());
    check_not_later(schema, applied, known)?;
    if applied == known {
        return Ok(());
    }
    let result = migrate_from(session, schema, known);
    if result.is_err() {
        // The error that counts is the one that led here.
        let _: Result<(), StoreError> = session.batch("rollback", "ending a step of the schema");
    }
    result
}

/// Whether the schema is what this version reads. Changes nothing.
pub(crate) fn check_current(session: &Session, schema: &str) -> Result<(), StoreError> {
    let (applied, known) = (applied(session, schema)?, known());
    check_not_later(schema, applied, known)?;
    let what = match applied {
        0 => format!("the database has no schema {schema} of Millpond"),
        step if step < known => format!(
            "the schema {schema} is of an earlier version of Millpond: serve it once, which brings it up to date"
        ),
        _ => return Ok(()),
    };
    Err(StoreError::new(StoreErrorKind::Unavailable, what))
}

/// How many steps this version knows.
fn known() -> i32 {
    i32::try_from(STEPS.len()).unwrap_or(i32::MAX)
}

fn check_not_later(schema: &str, applied: i32, known: i32) -> Result<(), StoreError> {
    if applied <= known {
        return Ok(());
    }
    let what = format!(
        "the schema {schema} was brought to step {applied} by a later version of Millpond; this one knows {known}"
    );
    Err(StoreError::new(StoreErrorKind::Corrupt, what))
}

/// In one transaction, and one server at a time.
fn migrate_from(session: &Session, schema: &str, known: i32) -> Result<(), StoreError> {
    let context = "bringing the schema up to date";
    session.batch("begin", context)?;
    // Several servers may be started at once.
    session.batch("select pg_advisory_xact_lock(hashtext('millpond migrations'))", context)?;
    let exists = session.query("select 1 from pg_namespace where nspname = $1", &[&schema], context)?;
    if exists.is_empty() {
        session.batch(&format!("create schema {}", quoted(schema)), context)?;
    }
    let applied = applied(session, schema)?;
    for (step, number) in STEPS.iter().zip(1..=known) {
        if number > applied {
            tracing::info!(schema, step = step.name, "schema is brought up to date");
            let literal = format!("'{}'", schema.replace('\'', "''"));
            let sql = step.sql.replace("@schema@", &quoted(schema)).replace("@name@", &literal);
            session.batch(&sql, context)?;
            let insert = "insert into migration (number, name) values ($1, $2)";
            session.query(insert, &[&number, &step.name], context)?;
        }
    }
    session.batch("commit", context)
}

/// The last step that was applied; 0: none.
fn applied(session: &Session, schema: &str) -> Result<i32, StoreError> {
    let context = "reading the schema's version";
    let table = format!("{}.migration", quoted(schema));
    let sql = "select to_regclass($1) is not null";
    let rows = session.query(sql, &[&table], context)?;
    if !rows.first().is_some_and(|row| row.get(0)) {
        return Ok(0);
    }
    let sql = format!("select coalesce(max(number), 0) from {table}");
    let rows = session.query(sql.as_str(), &[], context)?;
    Ok(rows.first().map_or(0, |row| row.get(0)))
}

fn check_version(session: &Session) -> Result<(), StoreError> {
    let context = "reading the server's version";
    let sql = "select current_setting('server_version_num')::int, current_setting('server_version'), \
               pg_is_in_recovery() or current_setting('transaction_read_only')::boolean, current_setting('fsync')::boolean, \
               current_setting('server_encoding')";
    let rows = session.query(sql, &[], context)?;
    let Some(row) = rows.first() else { return Err(StoreError::new(StoreErrorKind::Unavailable, context)) };
    let (number, version, read_only, flushes): (i32, String, bool, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    let encoding: String = row.get(4);
    check_number(number, &version)?;
    if encoding != "UTF8" {
        let what =
            format!("the database's encoding is {encoding}, which cannot hold every text: UTF8 is needed");
        return Err(StoreError::new(StoreErrorKind::Corrupt, what));
    }
    if read_only {
        let what = "the database is read-only: it is a standby, or default_transaction_read_only is on";
        return Err(StoreError::new(StoreErrorKind::Unavailable, what));
    }
    if !flushes {
        tracing::warn!("the database runs with fsync off: a loss of power loses what was answered");
    }
    Ok(())
}

fn check_number(number: i32, version: &str) -> Result<(), StoreError> {
    if number < VERSION_MIN {
        let what = format!("PostgreSQL {version} is too old: 14 or later is needed");
        return Err(StoreError::new(StoreErrorKind::Corrupt, what));
    }
    if number > VERSION_TESTED {
        tracing::warn!(version, "this PostgreSQL is newer than any that Millpond was tested on");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_from_14_on_are_served() {
        assert!(check_number(140_000, "14.0").is_ok());
        assert!(check_number(200_001, "20.1").is_ok(), "with a warning");
        let refused = check_number(130_023, "13.23").expect_err("it is too old");
        assert_eq!(refused.kind, StoreErrorKind::Corrupt);
        assert!(refused.to_string().contains("13.23"), "{refused}");
    }
}
