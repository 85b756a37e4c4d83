//! Remembered answers as JSON text. Persisted, and read by no later layout: a row lives for 24 hours.
//!
//! Numbers keep all their bits, because they are read as the integers that they are written as.

use millpond_core::command::{LeaseRef, Trouble};
use millpond_core::id::{LeaseGeneration, LogNumber, MessageId, QueueNumber, Sequence, Uid};
use millpond_core::outcome::{QueueView, Sent, Tally, Why};
use millpond_core::remembered::Remembered;
use millpond_core::row::{CountersRow, QueueRow, Role};
use millpond_core::time::Timestamp;
use serde_json::{Value, json};

use crate::persisted::spec;

/// An answer as text; `None`: it is that of a send, which has columns of its own.
#[must_use]
pub fn answer_to_text(answer: &Remembered) -> Option<String> {
    let json = match answer {
        Remembered::Sent(_) => return None,
        Remembered::Done => json!("done"),
        Remembered::MessageDeleted => json!("message_deleted"),
        Remembered::Purged(count) => json!({ "purged": count }),
        Remembered::Queue(view) => json!({ "queue": view_json(view) }),
        Remembered::QueueDeleted(was_there) => json!({ "queue_deleted": was_there }),
        Remembered::Settled { stale, sent } => json!({ "settled": {
            "sent": sent.iter().map(sent_json).collect::<Vec<_>>(),
            "stale": stale.iter().map(lease_json).collect::<Vec<_>>(),
        } }),
        Remembered::Tallied(tally) => json!({ "tallied": [tally.done, tally.skipped] }),
    };
    Some(json.to_string())
}

/// An answer from text; `None`: the text is damaged.
#[must_use]
pub fn answer_from_text(text: &str) -> Option<Remembered> {
    let json: Value = serde_json::from_str(text).ok()?;
    if json == "done" {
        return Some(Remembered::Done);
    }
    if json == "message_deleted" {
        return Some(Remembered::MessageDeleted);
    }
    let (kind, value) = json.as_object()?.iter().next()?;
    Some(match kind.as_str() {
        "purged" => Remembered::Purged(value.as_u64()?),
        "queue" => Remembered::Queue(Box::new(view(value)?)),
        "queue_deleted" => Remembered::QueueDeleted(value.as_bool()?),
        "settled" => Remembered::Settled {
            stale: list(value.get("stale")?, lease)?,
            sent: list(value.get("sent")?, sent)?,
        },
        "tallied" => {
            Remembered::Tallied(Tally { done: value.get(0)?.as_u64()?, skipped: value.get(1)?.as_u64()? })
        }
        _ => return None,
    })
}

fn list<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Vec<T>> {
    value.as_array()?.iter().map(read).collect()
}

fn lease_json(lease: &LeaseRef) -> Value {
    json!([lease.delivery.0, lease.message.to_string(), lease.generation.0])
}

fn lease(value: &Value) -> Option<LeaseRef> {
    Some(LeaseRef {
        delivery: Sequence(value.get(0)?.as_u64()?),
        message: message(value.get(1)?)?,
        generation: LeaseGeneration(value.get(2)?.as_u64()?),
    })
}

fn message(value: &Value) -> Option<MessageId> {
    value.as_str()?.parse().ok()
}

fn sent_json(sent: &Sent) -> Value {
    let ids: Vec<String> = sent.ids.iter().map(MessageId::to_string).collect();
    json!({ "ids": ids, "repeated": sent.repeated })
}

fn sent(value: &Value) -> Option<Sent> {
    Some(Sent { ids: list(value.get("ids")?, message)?, repeated: value.get("repeated")?.as_bool()? })
}

fn view_json(view: &QueueView) -> Value {
    json!({
        "counters": counters_json(&view.counters),
        "row": row_json(&view.queue),
        "waiting": view.waiting,
        "why": why_json(&view.why),
    })
}

fn view(value: &Value) -> Option<QueueView> {
    let queue = row(value.get("row")?)?;
    Some(QueueView {
        counters: counters(queue.number, value.get("counters")?)?,
        queue,
        waiting: value.get("waiting")?.as_u64()?,
        why: why(value.get("why")?)?,
    })
}

