//! Topics, groups and partitions as resources.

use axum::body::Body;
use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, Reply, Server, event, refused};

async fn with_topic() -> Server {
    let server = Server::start().await;
    server.post("/v1/topics?topic_id=T", json!({})).await.ok();
    server
}

async fn patch(server: &Server, path: &str, body: Value) -> Reply {
    server.call(Method::PATCH, path, &[("content-type", "application/json")], body.to_string()).await
}

fn ids(list: &Value) -> Vec<&str> {
    let names = list.as_array().expect("a list").iter().map(|item| item["name"].as_str().expect("a name"));
    names.map(|name| name.rsplit_once('/').expect("a path").1).collect()
}

#[tokio::test]
async fn a_topic_is_made_with_the_defaults_of_topics() {
    let server = Server::start().await;
    let made = server.post("/v1/topics?topic_id=Orders_1", json!({})).await.ok();
    assert_eq!(made["name"], format!("{HOME}/topics/Orders_1"));
    assert_eq!(made["spec"], json!({ "retention": "604800s", "delay": "0s" }));
    assert_eq!(made["status"]["ready_count"], "0");
    assert!(made["status"].get("leased_count").is_none() && made["status"].get("paused").is_none());
    assert_eq!(made, server.get(&format!("/v1/{HOME}/topics/Orders_1")).await.ok());
    let again = server.post("/v1/topics?topic_id=Orders_1", json!({})).await;
    assert_eq!(again.refusal(), refused(409, "topic_already_exists"));
    assert_eq!(again.json()["detail"], "topic Orders_1 exists already");
    server.post("/v1/topics?topic_id=orders_1", json!({})).await.ok();
    assert_eq!(server.get("/v1/topics/ORDERS_1").await.refusal(), refused(404, "topic_not_found"));

    let checked = server.post("/v1/topics?topic_id=x&validate_only=true", json!({})).await.ok();
    assert_eq!(checked["name"], format!("{HOME}/topics/x"));
    assert_eq!(server.get("/v1/topics/x").await.refusal(), refused(404, "topic_not_found"));
    let own = server.post("/v1/topics", json!({})).await.ok();
    assert!(own["name"].as_str().is_some_and(|name| name.contains("/topics/t")), "{own}");
    let list =
        server.get("/v1/topics?order_by=name desc&page_size=2".replace(' ', "%20").as_str()).await.ok();
    assert_eq!(ids(&list["topics"]).len(), 2);
    assert_ne!(list["next_page_token"], "");
    assert_eq!(server.get("/v1/queues").await.ok()["queues"], json!([]), "a topic is no queue");
}

#[tokio::test]
async fn what_a_topic_cannot_have_is_refused_by_field() {
    let server = with_topic().await;
    for (path, body, code, field) in [
        ("/v1/topics?topic_id=a.b", json!({}), "invalid_field", "topic_id"),
        ("/v1/topics?queue_id=a", json!({}), "unknown_field", "queue_id"),
        ("/v1/topics", json!({ "spec": { "max_deliveries": 5 } }), "unknown_field", "spec.max_deliveries"),
        ("/v1/topics", json!({ "spec": { "retention": "59s" } }), "invalid_field", "spec.retention"),
        (
            "/v1/topics",
            json!({ "spec": { "retention": "60s", "delay": "60s" } }),
            "invalid_field",
            "spec.delay",
        ),
        ("/v1/topics", json!({ "name": "T" }), "invalid_field", "name"),
        ("/v1/topics", json!({ "name": format!("{HOME}/topics/T/groups/g") }), "invalid_field", "name"),
        ("/v1/topics/T/groups?group_id=a.b", json!({}), "invalid_field", "group_id"),
        ("/v1/topics/T/groups?group_id=g", json!({ "start": "now" }), "invalid_field", "start"),
        ("/v1/topics/T/groups", json!({ "spec": { "at_limit": "drop" } }), "unknown_field", "spec.at_limit"),
        (
            "/v1/topics/T/groups",
            json!({ "name": format!("{HOME}/topics/U/groups/g") }),
            "invalid_field",
            "name",
        ),
        ("/v1/topics/a.b/groups?group_id=g", json!({}), "invalid_field", "topic"),
    ] {
        let reply = server.post(path, body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, code), "{path} {body}");
        assert_eq!(reply.json()["field"], field, "{path} {body}");
    }
    assert_eq!(ids(&server.get("/v1/topics").await.ok()["topics"]), ["T"]);
    assert_eq!(server.get("/v1/topics/T/groups").await.ok()["groups"], json!([]));
    let reply = server.post("/v1/topics/none/groups?group_id=g", json!({})).await;
    assert_eq!(reply.refusal(), refused(404, "topic_not_found"));
}

