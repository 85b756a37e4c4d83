//! The schemas of what is sent say what the parsers do: what fits a schema is taken, what breaks it in one place is refused.

use millpond_api::InputError;
use millpond_api::dead_letters::{RedriveRequest, ReplayRequest};
use millpond_api::deployment::DeploymentBody;
use millpond_api::event::{batch, structured};
use millpond_api::lease::LeaseRequest;
use millpond_api::message::PeekRequest;
use millpond_api::name::Kind;
use millpond_api::purge::PurgeRequest;
use millpond_api::queue::QueueBody;
use millpond_api::schema::components;
use millpond_api::send::{SendForm, SendRequest};
use millpond_api::settle::{AckRequest, ExtendRequest, NackRequest, SettleRequest};
use millpond_api::signing_secret::RotateRequest;
use millpond_api::trigger::TriggerBody;
use serde_json::{Map, Value, json};

type Parse = fn(&[u8]) -> Result<(), InputError>;

/// Every schema of a body, and what reads it.
const BODIES: [(&str, Parse); 24] = [
    ("AckInput", |body| AckRequest::parse(Kind::Queue, body).map(drop)),
    ("CloudEventBatchInput", |body| batch::parse(body).map(drop)),
    ("CloudEventInput", |body| structured::parse(body).map(drop)),
    ("DeploymentInput", |body| DeploymentBody::parse(body).map(drop)),
    ("ExtendInput", |body| ExtendRequest::parse(Kind::Queue, body).map(drop)),
    ("GroupAckInput", |body| AckRequest::parse(Kind::Topic, body).map(drop)),
    ("GroupExtendInput", |body| ExtendRequest::parse(Kind::Topic, body).map(drop)),
    ("GroupInput", |body| QueueBody::parse(Kind::Group, body).map(drop)),
    ("GroupLeaseInput", |body| LeaseRequest::parse(Kind::Topic, body).map(drop)),
    ("GroupNackInput", |body| NackRequest::parse(Kind::Topic, body).map(drop)),
    ("GroupSettleInput", |body| SettleRequest::parse(Kind::Topic, body).map(drop)),
    ("LeaseInput", |body| LeaseRequest::parse(Kind::Queue, body).map(drop)),
    ("NackInput", |body| NackRequest::parse(Kind::Queue, body).map(drop)),
    ("PeekInput", |body| PeekRequest::parse(Kind::Queue, body).map(drop)),
    ("PurgeInput", |body| PurgeRequest::parse(body).map(drop)),
    ("QueueInput", |body| QueueBody::parse(Kind::Queue, body).map(drop)),
    ("RedriveInput", |body| RedriveRequest::parse(body).map(drop)),
    ("ReplayInput", |body| ReplayRequest::parse(body).map(drop)),
    ("RotateInput", |body| RotateRequest::parse(body).map(drop)),
    ("SendInput", |body| SendRequest::parse(SendForm::Native, body).map(drop)),
    ("SettleInput", |body| SettleRequest::parse(Kind::Queue, body).map(drop)),
    ("TopicInput", |body| QueueBody::parse(Kind::Topic, body).map(drop)),
    ("TopicPeekInput", |body| PeekRequest::parse(Kind::Topic, body).map(drop)),
    ("TriggerInput", |body| TriggerBody::parse(body).map(drop)),
];

/// The schema with every reference in it followed.
fn resolve(schema: &Value, components: &Map<String, Value>) -> Value {
    match schema {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                let name = reference.rsplit('/').next().expect("a name");
                return resolve(&components[name], components);
            }
            let resolved = members.iter().map(|(name, value)| (name.clone(), resolve(value, components)));
            Value::Object(resolved.collect())
        }
        Value::Array(items) => items.iter().map(|item| resolve(item, components)).collect(),
        other => other.clone(),
    }
}

fn has_type(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(kind) => kind == wanted,
        Value::Array(kinds) => kinds.iter().any(|kind| kind == wanted),
        _ => false,
    }
}

/// A schema's first alternative, which is the one that is not null.
fn bare(schema: &Value) -> &Value {
    schema.get("anyOf").map_or(schema, |alternatives| &alternatives[0])
}