fn row_json(row: &QueueRow) -> Value {
    json!({
        "annotations": &*row.annotations,
        "created_at": row.created_at.as_millis(),
        "dead_purged_through": row.dead_purged_through.0,
        "deleted": row.deleted,
        "generation": row.generation,
        "name": &*row.name,
        "number": row.number.0,
        "paused_at": row.paused_at.map(Timestamp::as_millis),
        "purged_through": row.purged_through.0,
        "revision": row.revision,
        "role": role_json(row.role),
        "settled_by_sql": row.settled_by_sql,
        "spec": spec::to_json(&row.spec),
        "sweep_owed": row.sweep_owed,
        "uid": format!("{:032x}", row.uid.0),
        "updated_at": row.updated_at.as_millis(),
    })
}

fn row(value: &Value) -> Option<QueueRow> {
    let unsigned = |name| value.get(name)?.as_u64();
    let flag = |name| value.get(name)?.as_bool();
    Some(QueueRow {
        number: QueueNumber(u32::try_from(unsigned("number")?).ok()?),
        role: role(value.get("role")?)?,
        name: value.get("name")?.as_str()?.into(),
        uid: Uid(u128::from_str_radix(value.get("uid")?.as_str()?, 16).ok()?),
        generation: unsigned("generation")?,
        revision: unsigned("revision")?,
        created_at: time(value.get("created_at")?)?,
        updated_at: time(value.get("updated_at")?)?,
        annotations: value.get("annotations")?.as_str()?.into(),
        spec: spec::from_json(value.get("spec")?)?,
        paused_at: optional_time(value.get("paused_at")?)?,
        purged_through: Sequence(unsigned("purged_through")?),
        dead_purged_through: Sequence(unsigned("dead_purged_through")?),
        deleted: flag("deleted")?,
        sweep_owed: flag("sweep_owed")?,
        settled_by_sql: flag("settled_by_sql")?,
    })
}

fn role_json(role: Role) -> Value {
    match role {
        Role::Queue => json!("queue"),
        Role::Topic => json!("topic"),
        Role::Partition { topic } => json!({ "partition": topic.0 }),
        Role::Group { topic } => json!({ "group": topic.0 }),
        Role::Cursor { group, log, start } => json!({ "cursor": [group.0, log.0, start.0] }),
    }
}

fn role(value: &Value) -> Option<Role> {
    match value.as_str() {
        Some("queue") => return Some(Role::Queue),
        Some("topic") => return Some(Role::Topic),
        _ => {}
    }
    let (kind, value) = value.as_object()?.iter().next()?;
    let number = |value: &Value| Some(QueueNumber(u32::try_from(value.as_u64()?).ok()?));
    Some(match kind.as_str() {
        "partition" => Role::Partition { topic: number(value)? },
        "group" => Role::Group { topic: number(value)? },
        "cursor" => Role::Cursor {
            group: number(value.get(0)?)?,
            log: number(value.get(1)?)?,
            start: LogNumber(value.get(2)?.as_u64()?),
        },
        _ => return None,
    })
}

fn counters_json(row: &CountersRow) -> Value {
    json!({
        "cancelled": row.cancelled,
        "completed": row.completed,
        "consumer_seen_at": row.consumer_seen_at.as_millis(),
        "dead": row.dead,
        "dead_bytes": row.dead_bytes,
        "delayed": row.delayed,
        "finished_bytes": row.finished_bytes,
        "leased": row.leased,
        "leased_bytes": row.leased_bytes,
        "position": row.position.0,
        "ready": row.ready,
        "total_acked": row.total_acked,
        "total_dead": row.total_dead,
        "total_delivered": row.total_delivered,
        "total_expired": row.total_expired,
        "total_sent": row.total_sent,
        "total_undone": row.total_undone,
        "waiting_bytes": row.waiting_bytes,
    })
}

