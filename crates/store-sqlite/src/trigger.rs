//! Triggers and what their pushes are signed with: those of one change set as statements, and all of them as rows.

use millpond_core::ChangeSet;
use millpond_core::id::Uid;
use millpond_core::row::{SecretRow, TriggerRow};
use millpond_core::time::Timestamp;
use millpond_store::persisted::{trigger_spec_from_text, trigger_spec_to_text};
use rusqlite::{Connection, Error, OptionalExtension, Row, params};

use crate::row::{known, time, unsigned};

/// Removes, then writes.
pub(crate) fn write(connection: &Connection, changes: &ChangeSet) -> Result<(), Error> {
    for id in &changes.triggers_removed {
        connection.prepare_cached("delete from trigger where id = ?1")?.execute([id])?;
    }
    for row in &changes.triggers_put {
        let sql = "insert or replace into trigger values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)";
        connection.prepare_cached(sql)?.execute(params![
            row.id,
            row.number.cast_signed(),
            row.uid.0.to_be_bytes(),
            row.created_at.as_millis(),
            row.deployment,
            row.topic,
            row.group,
            row.target,
            trigger_spec_to_text(&row.spec),
        ])?;
    }
    if let Some(row) = &changes.secret {
        let sql = "insert or replace into secret values (1, ?1, ?2, ?3, ?4)";
        let (previous, until) =
            row.previous.as_ref().map(|(secret, until)| (secret, until.as_millis())).unzip();
        let values = params![row.current, previous, until, row.since.as_millis()];
        connection.prepare_cached(sql)?.execute(values)?;
    }
    Ok(())
}

/// All triggers in the order of their ids, and the secret.
pub(crate) fn all(connection: &Connection) -> Result<(Vec<TriggerRow>, SecretRow), Error> {
    let sql = format!("select {TRIGGER_COLUMNS} from trigger order by id");
    let triggers = connection.prepare(&sql)?.query_map([], trigger)?.collect::<Result<_, _>>()?;
    let sql = format!("select {SECRET_COLUMNS} from secret");
    let found = connection.query_row(&sql, [], secret).optional()?;
    Ok((triggers, found.unwrap_or_default()))
}

/// Columns that [`trigger`] reads, in its order.
pub(crate) const TRIGGER_COLUMNS: &str =
    "id, number, uid, created_at, deployment, topic, consumer, target, spec";

/// Columns that [`secret`] reads, in its order.
pub(crate) const SECRET_COLUMNS: &str = "current, previous, previous_until, since";

/// A trigger, from [`TRIGGER_COLUMNS`].
pub(crate) fn trigger(row: &Row<'_>) -> Result<TriggerRow, Error> {
    Ok(TriggerRow {
        id: row.get(0)?,
        number: unsigned(row, 1)?,
        uid: Uid(u128::from_be_bytes(row.get(2)?)),
        created_at: time(row, 3)?,
        deployment: row.get(4)?,
        topic: row.get(5)?,
        group: row.get(6)?,
        target: row.get(7)?,
        spec: known(8, trigger_spec_from_text(row.get_ref(8)?.as_str()?))?,
    })
}

/// The secret, from [`SECRET_COLUMNS`].
pub(crate) fn secret(row: &Row<'_>) -> Result<SecretRow, Error> {
    let until = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis);
    let previous = match (row.get::<_, Option<Box<str>>>(1)?, until) {
        (None, None) => None,
        (Some(secret), Some(until)) => Some((secret, until)),
        _ => known(1, None)?,
    };
    Ok(SecretRow { current: row.get(0)?, previous, since: time(row, 3)? })
}
