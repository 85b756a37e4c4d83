//! `:send` in its four forms, its options, and its idempotency key.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{Reply, Server, event, refused, strings};

const PATH: &str = "/v1/queues/q:send";

async fn send(server: &Server, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
    server.call(Method::POST, path, headers, body.to_owned()).await
}

fn structured() -> Value {
    json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "t", "data": { "a": 1 }, "extra": "x" })
}

#[tokio::test]
async fn ids_come_back_in_request_order_and_with_the_messages() {
    let server = Server::with_queue(json!({})).await;
    let ids = server.send(&["a", "b", "c"]).await;
    assert!(ids.is_sorted() && ids.iter().all(|id| id.starts_with("msg_")), "{ids:?}");
    let messages = server.lease(json!({ "max_messages": 100 })).await;
    let leased: Vec<_> = messages.iter().map(|message| message["message_id"].clone()).collect();
    assert_eq!(json!(leased), json!(ids));
    let expected = json!({ "id": "a", "source": "/tests", "type": "example.made", "data": { "n": 1 } });
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(messages[0]["event"][key], *value);
    }
}

#[tokio::test]
async fn the_form_follows_the_content_type_in_any_case() {
    let server = Server::with_queue(json!({})).await;
    let native = json!({ "events": [event("1")] }).to_string();
    let (one, two) = (structured().to_string(), json!([structured(), structured()]).to_string());
    for (content_type, body, count) in [
        ("application/json", &native, 1),
        ("Application/Json;charset=utf-8", &native, 1),
        ("application/cloudevents+json", &one, 1),
        ("APPLICATION/CLOUDEVENTS+JSON; charset=UTF-8", &one, 1),
        ("application/cloudevents-batch+json", &two, 2),
    ] {
        let sent = send(&server, PATH, &[("content-type", content_type)], body).await.ok();
        assert_eq!(strings(&sent["message_ids"]).len(), count, "{content_type}");
    }
    for content_type in ["text/plain", "application/cloudevents", "application/xml", "application/jsonx"] {
        let reply = send(&server, PATH, &[("content-type", content_type)], &one).await;
        assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"), "{content_type}");
    }
    assert_eq!(send(&server, PATH, &[], &one).await.refusal(), refused(415, "unsupported_media_type"));
}

