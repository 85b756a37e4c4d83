//! Queues as resources: made, shown, explained, paused, emptied, removed.

use serde_json::json;

use crate::harness::{HOME, Server, leases, refused};

#[tokio::test]
async fn a_new_queue_has_defaults_and_is_shown_alike() {
    let server = Server::start().await;
    let made = server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    assert_eq!(made["name"], format!("{HOME}/queues/q"));
    assert!(made["uid"].as_str().is_some_and(|uid| uid.starts_with("que_")));
    assert_eq!(made["meta"]["generation"], "1");
    let spec = &made["spec"];
    assert_eq!(spec["visibility_timeout"], "30s");
    assert_eq!(spec["max_deliveries"], 5);
    assert_eq!(spec["retention"], "345600s");
    assert_eq!(spec["at_limit"], "dead_letter_set");
    assert_eq!(spec["order"], "visible");
    let status = &made["status"];
    assert_eq!(status["ready_count"], "0");
    assert_eq!(status["paused"], false);
    assert_eq!(status["why"]["reason"], "empty");
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(made, server.get("/v1/queues/q").await.ok());
}

#[tokio::test]
async fn what_was_given_is_kept() {
    let server = Server::start().await;
    let meta = json!({ "display_name": "Mail", "labels": { "team": "a" }, "annotations": { "note": "x y" } });
    let spec = json!({
        "visibility_timeout": "60s", "max_deliveries": 3, "concurrency_max": 2, "delay": "1s",
        "backoff": { "initial": "2s" }, "fresh_first": true, "order": "sent",
    });
    let made = server.post("/v1/queues?queue_id=q", json!({ "spec": spec, "meta": meta })).await.ok();
    for key in ["display_name", "labels", "annotations"] {
        assert_eq!(made["meta"][key], meta[key]);
    }
    for key in ["visibility_timeout", "max_deliveries", "concurrency_max", "delay", "fresh_first", "order"] {
        assert_eq!(made["spec"][key], spec[key]);
    }
    let backoff = json!({ "initial": "2s", "factor": 2, "max": "3600s", "jitter_min": 1, "jitter_max": 1 });
    assert_eq!(made["spec"]["backoff"], backoff);
    assert_eq!(made, server.get("/v1/queues/q").await.ok());
}

#[tokio::test]
async fn an_id_comes_from_the_query_the_name_or_the_server() {
    let server = Server::start().await;
    let made = server.post_nothing("/v1/queues").await.ok();
    let name = made["name"].as_str().expect("a name").to_owned();
    let id = name.rsplit('/').next().expect("an id");
    assert_eq!(server.get(&format!("/v1/queues/{id}")).await.ok()["name"], name);
    assert_ne!(server.post_nothing("/v1/queues?queue_id=").await.ok()["name"], name);

    let named = json!({ "name": format!("{HOME}/queues/named") });
    assert_eq!(server.post("/v1/queues", named.clone()).await.ok()["name"], named["name"]);
    let other = server.post("/v1/queues?queue_id=other", named).await;
    assert_eq!(other.refusal(), refused(400, "invalid_field"));
    let elsewhere = json!({ "name": "orgs/a/projects/b/envs/c/queues/named" });
    assert_eq!(server.post("/v1/queues", elsewhere).await.refusal(), refused(400, "invalid_field"));
    let upper = server.post_nothing("/v1/queues?queue_id=Q").await;
    assert_eq!(upper.refusal(), refused(400, "invalid_field"));
    assert_eq!(upper.json()["field"], "queue_id");
}

#[tokio::test]
async fn a_name_is_taken_once_and_validation_stores_nothing() {
    let server = Server::start().await;
    let path = "/v1/queues?queue_id=q";
    assert_eq!(
        server.post_nothing(&format!("{path}&validate_only=true")).await.ok()["meta"]["generation"],
        "1"
    );
    assert_eq!(server.get("/v1/queues/q").await.refusal(), refused(404, "queue_not_found"));
    server.post_nothing(path).await.ok();
    assert_eq!(server.post_nothing(path).await.refusal(), refused(409, "queue_already_exists"));
}

