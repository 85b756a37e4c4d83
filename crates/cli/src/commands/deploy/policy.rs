//! What a trigger says beside its topic: times and counts. Vercel's schema takes some that the server does not, and they
//! are refused here already, where their place in the project can be told.

use std::time::Duration;

use serde_json::{Map, Value};

/// How long a message that failed waits unless told.
const RETRY_AFTER: Duration = Duration::from_secs(60);
/// The longest time, as on the server.
const SECONDS_MAX: f64 = 86_400.0;
/// The highest number of deliveries, as on the server.
const DELIVERIES_MAX: u32 = 1_000_000;
/// What the fields can be.
const RETRY_AFTER_RANGE: &str = "a number of seconds from 0.001 to 86400, with at most three decimals";
const INITIAL_DELAY_RANGE: &str = "a number of seconds from 0 to 86400, with at most three decimals";
const DELIVERIES_RANGE: &str = "a whole number from 1 to 1000000";
const CONCURRENCY_RANGE: &str = "a whole number from 1 to 4294967295";

/// Times and counts of a trigger.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Policy {
    pub(super) retry_after: Duration,
    pub(super) initial_delay: Duration,
    pub(super) max_deliveries: Option<u32>,
    pub(super) max_concurrency: Option<u32>,
}

impl Default for Policy {
    fn default() -> Self {
        let initial_delay = Duration::ZERO;
        Self { retry_after: RETRY_AFTER, initial_delay, max_deliveries: None, max_concurrency: None }
    }
}

/// What the fields are called.
pub(super) struct Names {
    pub(super) retry_after: &'static str,
    pub(super) initial_delay: &'static str,
    pub(super) max_deliveries: &'static str,
    pub(super) max_concurrency: &'static str,
}

/// A field that has a wrong value, and what is wrong.
#[derive(Debug, PartialEq)]
pub(super) struct WrongField {
    pub(super) name: &'static str,
    pub(super) why: String,
}

impl Policy {
    /// Reads the fields that are there; the others have their defaults.
    pub(super) fn read(fields: &Map<String, Value>, names: &Names) -> Result<Self, WrongField> {
        let retry_after =
            optional(fields, names.retry_after, RETRY_AFTER_RANGE, |value| seconds(value, 0.001))?;
        let initial_delay =
            optional(fields, names.initial_delay, INITIAL_DELAY_RANGE, |value| seconds(value, 0.0))?;
        let default = Self::default();
        Ok(Self {
            retry_after: retry_after.unwrap_or(default.retry_after),
            initial_delay: initial_delay.unwrap_or(default.initial_delay),
            max_deliveries: optional(fields, names.max_deliveries, DELIVERIES_RANGE, |value| {
                count(value, DELIVERIES_MAX)
            })?,
            max_concurrency: optional(fields, names.max_concurrency, CONCURRENCY_RANGE, |value| {
                count(value, u32::MAX)
            })?,
        })
    }
}

fn optional<T>(
    fields: &Map<String, Value>,
    name: &'static str,
    expected: &str,
    read: impl Fn(&Value) -> Option<T>,
) -> Result<Option<T>, WrongField> {
    let Some(value) = fields.get(name) else { return Ok(None) };
    let wrong = || WrongField { name, why: format!("is {value}, expected {expected}") };
    read(value).map(Some).ok_or_else(wrong)
}

/// Seconds, to the millisecond.
fn seconds(value: &Value, least: f64) -> Option<Duration> {
    let number = value.as_f64().filter(|number| (least..=SECONDS_MAX).contains(number))?;
    let duration = Duration::try_from_secs_f64(number).ok()?;
    duration.subsec_nanos().is_multiple_of(1_000_000).then_some(duration)
}

/// A whole number, which JavaScript writes as `5.0` too.
fn count(value: &Value, most: u32) -> Option<u32> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
    (1.0..=f64::from(most)).contains(&number).then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NAMES: Names =
        Names { retry_after: "r", initial_delay: "i", max_deliveries: "d", max_concurrency: "c" };

    fn read(fields: Value) -> Result<Policy, WrongField> {
        Policy::read(fields.as_object().expect("an object"), &NAMES)
    }

    #[test]
    fn fields_have_ranges() {
        assert_eq!(read(json!({})), Ok(Policy::default()));
        let all = read(json!({"r": 1.5, "i": 0, "d": 5.0, "c": 4_294_967_295_u32})).expect("a policy");
        assert_eq!((all.retry_after, all.initial_delay), (Duration::from_millis(1_500), Duration::ZERO));
        assert_eq!((all.max_deliveries, all.max_concurrency), (Some(5), Some(u32::MAX)));
        for (fields, wanted) in [
            (json!({"r": 0}), format!("r is 0, expected {RETRY_AFTER_RANGE}")),
            (json!({"r": 0.0001}), format!("r is 0.0001, expected {RETRY_AFTER_RANGE}")),
            (json!({"r": 86_401}), format!("r is 86401, expected {RETRY_AFTER_RANGE}")),
            (json!({"r": "60"}), format!("r is \"60\", expected {RETRY_AFTER_RANGE}")),
            (json!({"r": null}), format!("r is null, expected {RETRY_AFTER_RANGE}")),
            (json!({"r": 1.0001}), format!("r is 1.0001, expected {RETRY_AFTER_RANGE}")),
            (json!({"i": -1}), format!("i is -1, expected {INITIAL_DELAY_RANGE}")),
            (json!({"i": 86_400.5}), format!("i is 86400.5, expected {INITIAL_DELAY_RANGE}")),
            (json!({"d": 0}), format!("d is 0, expected {DELIVERIES_RANGE}")),
            (json!({"d": 1.5}), format!("d is 1.5, expected {DELIVERIES_RANGE}")),
            (json!({"d": 1_000_001}), format!("d is 1000001, expected {DELIVERIES_RANGE}")),
            (json!({"c": 4_294_967_296_u64}), format!("c is 4294967296, expected {CONCURRENCY_RANGE}")),
            (json!({"c": true}), format!("c is true, expected {CONCURRENCY_RANGE}")),
        ] {
            let WrongField { name, why } = read(fields).expect_err(&wanted);
            assert_eq!(format!("{name} {why}"), wanted);
        }
    }
}
