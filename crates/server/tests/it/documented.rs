//! Every answer that a test gets is in the OpenAPI document: its status, its content type, its body, and its code.
//!
//! Objects that are answered are open in the document, so that clients stay ready for more; here they are closed, so that
//! nothing is answered that is not written down.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex};

use axum::body::Body;
use axum::http::{Method, StatusCode};
use jsonschema::Validator;
use millpond_engine::{Engine, EngineSettings};
use millpond_server::{App, CONNECTIONS, RUNTIME_CACHE_BYTES_MIN};
use millpond_test_stores::new_store;
use serde_json::{Value, json};

use crate::harness::{Reply, Server};

static DOCUMENT: LazyLock<Document> = LazyLock::new(Document::new);

struct Document {
    whole: Value,
    /// Components with closed objects.
    components: Value,
    validators: Mutex<HashMap<String, &'static Validator>>,
}

impl Document {
    fn new() -> Self {
        let whole: Value = serde_json::from_str(millpond_server::openapi::text()).expect("json");
        let mut components = whole["components"].clone();
        for schema in components["schemas"].as_object_mut().expect("an object").values_mut() {
            close(schema);
        }
        Self { whole, components, validators: Mutex::default() }
    }

    /// The operation that a request is, if it is documented.
    fn operation(&self, method: &Method, path: &str) -> Option<(String, &Value)> {
        let paths = self.whole["paths"].as_object().expect("an object");
        let mut templates: Vec<_> = paths.keys().filter(|template| is_like(template, path)).collect();
        // With a verb before without one, which would take the verb for a part of the id.
        templates.sort_by_key(|template| std::cmp::Reverse(template.contains("}:")));
        let template = templates.first()?;
        let method = method.as_str().to_lowercase();
        let operation = paths[template.as_str()].get(&method)?;
        Some((format!("{method} {template}"), operation))
    }

    /// A response with its reference followed.
    fn response<'d>(&'d self, operation: &'d Value, status: StatusCode) -> Option<&'d Value> {
        let response = operation["responses"].get(status.as_str())?;
        match response["$ref"].as_str() {
            Some(reference) => self.whole.pointer(&reference[1..]),
            None => Some(response),
        }
    }

    fn validator(&self, name: &str, schema: &Value) -> &'static Validator {
        let mut validators = self.validators.lock().expect("no test fails with it");
        validators.entry(name.to_owned()).or_insert_with(|| {
            let schema = json!({ "allOf": [schema], "components": self.components });
            let built = jsonschema::draft202012::options().should_validate_formats(true).build(&schema);
            Box::leak(Box::new(built.unwrap_or_else(|error| panic!("{name}: {error}"))))
        })
    }
}

/// Closes every object of a schema that does not say whether it is open.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if members.contains_key("properties") && !members.contains_key("additionalProperties") {
                members.insert("additionalProperties".to_owned(), json!(false));
            }
            members.iter_mut().filter(|(name, _)| *name != "not").for_each(|(_, member)| close(member));
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn is_like(template: &str, path: &str) -> bool {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    template.len() == path.len()
        && template.iter().zip(&path).all(|(wanted, given)| segment_is_like(wanted, given))
}

fn segment_is_like(wanted: &str, given: &str) -> bool {
    match wanted.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
        Some((_, suffix)) => given.ends_with(suffix),
        None => wanted == given,
    }
}

fn check_body(name: &str, response: &Value, reply: &Reply) {
    let contents = &response["content"];
    // What a message holds is not the server's to say.
    if contents.get("*/*").is_some() {
        return;
    }
    let media_type = reply.header("content-type");
    let schema = contents.get(media_type).map(|content| &content["schema"]);
    let schema = schema.unwrap_or_else(|| panic!("{name} as {media_type} is not documented"));
    let validator = DOCUMENT.validator(&format!("{name} {media_type}"), schema);
    let text = String::from_utf8_lossy(&reply.body);
    let parsed = if media_type.contains("json") { reply.json() } else { json!(text) };
    let errors: Vec<_> =
        validator.iter_errors(&parsed).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name} is documented otherwise: {errors:#?}\n{text}");
}

/// Holds an answer against the document. What asks for something that is not documented is passed over.
#[track_caller]
pub(crate) fn check(method: &Method, path: &str, reply: &Reply) {
    let Some((name, operation)) = DOCUMENT.operation(method, path) else { return };
    let name = format!("{name} {}", reply.status.as_u16());
    let body = String::from_utf8_lossy(&reply.body);
    let response = DOCUMENT.response(operation, reply.status);
    let response = response.unwrap_or_else(|| panic!("{name} is not documented: {body}"));
    check_body(&name, response, reply);
    for (header, wanted) in response["headers"].as_object().into_iter().flatten() {
        let pointer = wanted["$ref"].as_str().map_or("", |reference| &reference[1..]);
        let required = DOCUMENT.whole.pointer(pointer).is_some_and(|header| header["required"] == true);
        assert!(!required || reply.headers.contains_key(header.as_str()), "{name} lacks {header}");
    }
}

