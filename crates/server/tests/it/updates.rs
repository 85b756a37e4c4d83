//! Changing queues: masks, etags, queues that are not there.

use axum::http::Method;
use serde_json::{Value, json};

use crate::harness::{HOME, Reply, Server, leases, refused};

async fn patch_with(server: &Server, path: &str, headers: &[(&str, &str)], body: Value) -> Reply {
    let headers: Vec<_> = headers.iter().copied().chain([("content-type", "application/json")]).collect();
    server.call(Method::PATCH, path, &headers, body.to_string()).await
}

async fn patch(server: &Server, path: &str, body: Value) -> Reply {
    patch_with(server, path, &[], body).await
}

async fn etag(server: &Server) -> String {
    server.get("/v1/queues/q").await.ok()["meta"]["etag"].as_str().expect("an etag").to_owned()
}

#[tokio::test]
async fn what_a_body_names_is_changed_and_nothing_else() {
    let server = Server::start().await;
    server.post_nothing("/v1/queues?queue_id=dead").await.ok();
    let meta = json!({ "display_name": "Mail", "labels": { "team": "a" }, "annotations": { "note": "x" } });
    let spec =
        json!({ "max_deliveries": 3, "concurrency_max": 2, "backoff": { "initial": "2s", "max": "9s" } });
    let made = server.post("/v1/queues?queue_id=q", json!({ "spec": spec, "meta": meta })).await.ok();

    let body = json!({
        "spec": { "dead_letter_queue": "dead", "backoff": { "initial": "3s" }, "concurrency_max": null },
        "meta": { "labels": { "tier": "1" } },
    });
    let changed = patch(&server, "/v1/queues/q", body).await.ok();
    assert_eq!(changed["spec"]["dead_letter_queue"], format!("{HOME}/queues/dead"));
    assert_eq!(changed["spec"]["backoff"]["initial"], "3s");
    assert_eq!(changed["spec"]["backoff"]["max"], "9s");
    assert_eq!(changed["spec"]["max_deliveries"], 3);
    assert!(changed["spec"].get("concurrency_max").is_none());
    assert_eq!(changed["meta"]["labels"], json!({ "tier": "1" }));
    assert_eq!(changed["meta"]["annotations"], json!({ "note": "x" }));
    assert_eq!(changed["meta"]["display_name"], "Mail");
    assert_eq!(changed["meta"]["generation"], "2");
    assert_ne!(changed["meta"]["etag"], made["meta"]["etag"]);
    assert_eq!(changed["uid"], made["uid"]);
    assert_eq!(changed, server.get("/v1/queues/q").await.ok());

    let same = patch(&server, "/v1/queues/q", json!({})).await.ok();
    assert_eq!(same, changed, "what names nothing changes nothing");
}

