//! The error body: RFC 9457, with members of our own.
//!
//! `type`, `title`, `status` and `retryable` follow from the code; `detail`, `field`, `value` and `limit` are
//! about this occurrence. Details of the server's insides never get here: they go to the log.

use serde::Serialize;

use crate::input_error::shorten;
use crate::{ErrorCode, InputError};

/// The content type of an error body.
pub const MEDIA_TYPE: &str = "application/problem+json";

/// Where the pages of `docs/errors` are published, one per code.
pub const TYPE_PREFIX: &str = "https://millpond.dev/errors/";

/// What the refused call has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// All of it is stored, although the answer is an error.
    Applied,
    /// Nothing was stored.
    None,
    /// It may be stored or not; ask again with the same idempotency key.
    Unknown,
}

/// An error as the client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The code.
    pub code: ErrorCode,
    /// One sentence about this occurrence, lower case without full stop.
    pub detail: String,
    /// The id of the request, which the log carries too.
    pub instance: String,
    /// What the call has changed.
    pub effect: Effect,
    /// When to try again, for retryable codes. The `Retry-After` header is this in whole seconds, rounded up.
    pub retry_after_ms: Option<u64>,
    /// Which field was refused.
    pub field: Option<String>,
    /// What the field held, as JSON text.
    pub value: Option<String>,
    /// The bound that was broken, in the notation of the field.
    pub limit: Option<String>,
}

impl Problem {
    /// An error with the code's usual effect and no field.
    pub fn new(code: ErrorCode, detail: impl Into<String>, request_id: impl Into<String>) -> Problem {
        Problem {
            code,
            detail: detail.into(),
            instance: request_id.into(),
            effect: code.effect(),
            retry_after_ms: None,
            field: None,
            value: None,
            limit: None,
        }
    }

    /// The error for a refused input.
    pub fn from_input(error: InputError, request_id: impl Into<String>) -> Problem {
        let mut problem = Problem::new(error.code, error.detail, request_id);
        problem.field = error.field;
        problem.value = error.value;
        problem.limit = error.limit;
        problem
    }

    /// The same error with a time to wait before the next try.
    pub fn retry_after_ms(mut self, milliseconds: u64) -> Problem {
        self.retry_after_ms = Some(milliseconds);
        self
    }

    /// The `type` member: the address of the code's page.
    pub fn type_uri(&self) -> String {
        format!("{TYPE_PREFIX}{}", self.code.kebab())
    }

    /// The body.
    pub fn render(&self) -> String {
        let body = Body {
            type_uri: self.type_uri(),
            title: self.code.title(),
            status: self.code.status(),
            detail: &self.detail,
            instance: &self.instance,
            code: self.code.as_str(),
            retryable: self.code.retryable(),
            effect: self.effect,
            retry_after_ms: self.retry_after_ms,
            field: self.field.as_deref(),
            value: self.value.as_deref().map(shorten),
            limit: self.limit.as_deref(),
        };
        serde_json::to_string(&body).expect("strings and numbers serialize")
    }
}

#[derive(Serialize)]
struct Body<'a> {
    #[serde(rename = "type")]
    type_uri: String,
    title: &'static str,
    status: u16,
    detail: &'a str,
    instance: &'a str,
    code: &'static str,
    retryable: bool,
    effect: Effect,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    #[test]
    fn a_refused_input_becomes_a_body_with_field_value_and_limit() {
        let error =
            Fault::beyond("43200s", "a duration from 1s to 43200s").at("visibility_timeout", "\"0s\"");
        let expected = concat!(
            r#"{"type":"https://millpond.dev/errors/invalid-field","title":"field has an invalid value","#,
            r#""status":400,"detail":"visibility_timeout is \"0s\", expected a duration from 1s to 43200s","#,
            r#""instance":"req_1","code":"invalid_field","retryable":false,"effect":"none","#,
            r#""field":"visibility_timeout","value":"\"0s\"","limit":"43200s"}"#
        );
        assert_eq!(Problem::from_input(error, "req_1").render(), expected);
    }

    #[test]
    fn absent_members_are_left_out_and_present_ones_are_not() {
        let problem = Problem::new(ErrorCode::OutcomeUnknown, "connection to the store was lost", "req_2");
        let expected = concat!(
            r#"{"type":"https://millpond.dev/errors/outcome-unknown","#,
            r#""title":"call may or may not have been stored","status":503,"#,
            r#""detail":"connection to the store was lost","instance":"req_2","code":"outcome_unknown","#,
            r#""retryable":true,"effect":"unknown","retry_after_ms":250}"#
        );
        assert_eq!(problem.retry_after_ms(250).render(), expected);
    }

    #[test]
    fn a_long_value_is_shortened() {
        let mut problem = Problem::new(ErrorCode::InvalidField, "too long", "req_3");
        problem.value = Some("v".repeat(101));
        let body: serde_json::Value = serde_json::from_str(&problem.render()).expect("valid json");
        assert_eq!(body["value"].as_str().map(|value| value.chars().count()), Some(100));
    }
}
