//! Policies of queues and triggers as JSON text. Persisted: fields are never renamed, and one that is missing has its default.
//!
//! Durations are decimal seconds with an `s`, exact to the nanosecond. Written by hand, because the core knows
//! nothing of serialization and a rename there must not change what is stored.

use std::time::Duration;

use millpond_core::spec::{
    AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec, TriggerSpec,
};
use serde_json::{Value, json};

/// A queue's policies as text.
#[must_use]
pub fn queue_spec_to_text(spec: &QueueSpec) -> String {
    to_json(spec).to_string()
}

/// Policies as a part of other JSON.
pub(super) fn to_json(spec: &QueueSpec) -> Value {
    json!({
        "at_limit": at_limit_json(&spec.at_limit),
        "attempt_limit": spec.attempt_limit.map(|limit| json!({
            "counts": match limit.counts {
                Counted::Deliveries => "deliveries",
                Counted::Failures => "failures",
            },
            "max": limit.max,
        })),
        "backoff": spec.backoff.map(|backoff| json!({
            "factor_permille": backoff.factor_permille,
            "initial": duration_text(backoff.initial),
            "jitter_permille": [backoff.jitter_permille.0, backoff.jitter_permille.1],
            "max": duration_text(backoff.max),
        })),
        "concurrency_max": spec.concurrency_max,
        "delay": duration_text(spec.delay),
        "finished_retention": duration_text(spec.finished_retention),
        "fresh_first": spec.fresh_first,
        "leased_max": spec.leased_max,
        "lost_lease": {
            "backs_off": spec.lost_lease.backs_off,
            "in_a_row_max": spec.lost_lease.in_a_row_max,
            "spends_attempt": spec.lost_lease.spends_attempt,
        },
        "order": match spec.order {
            Order::Visible => "visible",
            Order::Sent => "sent",
        },
        "retention": spec.retention.map(duration_text),
        "visibility_timeout": duration_text(spec.visibility_timeout),
    })
}

/// A queue's policies from text; `None`: the text is damaged, or from a later version.
#[must_use]
pub fn queue_spec_from_text(text: &str) -> Option<QueueSpec> {
    from_json(&serde_json::from_str(text).ok()?)
}

/// Policies from a part of other JSON.
pub(super) fn from_json(json: &Value) -> Option<QueueSpec> {
    let mut spec = QueueSpec::default();
    for (key, value) in json.as_object()? {
        match key.as_str() {
            "at_limit" => spec.at_limit = at_limit(value)?,
            "attempt_limit" => spec.attempt_limit = optional(value, attempt_limit)?,
            "backoff" => spec.backoff = optional(value, backoff)?,
            "concurrency_max" => spec.concurrency_max = optional(value, number)?,
            "delay" => spec.delay = duration(value)?,
            "finished_retention" => spec.finished_retention = duration(value)?,
            "fresh_first" => spec.fresh_first = value.as_bool()?,
            "leased_max" => spec.leased_max = number(value)?,
            "lost_lease" => spec.lost_lease = lost_lease(value)?,
            "order" => spec.order = order(value)?,
            "retention" => spec.retention = optional(value, duration)?,
            "visibility_timeout" => spec.visibility_timeout = duration(value)?,
            _ => return None,
        }
    }
    Some(spec)
}

fn at_limit_json(at_limit: &AtLimit) -> Value {
    match at_limit {
        AtLimit::Drop => json!("drop"),
        AtLimit::DeadLetterSet => json!("dead_letter_set"),
        AtLimit::MoveTo { queue, otherwise } => {
            let otherwise = match otherwise {
                Gone::Drop => "drop",
                Gone::DeadLetterSet => "dead_letter_set",
            };
            json!({ "move_to": &**queue, "otherwise": otherwise })
        }
    }
}

fn at_limit(value: &Value) -> Option<AtLimit> {
    match value.as_str() {
        Some("drop") => Some(AtLimit::Drop),
        Some("dead_letter_set") => Some(AtLimit::DeadLetterSet),
        Some(_) => None,
        None => {
            let otherwise = match value.get("otherwise")?.as_str()? {
                "drop" => Gone::Drop,
                "dead_letter_set" => Gone::DeadLetterSet,
                _ => return None,
            };
            Some(AtLimit::MoveTo { queue: value.get("move_to")?.as_str()?.into(), otherwise })
        }
    }
}

fn attempt_limit(value: &Value) -> Option<AttemptLimit> {
    let counts = match value.get("counts")?.as_str()? {
        "deliveries" => Counted::Deliveries,
        "failures" => Counted::Failures,
        _ => return None,
    };
    Some(AttemptLimit { max: number(value.get("max")?)?, counts })
}

