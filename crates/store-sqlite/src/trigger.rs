//! Triggers and what their pushes are signed with: those of one change set as statements, and all of them as rows.
//!
//! A trigger's policies are JSON text like a queue's (`spec.rs`): fields are never renamed, and one that is missing has its default.

use millpond_core::ChangeSet;
use millpond_core::id::Uid;
use millpond_core::row::{SecretRow, TriggerRow};
use millpond_core::spec::TriggerSpec;
use millpond_core::time::Timestamp;
use rusqlite::{Connection, Error, OptionalExtension, Row, params};
use serde_json::{Value, json};

use crate::row::{known, time, unsigned};
use crate::spec::{duration, duration_text, number, optional};

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
            to_json(&row.spec).to_string(),
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
    let sql = "select id, number, uid, created_at, deployment, topic, consumer, target, spec from trigger order by id";
    let triggers = connection.prepare(sql)?.query_map([], trigger)?.collect::<Result<_, _>>()?;
    let sql = "select current, previous, previous_until, since from secret";
    let found = connection.query_row(sql, [], secret).optional()?;
    Ok((triggers, found.unwrap_or_default()))
}

fn trigger(row: &Row<'_>) -> Result<TriggerRow, Error> {
    Ok(TriggerRow {
        id: row.get(0)?,
        number: unsigned(row, 1)?,
        uid: Uid(u128::from_be_bytes(row.get(2)?)),
        created_at: time(row, 3)?,
        deployment: row.get(4)?,
        topic: row.get(5)?,
        group: row.get(6)?,
        target: row.get(7)?,
        spec: known(8, from_text(row.get_ref(8)?.as_str()?))?,
    })
}

fn secret(row: &Row<'_>) -> Result<SecretRow, Error> {
    let until = row.get::<_, Option<i64>>(2)?.map(Timestamp::from_millis);
    let previous = match (row.get::<_, Option<Box<str>>>(1)?, until) {
        (None, None) => None,
        (Some(secret), Some(until)) => Some((secret, until)),
        _ => known(1, None)?,
    };
    Ok(SecretRow { current: row.get(0)?, previous, since: time(row, 3)? })
}

fn to_json(spec: &TriggerSpec) -> Value {
    json!({
        "dead_letter_queue": spec.dead_letter_queue,
        "initial_delay": duration_text(spec.initial_delay),
        "lease": duration_text(spec.lease),
        "max_concurrency": spec.max_concurrency,
        "max_deliveries": spec.max_deliveries,
        "retry_after": duration_text(spec.retry_after),
    })
}

/// Policies from text; `None`: the text is damaged, or from a later version.
fn from_text(text: &str) -> Option<TriggerSpec> {
    let json: Value = serde_json::from_str(text).ok()?;
    let mut spec = TriggerSpec::default();
    for (key, value) in json.as_object()? {
        match key.as_str() {
            "dead_letter_queue" => {
                spec.dead_letter_queue = optional(value, |name| name.as_str().map(Into::into))?;
            }
            "initial_delay" => spec.initial_delay = duration(value)?,
            "lease" => spec.lease = duration(value)?,
            "max_concurrency" => spec.max_concurrency = optional(value, number)?,
            "max_deliveries" => spec.max_deliveries = optional(value, number)?,
            "retry_after" => spec.retry_after = duration(value)?,
            _ => return None,
        }
    }
    Some(spec)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn stored_policies_read_like_this() {
        let retry_after = Duration::from_millis(1_500);
        let spec = TriggerSpec { max_deliveries: Some(3), retry_after, ..TriggerSpec::default() };
        let text = to_json(&spec).to_string();
        let expected = concat!(
            r#"{"dead_letter_queue":null,"initial_delay":"0s","lease":"300s","max_concurrency":null,"#,
            r#""max_deliveries":3,"retry_after":"1.5s"}"#
        );
        assert_eq!(text, expected);
        assert_eq!(from_text(&text), Some(spec));
        assert_eq!(from_text("{}"), Some(TriggerSpec::default()));
    }

    #[test]
    fn damaged_policies_are_not_guessed() {
        for text in ["", "[]", r#"{"lease":"1"}"#, r#"{"later":1}"#, r#"{"dead_letter_queue":1}"#] {
            assert_eq!(from_text(text), None, "{text}");
        }
    }
}
