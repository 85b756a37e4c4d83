//! The body and headers of errors.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use crate::harness::{Server, event, refused};

#[tokio::test]
async fn an_error_is_a_problem_with_the_id_of_its_request() {
    let server = Server::start().await;
    let reply = server.get("/v1/queues/q").await;
    let id = reply.header("millpond-request-id").to_owned();
    assert!(id.starts_with("req_") && id.len() >= 20, "{id}");
    let expected = json!({
        "type": "https://millpond.dev/errors/queue-not-found",
        "title": "queue does not exist",
        "status": 404,
        "detail": "queue q does not exist",
        "instance": id,
        "code": "queue_not_found",
        "retryable": false,
        "effect": "none",
    });
    assert_eq!(reply.json(), expected);
    assert_ne!(server.get("/v1/queues/q").await.header("millpond-request-id"), id);
    assert!(server.get("/healthz").await.header("millpond-request-id").starts_with("req_"));
}

#[tokio::test]
async fn a_retryable_error_says_when() {
    let server = Server::with_queue(json!({})).await;
    server.engine.shut_down().await;
    let reply = server.post("/v1/queues/q:send", json!({ "events": [event("1")] })).await;
    assert_eq!(reply.refusal(), refused(503, "shutting_down"));
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(reply.json()["retry_after_ms"], 1_000);
    assert_eq!(reply.json()["retryable"], true);
}

#[tokio::test]
async fn a_refused_field_is_named_with_value_and_limit() {
    let server = Server::with_queue(json!({})).await;
    let problem = server.post("/v1/queues/q:lease", json!({ "max_messages": 101 })).await.json();
    assert_eq!(problem["code"], "invalid_field");
    assert_eq!(problem["field"], "max_messages");
    assert_eq!(problem["value"], "101");
    assert_eq!(problem["limit"], "100");
    assert_eq!(problem["detail"], "max_messages is 101, expected an integer from 1 to 100");
}

#[tokio::test]
async fn what_only_the_core_refuses_is_named_by_its_path_too() {
    let server = Server::start().await;
    for (spec, field) in [
        (json!({ "delay": "60s", "retention": "60s" }), "spec.delay"),
        (json!({ "lost_lease": { "in_a_row_max": 101 } }), "spec.lost_lease.in_a_row_max"),
        (json!({ "dead_letter_queue": "nowhere" }), "spec.dead_letter_queue"),
        (json!({ "dead_letter_queue": "q" }), "spec.dead_letter_queue"),
    ] {
        let reply = server.post("/v1/queues?queue_id=q", json!({ "spec": spec })).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{spec}");
        let problem = reply.json();
        assert_eq!(problem["field"], field, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.starts_with(field)), "{problem}");
    }
}

#[tokio::test]
async fn json_that_is_none_is_refused_everywhere() {
    let server = Server::with_queue(json!({})).await;
    for path in
        ["/v1/queues", "/v1/queues/q:send", "/v1/queues/q:lease", "/v1/queues/q:ack", "/v1/queues/q:pause"]
    {
        for body in ["{", "{\"a\":1}x", "\u{feff}{}"] {
            let headers = [("content-type", "application/json")];
            let reply = server.call(Method::POST, path, &headers, body).await;
            assert_eq!(reply.refusal(), refused(400, "malformed_json"), "{path} {body}");
        }
        let reply = server.post(path, json!({ "nonsense": 1 })).await;
        assert_eq!(reply.refusal(), refused(400, "unknown_field"), "{path}");
    }
}

#[tokio::test]
async fn query_parameters_are_known_and_given_once() {
    let server = Server::with_queue(json!({})).await;
    for (method, path, code) in [
        (Method::GET, "/v1/queues/q?x=1", "unknown_field"),
        (Method::GET, "/v1/queues/q:why?etag=1", "unknown_field"),
        (Method::POST, "/v1/queues/q:lease?wait=1s", "unknown_field"),
        (Method::POST, "/v1/queues/q:purge?force=true", "unknown_field"),
        (Method::POST, "/v1/queues?queue_id=a&queue_id=b", "invalid_field"),
        (Method::POST, "/v1/queues?validate_only=yes", "invalid_field"),
        (Method::DELETE, "/v1/queues/q?force=1", "invalid_field"),
        (Method::DELETE, "/v1/queues/q?etag=%FF", "invalid_field"),
    ] {
        let reply = server.call(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(400, code), "{method} {path}");
    }
    server.get("/v1/queues/q?").await.ok();
    server.get("/v1/queues/q?&").await.ok();
    server.post_nothing("/v1/queues?queue_id=b%2Dc&validate_only=true").await.ok();
}