#[tokio::test]
async fn deleting_heeds_etag_validation_and_absence() {
    let server = Server::with_queue(json!({})).await;
    let etag = server.get("/v1/queues/q").await.ok()["meta"]["etag"].as_str().expect("an etag").to_owned();
    assert_eq!(server.delete("/v1/queues/q?etag=other").await.refusal(), refused(409, "etag_mismatch"));
    assert_eq!(server.delete("/v1/queues/q?validate_only=true").await.ok(), json!({}));
    server.get("/v1/queues/q").await.ok();
    assert_eq!(server.delete(&format!("/v1/queues/q?etag={etag}")).await.ok(), json!({}));
    assert_eq!(server.get("/v1/queues/q").await.refusal(), refused(404, "queue_not_found"));
    assert_eq!(server.delete("/v1/queues/q").await.refusal(), refused(404, "queue_not_found"));
    server.delete("/v1/queues/q?allow_missing=true").await.ok();
}

#[tokio::test]
async fn a_queue_that_takes_dead_letters_is_deleted_by_force_only() {
    let server = Server::start().await;
    server.post_nothing("/v1/queues?queue_id=dead").await.ok();
    let full = format!("{HOME}/queues/dead");
    for (id, reference) in [("a", "dead"), ("b", full.as_str())] {
        let body = json!({ "spec": { "dead_letter_queue": reference } });
        let made = server.post(&format!("/v1/queues?queue_id={id}"), body).await.ok();
        assert_eq!(made["spec"]["dead_letter_queue"], full);
    }
    let reply = server.delete("/v1/queues/dead").await;
    assert_eq!(reply.refusal(), refused(409, "invalid_state"));
    server.delete("/v1/queues/dead?force=true").await.ok();
}

#[tokio::test]
async fn a_paused_queue_hands_nothing_out_and_says_so() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1"]).await;
    let paused = server.post_nothing("/v1/queues/q:pause").await.ok();
    assert_eq!(paused["status"]["paused"], true);
    assert_eq!(paused["status"]["conditions"][0]["reason"], "Paused");
    let why = server.get("/v1/queues/q:why").await.ok();
    assert_eq!(why["why"], server.get("/v1/queues/q").await.ok()["status"]["why"]);
    assert_eq!(why["why"]["reason"], "paused");
    assert_eq!(why["sentence"], format!("paused since {}", why["why"]["since"].as_str().expect("a time")));
    assert!(server.lease(json!({})).await.is_empty());
    let resumed = server.post("/v1/queues/q:resume", json!({})).await.ok();
    assert_eq!(resumed["status"]["paused"], false);
    assert_eq!(server.lease(json!({})).await.len(), 1);
}

#[tokio::test]
async fn why_tells_what_holds_messages_back() {
    let server = Server::with_queue(json!({ "concurrency_max": 1 })).await;
    let reason = async || server.get("/v1/queues/q:why").await.ok()["why"]["reason"].clone();
    assert_eq!(reason().await, "empty");
    server.send(&["1"]).await;
    assert_eq!(reason().await, "no_consumer");
    let held = server.lease(json!({})).await;
    assert_eq!(reason().await, "all_leased");
    server.send(&["2"]).await;
    let full = server.get("/v1/queues/q:why").await.ok();
    assert_eq!(full["why"]["reason"], "concurrency_full");
    assert_eq!(full["why"]["until"], held[0]["lease_expire_time"]);
    server.post("/v1/queues/q:ack", leases(&held)).await.ok();
    assert_eq!(reason().await, "delivering");
    assert_eq!(server.get("/v1/queues/none:why").await.refusal(), refused(404, "queue_not_found"));
}

#[tokio::test]
async fn a_purge_counts_what_it_removed() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let held = server.lease(json!({})).await;
    assert_eq!(server.post_nothing("/v1/queues/q:purge").await.ok(), json!({ "purged_count": "2" }));
    let status = &server.get("/v1/queues/q").await.ok()["status"];
    assert_eq!((&status["ready_count"], &status["leased_count"]), (&json!("0"), &json!("1")));
    assert_eq!(server.post("/v1/queues/q:ack", leases(&held)).await.ok(), json!({ "stale_leases": [] }));
}

#[tokio::test]
async fn verbs_without_a_queue_find_none() {
    let server = Server::start().await;
    for verb in ["lease", "pause", "purge", "resume"] {
        let reply = server.post_nothing(&format!("/v1/queues/q:{verb}")).await;
        assert_eq!(reply.refusal(), refused(404, "queue_not_found"), "{verb}");
    }
    let nothing = json!({ "leases": [{ "message_id": "nothing", "lease_generation": "1" }] });
    for verb in ["ack", "nack", "extend"] {
        let reply = server.post(&format!("/v1/queues/q:{verb}"), nothing.clone()).await;
        assert_eq!(reply.refusal(), refused(404, "queue_not_found"), "{verb}");
    }
}
