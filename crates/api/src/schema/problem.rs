//! The error body.

use serde_json::{Value, json};

use super::{about, answer_with, boolean, component, integer, text, words};
use crate::ErrorCode;
use crate::limits::SHOWN_VALUE_CHARS_MAX;
use crate::problem::TYPE_PREFIX;

pub(super) fn all() -> Vec<(&'static str, Value)> {
    let page = json!({ "type": "string", "format": "uri", "pattern": format!("^{TYPE_PREFIX}[a-z-]+$") });
    let codes = words(ErrorCode::all().iter().map(|code| code.as_str()));
    let problem = answer_with(
        vec![
            ("type", about(page, "The page of the code.")),
            ("title", about(json!({ "type": "string" }), "The same few words for every occurrence.")),
            ("status", about(integer(400..=599), "The status of the answer.")),
            ("detail", about(json!({ "type": "string" }), "One sentence about this occurrence.")),
            (
                "instance",
                about(json!({ "type": "string" }), "The id of the request, as in `Millpond-Request-Id`."),
            ),
            ("code", about(codes, "What went wrong, from a closed set.")),
            ("retryable", about(boolean(), "Whether the same call may succeed later, unchanged.")),
            ("effect", about(words(["applied", "none", "unknown"]), "What the refused call has changed.")),
        ],
        vec![
            ("retry_after_ms", about(json!({ "type": "integer", "minimum": 0 }), "When to try again.")),
            ("field", about(json!({ "type": "string" }), "Which field was refused.")),
            ("value", about(text(0..=SHOWN_VALUE_CHARS_MAX), "What the field held, shortened.")),
            ("limit", about(json!({ "type": "string" }), "The bound that was broken.")),
        ],
    );
    vec![("Problem", about(problem, "Why a call was refused, by RFC 9457."))]
}

/// A problem with one of these codes.
pub fn problem_of(codes: &[ErrorCode]) -> Value {
    let codes = words(codes.iter().map(|code| code.as_str()));
    json!({ "allOf": [component("Problem"), { "type": "object", "properties": { "code": codes } }] })
}
