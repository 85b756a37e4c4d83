//! CloudEvents' own SDK for Rust sends to a running server, in each mode of the HTTP binding, and reads back what is
//! leased.
//!
//! What the SDK builds is sent as it is. It writes attributes beyond ASCII into headers as UTF-8 and does not
//! percent-encode them, so in binary mode a `%` that hex digits follow would come back decoded; no case has one.

#![cfg(test)]

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cloudevents::binding::reqwest::{RequestBuilderExt as _, RequestSerializer, ResponseExt as _};
use cloudevents::event::ExtensionValue;
use cloudevents::message::StructuredDeserializer as _;
use cloudevents::{AttributesReader as _, Data, Event, EventBuilder as _, EventBuilderV10};
use reqwest::{Client, RequestBuilder, Response};
use serde_json::value::RawValue;
use serde_json::{Value, json};

const BATCH: &str = "application/cloudevents-batch+json";
const STRUCTURED: &str = "application/cloudevents+json";
const OWN: &str = "millpond";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Binary,
    Structured,
    Batch,
}

/// Attributes by their CloudEvents names, times in UTC.
type Attributes = BTreeMap<String, Value>;

fn base(id: &str) -> EventBuilderV10 {
    EventBuilderV10::new().id(id).source("https://shop.example/orders?x=1").ty("order.placed")
}

fn events() -> Vec<Event> {
    let picture = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0];
    let bytes: Vec<u8> = (0..=255).collect();
    let object = json!({"order": 7, "lines": [{"sku": "a", "count": 2}], "note": null});
    let mut built = vec![
        base("json object").data("application/json", object),
        base("json array").data("application/json", json!([1, "two", [3.5], {}])),
        base("json beyond ascii").data("application/json", json!({"kůň": "🐎 \u{2028}", "n": 1e300})),
        base("json null").data("application/json", Value::Null),
        base("json string").data("application/json", json!("{\"not\": \"parsed again\"}")),
        base("json of a json suffix").data("application/vnd.shop.order+json", json!({"order": 8})),
        base("no data"),
        base("text").data("text/plain", "one\nline \"two\"\ttabbed \\ {\"not\": \"json\"}"),
        base("text beyond ascii").data("text/plain; charset=utf-8", "žluťoučký kůň 🐎 \u{2028} 日本語"),
        base("text that looks like json").data("text/plain", "[1, 2]"),
        base("empty text").data("text/plain", ""),
        base("xml").data("application/xml", "<order id=\"7\"/>"),
        base("bytes").data("application/octet-stream", bytes),
        base("empty bytes").data("application/octet-stream", Vec::new()),
        base("picture").data("image/png", picture.to_vec()),
        base("schema and subject").subject("orders/7").data_with_schema(
            "application/json",
            "https://shop.example/order.json#v1",
            json!({}),
        ),
        base("time").time("2026-11-30T01:02:03.456Z"),
        base("time to the nanosecond").time("2026-11-30T01:02:03.000000001Z"),
        base("time of another zone").time("2026-11-30T06:32:03+05:30"),
        base("extensions")
            .extension("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .extension("x2", "digits in the name")
            .extension("spaced", "two  spaces inside")
            .extension("count", -7)
            .extension("flag", true)
            .data("application/json", json!({"n": 1})),
        base("attributes beyond ascii: č. 7 – 50 % €🐎")
            .subject("č. 7 – 50 % €🐎")
            .extension("tenant", "Ünïcode"),
    ]
    .into_iter()
    .map(|builder| builder.build().expect("a valid event"))
    .collect::<Vec<Event>>();
    let mut untyped = base("json without a content type").build().expect("a valid event");
    untyped.set_data_unchecked(json!({"default": true}));
    built.push(untyped);
    built
}

/// A server, and calls to it.
struct Server {
    client: Client,
    url: String,
}

impl Server {
    fn new() -> Self {
        let url = std::env::var("MILLPOND_URL").expect("MILLPOND_URL says where the server is");
        Self { client: Client::new(), url }
    }

    fn post(&self, path: &str) -> RequestBuilder {
        self.client.post(format!("{}/v1/queues{path}", self.url))
    }

    async fn json(&self, path: &str, body: Value) -> Value {
        let request = self.post(path).header("content-type", "application/json").body(body.to_string());
        serde_json::from_str(&text(request.send().await.expect("an answer")).await).expect("JSON")
    }

