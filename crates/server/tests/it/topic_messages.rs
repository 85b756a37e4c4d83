//! Messages of topics: sent, leased by groups, settled, looked at.

use axum::http::Method;
use millpond_core::Command;
use serde_json::{Value, json};

use crate::harness::{HOME, Server, event, refused, strings};

async fn with_topic() -> Server {
    let server = Server::start().await;
    server.post("/v1/topics?topic_id=T", json!({})).await.ok();
    server
}

async fn send(server: &Server, query: &str, ids: &[&str]) -> Vec<String> {
    let events: Vec<Value> = ids.iter().map(|id| event(id)).collect();
    let sent = server.post(&format!("/v1/topics/T:send{query}"), json!({ "events": events })).await.ok();
    strings(&sent["message_ids"])
}

async fn lease(server: &Server, body: Value) -> Vec<Value> {
    let leased = server.post("/v1/topics/T:lease", body).await.ok();
    leased["messages"].as_array().expect("a list").clone()
}

fn ids(messages: &[Value]) -> Vec<&str> {
    messages.iter().map(|message| message["event"]["id"].as_str().expect("an id")).collect()
}

fn of_group(group: &str, messages: &[Value]) -> Value {
    let leases: Vec<_> = messages.iter().map(|message| message["lease"].clone()).collect();
    json!({ "group": group, "leases": leases })
}

async fn counts(server: &Server, group: &str) -> [String; 3] {
    let status = server.get(&format!("/v1/topics/T/groups/{group}")).await.ok()["status"].clone();
    ["ready_count", "leased_count", "delayed_count"].map(|name| status[name].as_str().expect(name).to_owned())
}

#[tokio::test]
async fn every_group_gets_every_message_and_is_made_by_its_first_lease() {
    let server = with_topic().await;
    send(&server, "", &["1", "2"]).await;
    let first = lease(&server, json!({ "group": "a", "max_messages": 10 })).await;
    assert_eq!(ids(&first), ["1", "2"]);
    assert_eq!(first[0]["delivery_count"], 1);
    assert!(first[0]["lease"]["delivery"].is_string());
    assert_eq!(ids(&lease(&server, json!({ "group": "b" })).await), ["1"]);
    let late = lease(&server, json!({ "group": "late", "start": "latest", "max_messages": 10 })).await;
    assert!(late.is_empty());
    send(&server, "", &["3"]).await;
    assert_eq!(ids(&lease(&server, json!({ "group": "late", "max_messages": 10 })).await), ["3"]);

    let none_stale = json!({ "stale_leases": [] });
    assert_eq!(server.post("/v1/topics/T:ack", of_group("a", &first)).await.ok(), none_stale);
    assert_eq!(counts(&server, "a").await, ["1", "0", "0"]);
    assert_eq!(counts(&server, "b").await, ["2", "1", "0"]);
    assert_eq!(counts(&server, "late").await, ["0", "1", "0"]);
    assert_eq!(server.get("/v1/topics/T").await.ok()["status"]["ready_count"], "3");
    let elsewhere = server.post("/v1/topics/none:lease", json!({ "group": "a" })).await;
    assert_eq!(elsewhere.refusal(), refused(404, "topic_not_found"));
}

