//! Which paths exist, and with which methods.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use crate::harness::{HOME, Server, event, refused};

#[tokio::test]
async fn what_is_no_route_is_not_found() {
    let server = Server::start().await;
    for path in [
        "/",
        "/v1",
        "/v1/queues/",
        "/v1/queues/q/",
        "/v1/queues/q/x",
        "/v2/queues/q",
        "/v1/orgs/a/projects/b/envs/c/streams/d",
        "/v1/orgs/a/projects/b/envs/c/queues/d/e",
        "//v1/queues/q",
    ] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "not_found"), "{path}");
    }
    for path in ["/v1/queues/q:", "/v1/queues/q:sendx", "/v1/queues/q:send:send", "/v1/queues/q:SEND"] {
        assert_eq!(server.post(path, json!({})).await.refusal(), refused(404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_route_says_which_methods_it_takes() {
    let server = Server::with_queue(json!({})).await;
    for (method, path, allow) in [
        (Method::PUT, "/v1/queues/q", "GET,HEAD,DELETE,PATCH"),
        (Method::PUT, "/v1/queues/q:send", "POST"),
        (Method::OPTIONS, "/v1/queues/q:why", "GET,HEAD"),
        (Method::DELETE, "/v1/queues", "GET,HEAD,POST"),
        (Method::POST, "/healthz", "GET,HEAD"),
        (Method::GET, "/v1/orgs/a/projects/b/envs", "POST"),
        (Method::POST, "/v1/queues/q", "GET,HEAD,DELETE,PATCH"),
        (Method::GET, "/v1/queues/q:send", "POST"),
        (Method::DELETE, "/v1/queues/q:purge", "POST"),
        (Method::PATCH, "/v1/queues/q:settle", "POST"),
        (Method::POST, "/v1/queues/q:why", "GET,HEAD"),
    ] {
        let reply = server.call(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(405, "method_not_allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
}

#[tokio::test]
async fn ids_have_one_spelling() {
    let server = Server::start().await;
    let long = format!("/v1/queues/{}", "q".repeat(64));
    for path in ["/v1/queues/Q", "/v1/queues/%71", "/v1/queues/-q", "/v1/queues/..", "/v1/queues/a_b", &long]
    {
        let reply = server.get(path).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{path}");
        assert_eq!(reply.json()["field"], "queue", "{path}");
    }
    for (path, field) in [
        ("/v1/orgs/A/projects/b/envs/c/queues/d", "org"),
        ("/v1/orgs/a/projects/b%20/envs/c/queues/d", "project"),
        ("/v1/orgs/a/projects/b/envs/../queues/d", "env"),
    ] {
        let reply = server.get(path).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{path}");
        assert_eq!(reply.json()["field"], field, "{path}");
    }
}

#[tokio::test]
async fn short_paths_mean_the_default_environment() {
    let server = Server::with_queue(json!({})).await;
    let short = server.get("/v1/queues/q").await.ok();
    assert_eq!(short, server.get(&format!("/v1/{HOME}/queues/q")).await.ok());
    assert_eq!(short["name"], format!("{HOME}/queues/q"));
}

#[tokio::test]
async fn environments_are_apart() {
    let server = Server::with_queue(json!({})).await;
    let elsewhere = "/v1/orgs/acme/projects/queues/envs/prod/queues";
    let missing = server.get(&format!("{elsewhere}/q")).await;
    assert_eq!(missing.refusal(), refused(404, "environment_not_found"));

    let environments = "/v1/orgs/acme/projects/queues/envs";
    for _ in 0..2 {
        let made = server.post_nothing(&format!("{environments}?env_id=prod")).await.ok();
        assert_eq!(made, json!({ "name": "orgs/acme/projects/queues/envs/prod" }));
    }
    assert_eq!(server.get(&format!("{elsewhere}/q")).await.refusal(), refused(404, "queue_not_found"));
    server.post(&format!("{elsewhere}?queue_id=q"), json!({})).await.ok();
    server.post(&format!("{elsewhere}/q:send"), json!({ "events": [event("1")] })).await.ok();
    assert_eq!(server.get(&format!("{elsewhere}/q")).await.ok()["status"]["ready_count"], "1");
    assert_eq!(server.get("/v1/queues/q").await.ok()["status"]["ready_count"], "0");

    assert_eq!(server.post_nothing(environments).await.refusal(), refused(400, "missing_field"));
    let upper = server.post_nothing(&format!("{environments}?env_id=Prod")).await;
    assert_eq!(upper.refusal(), refused(400, "invalid_field"));
}

#[tokio::test]
async fn health_is_answered_until_the_server_drains() {
    let server = Server::start().await;
    assert_eq!(server.get("/healthz").await.ok(), json!({ "status": "ok" }));
    server.shutdown.drain();
    assert_eq!(server.get("/healthz").await.refusal(), refused(503, "shutting_down"));
}
