//! Messages as resources: looked at, looked up, deleted.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, Server, event, leases, refused};

const UNKNOWN: &str = "/v1/queues/q/messages/msg_0000000000000000000000000000";

fn path(id: &str) -> String {
    format!("/v1/queues/q/messages/{id}")
}

async fn peek(server: &Server, body: Value) -> Vec<Value> {
    let answer = server.post("/v1/queues/q:peek", body).await.ok();
    answer["messages"].as_array().expect("a list").clone()
}

fn events(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["event"]["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn a_message_is_shown_with_its_counts_and_times() {
    let server = Server::with_queue(json!({})).await;
    let ids = server.send(&["1"]).await;
    let ready = server.get(&path(&ids[0])).await.ok();
    assert_eq!(ready["message_id"], *ids[0]);
    assert_eq!(ready["queue"], format!("{HOME}/queues/q"));
    assert_eq!((&ready["state"], &ready["delivery_count"]), (&json!("ready"), &json!(0)));
    assert_eq!(ready["event"]["data"], event("1")["data"]);
    let held = server.lease(json!({ "visibility_timeout": "60s" })).await;
    let leased = server.get(&path(&ids[0])).await.ok();
    assert_eq!((&leased["state"], &leased["delivery_count"]), (&json!("leased"), &json!(1)));
    assert_eq!(leased["lease_expire_time"], held[0]["lease_expire_time"]);
    server.post("/v1/queues/q:ack", leases(&held)).await.ok();
    assert_eq!(server.get(&path(&ids[0])).await.refusal(), refused(404, "message_not_found"));
}

#[tokio::test]
async fn a_message_that_is_not_there_is_not_found() {
    let server = Server::with_queue(json!({})).await;
    for path in [UNKNOWN, "/v1/queues/q/messages/1", "/v1/queues/q/messages/%20"] {
        for method in [Method::GET, Method::DELETE] {
            let reply = server.call(method, path, &[], "").await;
            assert_eq!(reply.refusal(), refused(404, "message_not_found"), "{path}");
        }
    }
    let nowhere = "/v1/queues/other/messages/1";
    assert_eq!(server.get(nowhere).await.refusal(), refused(404, "queue_not_found"));
    assert_eq!(server.delete(nowhere).await.refusal(), refused(404, "queue_not_found"));
}

#[tokio::test]
async fn a_deleted_message_is_gone_and_a_leased_one_stays() {
    let server = Server::with_queue(json!({})).await;
    let ids = server.send(&["1", "2"]).await;
    let held = server.lease(json!({})).await;
    assert_eq!(server.delete(&path(&ids[0])).await.refusal(), refused(409, "invalid_state"));
    assert_eq!(server.delete(&path(&ids[1])).await.ok(), json!({}));
    assert_eq!(server.delete(&path(&ids[1])).await.refusal(), refused(404, "message_not_found"));
    assert_eq!(server.post("/v1/queues/q:ack", leases(&held)).await.ok(), json!({ "stale_leases": [] }));
}

#[tokio::test]
async fn a_deletion_under_a_key_is_answered_alike_when_repeated() {
    let server = Server::with_queue(json!({})).await;
    let ids = server.send(&["1"]).await;
    let call = async || server.call(Method::DELETE, &path(&ids[0]), &[("idempotency-key", "k")], "").await;
    assert_eq!(call().await.header("millpond-idempotent-replay"), "");
    let again = call().await;
    assert_eq!((again.header("millpond-idempotent-replay"), again.ok()), ("true", json!({})));
}

#[tokio::test]
async fn a_peek_shows_a_state_in_order_and_changes_nothing() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let body = json!({ "events": [event("later")], "delay": "60s" });
    server.post("/v1/queues/q:send", body).await.ok();
    server.lease(json!({})).await;
    for (state, wanted) in [
        ("ready", &["2", "3"][..]),
        ("leased", &["1"]),
        ("delayed", &["later"]),
        ("dead", &[]),
        ("completed", &[]),
    ] {
        let messages = peek(&server, json!({ "state": state })).await;
        assert_eq!(events(&messages), wanted);
        assert!(messages.iter().all(|message| message["state"] == state), "{messages:?}");
    }
    assert_eq!(events(&peek(&server, json!({ "max_messages": 1 })).await), ["2"]);
    let counters = server.view().await.counters;
    assert_eq!((counters.ready, counters.leased, counters.delayed), (2, 1, 1));
}

#[tokio::test]
async fn a_peek_of_an_unknown_state_is_refused() {
    let server = Server::with_queue(json!({})).await;
    for body in [json!({ "state": "cancelled" }), json!({ "state": "gone" }), json!({ "max_messages": 0 })] {
        let reply = server.post("/v1/queues/q:peek", body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{body}");
    }
}