#[test]
fn the_committed_document_is_the_present_one() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
    let kept = std::fs::read_to_string(path).expect("docs/openapi.json can be read");
    let command = "cargo run -p millpond-server --example openapi > docs/openapi.json";
    assert!(kept == millpond_server::openapi::text(), "docs/openapi.json is old; write it anew: {command}");
}

#[tokio::test]
async fn the_document_is_served() {
    let server = Server::start().await;
    let reply = server.get("/openapi.json").await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(String::from_utf8_lossy(&reply.body), millpond_server::openapi::text());
}

#[tokio::test]
async fn every_documented_operation_is_routed() {
    let engine = Engine::start(EngineSettings::default(), Arc::new(new_store()));
    let directory = tempfile::tempdir().expect("a directory");
    let whole =
        |app: App| app.with_runtime_cache(RUNTIME_CACHE_BYTES_MIN).with_backups(directory.path().to_owned());
    let server = Server::made(engine, CONNECTIONS, whole).await;
    let paths = DOCUMENT.whole["paths"].as_object().expect("an object");
    for (template, item) in paths {
        let names = ["org", "project", "env", "queue", "topic", "group", "partition", "message", "key"];
        let path = names
            .iter()
            .chain(&["trigger", "deployment"])
            .fold(template.clone(), |path, name| path.replace(&format!("{{{name}}}"), "x"));
        for method in item.as_object().expect("an object").keys() {
            // Which backups there are changes with each start; that one is asked for is tested in `backups`.
            if template == "/v1/backups/{backup}" {
                continue;
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let reply = server.call(method.clone(), &path, &[], Body::empty()).await;
            if reply.status.is_client_error() {
                let code = reply.code();
                assert!(code != "not_found" && code != "method_not_allowed", "{method} {path}: {code}");
            }
        }
    }
}

#[test]
fn a_template_takes_its_paths_only() {
    for (template, path, like) in [
        ("/v1/queues/{queue}", "/v1/queues/q", true),
        ("/v1/queues/{queue}", "/v1/queues/q/x", false),
        ("/v1/queues/{queue}:send", "/v1/queues/q:send", true),
        ("/v1/queues/{queue}:send", "/v1/queues/q:sent", false),
        ("/v1/queues/{queue}/dead-letters", "/v1/queues/q/dead-letters", true),
        ("/v1/queues/{queue}/dead-letters", "/v1/queues/q/messages", false),
    ] {
        assert_eq!(is_like(template, path), like, "{template} {path}");
    }
}

#[test]
fn an_answer_that_is_not_documented_fails_its_test() {
    let reply = |status, content_type: &'static str, body: &str| {
        let mut headers = axum::http::HeaderMap::new();
        headers.insert("content-type", axum::http::HeaderValue::from_static(content_type));
        headers.insert("millpond-request-id", axum::http::HeaderValue::from_static("req_1"));
        Reply { status, headers, body: body.as_bytes().to_vec() }
    };
    let refuses = |reply: Reply| {
        std::panic::catch_unwind(|| check(&Method::POST, "/v1/queues/q:purge", &reply)).is_err()
    };
    let json = "application/json";
    assert!(!refuses(reply(StatusCode::OK, json, r#"{"purged_count":"1"}"#)));
    assert!(refuses(reply(StatusCode::OK, json, r#"{"purged_count":1}"#)));
    assert!(refuses(reply(StatusCode::OK, json, r#"{"purged_count":"1","more":1}"#)));
    assert!(refuses(reply(StatusCode::OK, "text/plain", r#"{"purged_count":"1"}"#)));
    assert!(refuses(reply(StatusCode::CREATED, json, r#"{"purged_count":"1"}"#)));
    let problem = |code: millpond_api::ErrorCode| {
        let status = StatusCode::from_u16(code.status()).expect("a status");
        let body = millpond_api::Problem::new(code, "because", "req_1").render();
        reply(status, "application/problem+json", &body)
    };
    assert!(!refuses(problem(millpond_api::ErrorCode::QueueNotFound)));
    assert!(refuses(problem(millpond_api::ErrorCode::MessageNotFound)));
    let mut headless = reply(StatusCode::OK, json, r#"{"purged_count":"1"}"#);
    headless.headers.remove("millpond-request-id");
    assert!(refuses(headless));
}
