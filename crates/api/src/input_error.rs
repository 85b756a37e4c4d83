//! Why an input was refused.
//!
//! Two steps: whatever checks a bare value returns a [`Fault`] (what was expected); whoever knows where the
//! value stood turns it into an [`InputError`] (which field, what it was). So every refusal reads alike:
//! `spec.max_deliveries is 0, expected an integer from 1 to 100`.

use crate::ErrorCode;
use crate::limits::SHOWN_VALUE_CHARS_MAX;

/// What a value should have been. Becomes an [`InputError`] once a field is known, by [`Fault::at`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Completes the sentence "expected …".
    pub expected: String,
    /// The bound that was broken, if it was one.
    pub limit: Option<String>,
}

impl Fault {
    /// A value of the wrong kind or shape.
    pub fn new(expected: impl Into<String>) -> Fault {
        Fault { expected: expected.into(), limit: None }
    }

    /// A value beyond a bound.
    pub fn beyond(limit: impl ToString, expected: impl Into<String>) -> Fault {
        Fault { expected: expected.into(), limit: Some(limit.to_string()) }
    }

    /// Names the field that held the value. Both are shortened: names are the sender's choice as well.
    pub fn at(self, field: impl AsRef<str>, value: &str) -> InputError {
        let field = shorten(field.as_ref());
        let value = shorten(value);
        let subject = if field.is_empty() { "body" } else { &field };
        InputError {
            code: ErrorCode::InvalidField,
            detail: format!("{subject} is {value}, expected {}", self.expected),
            field: Some(field).filter(|field| !field.is_empty()),
            value: Some(value),
            limit: self.limit,
        }
    }
}

/// A refused input: nothing of the call was stored.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct InputError {
    /// The code that the client gets.
    pub code: ErrorCode,
    /// Where, as a path like `events[3].type`, shortened like the value. None for the body as a whole.
    pub field: Option<String>,
    /// The offending JSON text, shortened to [`SHOWN_VALUE_CHARS_MAX`] characters.
    pub value: Option<String>,
    /// One sentence for people: the field, the value, what was expected.
    pub detail: String,
    /// The bound that was broken, in the notation of the field (`100`, `43200s`).
    pub limit: Option<String>,
}

impl InputError {
    /// The body is not JSON.
    pub(crate) fn malformed(reason: impl std::fmt::Display) -> InputError {
        InputError {
            code: ErrorCode::MalformedJson,
            field: None,
            value: None,
            detail: format!("body is not valid json: {reason}"),
            limit: None,
        }
    }

    /// A required field is absent, null or empty.
    pub(crate) fn missing(field: String) -> InputError {
        InputError {
            code: ErrorCode::MissingField,
            detail: format!("{field} is missing"),
            field: Some(field),
            value: None,
            limit: None,
        }
    }

    /// A field that does not exist; `known` are those that do.
    pub(crate) fn unknown(field: String, known: &[&str]) -> InputError {
        let field = shorten(&field);
        InputError {
            code: ErrorCode::UnknownField,
            detail: format!("{field} is not a field, known are {}", known.join(", ")),
            field: Some(field),
            value: None,
            limit: None,
        }
    }

    /// Something has too many bytes. An empty field means the body.
    pub(crate) fn too_large(field: String, bytes: usize, limit: usize) -> InputError {
        let subject = if field.is_empty() { "body" } else { &field };
        InputError {
            code: ErrorCode::PayloadTooLarge,
            detail: format!("{subject} is {bytes} bytes, limit {limit}"),
            field: Some(field).filter(|field| !field.is_empty()),
            value: None,
            limit: Some(limit.to_string()),
        }
    }

    /// A content type that no parser here takes.
    pub(crate) fn unsupported_media_type(given: &str, expected: &str) -> InputError {
        let mut error = Fault::new(expected).at("content-type", given);
        error.code = ErrorCode::UnsupportedMediaType;
        error
    }
}

/// The first [`SHOWN_VALUE_CHARS_MAX`] characters, the last of them an ellipsis where something was cut.
pub(crate) fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHOWN_VALUE_CHARS_MAX) {
        None => text.to_owned(),
        Some(_) => {
            let kept = text.chars().take(SHOWN_VALUE_CHARS_MAX - 1);
            kept.chain(std::iter::once('…')).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_names_field_value_and_expectation() {
        let error = Fault::beyond(100, "an integer from 1 to 100").at("spec.max_deliveries", "0");
        assert_eq!(error.to_string(), "spec.max_deliveries is 0, expected an integer from 1 to 100");
        assert_eq!(error.limit.as_deref(), Some("100"));
    }

    #[test]
    fn an_error_is_short_whatever_was_sent() {
        let long = "x".repeat(100_000);
        let error = Fault::new("less").at(&long, &long);
        assert!(error.detail.len() < 300, "{}", error.detail.len());
        assert!(InputError::unknown(long.clone(), &["a"]).detail.len() < 300);
        assert!(InputError::unsupported_media_type(&long, "json").detail.len() < 300);
    }

    #[test]
    fn a_value_is_cut_at_a_character_beyond_the_limit_only() {
        let fits = "é".repeat(SHOWN_VALUE_CHARS_MAX);
        assert_eq!(shorten(&fits), fits);
        let cut = shorten(&"é".repeat(SHOWN_VALUE_CHARS_MAX + 1));
        assert_eq!(cut.chars().count(), SHOWN_VALUE_CHARS_MAX);
        assert!(cut.ends_with("é…"));
    }
}
