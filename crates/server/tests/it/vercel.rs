//! Vercel Queues' wire, endpoint by endpoint.

mod batches;
mod by_id;
mod deployments;
mod large;
mod leases;
mod paths;
mod receives;
mod sends;

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use millpond_core::limits::CoreSettings;
use millpond_engine::environment::EnvironmentSettings;
use millpond_engine::{Engine, EngineSettings};
use millpond_test_stores::new_store;
use serde_json::{Value, json};

use crate::harness::{ManualClock, Reply, Server};

const TOPIC: &str = "/api/v3/topic/orders";
const GROUP: &str = "/api/v3/topic/orders/consumer/mailer";
const PARTS: (&str, &str) = ("accept", "multipart/mixed");
const LINES: (&str, &str) = ("accept", "application/x-ndjson");

/// A server in a time of its own.
struct Timed {
    server: Server,
    clock: Arc<ManualClock>,
}

/// A message as it was handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Message {
    id: String,
    handle: String,
    timestamp: String,
    expires_at: String,
    count: u64,
    content_type: String,
    payload: Vec<u8>,
}

impl Timed {
    async fn start() -> Self {
        Self::with(CoreSettings::default()).await
    }

    async fn with(core: CoreSettings) -> Self {
        let clock = Arc::new(ManualClock::default());
        let environment = EnvironmentSettings { core, ..EnvironmentSettings::default() };
        let settings = EngineSettings { environment, ..EngineSettings::default() };
        let engine = Engine::start_with_clock(settings, Arc::new(new_store()), clock.clone());
        Self { server: Server::over(engine).await, clock }
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        self.server.engine.nudge();
    }

    async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        self.server.call(method, path, headers, body).await
    }

    async fn post(&self, path: &str, headers: &[(&str, &str)], body: impl Into<Body>) -> Reply {
        self.call(Method::POST, path, headers, body).await
    }

    /// Sends to the topic; answers the id.
    async fn send(&self, headers: &[(&str, &str)], body: impl Into<Body>) -> String {
        sent(&self.post(TOPIC, headers, body).await)
    }

    /// Receives up to ten messages, as parts.
    async fn receive(&self, group: &str, headers: &[(&str, &str)]) -> Vec<Message> {
        let all = [&[PARTS, ("vqs-max-messages", "10")], headers].concat();
        messages(&self.post(group, &all, Body::empty()).await)
    }

    /// Receives the one message that there is.
    async fn receive_one(&self, headers: &[(&str, &str)]) -> Message {
        let mut messages = self.receive(GROUP, headers).await;
        assert_eq!(messages.len(), 1, "{messages:?}");
        messages.remove(0)
    }

    /// Receives the one message that there will be: what takes it back may still be on its way.
    async fn receive_one_soon(&self) -> Message {
        for _ in 0..100_000 {
            if let Some(message) = self.receive(GROUP, &[]).await.into_iter().next() {
                return message;
            }
            tokio::task::yield_now().await;
        }
        panic!("no message comes");
    }

    async fn ack(&self, handle: &str) -> Reply {
        self.call(Method::DELETE, &format!("{GROUP}/lease/{handle}"), &[], Body::empty()).await
    }

    async fn change(&self, handle: &str, seconds: u64) -> Reply {
        let body = json!({ "visibilityTimeoutSeconds": seconds }).to_string();
        self.call(Method::PATCH, &format!("{GROUP}/lease/{handle}"), &[], body).await
    }
}

/// The id that a send was answered with.
#[track_caller]
fn sent(reply: &Reply) -> String {
    assert_eq!(reply.status, 201, "{}", String::from_utf8_lossy(&reply.body));
    let id = reply.json()["messageId"].as_str().expect("an id").to_owned();
    assert_eq!(reply.header("vqs-message-id"), id);
    assert_eq!(reply.header("content-type"), "application/json");
    id
}

/// Status and text of an error.
#[track_caller]
fn error(reply: &Reply) -> (u16, String) {
    assert_eq!(reply.header("content-type"), "application/json");
    assert!(reply.headers.contains_key("millpond-request-id"));
    let body = reply.json();
    (reply.status.as_u16(), body["error"].as_str().expect("a text").to_owned())
}

fn failure(status: u16, text: &str) -> (u16, String) {
    (status, text.to_owned())
}

/// The messages of an answer, which may be none.
#[track_caller]
fn messages(reply: &Reply) -> Vec<Message> {
    if reply.status == 204 {
        assert!(reply.body.is_empty());
        return Vec::new();
    }
    assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
    match reply.header("content-type") {
        "application/x-ndjson" => lines_of(&reply.body),
        content_type => parts_of(content_type, &reply.body),
    }
}

/// Takes parts apart as strictly as the real clients do.
fn parts_of(content_type: &str, body: &[u8]) -> Vec<Message> {
    let boundary = content_type.strip_prefix("multipart/mixed; boundary=").expect("a boundary");
    assert!(boundary.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-'), "{boundary}");
    let body = body.strip_prefix(format!("--{boundary}\r\n").as_bytes()).expect("the first delimiter");
    let mut rest = body.strip_suffix(format!("\r\n--{boundary}--").as_bytes()).expect("the last delimiter");
    let between = format!("\r\n--{boundary}\r\n");
    let mut parts = Vec::new();
    while let Some(at) = find(rest, between.as_bytes()) {
        parts.push(&rest[..at]);
        rest = &rest[at + between.len()..];
    }
    parts.push(rest);
    parts.into_iter().map(part_of).collect()
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}

fn part_of(part: &[u8]) -> Message {
    let end = find(part, b"\r\n\r\n").expect("the end of the headers");
    let head = std::str::from_utf8(&part[..end]).expect("ascii");
    let header = |name: &str| {
        let value = head.split("\r\n").find_map(|line| line.strip_prefix(&format!("{name}: ")));
        value.unwrap_or_else(|| panic!("{name} in {head:?}")).to_owned()
    };
    assert_eq!(head.split("\r\n").count(), 6, "{head:?}");
    Message {
        id: header("Vqs-Message-Id"),
        handle: header("Vqs-Receipt-Handle"),
        timestamp: header("Vqs-Timestamp"),
        expires_at: header("Vqs-Expires-At"),
        count: header("Vqs-Delivery-Count").parse().expect("a number"),
        content_type: header("Content-Type"),
        payload: part[end + 4..].to_vec(),
    }
}

fn lines_of(body: &[u8]) -> Vec<Message> {
    let text = std::str::from_utf8(body).expect("utf-8");
    let text = text.strip_suffix('\n').expect("the end of a line");
    let line = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("json");
        let text = |name: &str| line[name].as_str().expect(name).to_owned();
        Message {
            id: text("messageId"),
            handle: text("receiptHandle"),
            timestamp: text("timestamp"),
            expires_at: text("expiresAt"),
            count: line["deliveryCount"].as_u64().expect("a number"),
            content_type: text("contentType"),
            payload: decoded(&text("body")),
        }
    };
    text.split('\n').map(line).collect()
}

/// Standard base64 with padding, by hand.
fn decoded(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    assert_eq!(text.len() % 4, 0);
    let digits = text.trim_end_matches('=');
    let mut bytes = Vec::new();
    for group in digits.as_bytes().chunks(4) {
        let bits = group.iter().fold(0, |bits, digit| {
            bits << 6 | DIGITS.bytes().position(|known| known == *digit).expect("a digit")
        });
        let whole = (bits << (6 * (4 - group.len()))).to_be_bytes();
        bytes.extend_from_slice(&whole[5..4 + group.len()]);
    }
    bytes
}