#[tokio::test]
async fn leases_of_groups_are_nacked_extended_and_stale() {
    let server = with_topic().await;
    send(&server, "", &["1", "2", "3"]).await;
    let held = lease(&server, json!({ "group": "g", "max_messages": 3 })).await;
    let mut nack = of_group("g", &held[..1]);
    nack["delay"] = json!("60s");
    assert_eq!(server.post("/v1/topics/T:nack", nack).await.ok()["stale_leases"], json!([]));
    assert_eq!(counts(&server, "g").await, ["0", "2", "1"]);
    let mut extend = of_group("g", &held[1..2]);
    extend["visibility_timeout"] = json!("43200s");
    assert_eq!(server.post("/v1/topics/T:extend", extend.clone()).await.ok()["stale_leases"], json!([]));
    let reply = server.post("/v1/topics/T:ack", of_group("g", &held)).await.ok();
    assert_eq!(reply["stale_leases"], json!([held[0]["lease"]]));
    assert_eq!(
        server.post("/v1/topics/T:ack", of_group("g", &held)).await.ok()["stale_leases"]
            .as_array()
            .map(Vec::len),
        Some(3)
    );

    server.post("/v1/topics/T/groups?group_id=other", json!({})).await.ok();
    let others = server.post("/v1/topics/T:ack", of_group("other", &held)).await.ok();
    assert_eq!(others["stale_leases"].as_array().map(Vec::len), Some(3), "they are another group's");
    for body in [
        of_group("none", &held),
        json!({ "group": "none", "leases": [{ "message_id": "x", "lease_generation": 1, "delivery": 1 }] }),
    ] {
        assert_eq!(server.post("/v1/topics/T:ack", body).await.refusal(), refused(404, "group_not_found"));
    }
    let mut without = of_group("g", &held);
    without["leases"][0].as_object_mut().expect("an object").remove("delivery");
    let reply = server.post("/v1/topics/T:ack", without).await;
    assert_eq!(
        (reply.refusal(), reply.json()["field"].clone()),
        (refused(400, "missing_field"), json!("leases[0].delivery"))
    );
    let bogus = json!({ "group": "g", "leases": [{ "message_id": held[0]["message_id"], "lease_generation": 1, "delivery": u64::MAX.to_string() }] });
    assert_eq!(
        server.post("/v1/topics/T:ack", bogus).await.ok()["stale_leases"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn an_extension_ends_with_its_message() {
    let server = with_topic().await;
    send(&server, "?ttl=60s", &["1"]).await;
    let held = lease(&server, json!({ "group": "g", "visibility_timeout": "30s" })).await;
    let mut extend = of_group("g", &held);
    extend["visibility_timeout"] = json!("3600s");
    let reply = server.post("/v1/topics/T:extend", extend).await;
    assert_eq!(reply.refusal(), refused(400, "beyond_expiry"));
    assert_eq!(counts(&server, "g").await, ["0", "1", "0"]);
}

#[tokio::test]
async fn a_partition_is_made_by_its_first_message_and_read_alone() {
    let server = with_topic().await;
    send(&server, "", &["none"]).await;
    send(&server, "?partition=p", &["p1", "p2"]).await;
    send(&server, "?partition=q", &["q1"]).await;
    let call = json!({ "group": "g", "partition": "p", "max_messages": 10 });
    assert_eq!(ids(&lease(&server, call).await), ["p1", "p2"]);
    let rest = lease(&server, json!({ "group": "g", "max_messages": 10 })).await;
    assert_eq!(rest.len(), 2);
    assert!(
        lease(&server, json!({ "group": "g", "partition": "none", "max_messages": 10 })).await.is_empty()
    );
    let peek = |body: Value| {
        let server = &server;
        async move {
            let seen = server.post("/v1/topics/T:peek", body).await.ok();
            seen["messages"].as_array().expect("a list").clone()
        }
    };
    assert_eq!(ids(&peek(json!({})).await), ["none"]);
    let seen = peek(json!({ "partition": "p", "max_messages": 1 })).await;
    assert_eq!(ids(&seen), ["p1"]);
    assert_eq!(seen[0]["topic"], format!("{HOME}/topics/T"));
    assert!(seen[0].get("queue").is_none() && seen[0].get("delivery_count").is_none());
    let missing = server.post("/v1/topics/T:peek", json!({ "partition": "x" })).await;
    assert_eq!(missing.refusal(), refused(404, "partition_not_found"));
    for (path, code) in [
        ("/v1/topics/T:send?partition=a.b", "invalid_field"),
        ("/v1/topics/T:send?priority=1", "unknown_field"),
        ("/v1/queues/q:send?partition=p", "unknown_field"),
    ] {
        let reply = server.post(path, json!({ "events": [event("1")] })).await;
        assert_eq!(reply.refusal(), refused(400, code), "{path}");
    }
    for path in ["/v1/topics/none:send", "/v1/topics/none:send?partition=p"] {
        let reply = server.post(path, json!({ "events": [event("1")] })).await;
        assert_eq!(reply.refusal(), refused(404, "topic_not_found"), "{path}");
    }
    assert!(send(&server, "?delay=60s", &["later"]).await.len() == 1);
    assert_eq!(ids(&peek(json!({ "state": "delayed" })).await), ["later"]);
}

#[tokio::test]
async fn no_more_than_wanted_are_in_flight() {
    let server = with_topic().await;
    send(&server, "", &["1", "2", "3"]).await;
    let call = json!({ "group": "g", "max_messages": 10, "max_in_flight": 2 });
    let held = lease(&server, call.clone()).await;
    assert_eq!(held.len(), 2);
    let reply = server.post("/v1/topics/T:lease", call.clone()).await;
    assert_eq!(reply.refusal(), refused(429, "concurrency_limit"));
    server.post("/v1/topics/T:ack", of_group("g", &held[..1])).await.ok();
    assert_eq!(lease(&server, call).await.len(), 1);
}

#[tokio::test]
async fn a_waiting_call_of_a_group_that_was_not_there_is_answered_by_a_send() {
    let server = with_topic().await;
    let call = json!({ "group": "g", "wait": "20s" });
    let (messages, _) = tokio::join!(lease(&server, call), async {
        loop {
            let get = Command::GetQueue { queue: "topics/T/groups/g".into() };
            let answer = server.engine.submit(HOME, get).await.expect("an answer");
            if matches!(answer.outcome, millpond_core::Outcome::Queue(view) if view.waiting > 0) {
                break;
            }
        }
        send(&server, "?partition=new", &["1"]).await
    });
    assert_eq!(ids(&messages), ["1"]);
}

#[tokio::test]
async fn a_settle_of_a_group_acks_and_sends_to_queues_and_topics() {
    let server = with_topic().await;
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    send(&server, "", &["1", "2"]).await;
    let held = lease(&server, json!({ "group": "g", "max_messages": 2 })).await;
    let send_to = |to: Value| {
        let mut send = json!({ "events": [event("next")] });
        send.as_object_mut().expect("an object").extend(to.as_object().expect("an object").clone());
        send
    };
    let body = json!({
        "group": "g",
        "acks": [held[0]["lease"]],
        "nacks": [held[1]["lease"]],
        "sends": [
            send_to(json!({})),
            send_to(json!({ "queue": "q" })),
            send_to(json!({ "partition": "p" })),
            send_to(json!({ "topic": format!("{HOME}/topics/T"), "partition": "r" })),
        ],
    });
    let settled = server.post("/v1/topics/T:settle", body).await.ok();
    assert_eq!(settled["stale_leases"], json!([]));
    assert_eq!(settled["sends"].as_array().map(Vec::len), Some(4));
    assert_eq!(counts(&server, "g").await, ["4", "0", "0"]);
    assert_eq!(server.get("/v1/topics/T").await.ok()["status"]["ready_count"], "5");
    assert_eq!(server.get("/v1/queues/q").await.ok()["status"]["ready_count"], "1");

    let again =
        json!({ "group": "g", "acks": [held[0]["lease"]], "sends": [send_to(json!({ "partition": "s" }))] });
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let stale = server.call(Method::POST, "/v1/topics/T:settle", &headers, again.to_string()).await;
    assert_eq!(stale.refusal(), refused(409, "lease_stale"));

    let held = server.lease(json!({})).await;
    let forward =
        json!({ "acks": [held[0]["lease"]], "sends": [send_to(json!({ "topic": "T", "partition": "p" }))] });
    server.post("/v1/queues/q:settle", forward).await.ok();
    assert_eq!(server.get("/v1/topics/T").await.ok()["status"]["ready_count"], "6");
    for (send, status, code) in [
        (json!({ "topic": "none" }), 404, "topic_not_found"),
        (json!({ "topic": "none", "partition": "p" }), 404, "topic_not_found"),
        (json!({ "topic": "orgs/a/projects/b/envs/c/topics/T" }), 400, "invalid_field"),
        (json!({ "partition": "p" }), 400, "invalid_field"),
        (json!({ "queue": "q", "topic": "T" }), 400, "invalid_field"),
    ] {
        let reply = server.post("/v1/queues/q:settle", json!({ "sends": [send_to(send.clone())] })).await;
        assert_eq!(reply.refusal(), refused(status, code), "{send}");
    }
}

#[tokio::test]
async fn a_message_of_a_topic_is_looked_up_with_its_data() {
    let server = with_topic().await;
    let headers = [
        ("ce-id", "1"),
        ("ce-source", "/s"),
        ("ce-type", "t"),
        ("ce-specversion", "1.0"),
        ("content-type", "image/png"),
    ];
    let large = vec![7; 400 << 10];
    let sent = server.call(Method::POST, "/v1/topics/T:send?partition=p", &headers, large.clone()).await.ok();
    let id = strings(&sent["message_ids"]).remove(0);
    let path = format!("/v1/topics/T/messages/{id}");
    let message = server.get(&path).await.ok();
    assert_eq!((&message["state"], &message["topic"]), (&json!("ready"), &json!(format!("{HOME}/topics/T"))));
    let data_url = format!("/v1/{HOME}/topics/T/messages/{id}/data");
    assert_eq!(message["event"]["data_url"], data_url);
    let held = lease(&server, json!({ "group": "g" })).await;
    assert_eq!(held[0]["event"]["data_url"], data_url);
    for generation in ["", "7"] {
        let headers = [("millpond-lease-generation", generation)];
        let headers = if generation.is_empty() { &headers[..0] } else { &headers };
        let data = server.call(Method::GET, &format!("{path}/data"), headers, "").await;
        assert!(data.status.is_success() && data.body == large);
        assert_eq!(data.header("content-type"), "image/png");
    }
    server.post("/v1/topics/T:ack", of_group("g", &held)).await.ok();
    assert_eq!(server.get(&path).await.ok()["state"], "ready", "other groups may want it");
    for bad in ["nothing", "msg_00000000000000000000000000"] {
        let reply = server.get(&format!("/v1/topics/T/messages/{bad}")).await;
        assert_eq!(reply.refusal(), refused(404, "message_not_found"));
        let reply = server.get(&format!("/v1/topics/none/messages/{bad}/data")).await;
        assert_eq!(reply.refusal(), refused(404, "topic_not_found"));
    }
}

#[tokio::test]
async fn a_batch_of_cloud_events_names_the_delivery() {
    let server = with_topic().await;
    send(&server, "", &["1"]).await;
    let media_type = "application/cloudevents-batch+json";
    let headers = [("content-type", "application/json"), ("accept", media_type)];
    let reply = server.call(Method::POST, "/v1/topics/T:lease", &headers, r#"{"group":"g"}"#).await;
    let event = reply.ok()[0].clone();
    assert_eq!(reply.header("content-type"), media_type);
    let lease = json!({
        "message_id": event["millpondmessageid"],
        "lease_generation": event["millpondgeneration"],
        "delivery": event["millponddelivery"],
    });
    let ack = server.post("/v1/topics/T:ack", json!({ "group": "g", "leases": [lease] })).await.ok();
    assert_eq!(ack["stale_leases"], json!([]));
}
