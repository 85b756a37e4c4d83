//! Values on the command line: durations, moments, leases, assignments.

use std::time::{Duration, SystemTime};

use millpond_client::Lease;
use serde_json::{Map, Value};

/// `30s`, `5m`, `1h 30m`; also a plain number of seconds with decimals, `1.5s`, as in the API.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    if let Some(seconds) = text.strip_suffix('s').and_then(|number| number.parse::<f64>().ok()) {
        return Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string());
    }
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; expected a duration like 30s, 5m or 1h"))
}

/// A moment in RFC 3339, or a duration ago.
pub(crate) fn moment(text: &str) -> Result<SystemTime, String> {
    if let Ok(time) = humantime::parse_rfc3339_weak(text) {
        return Ok(time);
    }
    let expected = || format!("{text} is neither a time like 2026-10-07T12:30:00Z nor a time ago like 2h");
    let ago = duration(text).map_err(|_| expected())?;
    SystemTime::now().checked_sub(ago).ok_or_else(expected)
}

/// `MESSAGE_ID@GENERATION`, and `@DELIVERY` of a group's lease, as `lease` prints it.
pub(crate) fn lease(text: &str) -> Result<Lease, String> {
    let parts: Vec<&str> = text.split('@').collect();
    let number = |text: &str| text.parse::<u64>().ok();
    let found = match parts[..] {
        [message_id, generation] => number(generation).map(|generation| (message_id, generation, None)),
        [message_id, generation, delivery] => number(generation)
            .zip(number(delivery))
            .map(|(generation, delivery)| (message_id, generation, Some(delivery))),
        _ => None,
    };
    match found {
        Some((message_id, lease_generation, delivery)) if !message_id.is_empty() => {
            Ok(Lease { message_id: message_id.to_owned(), lease_generation, delivery })
        }
        _ => Err(format!(
            "{text} is no lease, expected MESSAGE_ID@GENERATION as `millpond lease` prints it, of groups with @DELIVERY behind it"
        )),
    }
}

/// The lease as [`lease`] reads it.
pub(crate) fn show_lease(lease: &Lease) -> String {
    let delivery = lease.delivery.map(|delivery| format!("@{delivery}")).unwrap_or_default();
    format!("{}@{}{delivery}", lease.message_id, lease.lease_generation)
}

/// `KEY=VALUE`.
pub(crate) fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err(format!("{text} is no assignment, expected KEY=VALUE")),
    }
}

/// `FIELD=VALUE` of a spec: a path with dots, and JSON or else a string.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Assignment {
    /// The path, from the outermost field.
    pub(crate) path: Vec<String>,
    /// What to set it to; none is to take it away.
    pub(crate) value: Option<Value>,
}

/// Policies that are durations: 5m is read for them as everywhere on the command line, not only 300s as in the API.
const DURATIONS: [&str; 6] =
    ["backoff.initial", "backoff.max", "delay", "finished_retention", "retention", "visibility_timeout"];

/// Reads an [`Assignment`].
pub(crate) fn assignment(text: &str) -> Result<Assignment, String> {
    let (path, value) = pair(text)?;
    let value = match DURATIONS.contains(&path.as_str()).then(|| duration(&value)) {
        Some(Ok(duration)) => Value::String(format!("{}s", duration.as_secs_f64())),
        // What is none is refused with the name of its field.
        _ => serde_json::from_str(&value).unwrap_or(Value::String(value)),
    };
    Ok(Assignment { value: Some(value), ..removal(&path)? })
}

/// Reads the path of a field that is to have its default again.
pub(crate) fn removal(path: &str) -> Result<Assignment, String> {
    let path: Vec<String> = path.split('.').map(str::to_owned).collect();
    if path.iter().any(String::is_empty) {
        return Err(format!("{} is no field, expected names with dots between them", path.join(".")));
    }
    Ok(Assignment { path, value: None })
}

impl Assignment {
    /// The outermost field.
    pub(crate) fn field(&self) -> &str {
        self.path.first().map_or("", String::as_str)
    }

    /// Carries it out.
    pub(crate) fn apply(&self, object: &mut Map<String, Value>) {
        let Some((last, outer)) = self.path.split_last() else { return };
        let mut place = object;
        for name in outer {
            if self.value.is_none() && !place.contains_key(name) {
                return;
            }
            let inner = place.entry(name.clone()).or_insert_with(|| Value::Object(Map::new()));
            if !inner.is_object() {
                *inner = Value::Object(Map::new());
            }
            let Value::Object(inner) = inner else { return };
            place = inner;
        }
        match &self.value {
            Some(value) => drop(place.insert(last.clone(), value.clone())),
            None => drop(place.remove(last)),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_are_read_in_units_or_as_the_api_writes_them() {
        for (text, millis) in
            [("30s", 30_000), ("1.5s", 1_500), ("5m", 300_000), ("1h 30m", 5_400_000), ("0s", 0)]
        {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "5", "-1s", "soon", "infs", "NaNs"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_moment_is_a_time_or_so_long_ago() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1_791_375_000);
        assert_eq!(moment("2026-10-07T12:10:00Z"), Ok(at));
        let now = SystemTime::now();
        let ago = moment("2h").expect("a moment");
        assert!(ago < now && now.duration_since(ago).is_ok_and(|past| past <= Duration::from_secs(7_200)));
        assert!(moment("yesterday").is_err());
    }

    #[test]
    fn a_lease_is_read_as_it_is_shown() {
        for delivery in [None, Some(u64::MAX)] {
            let known = Lease { message_id: "msg_1".to_owned(), lease_generation: u64::MAX, delivery };
            assert_eq!(lease(&show_lease(&known)), Ok(known));
        }
        for text in ["", "msg_1", "@1", "msg_1@", "msg_1@x", "msg_1@-1", "msg_1@1@", "msg_1@1@2@3", "@1@2"] {
            assert!(lease(text).is_err(), "{text}");
        }
    }

    #[test]
    fn policies_that_are_durations_are_read_in_units() {
        let value = |text| assignment(text).expect("an assignment").value;
        for (text, expected) in [
            ("retention=4h", json!("14400s")),
            ("backoff.max=1.5s", json!("1.5s")),
            ("delay=20ms", json!("0.02s")),
            ("delay=soon", json!("soon")),
            ("dead_letter_queue=5m", json!("5m")),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn assignments_reach_into_objects_and_take_away() {
        let mut spec = Map::new();
        for text in
            ["max_deliveries=3", "backoff.initial=1s", "backoff.factor=1.5", "order=\"sent\"", "a.b.c=true"]
        {
            assignment(text).expect("an assignment").apply(&mut spec);
        }
        let expected = json!({"max_deliveries": 3, "backoff": {"initial": "1s", "factor": 1.5}, "order": "sent",
            "a": {"b": {"c": true}}});
        assert_eq!(Value::Object(spec.clone()), expected);
        for path in ["backoff.factor", "a", "nothing.at.all"] {
            removal(path).expect("a path").apply(&mut spec);
        }
        assert_eq!(spec["backoff"], json!({"initial": "1s"}));
        assert!(!spec.contains_key("a") && !spec.contains_key("nothing"));
        for text in ["", "x", "=1", ".a=1", "a..b=1"] {
            assert!(assignment(text).is_err(), "{text}");
        }
    }
}