    async fn lease(&self, queue: &str, accept: &str, max_messages: usize) -> Response {
        let body = json!({"max_messages": max_messages, "visibility_timeout": "60s"}).to_string();
        let request = self.post(&format!("/{queue}:lease")).header("content-type", "application/json");
        let response = request.header("accept", accept).body(body).send().await.expect("an answer");
        assert_eq!(response.status(), 200);
        response
    }

    async fn settle(&self, queue: &str, verb: &str, lease: Value) {
        let answer = self.json(&format!("/{queue}:{verb}"), json!({"leases": [lease]})).await;
        assert_eq!(answer, json!({"stale_leases": []}));
    }
}

async fn text(response: Response) -> String {
    let status = response.status();
    let text = response.text().await.expect("a body");
    assert_eq!(status, 200, "{text}");
    text
}

/// Members of an object as they stand there.
fn members(text: &str) -> BTreeMap<String, Box<RawValue>> {
    serde_json::from_str(text).expect("an object")
}

fn is_json(content_type: Option<&str>) -> bool {
    let essence = content_type.unwrap_or("application/json").split(';').next().unwrap_or_default();
    essence.ends_with("/json") || essence.ends_with("+json")
}

/// The bytes of an event's data as JSON text holds them.
fn data_in(event: &str, content_type: Option<&str>) -> Option<Vec<u8>> {
    let members = members(event);
    let string = |raw: &RawValue| serde_json::from_str::<String>(raw.get());
    if let Some(encoded) = members.get("data_base64") {
        return Some(STANDARD.decode(string(encoded).expect("a string")).expect("base64"));
    }
    let data = members.get("data")?;
    match string(data) {
        Ok(text) if !is_json(content_type) => Some(text.into_bytes()),
        _ => Some(data.get().as_bytes().to_vec()),
    }
}

/// What an event says. In headers everything is text.
fn attributes_of(event: &Event, mode: Mode) -> Attributes {
    let mut attributes = Attributes::new();
    for (name, value) in event.iter_attributes() {
        attributes.insert(name.to_owned(), json!(value.to_string()));
    }
    if let Some(time) = event.time() {
        attributes.insert("time".to_owned(), json!(time.to_rfc3339()));
    }
    for (name, value) in event.iter_extensions().filter(|(name, _)| !name.starts_with(OWN)) {
        let value = match value {
            ExtensionValue::String(text) => json!(text),
            other if mode == Mode::Binary => json!(other.to_string()),
            ExtensionValue::Boolean(flag) => json!(flag),
            ExtensionValue::Integer(number) => json!(number),
        };
        attributes.insert(name.to_owned(), value);
    }
    attributes
}

/// The same of an event in the server's own form.
fn attributes_of_native(event: &str) -> Attributes {
    let mut attributes = Attributes::from([("specversion".to_owned(), json!("1.0"))]);
    for (name, value) in members(event) {
        let value: Value = serde_json::from_str(value.get()).expect("JSON");
        match name.as_str() {
            "data" | "data_base64" => {}
            "data_content_type" => drop(attributes.insert("datacontenttype".to_owned(), value)),
            "data_schema" => drop(attributes.insert("dataschema".to_owned(), value)),
            "event_time" => drop(attributes.insert("time".to_owned(), value)),
            "extensions" => attributes.extend(value.as_object().expect("an object").clone()),
            _ => drop(attributes.insert(name, value)),
        }
    }
    attributes
}

/// Times are the same instant under many spellings; the SDK's own reader decides.
fn with_time_read(mut attributes: Attributes) -> Attributes {
    if let Some(time) = attributes.get_mut("time") {
        let text = time.as_str().expect("a string").to_owned();
        let event = base("").time(text).build().expect("a time");
        *time = json!(event.time().expect("a time").to_rfc3339());
    }
    attributes
}

/// The data in a request, byte for byte. A body without bytes is no data.
fn data_sent(body: &[u8], mode: Mode, content_type: Option<&str>) -> Option<Vec<u8>> {
    match mode {
        Mode::Binary => Some(body.to_vec()).filter(|body| !body.is_empty()),
        Mode::Structured => data_in(std::str::from_utf8(body).expect("text"), content_type),
        Mode::Batch => {
            let events: Vec<Box<RawValue>> = serde_json::from_slice(body).expect("an array");
            data_in(events.first().expect("one event").get(), content_type)
        }
    }
}

