//! What a web page can make a browser send is not obeyed (design-holes B17).

use axum::body::Body;
use axum::http::{Method, Request};
use serde_json::json;

use crate::harness::{Server, refused};

#[tokio::test]
async fn a_foreign_or_missing_host_is_misdirected() {
    let server = Server::with_queue(json!({})).await;
    for host in ["evil.example", "127.0.0.1.evil.example:8400", "10.0.0.7:8400", ""] {
        let reply = server.call(Method::GET, "/v1/queues/q", &[("host", host)], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(421, "host_not_allowed"), "{host}");
    }
    for path in ["/healthz", "/nothing"] {
        let reply = server.call(Method::GET, path, &[("host", "evil.example")], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(421, "host_not_allowed"), "{path}");
    }
    let twice = [("host", "localhost"), ("host", "evil.example")];
    let reply = server.call(Method::GET, "/v1/queues/q", &twice, Body::empty()).await;
    assert_eq!(reply.refusal(), refused(421, "host_not_allowed"));
    let bare = Request::get("/v1/queues/q").body(Body::empty()).expect("a request");
    assert_eq!(server.raw(bare).await.refusal(), refused(421, "host_not_allowed"));
    let absolute = Request::get("http://evil.example/v1/queues/q").header("host", "localhost");
    let reply = server.raw(absolute.body(Body::empty()).expect("a request")).await;
    assert_eq!(reply.refusal(), refused(421, "host_not_allowed"));
}

#[tokio::test]
async fn hosts_of_ours_are_answered() {
    let server = Server::with_queue(json!({})).await;
    for host in ["127.0.0.1:8400", "localhost:8400", "[::1]:8400", "localhost", "queue.example.com"] {
        server.call(Method::GET, "/v1/queues/q", &[("host", host)], Body::empty()).await.ok();
    }
}

#[tokio::test]
async fn other_origins_are_refused_whatever_they_ask() {
    let server = Server::with_queue(json!({})).await;
    for (name, value) in [
        ("origin", "http://evil.example"),
        ("origin", "http://localhost:3000"),
        ("origin", "null"),
        ("sec-fetch-site", "cross-site"),
    ] {
        let event = [(name, value), ("ce-specversion", "1.0"), ("content-type", "text/plain")];
        let reply = server.call(Method::POST, "/v1/queues/q:send", &event, "x").await;
        assert_eq!(reply.refusal(), refused(403, "cross_origin"), "{name}: {value}");
        let reply = server.call(Method::POST, "/v1/queues/q:purge", &[(name, value)], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(403, "cross_origin"), "{name}: {value}");
    }
    for (name, value) in [("origin", "http://127.0.0.1:8400"), ("sec-fetch-site", "same-origin")] {
        server.call(Method::POST, "/v1/queues/q:purge", &[(name, value)], Body::empty()).await.ok();
    }
}

#[tokio::test]
async fn every_verb_but_send_takes_json_only() {
    let server = Server::with_queue(json!({})).await;
    let paths = ["q:ack", "q:extend", "q:lease", "q:nack", "q:pause", "q:purge", "q:resume"];
    let paths = paths.map(|path| format!("/v1/queues/{path}"));
    for path in paths.iter().map(String::as_str).chain(["/v1/queues", "/v1/orgs/a/projects/b/envs?env_id=c"])
    {
        for content_type in
            ["text/plain", "application/x-www-form-urlencoded", "application/cloudevents+json"]
        {
            let headers = [("content-type", content_type)];
            let reply = server.call(Method::POST, path, &headers, "{}").await;
            assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"), "{path} {content_type}");
        }
        let reply = server.call(Method::POST, path, &[], "{}").await;
        assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"), "{path}");
    }
    let headers = [("content-type", "Application/JSON; charset=UTF-8")];
    server.call(Method::POST, "/v1/queues/q:lease", &headers, "{}").await.ok();
}
