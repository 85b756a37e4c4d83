//! `Idempotency-Key` on every call that changes something.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{Reply, Server, event, leases, refused};

const REPLAY: &str = "millpond-idempotent-replay";

async fn keyed(server: &Server, method: &Method, path: &str, key: &str, body: &str) -> Reply {
    let headers = [("content-type", "application/json"), ("idempotency-key", key)];
    server.call(method.clone(), path, &headers, body.to_owned()).await
}

/// A call, twice under one key: the second gets the first one's answer and says so. Then others under that key.
async fn check(server: &Server, method: Method, path: &str, body: Value) -> Value {
    let (key, text) = (format!("{method} {path}"), body.to_string());
    let first = keyed(server, &method, path, &key, &text).await;
    assert_eq!(first.header(REPLAY), "", "{key}");
    let second = keyed(server, &method, path, &key, &text).await;
    assert_eq!(second.ok(), first.ok(), "{key}");
    assert_eq!(second.header(REPLAY), "true", "{key}");
    let other_body = format!("{text} ");
    let other_path = path.replace("/v1/queues", &format!("/v1/{}/queues", crate::harness::HOME));
    for (path, text) in [(path, other_body.as_str()), (other_path.as_str(), text.as_str())] {
        let reply = keyed(server, &method, path, &key, text).await;
        assert_eq!(reply.refusal(), refused(409, "idempotency_key_reused"), "{key} {path}");
        assert_eq!(reply.json()["field"], "idempotency-key");
    }
    first.json()
}

#[tokio::test]
async fn making_changing_and_deleting_can_be_repeated() {
    let server = Server::start().await;
    let made = check(&server, Method::POST, "/v1/queues", json!({})).await;
    let id = made["name"].as_str().and_then(|name| name.rsplit('/').next()).expect("a name").to_owned();
    assert_eq!(
        server.get("/v1/queues").await.ok()["queues"].as_array().map(Vec::len),
        Some(1),
        "one id was made"
    );
    check(&server, Method::POST, "/v1/queues?queue_id=q", json!({})).await;
    let path = format!("/v1/queues/{id}");
    let changed = check(&server, Method::PATCH, &path, json!({ "spec": { "delay": "9s" } })).await;
    let text = json!({ "spec": { "delay": "9s" } }).to_string();
    server
        .call(Method::PATCH, &path, &[("content-type", "application/json")], r#"{"spec":{"delay":"1s"}}"#)
        .await
        .ok();
    let again = keyed(&server, &Method::PATCH, &path, &format!("PATCH {path}"), &text).await;
    assert_eq!(again.ok(), changed, "the answer of then, whatever became of the queue");
    assert_eq!(server.get(&path).await.ok()["spec"]["delay"], "1s");
    check(&server, Method::DELETE, &path, json!({})).await;
    let gone = keyed(&server, &Method::PATCH, &path, &format!("PATCH {path}"), &text).await;
    assert_eq!(gone.ok(), changed, "although the queue is gone");
}

#[tokio::test]
async fn an_etag_that_the_call_itself_made_old_does_not_matter() {
    let server = Server::with_queue(json!({})).await;
    let etag = server.get("/v1/queues/q").await.ok()["meta"]["etag"].as_str().expect("an etag").to_owned();
    check(&server, Method::PATCH, &format!("/v1/queues/q?etag={etag}"), json!({ "spec": { "delay": "1s" } }))
        .await;
    let etag = server.get("/v1/queues/q").await.ok()["meta"]["etag"].as_str().expect("an etag").to_owned();
    check(&server, Method::DELETE, &format!("/v1/queues/q?etag={etag}"), json!({})).await;
}

#[tokio::test]
async fn verbs_can_be_repeated() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    check(&server, Method::POST, "/v1/queues/q:pause", json!({})).await;
    check(&server, Method::POST, "/v1/queues/q:resume", json!({})).await;
    let held = server.lease(json!({})).await;
    let settle = json!({ "acks": leases(&held)["leases"], "sends": [{ "events": [event("4")] }] });
    check(&server, Method::POST, "/v1/queues/q:settle", settle).await;
    assert_eq!(server.view().await.counters.total_sent, 4, "sent once");
    check(&server, Method::POST, "/v1/queues/q:send", json!({ "events": [event("5")] })).await;
    assert_eq!(server.view().await.counters.total_sent, 5);
    let purged = check(&server, Method::POST, "/v1/queues/q:purge", json!({})).await;
    assert_eq!(purged, json!({ "purged_count": "4" }));
}

#[tokio::test]
async fn a_settle_that_was_done_is_not_stale_when_it_is_repeated() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1"]).await;
    let held = server.lease(json!({})).await;
    let extend = json!({ "extends": leases(&held)["leases"], "require": "all" });
    check(&server, Method::POST, "/v1/queues/q:settle", extend).await;
    let ack = json!({ "acks": leases(&held)["leases"], "require": "all" }).to_string();
    keyed(&server, &Method::POST, "/v1/queues/q:settle", "k", &ack).await.ok();
    let reply = keyed(&server, &Method::POST, "/v1/queues/q:settle", "other", &ack).await;
    assert_eq!(reply.refusal(), refused(409, "lease_stale"));
    let again = keyed(&server, &Method::POST, "/v1/queues/q:settle", "k", &ack).await;
    assert_eq!(again.ok()["stale_leases"], json!([]));
}

#[tokio::test]
async fn what_was_refused_or_only_checked_is_not_remembered() {
    let server = Server::start().await;
    let path = "/v1/queues/q:pause";
    let reply = keyed(&server, &Method::POST, path, "k", "{}").await;
    assert_eq!(reply.refusal(), refused(404, "queue_not_found"));
    server.post_nothing("/v1/queues?queue_id=q").await.ok();
    let paused = keyed(&server, &Method::POST, path, "k", "{}").await;
    assert_eq!((paused.ok()["status"]["paused"].as_bool(), paused.header(REPLAY)), (Some(true), ""));

    let check_only = "/v1/queues?queue_id=r&validate_only=true";
    keyed(&server, &Method::POST, check_only, "v", "{}").await.ok();
    let made = keyed(&server, &Method::POST, "/v1/queues?queue_id=r", "v", "{}").await;
    assert_eq!(made.header(REPLAY), "");
    made.ok();
}

#[tokio::test]
async fn a_key_is_checked_on_every_call_that_takes_one() {
    let server = Server::with_queue(json!({})).await;
    let long = "k".repeat(256);
    for (method, path) in [
        (Method::POST, "/v1/queues?queue_id=r"),
        (Method::PATCH, "/v1/queues/q"),
        (Method::DELETE, "/v1/queues/q"),
        (Method::POST, "/v1/queues/q:pause"),
        (Method::POST, "/v1/queues/q:resume"),
        (Method::POST, "/v1/queues/q:purge"),
        (Method::POST, "/v1/queues/q:send"),
        (Method::POST, "/v1/queues/q:settle"),
    ] {
        for key in ["", long.as_str()] {
            let reply = keyed(&server, &method, path, key, "{}").await;
            assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{method} {path}");
            assert_eq!(reply.json()["field"], "idempotency-key");
        }
    }
}