#[tokio::test]
async fn routes_say_which_methods_and_verbs_they_take() {
    let server = with_topic().await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/topics/T", "GET,HEAD,DELETE,PATCH"),
        (Method::POST, "/v1/topics/T", "GET,HEAD,DELETE,PATCH"),
        (Method::GET, "/v1/topics/T:send", "POST"),
        (Method::POST, "/v1/topics/T/groups/g:why", "GET,HEAD"),
        (Method::DELETE, "/v1/topics/T/groups", "GET,HEAD,POST"),
        (Method::GET, "/v1/topics/T/partitions/p", "DELETE"),
        (Method::POST, "/v1/topics/T/partitions", "GET,HEAD"),
        (Method::DELETE, "/v1/topics/T/messages/m", "GET,HEAD"),
    ] {
        let reply = server.call(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(405, "method_not_allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
    for path in [
        "/v1/topics/T:purge",
        "/v1/topics/T:pause",
        "/v1/topics/T/groups/g:lease",
        "/v1/topics/T/partitions/p:send",
    ] {
        assert_eq!(server.post(path, json!({})).await.refusal(), refused(404, "not_found"), "{path}");
    }
    for path in ["/v1/topics/T:why", "/v1/topics/", "/v1/topics/T/dead-letters", "/v1/topics/T:send/groups"] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_group_is_made_changed_paused_and_deleted() {
    let server = with_topic().await;
    server.post("/v1/topics/T:send", json!({ "events": [event("1")] })).await.ok();
    let body = json!({ "meta": { "labels": { "team": "a" } }, "spec": { "visibility_timeout": "5s" }, "start": "latest" });
    let made = server.post("/v1/topics/T/groups?group_id=late", body).await.ok();
    assert_eq!(made["name"], format!("{HOME}/topics/T/groups/late"));
    assert_eq!(made["spec"]["visibility_timeout"], "5s");
    assert!(made["spec"].get("max_deliveries").is_none() && made["spec"].get("retention").is_none());
    assert_eq!(made["status"]["ready_count"], "0", "it begins behind what was there");
    server.post("/v1/topics/T/groups?group_id=early", json!({})).await.ok();
    let group = "/v1/topics/T/groups/early";
    let early = server.get(group).await.ok();
    assert_eq!(early["status"]["ready_count"], "1");
    assert_eq!(early["status"]["why"]["reason"], "no_consumer");
    let again = server.post("/v1/topics/T/groups?group_id=early", json!({})).await;
    assert_eq!(again.refusal(), refused(409, "group_already_exists"));

    let list = server.get("/v1/topics/T/groups?filter=labels.team%20%3D%20a").await.ok();
    assert_eq!(ids(&list["groups"]), ["late"]);
    let first = server.get("/v1/topics/T/groups?page_size=1").await.ok();
    assert_eq!(ids(&first["groups"]), ["early"]);
    let token = first["next_page_token"].as_str().expect("a token");
    let second = server.get(&format!("/v1/topics/T/groups?page_size=1&page_token={token}")).await.ok();
    assert_eq!(ids(&second["groups"]), ["late"]);
    let elsewhere = server.get(&format!("/v1/topics?page_token={token}")).await;
    assert_eq!(elsewhere.refusal(), refused(400, "page_token_invalid"));

    let changed = patch(&server, group, json!({ "spec": { "max_deliveries": 3 } })).await.ok();
    assert_eq!(
        (&changed["spec"]["max_deliveries"], &changed["spec"]["limit_counts"]),
        (&json!(3), &json!("deliveries"))
    );
    let back = patch(&server, group, json!({ "spec": { "max_deliveries": null } })).await.ok();
    assert!(back["spec"].get("max_deliveries").is_none(), "a group has no limit unless it is given one");
    let missing = patch(&server, "/v1/topics/T/groups/none", json!({})).await;
    assert_eq!(missing.refusal(), refused(404, "group_not_found"));
    let there = patch(&server, "/v1/topics/T/groups/made?allow_missing=true", json!({ "start": "latest" }))
        .await
        .ok();
    assert_eq!(there["status"]["ready_count"], "0");
    let nowhere = patch(&server, "/v1/topics/none/groups/g?allow_missing=true", json!({})).await;
    assert_eq!(nowhere.refusal(), refused(404, "topic_not_found"));

    let paused = server.post_nothing(&format!("{group}:pause")).await.ok();
    assert_eq!(paused["status"]["paused"], true);
    assert_eq!(server.get(&format!("{group}:why")).await.ok()["why"]["reason"], "paused");
    assert_eq!(server.post_nothing(&format!("{group}:resume")).await.ok()["status"]["paused"], false);
    server.delete(&format!("{group}?etag=wrong")).await.code();
    server.delete(group).await.ok();
    assert_eq!(server.get(group).await.refusal(), refused(404, "group_not_found"));
    assert_eq!(server.delete(group).await.refusal(), refused(404, "group_not_found"));
    server.delete(&format!("{group}?allow_missing=true")).await.ok();
}

#[tokio::test]
async fn a_topic_is_changed_and_goes_with_all_that_belongs_to_it() {
    let server = with_topic().await;
    let changed = patch(&server, "/v1/topics/T", json!({ "spec": { "retention": "60s" } })).await.ok();
    assert_eq!((&changed["spec"]["retention"], &changed["meta"]["generation"]), (&json!("60s"), &json!("2")));
    let back = patch(&server, "/v1/topics/T", json!({ "spec": { "retention": null } })).await.ok();
    assert_eq!(back["spec"]["retention"], "604800s");
    let stale = patch(&server, "/v1/topics/T?etag=x-1", json!({ "spec": { "delay": "1s" } })).await;
    assert_eq!(stale.refusal(), refused(409, "etag_mismatch"));
    server.post("/v1/topics/T/groups?group_id=g", json!({})).await.ok();
    server.post("/v1/topics/T:send?partition=p", json!({ "events": [event("1")] })).await.ok();
    server.delete("/v1/topics/T").await.ok();
    for path in ["/v1/topics/T", "/v1/topics/T/groups", "/v1/topics/T/partitions"] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "topic_not_found"), "{path}");
    }
    assert_eq!(server.get("/v1/topics/T/groups/g").await.refusal(), refused(404, "group_not_found"));
}

