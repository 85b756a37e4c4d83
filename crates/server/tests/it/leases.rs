//! `:lease`, and what ends a lease.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{Server, event, leases, refused};

#[tokio::test]
async fn a_lease_takes_one_message_unless_told() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let messages = server.post_nothing("/v1/queues/q:lease").await.ok();
    let message = &messages["messages"][0];
    assert_eq!(messages["messages"].as_array().map(Vec::len), Some(1));
    assert_eq!(message["delivery_count"], 1);
    assert_eq!(message["lease"]["message_id"], message["message_id"]);
    assert!(message["lease"]["lease_generation"].is_string());
    assert_eq!(server.lease(json!({ "max_messages": 100 })).await.len(), 2);
    assert!(server.lease(json!({})).await.is_empty());
}

#[tokio::test]
async fn a_batch_is_filled_for_at_most_so_long() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1"]).await;
    let call =
        |max_wait| json!({ "max_messages": 3, "min_messages": 2, "wait": "20s", "max_wait": max_wait });
    // Nothing to wait for: what is there is taken.
    assert_eq!(server.lease(call("0s")).await.len(), 1);
    let (messages, _) = tokio::join!(server.lease(call("20s")), async {
        server.until(|view| view.waiting > 0).await;
        server.send(&["2"]).await;
        server.until(|view| view.waiting > 0 && view.counters.ready == 1).await;
        server.send(&["3"]).await
    });
    assert_eq!(messages.len(), 2);
    assert_eq!(server.post("/v1/queues/q:lease", call("21s")).await.refusal(), refused(400, "invalid_field"));
}

#[tokio::test]
async fn a_waiting_call_is_answered_by_a_send() {
    let server = Server::with_queue(json!({})).await;
    let call = json!({ "wait": "20s" });
    let (messages, _) = tokio::join!(server.lease(call), async {
        server.until(|view| view.waiting > 0).await;
        server.send(&["1"]).await
    });
    assert_eq!(messages[0]["event"]["id"], "1");
}

#[tokio::test]
async fn a_queue_that_goes_away_ends_the_waits_on_it() {
    let server = Server::with_queue(json!({})).await;
    let (reply, _) = tokio::join!(server.post("/v1/queues/q:lease", json!({ "wait": "20s" })), async {
        server.until(|view| view.waiting > 0).await;
        server.delete("/v1/queues/q").await.ok()
    });
    assert_eq!(reply.refusal(), refused(404, "queue_not_found"));
}

#[tokio::test]
async fn ack_nack_and_extend_do_what_they_say() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let messages = server.lease(json!({ "max_messages": 3 })).await;
    let nothing_stale = json!({ "stale_leases": [] });
    assert_eq!(server.post("/v1/queues/q:ack", leases(&messages[..1])).await.ok(), nothing_stale);
    assert_eq!(server.post("/v1/queues/q:nack", leases(&messages[1..2])).await.ok(), nothing_stale);
    assert_eq!(server.post("/v1/queues/q:extend", leases(&messages[2..])).await.ok(), nothing_stale);
    let counters = server.view().await.counters;
    assert_eq!((counters.ready, counters.leased, counters.total_acked), (1, 1, 1));
    let again = server.lease(json!({})).await;
    assert_eq!(again[0]["message_id"], messages[1]["message_id"]);
    assert_eq!(again[0]["delivery_count"], 2);
    assert_ne!(again[0]["lease"], messages[1]["lease"]);

    let mut delayed = leases(&again);
    delayed["delay"] = json!("60s");
    server.post("/v1/queues/q:nack", delayed).await.ok();
    assert_eq!(server.view().await.counters.delayed, 1);
    let mut longer = leases(&messages[2..]);
    longer["visibility_timeout"] = json!("43201s");
    assert_eq!(server.post("/v1/queues/q:extend", longer).await.refusal(), refused(400, "invalid_field"));
}

#[tokio::test]
async fn stale_leases_are_listed_in_request_order() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2"]).await;
    let held = server.lease(json!({ "max_messages": 2 })).await;
    let unknown = json!({ "message_id": "no such message", "lease_generation": "1" });
    let mut old = held[1]["lease"].clone();
    old["lease_generation"] = json!("1");
    let call = json!({ "leases": [unknown, held[0]["lease"], old, held[1]["lease"]] });
    let answer = server.post("/v1/queues/q:ack", call.clone()).await.ok();
    assert_eq!(answer, json!({ "stale_leases": [unknown, old] }));
    let again = server.post("/v1/queues/q:ack", call.clone()).await.ok();
    assert_eq!(again["stale_leases"], call["leases"], "a repeated ack is stale and harmless");
    let only_unknown = server.post("/v1/queues/q:nack", json!({ "leases": [unknown] })).await.ok();
    assert_eq!(only_unknown, json!({ "stale_leases": [unknown] }));
}

#[tokio::test]
async fn a_lease_is_settled_through_its_own_queue_only() {
    let server = Server::with_queue(json!({})).await;
    server.post_nothing("/v1/queues?queue_id=other").await.ok();
    server.send(&["1"]).await;
    let held = leases(&server.lease(json!({})).await);
    let answer = server.post("/v1/queues/other:ack", held.clone()).await.ok();
    assert_eq!(answer["stale_leases"], held["leases"]);
    assert_eq!(server.post("/v1/queues/q:ack", held).await.ok(), json!({ "stale_leases": [] }));
}

#[tokio::test]
async fn a_batch_of_cloudevents_is_answered_to_who_asks_for_it() {
    let server = Server::with_queue(json!({})).await;
    let mut sent = event("1");
    sent["extensions"] = json!({ "traceid": "t1" });
    server.post("/v1/queues/q:send", json!({ "events": [sent] })).await.ok();
    let headers = [("accept", "application/cloudevents-batch+json"), ("content-type", "application/json")];
    let reply = server.call(Method::POST, "/v1/queues/q:lease", &headers, "{}").await;
    assert_eq!(reply.header("content-type"), "application/cloudevents-batch+json");
    let batch = reply.ok();
    let received = &batch[0];
    assert_eq!(received["specversion"], "1.0");
    assert_eq!(received["traceid"], "t1");
    let has = |part: &str| received.as_object().expect("an object").keys().any(|key| key.contains(part));
    assert!(has("messageid") && has("generation") && has("deliver") && has("lease"), "{received}");
    let empty = server.call(Method::POST, "/v1/queues/q:lease", &headers, "{}").await;
    assert_eq!(empty.ok(), json!([]));
}

#[tokio::test]
async fn a_dead_letter_tells_where_it_died() {
    let server = Server::start().await;
    server.post_nothing("/v1/queues?queue_id=dead").await.ok();
    let spec = json!({ "dead_letter_queue": "dead", "max_deliveries": 1 });
    server.post("/v1/queues?queue_id=q", json!({ "spec": spec })).await.ok();
    let sent = server.send(&["1"]).await;
    let held = server.lease(json!({})).await;
    server.post("/v1/queues/q:nack", leases(&held)).await.ok();
    let dead = server.post_nothing("/v1/queues/dead:lease").await.ok();
    let message: &Value = &dead["messages"][0];
    assert_eq!(message["message_id"], sent[0].as_str());
    assert_eq!(message["delivery_count"], 1);
    let extensions = &message["event"]["extensions"];
    assert_eq!(extensions["deadletterreason"], "attempts_spent");
    assert_eq!(extensions["deadletterqueue"], "q");
    assert!(extensions["deadlettertime"].is_string());
}