#[tokio::test]
async fn a_mask_names_what_is_changed() {
    let server = Server::start().await;
    let meta = json!({ "display_name": "Mail", "labels": { "team": "a" } });
    let spec = json!({ "max_deliveries": 3, "delay": "5s", "lost_lease": { "in_a_row_max": 7 } });
    server.post("/v1/queues?queue_id=q", json!({ "spec": spec, "meta": meta })).await.ok();
    let body = json!({ "spec": { "max_deliveries": 9, "delay": "9s", "lost_lease": { "backs_off": true } } });

    let path = "/v1/queues/q?update_mask=spec.delay,meta.display_name,spec.lost_lease";
    let changed = patch(&server, path, body.clone()).await.ok();
    assert_eq!((&changed["spec"]["delay"], &changed["spec"]["max_deliveries"]), (&json!("9s"), &json!(3)));
    let lost = json!({ "spends_attempt": true, "in_a_row_max": 0, "backs_off": true });
    assert_eq!(changed["spec"]["lost_lease"], lost);
    assert!(changed["meta"].get("display_name").is_none());
    assert_eq!(changed["meta"]["labels"], meta["labels"]);

    let whole = patch(&server, "/v1/queues/q?update_mask=spec", json!({})).await.ok();
    let default = server.post_nothing("/v1/queues?queue_id=plain").await.ok();
    assert_eq!(whole["spec"], default["spec"]);
    for mask in ["spec.color", "meta.etag", "*", "spec,,", "status"] {
        let reply = patch(&server, &format!("/v1/queues/q?update_mask={mask}"), body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{mask}");
        assert_eq!(reply.json()["field"], "update_mask");
    }
}

#[tokio::test]
async fn what_was_read_can_be_changed_and_written_back() {
    let server = Server::with_queue(json!({ "max_deliveries": 3 })).await;
    let mut queue = server.get("/v1/queues/q").await.ok();
    queue["spec"]["max_deliveries"] = json!(4);
    let written = patch(&server, "/v1/queues/q", queue.clone()).await.ok();
    assert_eq!(written["spec"]["max_deliveries"], 4);
    queue["spec"]["max_deliveries"] = json!(5);
    let reply = patch(&server, "/v1/queues/q", queue).await;
    assert_eq!(reply.refusal(), refused(409, "etag_mismatch"), "its etag is that of the first read");
}

#[tokio::test]
async fn an_etag_stands_in_the_query_the_header_or_the_body() {
    let server = Server::with_queue(json!({})).await;
    let delay = |seconds: u32| json!({ "spec": { "delay": format!("{seconds}s") } });
    let old = etag(&server).await;
    patch(&server, &format!("/v1/queues/q?etag={old}"), delay(1)).await.ok();
    let now = etag(&server).await;
    let quoted = format!("\"{now}\"");
    patch_with(&server, "/v1/queues/q", &[("if-match", &quoted)], delay(2)).await.ok();
    patch_with(&server, "/v1/queues/q", &[("if-match", "*")], delay(3)).await.ok();

    let (now, old_quoted) = (etag(&server).await, format!("\"{old}\""));
    let in_body = |etag: &str| json!({ "meta": { "etag": etag }, "spec": { "delay": "4s" } });
    for reply in [
        patch(&server, &format!("/v1/queues/q?etag={old}"), delay(4)).await,
        patch_with(&server, "/v1/queues/q", &[("if-match", &old_quoted)], delay(4)).await,
        patch(&server, "/v1/queues/q", in_body(&old)).await,
    ] {
        assert_eq!(reply.refusal(), refused(409, "etag_mismatch"));
    }
    let both = format!("/v1/queues/q?etag={now}");
    assert_eq!(patch(&server, &both, in_body(&old)).await.refusal(), refused(400, "invalid_field"));
    let reply = patch_with(&server, "/v1/queues/q", &[("if-match", &now)], delay(4)).await;
    assert_eq!(reply.refusal(), refused(400, "invalid_field"), "not in quotes");
    assert_eq!(server.get("/v1/queues/q").await.ok()["spec"]["delay"], "3s");
    patch(&server, &both, in_body(&now)).await.ok();
}

#[tokio::test]
async fn a_missing_queue_is_made_on_request_only() {
    let server = Server::start().await;
    let body = json!({ "spec": { "delay": "1s" }, "meta": { "labels": { "a": "b" } } });
    assert_eq!(patch(&server, "/v1/queues/q", body.clone()).await.refusal(), refused(404, "queue_not_found"));
    for path in ["/v1/queues/q?allow_missing=true&etag=x", "/v1/queues/q?allow_missing=false"] {
        assert_eq!(
            patch(&server, path, body.clone()).await.refusal(),
            refused(404, "queue_not_found"),
            "{path}"
        );
    }
    let path = "/v1/queues/q?allow_missing=true";
    let star = patch_with(&server, path, &[("if-match", "*")], body.clone()).await;
    assert_eq!(star.refusal(), refused(404, "queue_not_found"), "a star wants something to be there");
    let checked = patch(&server, &format!("{path}&validate_only=true"), body.clone()).await.ok();
    assert_eq!(checked["spec"]["delay"], "1s");
    assert_eq!(server.get("/v1/queues/q").await.refusal(), refused(404, "queue_not_found"));
    let made = patch(&server, path, body.clone()).await.ok();
    assert_eq!((&made["meta"]["generation"], &made["meta"]["labels"]["a"]), (&json!("1"), &json!("b")));
    assert_eq!(
        patch(&server, path, json!({ "spec": { "delay": "2s" } })).await.ok()["meta"]["generation"],
        "2"
    );
}

#[tokio::test]
async fn validation_stores_nothing() {
    let server = Server::with_queue(json!({})).await;
    let before = server.get("/v1/queues/q").await.ok();
    let path = "/v1/queues/q?validate_only=true";
    let would = patch(&server, path, json!({ "spec": { "max_deliveries": 9 } })).await.ok();
    assert_eq!(would["spec"]["max_deliveries"], 9);
    assert_eq!(server.get("/v1/queues/q").await.ok(), before);
}

#[tokio::test]
async fn what_does_not_fit_what_there_is_is_refused_by_path() {
    let server = Server::with_queue(json!({ "retention": "60s", "backoff": { "max": "5s" } })).await;
    for (body, code, field) in [
        (json!({ "spec": { "delay": "60s" } }), "invalid_field", "spec.delay"),
        (json!({ "spec": { "backoff": { "initial": "6s" } } }), "invalid_field", "spec.backoff.max"),
        (json!({ "spec": { "dead_letter_queue": "q" } }), "invalid_field", "spec.dead_letter_queue"),
        (json!({ "spec": { "dead_letter_queue": "none" } }), "invalid_field", "spec.dead_letter_queue"),
        (json!({ "spec": { "color": 1 } }), "unknown_field", "spec.color"),
        (json!({ "name": format!("{HOME}/queues/other") }), "invalid_field", "name"),
    ] {
        let reply = patch(&server, "/v1/queues/q", body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, code), "{body}");
        assert_eq!(reply.json()["field"], field, "{body}");
    }
    assert_eq!(
        patch(&server, "/v1/queues/q:send", json!({})).await.refusal(),
        refused(405, "method_not_allowed")
    );
    assert_eq!(patch(&server, "/v1/queues/q?x=1", json!({})).await.refusal(), refused(400, "unknown_field"));
    let text = server.call(Method::PATCH, "/v1/queues/q", &[("content-type", "text/plain")], "{}").await;
    assert_eq!(text.refusal(), refused(415, "unsupported_media_type"));
}

