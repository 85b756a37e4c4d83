//! What goes over the wire, as JSON Schema: the components of the OpenAPI document.
//!
//! Written with the constants, words and lists of names that the parsers use, and held against the parsers field by field
//! (`tests/it/schemas.rs`). A schema that ends in `Input` is of what is sent, where a null is the same as an absent field; the
//! others are of what is answered. Lengths of strings are counted in characters here and in bytes by the parsers, and
//! ranges of durations stand in words: what a schema cannot say may still be refused, what it forbids always is.

mod backups;
mod calls;
mod events;
mod messages;
mod problem;
mod queues;
mod topics;
mod triggers;

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::{Map, Value, json};

use crate::limits::{ID_BYTES_MAX, MESSAGE_ID_BYTES_MAX, TOPIC_ID_BYTES_MAX};
use crate::{duration, name};

pub use problem::problem_of;
pub use triggers::deployment_id;

/// Every component by its name.
pub fn components() -> Map<String, Value> {
    let all = [calls::all(), events::all(), messages::all(), problem::all(), queues::all(), topics::all()];
    all.into_iter()
        .chain([backups::all(), triggers::all()])
        .flatten()
        .map(|(name, schema)| (name.to_owned(), schema))
        .collect()
}

/// Refers to a component.
pub fn component(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// The same schema with a sentence about it.
pub fn about(mut schema: Value, text: &str) -> Value {
    schema["description"] = json!(text);
    schema
}

/// A duration in a range, both ends included.
pub fn duration_in(range: RangeInclusive<Duration>) -> Value {
    let [least, most] = [range.start(), range.end()].map(|bound| duration::render(*bound));
    json!({
        "type": "string",
        "pattern": "^[0-9]+(\\.[0-9]{1,3})?s$",
        "description": format!("Seconds with up to three decimals: {least} to {most}."),
        "examples": [least],
    })
}

/// A point in time.
pub fn time() -> Value {
    json!({ "type": "string", "format": "date-time" })
}

/// A whole number in a range.
pub fn integer<T: Into<i64> + Copy>(range: RangeInclusive<T>) -> Value {
    let [least, most] = [*range.start(), *range.end()].map(Into::into);
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

/// A string of so many bytes.
pub fn text(bytes: RangeInclusive<usize>) -> Value {
    let (least, most) = bytes.into_inner();
    let mut schema = json!({ "type": "string", "maxLength": most });
    if least > 0 {
        schema["minLength"] = json!(least);
    }
    schema
}

/// One of these words.
pub fn words<'w>(words: impl IntoIterator<Item = &'w str>) -> Value {
    json!({ "type": "string", "enum": words.into_iter().collect::<Vec<_>>() })
}

/// True or false.
pub fn boolean() -> Value {
    json!({ "type": "boolean" })
}

/// An id inside a name.
pub fn id() -> Value {
    json!({ "type": "string", "pattern": name::ID_PATTERN, "maxLength": ID_BYTES_MAX })
}

/// The id of a topic, a group or a partition.
pub fn topic_id() -> Value {
    json!({ "type": "string", "pattern": name::TOPIC_ID_PATTERN, "maxLength": TOPIC_ID_BYTES_MAX })
}

/// An array of so many items.
pub fn list(items: Value, length: RangeInclusive<usize>) -> Value {
    json!({ "type": "array", "items": items, "minItems": length.start(), "maxItems": length.end() })
}

/// A 64-bit count, which is written as a string.
fn count() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]{1,20}$" })
}

/// A 64-bit count as it is read: a string or a number.
fn count_input() -> Value {
    json!({ "type": ["string", "integer"], "pattern": "^[0-9]+$", "minimum": 0, "maximum": u64::MAX })
}

fn message_id_input() -> Value {
    text(1..=MESSAGE_ID_BYTES_MAX)
}

/// An object that is answered: these fields are always there.
fn answer(fields: Vec<(&'static str, Value)>) -> Value {
    answer_with(fields, Vec::new())
}

/// The same, and fields that may be missing.
fn answer_with(always: Vec<(&'static str, Value)>, sometimes: Vec<(&'static str, Value)>) -> Value {
    let required: Vec<_> = always.iter().map(|(name, _)| *name).collect();
    let properties: Map<_, _> =
        always.into_iter().chain(sometimes).map(|(name, schema)| (name.to_owned(), schema)).collect();
    json!({ "type": "object", "required": required, "properties": properties })
}

/// An object that is sent: fields that must be there, and fields that may be left out or null. No others exist.
///
/// # Panics
/// These are not the fields that its parser knows, which are `names`.
fn input(names: &[&str], must: Vec<(&'static str, Value)>, may: Vec<(&'static str, Value)>) -> Value {
    let sorted = |mut names: Vec<_>| {
        names.sort_unstable();
        names
    };
    let own = sorted(must.iter().chain(&may).map(|(name, _)| *name).collect());
    assert_eq!(own, sorted(names.to_vec()), "the fields are those of the parser");
    let may = may.into_iter().map(|(name, schema)| (name, nullable(schema))).collect();
    let mut schema = answer_with(must, may);
    schema["additionalProperties"] = json!(false);
    if schema["required"] == json!([]) {
        schema.as_object_mut().map(|schema| schema.remove("required"));
    }
    schema
}

/// The same schema, and null.
fn nullable(mut schema: Value) -> Value {
    match schema.get("type") {
        None if schema.get("$ref").is_some() => json!({ "anyOf": [schema, { "type": "null" }] }),
        // Whatever has no type takes null already.
        None => schema,
        Some(Value::Array(types)) => {
            schema["type"] = types.iter().cloned().chain([json!("null")]).collect();
            schema
        }
        Some(kind) => {
            schema["type"] = json!([kind, "null"]);
            if let Some(words) = schema.get_mut("enum").and_then(Value::as_array_mut) {
                words.push(Value::Null);
            }
            schema
        }
    }
}