fn counters(queue: QueueNumber, value: &Value) -> Option<CountersRow> {
    let count = |name| value.get(name)?.as_u64();
    Some(CountersRow {
        queue,
        ready: count("ready")?,
        delayed: count("delayed")?,
        leased: count("leased")?,
        dead: count("dead")?,
        completed: count("completed")?,
        cancelled: count("cancelled")?,
        waiting_bytes: count("waiting_bytes")?,
        leased_bytes: count("leased_bytes")?,
        dead_bytes: count("dead_bytes")?,
        finished_bytes: count("finished_bytes")?,
        total_sent: count("total_sent")?,
        total_delivered: count("total_delivered")?,
        total_undone: count("total_undone")?,
        total_acked: count("total_acked")?,
        total_dead: count("total_dead")?,
        total_expired: count("total_expired")?,
        consumer_seen_at: time(value.get("consumer_seen_at")?)?,
        position: LogNumber(count("position")?),
    })
}

fn why_json(why: &Why) -> Value {
    let until = |time: &Option<Timestamp>| time.map(Timestamp::as_millis);
    match why {
        Why::Paused { since } => json!({ "paused": since.as_millis() }),
        Why::ConcurrencyFull { limit, until: end } => json!({ "concurrency_full": [limit, until(end)] }),
        Why::LeasedLimit { limit } => json!({ "leased_limit": limit }),
        Why::NoConsumer { since } => json!({ "no_consumer": until(since) }),
        Why::TargetDown { trigger, trouble } => json!({ "target_down": {
            "trigger": trigger,
            "since": trouble.since.as_millis(),
            "error": trouble.error,
            "next_try": trouble.next_try.as_millis(),
        } }),
        Why::TriggerStarts { trigger, at } => json!({ "trigger_starts": [trigger, at.as_millis()] }),
        Why::NoDeployment { deployment } => json!({ "no_deployment": deployment }),
        Why::Delivering => json!({ "delivering": null }),
        Why::AllDelayed { until: end } => json!({ "all_delayed": until(end) }),
        Why::AllLeased { until: end } => json!({ "all_leased": until(end) }),
        Why::HeldByTransactions { since } => json!({ "held_by_transactions": since.as_millis() }),
        Why::AllDead => json!({ "all_dead": null }),
        Why::Empty => json!({ "empty": null }),
    }
}

fn why(value: &Value) -> Option<Why> {
    let (reason, value) = value.as_object()?.iter().next()?;
    let limit = |value: &Value| u32::try_from(value.as_u64()?).ok();
    Some(match reason.as_str() {
        "paused" => Why::Paused { since: time(value)? },
        "concurrency_full" => {
            Why::ConcurrencyFull { limit: limit(value.get(0)?)?, until: optional_time(value.get(1)?)? }
        }
        "leased_limit" => Why::LeasedLimit { limit: limit(value)? },
        "no_consumer" => Why::NoConsumer { since: optional_time(value)? },
        "target_down" => Why::TargetDown {
            trigger: value.get("trigger")?.as_str()?.into(),
            trouble: Trouble {
                since: time(value.get("since")?)?,
                error: value.get("error")?.as_str()?.into(),
                next_try: time(value.get("next_try")?)?,
            },
        },
        "trigger_starts" => {
            Why::TriggerStarts { trigger: value.get(0)?.as_str()?.into(), at: time(value.get(1)?)? }
        }
        "no_deployment" => Why::NoDeployment { deployment: value.as_str()?.into() },
        "delivering" => Why::Delivering,
        "all_delayed" => Why::AllDelayed { until: optional_time(value)? },
        "all_leased" => Why::AllLeased { until: optional_time(value)? },
        "held_by_transactions" => Why::HeldByTransactions { since: time(value)? },
        "all_dead" => Why::AllDead,
        "empty" => Why::Empty,
        _ => return None,
    })
}

fn time(value: &Value) -> Option<Timestamp> {
    value.as_i64().map(Timestamp::from_millis)
}

#[expect(clippy::option_option, reason = "the outer one says that the text is damaged")]
fn optional_time(value: &Value) -> Option<Option<Timestamp>> {
    if value.is_null() { Some(None) } else { time(value).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_answers_are_not_guessed() {
        for text in [
            "",
            "{}",
            "[]",
            r#""undone""#,
            r#"{"purged":-1}"#,
            r#"{"later":1}"#,
            r#"{"settled":{"stale":[]}}"#,
        ] {
            assert_eq!(answer_from_text(text), None, "{text}");
        }
    }
}