#[tokio::test]
async fn changes_made_at_once_are_all_kept() {
    let server = Server::with_queue(json!({})).await;
    let change = |number: usize| {
        let body = match number % 3 {
            0 => json!({ "spec": { "delay": "7s" } }),
            1 => json!({ "spec": { "max_deliveries": 7 } }),
            _ => json!({ "meta": { "labels": { "seven": "7" } } }),
        };
        patch(&server, "/v1/queues/q", body)
    };
    for reply in futures_util::future::join_all((0..30).map(change)).await {
        reply.ok();
    }
    let queue = server.get("/v1/queues/q").await.ok();
    assert_eq!((&queue["spec"]["delay"], &queue["spec"]["max_deliveries"]), (&json!("7s"), &json!(7)));
    assert_eq!(queue["meta"]["labels"]["seven"], "7");
}

#[tokio::test]
async fn a_change_counts_for_what_comes_after_it() {
    let server = Server::with_queue(json!({ "concurrency_max": 1 })).await;
    server.send(&["1", "2"]).await;
    let held = server.lease(json!({ "max_messages": 2 })).await;
    assert_eq!(held.len(), 1);
    let waiting = server.lease(json!({ "wait": "20s" }));
    let (messages, _) = tokio::join!(waiting, async {
        server.until(|view| view.waiting > 0).await;
        patch(&server, "/v1/queues/q", json!({ "spec": { "concurrency_max": 2 } })).await.ok()
    });
    assert_eq!(messages.len(), 1, "more room lets a waiting call go on");
    server.post("/v1/queues/q:ack", leases(&held)).await.ok();
}