fn backoff(value: &Value) -> Option<Backoff> {
    let jitter = value.get("jitter_permille")?;
    Some(Backoff {
        initial: duration(value.get("initial")?)?,
        factor_permille: number(value.get("factor_permille")?)?,
        max: duration(value.get("max")?)?,
        jitter_permille: (number(jitter.get(0)?)?, number(jitter.get(1)?)?),
    })
}

fn lost_lease(value: &Value) -> Option<LostLease> {
    Some(LostLease {
        backs_off: value.get("backs_off")?.as_bool()?,
        in_a_row_max: optional(value.get("in_a_row_max")?, number)?,
        spends_attempt: value.get("spends_attempt")?.as_bool()?,
    })
}

fn order(value: &Value) -> Option<Order> {
    match value.as_str()? {
        "visible" => Some(Order::Visible),
        "sent" => Some(Order::Sent),
        _ => None,
    }
}

/// `null` is a value that is not set; anything else has to be what `read` reads.
#[expect(clippy::option_option, reason = "the outer one says that the text is damaged")]
fn optional<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    if value.is_null() { Some(None) } else { read(value).map(Some) }
}

fn number(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

fn duration_text(duration: Duration) -> String {
    let (seconds, nanos) = (duration.as_secs(), duration.subsec_nanos());
    if nanos == 0 {
        return format!("{seconds}s");
    }
    let digits = format!("{nanos:09}");
    format!("{seconds}.{}s", digits.trim_end_matches('0'))
}

fn duration(value: &Value) -> Option<Duration> {
    let text = value.as_str()?.strip_suffix('s')?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    let nanos = format!("{fraction:0<9}");
    if nanos.len() != 9 {
        return None;
    }
    Some(Duration::new(seconds.parse().ok()?, nanos.parse().ok()?))
}

/// A trigger's policies as text.
#[must_use]
pub fn trigger_spec_to_text(spec: &TriggerSpec) -> String {
    let json = json!({
        "dead_letter_queue": spec.dead_letter_queue,
        "initial_delay": duration_text(spec.initial_delay),
        "lease": duration_text(spec.lease),
        "max_concurrency": spec.max_concurrency,
        "max_deliveries": spec.max_deliveries,
        "retry_after": duration_text(spec.retry_after),
    });
    json.to_string()
}

/// A trigger's policies from text; `None`: the text is damaged, or from a later version.
#[must_use]
pub fn trigger_spec_from_text(text: &str) -> Option<TriggerSpec> {
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
    use super::*;

    #[test]
    fn stored_policies_read_like_this() {
        let spec = QueueSpec { retention: Some(Duration::from_millis(1_500)), ..QueueSpec::default() };
        let text = queue_spec_to_text(&spec);
        let expected = concat!(
            r#"{"at_limit":"dead_letter_set","attempt_limit":{"counts":"deliveries","max":5},"backoff":null,"#,
            r#""concurrency_max":null,"delay":"0s","finished_retention":"0s","fresh_first":false,"#,
            r#""leased_max":100000,"lost_lease":{"backs_off":false,"in_a_row_max":null,"#,
            r#""spends_attempt":true},"order":"visible","retention":"1.5s","visibility_timeout":"30s"}"#
        );
        assert_eq!(text, expected);
        assert_eq!(queue_spec_from_text(&text), Some(spec));
    }

    #[test]
    fn damaged_policies_are_not_guessed() {
        for text in [
            "",
            "[]",
            r#"{"delay":"1"}"#,
            r#"{"delay":"1.0000000000s"}"#,
            r#"{"later":1}"#,
            r#"{"order":"x"}"#,
        ] {
            assert_eq!(queue_spec_from_text(text), None, "{text}");
        }
    }

    #[test]
    fn stored_policies_of_a_trigger_read_like_this() {
        let retry_after = Duration::from_millis(1_500);
        let spec = TriggerSpec { max_deliveries: Some(3), retry_after, ..TriggerSpec::default() };
        let text = trigger_spec_to_text(&spec);
        let expected = concat!(
            r#"{"dead_letter_queue":null,"initial_delay":"0s","lease":"300s","max_concurrency":null,"#,
            r#""max_deliveries":3,"retry_after":"1.5s"}"#
        );
        assert_eq!(text, expected);
        assert_eq!(trigger_spec_from_text(&text), Some(spec));
        assert_eq!(trigger_spec_from_text("{}"), Some(TriggerSpec::default()));
    }

    #[test]
    fn damaged_policies_of_a_trigger_are_not_guessed() {
        for text in ["", "[]", r#"{"lease":"1"}"#, r#"{"later":1}"#, r#"{"dead_letter_queue":1}"#] {
            assert_eq!(trigger_spec_from_text(text), None, "{text}");
        }
    }
}