/// A string that fits a pattern of ours.
fn string(schema: &Value) -> Value {
    if let Some(word) = schema.get("const").or_else(|| schema.get("enum").map(|words| &words[0])) {
        return word.clone();
    }
    if schema["format"] == "date-time" {
        return json!("2026-10-07T12:30:00Z");
    }
    let Some(pattern) = schema["pattern"].as_str() else { return json!("x") };
    if let Some(example) = schema.pointer("/examples/0") {
        return example.clone();
    }
    if pattern.starts_with("^orgs/") {
        let path = [("/groups/", "topics/d/groups/e"), ("/topics/", "topics/d"), ("/queues/", "queues/d")];
        let found = path.iter().find(|(part, _)| pattern.contains(part)).expect("one of them");
        return json!(format!("orgs/a/projects/b/envs/c/{}", found.1));
    }
    let known = [
        ("^[0-9]+$", "7"),
        ("^(orgs/", "dead"),
        ("^[A-Za-z0-9_-]+$", "Own_1"),
        ("^[!-.0-~]", "application/json"),
        ("^([A-Za-z0-9+/]{4})*", "aGk="),
        ("^[^\\u0000", "x"),
    ];
    let found = known.iter().find(|(start, _)| pattern.starts_with(start));
    json!(found.unwrap_or_else(|| panic!("no sample for {pattern}")).1)
}

/// A value that fits a schema: with all properties, or with those that must be there.
fn sample(schema: &Value, whole: bool) -> Value {
    let schema = bare(schema);
    if has_type(schema, "object") {
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        let wanted = |name: &String| required.contains(&json!(name)) || (whole && *name != "data_base64");
        let properties = schema["properties"].as_object().cloned().unwrap_or_default();
        let members = properties.iter().filter(|(name, _)| wanted(name));
        return Value::Object(members.map(|(name, schema)| (name.clone(), sample(schema, whole))).collect());
    }
    if has_type(schema, "array") {
        let least = schema["minItems"].as_u64().unwrap_or(0).max(u64::from(whole));
        return (0..least).map(|_| sample(&schema["items"], whole)).collect();
    }
    if has_type(schema, "string") {
        return string(schema);
    }
    if has_type(schema, "integer") || has_type(schema, "number") {
        return schema["minimum"].clone();
    }
    if has_type(schema, "boolean") { json!(true) } else { json!({ "any": [1, "x"] }) }
}

/// Values that break a schema in one way each.
fn broken(schema: &Value) -> Vec<Value> {
    let takes_null = schema.get("anyOf").is_some();
    let schema = bare(schema);
    if schema.get("type").is_none() {
        return Vec::new();
    }
    let mut values = Vec::new();
    for (kind, value) in [
        ("array", json!([])),
        ("boolean", json!(true)),
        ("integer", json!(1)),
        ("number", json!(1.5)),
        ("object", json!({})),
        ("string", json!("\u{1}")),
    ] {
        let fits = has_type(schema, kind) || (kind == "integer" && has_type(schema, "number"));
        if !fits {
            values.push(value);
        }
    }
    if !takes_null && !has_type(schema, "null") {
        values.push(Value::Null);
    }
    if has_type(schema, "integer") {
        let bound = |name: &str| schema[name].as_i64();
        values.extend(bound("minimum").map(|least| json!(least - 1)));
        values.extend(bound("maximum").map(|most| json!(most + 1)));
    }
    if has_type(schema, "number") {
        let bound = |name: &str| schema[name].as_f64();
        values.extend(bound("minimum").map(|least| json!(least - 0.001)));
        values.extend(bound("maximum").map(|most| json!(most + 0.001)));
    }
    if has_type(schema, "string") {
        let most = schema["maxLength"].as_u64().and_then(|most| usize::try_from(most).ok());
        values.extend(most.map(|most| json!("x".repeat(most + 1))));
        values.extend((schema["minLength"] == 1).then(|| json!("")));
        if schema.get("enum").or_else(|| schema.get("const")).is_some() {
            values.push(json!("no such word"));
        }
        if schema.get("pattern").or_else(|| schema.get("format")).is_some() {
            values.push(json!("\u{1}"));
        }
    }
    if has_type(schema, "array") {
        let item = sample(&schema["items"], false);
        let of = |count: u64| (0..count).map(|_| item.clone()).collect::<Value>();
        values.extend(schema["minItems"].as_u64().filter(|least| *least > 0).map(|least| of(least - 1)));
        values.extend(schema["maxItems"].as_u64().map(|most| of(most + 1)));
    }
    values
}

