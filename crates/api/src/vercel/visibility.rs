//! `{"visibilityTimeoutSeconds": n}`: how long a lease lasts from now; 0 gives it back.

use std::time::Duration;

use serde_json::Value;

use crate::input_error::{Fault, InputError};
use crate::limits::VERCEL_VISIBILITY_MAX;

const FIELD: &str = "visibilityTimeoutSeconds";

/// Reads the body. Other fields are passed over, as clients may come to have more.
pub fn parse(body: &[u8]) -> Result<Duration, InputError> {
    let body: Value = serde_json::from_slice(body).map_err(InputError::malformed)?;
    let value = body.get(FIELD).ok_or_else(|| InputError::missing(FIELD.to_owned()))?;
    let most = VERCEL_VISIBILITY_MAX.as_secs();
    match value.as_u64().filter(|seconds| *seconds <= most) {
        Some(seconds) => Ok(Duration::from_secs(seconds)),
        None => {
            Err(Fault::beyond(most, format!("an integer from 0 to {most}")).at(FIELD, &value.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_changed_by_whole_seconds_up_to_an_hour() {
        let seconds = |text: &str| parse(text.as_bytes()).map(|duration| duration.as_secs());
        for (value, expected) in [("0", 0), ("30", 30), ("3600", 3_600)] {
            assert_eq!(seconds(&format!("{{\"{FIELD}\": {value}}}")), Ok(expected));
        }
        assert_eq!(seconds(&format!("{{\"more\":[], \"{FIELD}\":1}}")), Ok(1));
        for value in ["3601", "-1", "30.5", "30.0", "\"30\"", "null", "true", "[30]", "1e1"] {
            let error = seconds(&format!("{{\"{FIELD}\": {value}}}")).expect_err(value);
            assert_eq!(error.field.as_deref(), Some(FIELD));
        }
        for body in ["", "{}", "[]", "30", "{\"visibilityTimeoutSeconds\":", "\"visibilityTimeoutSeconds\""] {
            assert!(seconds(body).is_err(), "{body}");
        }
    }
}
