//! Events in our own form and as CloudEvents.

use serde_json::{Map, Value, json};

use super::{about, answer_with, component, input, list, nullable, text, time};
use crate::event::FIELDS;
use crate::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, EVENT_ID_BYTES_MAX, EVENTS_PER_CALL_MAX,
    EXTENSIONS_MAX, JSON_DEPTH_MAX,
};

/// Characters that CloudEvents strings do not have.
const NO_CONTROLS: &str = "^[^\\u0000-\\u001f\\u007f-\\u009f\\ufdd0-\\ufdef\\ufffe\\uffff]*$";
const MEDIA_TYPE: &str = "^[!-.0-~][ -.0-~]*/[ -~]*[!-~]$";
const BASE64: &str = "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$";

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    let batch = |item: &str, least: usize| list(component(item), least..=EVENTS_PER_CALL_MAX);
    vec![
        ("CloudEvent", cloud_event(false)),
        ("CloudEventBatch", batch("CloudEvent", 0)),
        ("CloudEventBatchInput", batch("CloudEventInput", 1)),
        ("CloudEventInput", cloud_event(true)),
        ("Event", event(false)),
        ("EventInput", event(true)),
    ]
}

fn attribute(bytes_max: usize) -> Value {
    let mut schema = text(1..=bytes_max);
    schema["pattern"] = json!(NO_CONTROLS);
    schema
}

/// Whether a value may be an extension's.
fn extension_value() -> Value {
    json!({
        "type": ["string", "integer", "boolean"],
        "maxLength": ATTRIBUTE_VALUE_BYTES_MAX,
        "pattern": NO_CONTROLS,
        "minimum": i32::MIN,
        "maximum": i32::MAX,
    })
}

/// The core attributes, by CloudEvents' names: those that must be there, and the others.
fn attributes() -> (Fields, Fields) {
    let plain = || attribute(ATTRIBUTE_VALUE_BYTES_MAX);
    let media_type =
        json!({ "type": "string", "pattern": MEDIA_TYPE, "maxLength": ATTRIBUTE_VALUE_BYTES_MAX });
    let must = vec![
        ("id", about(attribute(EVENT_ID_BYTES_MAX), "Unique for its source.")),
        ("source", about(plain(), "What the event comes from, a URI reference as a rule.")),
        ("type", about(plain(), "What kind of event it is.")),
    ];
    let may = vec![
        ("subject", about(plain(), "What it is about.")),
        ("time", about(time(), "When it happened.")),
        ("datacontenttype", about(media_type, "The media type of the data; json if there is none.")),
        ("dataschema", about(plain(), "What the data adheres to, a URI as a rule.")),
    ];
    (must, may)
}

/// The payload: at most one of two fields.
fn data() -> Fields {
    let any = format!(
        "Any JSON value of up to {JSON_DEPTH_MAX} levels. A string under a media type that is not JSON is text."
    );
    let base64 = json!({ "type": "string", "pattern": BASE64, "contentEncoding": "base64" });
    vec![
        ("data", json!({ "description": any })),
        ("data_base64", about(base64, "Data that is neither JSON nor text; not beside `data`.")),
    ]
}

/// Not both of `data` and `data_base64`.
fn exclude_both(mut schema: Value) -> Value {
    schema["not"] = json!({
        "required": ["data", "data_base64"],
        "properties": { "data_base64": { "type": "string" } },
    });
    schema
}

fn event(is_input: bool) -> Value {
    let (must, attributes) = attributes();
    let ours = |name: &'static str| match name {
        "time" => "event_time",
        "datacontenttype" => "data_content_type",
        "dataschema" => "data_schema",
        same => same,
    };
    let value = if is_input { nullable(extension_value()) } else { extension_value() };
    let extensions = json!({
        "type": "object",
        "maxProperties": EXTENSIONS_MAX,
        "propertyNames": extension_name(),
        "additionalProperties": value,
        "description": "Further attributes of CloudEvents.",
    });
    let mut may: Vec<_> = attributes.into_iter().map(|(name, schema)| (ours(name), schema)).collect();
    may.extend(data());
    may.push(("extensions", extensions));
    if is_input {
        about(exclude_both(input(FIELDS, must, may)), "An event in our own form.")
    } else {
        about(answer_with(must, may), "An event in our own form.")
    }
}

fn extension_name() -> Value {
    let reserved =
        ["data", "dataschema", "datacontenttype", "id", "source", "specversion", "subject", "time", "type"];
    json!({
        "pattern": format!("^[a-z0-9]{{1,{ATTRIBUTE_NAME_BYTES_MAX}}}$"),
        "not": { "enum": reserved },
    })
}

fn cloud_event(is_input: bool) -> Value {
    let (mut must, mut may) = attributes();
    must.insert(0, ("specversion", json!({ "type": "string", "const": "1.0" })));
    may.extend(data());
    let known: Vec<_> = must.iter().chain(&may).map(|(name, _)| *name).collect();
    let (mut schema, value) = if is_input {
        (exclude_both(input(&known, must, may)), nullable(extension_value()))
    } else {
        (answer_with(must, may), extension_value())
    };
    schema["additionalProperties"] = json!(false);
    // A pattern concerns properties with a schema of their own too, so it has to leave them out.
    let others = known.join("|");
    let pattern = format!("^(?!({others})$)[a-z0-9]{{1,{ATTRIBUTE_NAME_BYTES_MAX}}}$");
    schema["patternProperties"] = Value::Object(Map::from_iter([(pattern, value)]));
    about(schema, "A CloudEvent in the JSON format. Whatever is not named here is an extension.")
}