/// Calls `visit` with each place in a schema and what leads there in its sample.
fn places(schema: &Value, path: &str, visit: &mut impl FnMut(&str, &Value)) {
    visit(path, schema);
    let schema = bare(schema);
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        places(inner, &format!("{path}/{name}"), visit);
    }
    if has_type(schema, "array") {
        places(&schema["items"], &format!("{path}/0"), visit);
    }
}

/// What a schema cannot say or excludes: two ends of a span are in order, and no ids are beside them; what is sent to a topic is
/// not sent to a queue.
fn make_consistent(body: &mut Value) {
    if let Some(send) = body.pointer_mut("/sends/0") {
        send["queue"] = Value::Null;
        send["partition"] = Value::Null;
    }
    if body.get("end_time").is_some() {
        body["end_time"] = json!("2027-01-01T00:00:00Z");
        body["message_ids"] = Value::Null;
    }
}

fn takes(parse: Parse, body: &Value) -> bool {
    parse(body.to_string().as_bytes()).is_ok()
}

#[test]
fn every_body_has_its_schema() {
    let components = components();
    let bodies = BODIES.map(|(name, _)| name);
    // Those that only stand inside others, and what has no body of its own.
    let inside = [
        "EventInput",
        "GroupLeaseIdInput",
        "GroupSpecInput",
        "LeaseIdInput",
        "QueueSpecInput",
        "TopicSpecInput",
    ];
    let inputs: Vec<_> = components.keys().filter(|name| name.ends_with("Input")).collect();
    assert!(
        inputs.iter().all(|name| bodies.contains(&name.as_str()) || inside.contains(&name.as_str())),
        "{inputs:?}"
    );
    assert_eq!(inputs.len(), bodies.len() + inside.len());
}

#[test]
fn what_fits_a_schema_is_taken() {
    let components = components();
    for (name, parse) in BODIES {
        let schema = resolve(&components[name], &components);
        for whole in [false, true] {
            let mut body = sample(&schema, whole);
            if name.ends_with("SettleInput") && !whole {
                body["acks"] = json!([sample(
                    &resolve(&components[&name.replace("Settle", "LeaseId")], &components),
                    false
                )]);
            }
            make_consistent(&mut body);
            let read = parse(body.to_string().as_bytes());
            assert!(read.is_ok(), "{name}: {body}: {read:?}");
        }
    }
}

#[test]
fn what_breaks_a_schema_is_refused() {
    let components = components();
    let mut tried = 0;
    for (name, parse) in BODIES {
        let schema = resolve(&components[name], &components);
        let mut body = sample(&schema, true);
        make_consistent(&mut body);
        assert!(takes(parse, &body), "{name}: {body}");
        places(&schema, "", &mut |path, place| {
            // One of two properties that exclude each other is not in the sample.
            let Some(there) = body.pointer(path).cloned() else { return };
            let set = |value: Value| {
                let mut body = body.clone();
                *body.pointer_mut(path).expect("it is there") = value;
                body
            };
            for value in broken(place) {
                let body = set(value.clone());
                assert!(!takes(parse, &body), "{name}{path} as {value} is taken: {body}");
                tried += 1;
            }
            let inner = bare(place);
            if inner["additionalProperties"] == json!(false) && inner.get("patternProperties").is_none() {
                let mut more = there.clone();
                more["nosuchfield"] = json!(1);
                assert!(!takes(parse, &set(more)), "{name}{path} takes a field that it has not");
            }
            for required in inner["required"].as_array().into_iter().flatten() {
                let mut less = there.clone();
                less.as_object_mut().expect("an object").remove(required.as_str().expect("a name"));
                assert!(!takes(parse, &set(less)), "{name}{path} does not need {required}");
            }
            if has_type(place, "null") || place.get("anyOf").is_some() {
                assert!(takes(parse, &set(Value::Null)), "{name}{path} as null is refused");
            }
        });
    }
    assert!(tried > 300, "{tried}");
}
