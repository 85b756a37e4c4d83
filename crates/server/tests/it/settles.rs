//! `:settle`: acks, nacks, extensions and sends in one commit.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, Server, event, leases, refused, strings};

const PATH: &str = "/v1/queues/q:settle";

fn lease(message: &Value) -> Value {
    message["lease"].clone()
}

fn with(mut lease: Value, name: &str, value: &str) -> Value {
    lease[name] = json!(value);
    lease
}

/// A server whose queue `q` has so many messages, all leased; and a queue `next`.
async fn with_leases(count: usize) -> (Server, Vec<Value>) {
    let server = Server::with_queue(json!({})).await;
    server.post_nothing("/v1/queues?queue_id=next").await.ok();
    let ids: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    server.send(&ids.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let held = server.lease(json!({ "max_messages": count })).await;
    assert_eq!(held.len(), count);
    (server, held)
}

#[tokio::test]
async fn everything_is_done_in_one_call() {
    let (server, held) = with_leases(5).await;
    let body = json!({
        "acks": [lease(&held[0])],
        "nacks": [lease(&held[1]), with(lease(&held[2]), "delay", "60s")],
        "extends": [lease(&held[3]), with(lease(&held[4]), "visibility_timeout", "3600s")],
        "sends": [
            { "queue": "next", "events": [event("a"), event("b")], "priority": 3, "ttl": "60s" },
            { "events": [event("c")], "delay": "60s" },
            { "queue": format!("{HOME}/queues/next"), "events": [event("d")] },
        ],
    });
    let answer = server.post(PATH, body).await.ok();
    assert_eq!(answer["stale_leases"], json!([]));
    let sends = answer["sends"].as_array().expect("a list");
    let counts: Vec<_> = sends.iter().map(|sent| strings(&sent["message_ids"]).len()).collect();
    assert_eq!(counts, [2, 1, 1]);
    let counters = server.view().await.counters;
    assert_eq!((counters.total_acked, counters.ready, counters.delayed, counters.leased), (1, 1, 2, 2));
    let next = server.post("/v1/queues/next:lease", json!({ "max_messages": 10 })).await.ok();
    let ids: Vec<_> =
        next["messages"].as_array().expect("a list").iter().map(|m| &m["event"]["id"]).collect();
    assert_eq!(ids, ["a", "b", "d"]);
    assert_eq!(next["messages"][0]["message_id"], sends[0]["message_ids"][0]);
}

#[tokio::test]
async fn stale_leases_are_listed_where_nothing_is_sent() {
    let (server, held) = with_leases(3).await;
    server.post("/v1/queues/q:ack", leases(&held[1..2])).await.ok();
    let unknown = json!({ "message_id": "no such message", "lease_generation": "1" });
    let body = json!({
        "acks": [unknown, lease(&held[0])],
        "nacks": [lease(&held[1])],
        "extends": [unknown, lease(&held[2])],
    });
    let answer = server.post(PATH, body.clone()).await.ok();
    assert_eq!(answer, json!({ "stale_leases": [unknown, lease(&held[1]), unknown], "sends": [] }));
    assert_eq!(server.view().await.counters.total_acked, 2);
    let only_unknown = server.post(PATH, json!({ "acks": [unknown] })).await.ok();
    assert_eq!(only_unknown, json!({ "stale_leases": [unknown], "sends": [] }));
}

#[tokio::test]
async fn one_stale_lease_refuses_all_where_something_is_sent_or_all_is_required() {
    let (server, held) = with_leases(2).await;
    let mut old = lease(&held[1]);
    old["lease_generation"] = json!("1");
    let unknown = json!({ "message_id": "no such message", "lease_generation": "1" });
    let send = json!([{ "queue": "next", "events": [event("a")] }]);
    for stale in [old, unknown] {
        for body in [
            json!({ "acks": [lease(&held[0])], "nacks": [stale], "sends": send }),
            json!({ "acks": [lease(&held[0])], "extends": [stale], "require": "all" }),
            json!({ "acks": [stale], "sends": send }),
        ] {
            let reply = server.post(PATH, body.clone()).await;
            assert_eq!(reply.refusal(), refused(409, "lease_stale"), "{body}");
            let detail = reply.json()["detail"].as_str().expect("a detail").to_owned();
            assert!(detail.contains(stale["message_id"].as_str().expect("an id")), "{detail}");
        }
    }
    let counters = server.view().await.counters;
    assert_eq!((counters.leased, counters.total_acked), (2, 0), "nothing was settled");
    assert_eq!(server.get("/v1/queues/next").await.ok()["status"]["ready_count"], "0", "nor sent");
    let all = json!({ "acks": [lease(&held[0])], "require": "all" });
    assert_eq!(server.post(PATH, all).await.ok()["stale_leases"], json!([]));
}

#[tokio::test]
async fn what_is_refused_is_named_and_stores_nothing() {
    let (server, held) = with_leases(1).await;
    let ack = json!([lease(&held[0])]);
    let send = |extra: Value| {
        let mut send = json!({ "events": [event("a")] });
        send.as_object_mut().expect("an object").extend(extra.as_object().expect("an object").clone());
        json!({ "acks": ack, "sends": [send] })
    };
    let elsewhere = "orgs/a/projects/b/envs/c/queues/d";
    for (body, status, code, field) in [
        (json!({}), 400, "invalid_field", None),
        (send(json!({ "queue": elsewhere })), 400, "invalid_field", Some("sends[0].queue")),
        (send(json!({ "queue": "nowhere" })), 404, "queue_not_found", None),
        (send(json!({ "delay": "60s", "ttl": "60s" })), 400, "invalid_field", Some("sends[].delay")),
        (send(json!({ "ttl": "0s" })), 400, "invalid_field", Some("sends[0].ttl")),
        (json!({ "acks": ack, "require": "none" }), 400, "invalid_field", Some("require")),
        (json!({ "acks": ack, "leases": [] }), 400, "unknown_field", Some("leases")),
    ] {
        let reply = server.post(PATH, body.clone()).await;
        assert_eq!(reply.refusal(), refused(status, code), "{body}");
        assert_eq!(reply.json().get("field").and_then(Value::as_str), field, "{body}");
    }
    assert_eq!(server.view().await.counters.total_acked, 0);
    for path in ["/v1/queues/none:settle", "/v1/queues/q:settle?x=1"] {
        let reply = server.post(path, json!({ "extends": [lease(&held[0])] })).await;
        assert!(reply.status.is_client_error(), "{path}");
    }
    let reply = server.call(Method::POST, PATH, &[("content-type", "text/plain")], "{}").await;
    assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"));
}