async fn send_and_take_back(server: &Server, queue: &str, event: Event, mode: Mode) {
    server.json(&format!("?queue_id={queue}"), json!({})).await;
    let request = server.post(&format!("/{queue}:send"));
    let request = match mode {
        Mode::Binary => request.event(event.clone()),
        Mode::Structured => event.clone().deserialize_structured(RequestSerializer::new(request)),
        Mode::Batch => request.events(vec![event.clone()]),
    };
    let request = request.expect("the SDK writes it").build().expect("a request");
    let media_type =
        request.headers().get("content-type").map(|value| value.to_str().expect("ascii").to_owned());
    match mode {
        Mode::Binary => assert_eq!(media_type.as_deref(), event.datacontenttype()),
        Mode::Structured => assert_eq!(media_type.as_deref(), Some(STRUCTURED)),
        Mode::Batch => assert_eq!(media_type.as_deref(), Some(BATCH)),
    }
    let content_type = event.datacontenttype();
    let body = request.body().and_then(|body| body.as_bytes()).unwrap_or_default();
    let sent = data_sent(body, mode, content_type);
    text(server.client.execute(request).await.expect("an answer")).await;

    let answer = text(server.lease(queue, "application/json", 1).await).await;
    let messages: Vec<Box<RawValue>> =
        serde_json::from_str(members(&answer)["messages"].get()).expect("a list");
    let message = members(messages.first().expect("a message").get());
    let native = message["event"].get();
    let expected = attributes_of(&event, mode);
    assert_eq!(with_time_read(attributes_of_native(native)), expected);
    assert_eq!(data_in(native, content_type), sent, "data, byte for byte");
    let lease: Value = serde_json::from_str(message["lease"].get()).expect("a lease");
    server.settle(queue, "nack", lease.clone()).await;

    let response = server.lease(queue, BATCH, 1).await;
    let received = response.into_events().await.expect("the SDK reads it");
    let received = received.first().expect("an event");
    assert_eq!(attributes_of(received, mode), expected);
    assert_eq!(bytes_of(received.data()), sent, "data as the SDK reads it");
    let own = |name: &str| json!(received.extension(name).map(ToString::to_string));
    assert_eq!(own("millponddeliveries"), "2");
    let held = json!({"message_id": own("millpondmessageid"), "lease_generation": own("millpondgeneration")});
    assert_eq!(held["message_id"], lease["message_id"]);
    server.settle(queue, "ack", held).await;
}

fn bytes_of(data: Option<&Data>) -> Option<Vec<u8>> {
    data.map(|data| data.clone().try_into().expect("bytes"))
}

async fn each_comes_back(mode: Mode) {
    let server = Server::new();
    for (number, event) in events().into_iter().enumerate() {
        eprintln!("{mode:?}: {}", event.id());
        let queue = format!("{mode:?}-{number}").to_lowercase();
        send_and_take_back(&server, &queue, event, mode).await;
    }
}

#[tokio::test]
async fn what_is_sent_in_binary_mode_is_what_comes_back() {
    each_comes_back(Mode::Binary).await;
}

#[tokio::test]
async fn what_is_sent_in_structured_mode_is_what_comes_back() {
    each_comes_back(Mode::Structured).await;
}

#[tokio::test]
async fn what_is_sent_in_batch_mode_is_what_comes_back() {
    each_comes_back(Mode::Batch).await;
}

#[tokio::test]
async fn a_batch_of_many_is_answered_in_its_order() {
    let server = Server::new();
    server.json("?queue_id=many", json!({})).await;
    let sent = events();
    let request = server.post("/many:send").events(sent.clone()).expect("the SDK writes it");
    let answer: Value =
        serde_json::from_str(&text(request.send().await.expect("an answer")).await).expect("JSON");
    let received = server.lease("many", BATCH, 100).await.into_events().await.expect("the SDK reads it");
    assert_eq!(received.len(), sent.len());
    for (at, (received, sent)) in received.iter().zip(&sent).enumerate() {
        assert_eq!(attributes_of(received, Mode::Batch), attributes_of(sent, Mode::Batch));
        assert_eq!(bytes_of(received.data()), bytes_of(sent.data()));
        let id = received.extension("millpondmessageid").map(ToString::to_string);
        assert_eq!(id.as_deref(), answer["message_ids"][at].as_str());
    }
    let empty = server.lease("many", BATCH, 1).await.into_events().await.expect("the SDK reads it");
    assert!(empty.is_empty());
}