#[tokio::test]
async fn headers_make_a_binary_event_of_any_content_type() {
    let server = Server::with_queue(json!({})).await;
    let attributes = [("ce-specversion", "1.0"), ("ce-id", "1"), ("CE-Source", "/s"), ("ce-type", "t%20t")];
    for (content_type, body) in [
        (Some("application/json"), r#"{"a" : 1}"#),
        (Some("text/plain"), "grüße"),
        (Some("image/png"), "\u{0}\u{1}"),
        (None, "x"),
        (None, ""),
    ] {
        let content_type = content_type.map(|value| ("content-type", value));
        let headers: Vec<_> = attributes.into_iter().chain(content_type).collect();
        send(&server, PATH, &headers, body).await.ok();
    }
    let messages = server.lease(json!({ "max_messages": 5 })).await;
    let event = |at: usize| &messages[at]["event"];
    assert_eq!(event(0)["type"], "t t");
    assert_eq!(event(0)["data"], json!({ "a": 1 }));
    assert_eq!(event(1)["data"], "grüße");
    assert_eq!(event(2)["data_base64"], "AAE=");
    assert_eq!(event(3)["data_base64"], "eA==");
    assert!(event(4).get("data").is_none() && event(4).get("data_base64").is_none());
    let reply = send(&server, PATH, &[("ce-id", "1"), ("content-type", "text/plain")], "x").await;
    assert_eq!(reply.refusal(), refused(400, "missing_field"));
}

#[tokio::test]
async fn a_faulty_event_refuses_the_whole_call() {
    let server = Server::with_queue(json!({})).await;
    let mut faulty = event("2");
    faulty["type"] = json!("");
    let reply = server.post(PATH, json!({ "events": [event("1"), faulty] })).await;
    assert_eq!(reply.status, 400);
    assert_eq!(reply.json()["field"], "events[1].type");
    assert_eq!(server.view().await.counters.total_sent, 0);
}

#[tokio::test]
async fn options_stand_in_the_body_or_in_the_query() {
    let server = Server::with_queue(json!({})).await;
    let standard = [("content-type", "application/cloudevents+json")];
    server.post(PATH, json!({ "events": [event("1")], "delay": "43200s" })).await.ok();
    send(&server, &format!("{PATH}?delay=5s"), &standard, &structured().to_string()).await.ok();
    assert_eq!(server.view().await.counters.delayed, 2);

    server.post(&format!("{PATH}?priority=-3"), json!({ "events": [event("low")] })).await.ok();
    server.post(&format!("{PATH}?priority=7&ttl=60s"), json!({ "events": [event("high")] })).await.ok();
    let messages = server.lease(json!({ "max_messages": 10 })).await;
    let ids: Vec<_> = messages.iter().map(|message| &message["event"]["id"]).collect();
    assert_eq!(ids, ["high", "low"]);

    for (query, field) in [
        ("delay=43201s", "delay"),
        ("delay=5", "delay"),
        ("priority=1.5", "priority"),
        ("priority=2147483648", "priority"),
        ("ttl=forever", "ttl"),
        ("ttl=0.5s", "ttl"),
    ] {
        let reply = server.post(&format!("{PATH}?{query}"), json!({ "events": [event("1")] })).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{query}");
        assert_eq!(reply.json()["field"], field, "{query}");
    }
    let twice = json!({ "events": [event("1")], "delay": "1s" });
    assert_eq!(
        server.post(&format!("{PATH}?delay=1s"), twice).await.refusal(),
        refused(400, "invalid_field")
    );
}

#[tokio::test]
async fn a_key_makes_a_send_repeatable() {
    let server = Server::with_queue(json!({})).await;
    let body = json!({ "events": [event("1"), event("2")] }).to_string();
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let first = send(&server, PATH, &headers, &body).await.ok();
    assert_eq!(send(&server, PATH, &headers, &body).await.ok(), first);
    assert_eq!(server.view().await.counters.total_sent, 2);

    let other_body = json!({ "events": [event("1"), event("3")] }).to_string();
    let other_type = [("content-type", "application/json;charset=utf-8"), ("idempotency-key", "k")];
    let with_header = [headers[0], headers[1], ("ce-id", "1")];
    let delayed = format!("{PATH}?delay=1s");
    for reply in [
        send(&server, PATH, &headers, &other_body).await,
        send(&server, PATH, &other_type, &body).await,
        send(&server, &delayed, &headers, &body).await,
    ] {
        assert_eq!(reply.refusal(), refused(409, "idempotency_key_reused"));
        assert_eq!(reply.json()["field"], "idempotency-key");
    }
    // These headers make another form of it, which is faulty as such: the key is not even looked at.
    assert_eq!(send(&server, PATH, &with_header, &body).await.status, 400);
    assert_eq!(server.view().await.counters.total_sent, 2);
}

#[tokio::test]
async fn a_binary_event_is_told_from_another_by_its_headers() {
    let server = Server::with_queue(json!({})).await;
    let event = |id: &'static str| {
        [
            ("ce-specversion", "1.0"),
            ("ce-source", "/s"),
            ("ce-type", "t"),
            ("ce-id", id),
            ("idempotency-key", "k"),
        ]
    };
    let first = send(&server, PATH, &event("1"), "x").await.ok();
    let mut turned = event("1");
    turned.reverse();
    assert_eq!(send(&server, PATH, &turned, "x").await.ok(), first, "the order of headers does not matter");
    let reply = send(&server, PATH, &event("2"), "x").await;
    assert_eq!(reply.refusal(), refused(409, "idempotency_key_reused"));
}

#[tokio::test]
async fn a_key_has_1_to_255_bytes() {
    let server = Server::with_queue(json!({})).await;
    let body = json!({ "events": [event("1")] }).to_string();
    for (length, taken) in [(0, false), (1, true), (255, true), (256, false)] {
        let key = "k".repeat(length);
        let headers = [("content-type", "application/json"), ("idempotency-key", key.as_str())];
        let reply = send(&server, PATH, &headers, &body).await;
        match taken {
            true => drop(reply.ok()),
            false => assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{length}"),
        }
    }
    let twice = [("content-type", "application/json"), ("idempotency-key", "a"), ("idempotency-key", "b")];
    assert_eq!(send(&server, PATH, &twice, &body).await.refusal(), refused(400, "invalid_field"));
}
