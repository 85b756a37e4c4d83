//! Bounds on input: at the limit taken, one past it refused.

use axum::body::Body;
use axum::http::Method;
use millpond_api::limits::{CALL_BYTES_MAX, EVENT_JSON_BYTES_MAX, EVENTS_PER_CALL_MAX};
use serde_json::{Value, json};

use crate::harness::{Reply, Server, event, refused};

const PATH: &str = "/v1/queues/q:send";

async fn post(server: &Server, path: &str, body: impl Into<Body>) -> Reply {
    server.call(Method::POST, path, &[("content-type", "application/json")], body).await
}

/// A body whose length nobody tells beforehand, in pieces.
fn in_pieces(body: Vec<u8>) -> Body {
    let pieces: Vec<_> = body.chunks(100_000).map(|piece| Ok::<_, std::io::Error>(piece.to_vec())).collect();
    Body::from_stream(futures_util::stream::iter(pieces))
}

#[tokio::test]
async fn a_call_of_json_has_1_mib() {
    let server = Server::with_queue(json!({})).await;
    let body = |bytes: usize| {
        let mut body = json!({ "events": [event("1")] }).to_string().into_bytes();
        body.resize(bytes, b' ');
        body
    };
    for (bytes, taken) in [(CALL_BYTES_MAX, true), (CALL_BYTES_MAX + 1, false)] {
        for body in [Body::from(body(bytes)), in_pieces(body(bytes))] {
            let reply = post(&server, PATH, body).await;
            if taken {
                reply.ok();
                continue;
            }
            assert_eq!(reply.refusal(), refused(413, "payload_too_large"));
            assert_eq!(reply.json()["limit"], CALL_BYTES_MAX.to_string());
        }
    }
    let padded = |bytes: usize| [b"{}".to_vec(), vec![b' '; bytes - 2]].concat();
    for path in ["/v1/queues", "/v1/queues/q:lease", "/v1/queues/q:purge"] {
        post(&server, path, padded(CALL_BYTES_MAX)).await.ok();
        let reply = post(&server, path, padded(CALL_BYTES_MAX + 1)).await;
        assert_eq!(reply.refusal(), refused(413, "payload_too_large"), "{path}");
    }
}

#[tokio::test]
async fn a_body_that_is_told_to_be_too_long_is_not_read() {
    let server = Server::with_queue(json!({})).await;
    let body = Unreadable(u64::try_from(CALL_BYTES_MAX).expect("it fits") + 1);
    let reply = post(&server, PATH, Body::new(body)).await;
    assert_eq!(reply.refusal(), refused(413, "payload_too_large"));
}

/// Has a length, but whoever reads it fails the test.
struct Unreadable(u64);

impl http_body::Body for Unreadable {
    type Data = bytes::Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<http_body::Frame<Self::Data>, Self::Error>>> {
        panic!("the body was read");
    }

    fn size_hint(&self) -> http_body::SizeHint {
        http_body::SizeHint::with_exact(self.0)
    }
}

#[tokio::test]
async fn an_event_of_json_has_256_kib() {
    let server = Server::with_queue(json!({})).await;
    let padded = |bytes: usize| {
        let mut padded = event("1");
        padded["data"] = json!("");
        padded["data"] = json!("x".repeat(bytes - padded.to_string().len()));
        assert_eq!(padded.to_string().len(), bytes);
        json!({ "events": [padded] })
    };
    server.post(PATH, padded(EVENT_JSON_BYTES_MAX)).await.ok();
    let reply = server.post(PATH, padded(EVENT_JSON_BYTES_MAX + 1)).await;
    assert_eq!(reply.refusal(), refused(413, "payload_too_large"));
    assert_eq!(reply.json()["field"], "events[0]");
}

#[tokio::test]
async fn a_call_has_1_to_100_items() {
    let server = Server::with_queue(json!({})).await;
    let events = |count: usize| json!({ "events": vec![event("1"); count] });
    let lease = json!({ "message_id": "m", "lease_generation": "1" });
    let leases = |count: usize| json!({ "leases": vec![lease.clone(); count] });
    for (count, taken) in
        [(0, false), (1, true), (EVENTS_PER_CALL_MAX, true), (EVENTS_PER_CALL_MAX + 1, false)]
    {
        let calls: [(&str, Value); 4] = [
            (PATH, events(count)),
            ("/v1/queues/q:ack", leases(count)),
            ("/v1/queues/q:nack", leases(count)),
            ("/v1/queues/q:extend", leases(count)),
        ];
        for (path, body) in calls {
            let reply = server.post(path, body).await;
            match taken {
                true => drop(reply.ok()),
                false => assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{path} {count}"),
            }
        }
    }
}

#[tokio::test]
async fn leases_and_waits_have_bounds() {
    let server = Server::with_queue(json!({})).await;
    for (field, value, taken) in [
        ("max_messages", json!(0), false),
        ("max_messages", json!(1), true),
        ("max_messages", json!(100), true),
        ("max_messages", json!(101), false),
        ("visibility_timeout", json!("0s"), false),
        ("visibility_timeout", json!("1s"), true),
        ("visibility_timeout", json!("43200s"), true),
        ("visibility_timeout", json!("43200.001s"), false),
        ("wait", json!("0s"), true),
        ("wait", json!("20.001s"), false),
    ] {
        let reply = server.post("/v1/queues/q:lease", json!({ field: value })).await;
        match taken {
            true => drop(reply.ok()),
            false => assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{field} {value}"),
        }
    }
}