#[tokio::test]
async fn partitions_are_listed_and_deleted() {
    let server = with_topic().await;
    patch(&server, "/v1/topics/T", json!({ "spec": { "retention": "600s" } })).await.ok();
    for partition in ["b", "a"] {
        let path = format!("/v1/topics/T:send?partition={partition}");
        server.post(&path, json!({ "events": [event("1"), event("2")] })).await.ok();
    }
    let list = server.get("/v1/topics/T/partitions").await.ok();
    assert_eq!(ids(&list["partitions"]), ["a", "b"]);
    let first = &list["partitions"][0];
    assert_eq!(first["name"], format!("{HOME}/topics/T/partitions/a"));
    assert_eq!(first["spec"]["retention"], "600s", "it has the settings of its topic");
    assert_eq!(first["status"]["ready_count"], "2");
    assert_eq!(server.get("/v1/topics/T").await.ok()["status"]["ready_count"], "4");
    server.delete("/v1/topics/T/partitions/a").await.ok();
    assert_eq!(
        server.delete("/v1/topics/T/partitions/a").await.refusal(),
        refused(404, "partition_not_found")
    );
    let forced = server.delete("/v1/topics/T/partitions/b?force=true").await;
    assert_eq!(forced.refusal(), refused(400, "unknown_field"));
    assert_eq!(server.get("/v1/topics/T").await.ok()["status"]["ready_count"], "2");
}

#[tokio::test]
async fn a_repeated_call_with_a_key_is_answered_alike() {
    let server = with_topic().await;
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    for replayed in ["", "true"] {
        let reply = server.call(Method::POST, "/v1/topics?topic_id=once", &headers, "{}").await;
        assert_eq!(reply.ok()["name"], format!("{HOME}/topics/once"));
        assert_eq!(reply.header("millpond-idempotent-replay"), replayed);
    }
    let other = server.call(Method::POST, "/v1/topics?topic_id=twice", &headers, "{}").await;
    assert_eq!(other.refusal(), refused(409, "idempotency_key_reused"));
}
