//! The runtime cache: what Vercel's clients ask for, its bounds, and time that the test moves.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use millpond_api::limits::VERCEL_CACHE_VALUE_BYTES_MAX;
use millpond_engine::{Engine, EngineSettings};
use millpond_server::{CONNECTIONS, RUNTIME_CACHE_BYTES_MIN};
use millpond_test_stores::new_store;
use serde_json::{Value, json};

use crate::harness::{ManualClock, Reply, Server, refused};

const KEY: &str = "/v1/cache/dramatiq-results$92379887";

async fn server_on_a_clock() -> (Server, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let disk = Arc::new(new_store());
    let engine = Engine::start_with_clock(EngineSettings::default(), disk, clock.clone());
    let server =
        Server::made(engine, CONNECTIONS, |app| app.with_runtime_cache(RUNTIME_CACHE_BYTES_MIN)).await;
    (server, clock)
}

async fn server() -> Server {
    server_on_a_clock().await.0
}

impl Server {
    async fn keep(&self, path: &str, headers: &[(&str, &str)], value: impl Into<Body>) -> Reply {
        self.call(Method::POST, path, headers, value).await
    }

    async fn revalidate(&self, tags: &str) {
        let reply = self.post_nothing(&format!("/v1/cache/revalidate?tags={tags}")).await;
        assert_eq!(reply.ok(), json!({}));
    }

    /// What is answered under a key, if there is anything.
    async fn kept(&self, path: &str) -> Option<String> {
        let reply = self.get(path).await;
        if reply.status == 404 {
            assert_eq!(reply.code(), "value_not_found");
            return None;
        }
        reply.ok();
        assert_eq!(reply.header("content-type"), "application/json");
        // Without it Vercel's client for Node takes the answer for none.
        assert_eq!(reply.header("x-vercel-cache-state"), "fresh");
        Some(String::from_utf8(reply.body).expect("utf-8"))
    }
}

#[tokio::test]
async fn a_value_is_given_back_byte_for_byte_until_it_is_removed() {
    let server = server().await;
    assert_eq!(server.kept(KEY).await, None);
    let value = " {\"b\" : 1.50, \"a\":[\"\\u00e4\"],\"b\":2}\n";
    assert_eq!(server.keep(KEY, &[], value).await.ok(), json!({}));
    assert_eq!(server.kept(KEY).await.as_deref(), Some(value));
    server.keep(KEY, &[], "null").await.ok();
    assert_eq!(server.kept(KEY).await.as_deref(), Some("null"));
    for _ in 0..2 {
        assert_eq!(server.delete(KEY).await.ok(), json!({}), "removing it again is no error");
        assert_eq!(server.kept(KEY).await, None);
    }
}

#[tokio::test]
async fn what_vercels_clients_send_is_taken() {
    let server = server().await;
    let named = ("x-vercel-cache-item-name", "celery-task-meta-1");
    for content_type in [None, Some("text/plain;charset=UTF-8"), Some("Application/JSON")] {
        let headers: Vec<_> =
            [named].into_iter().chain(content_type.map(|it| ("content-type", it))).collect();
        let value = json!({ "sent as": content_type }).to_string();
        assert_eq!(server.keep(KEY, &headers, value.clone()).await.status, 200, "{content_type:?}");
        assert_eq!(server.kept(KEY).await, Some(value));
    }
}

#[tokio::test]
async fn one_key_may_be_written_in_several_ways() {
    let server = server().await;
    server.keep("/v1/cache/users%2F1$%C3%A4", &[], "1").await.ok();
    assert_eq!(server.kept("/v1/cache/%75sers%2f1%24%c3%a4").await.as_deref(), Some("1"));
    assert_eq!(server.kept("/v1/cache/users%2F1$").await, None);
    // It stands for a call where it is not encoded.
    server.keep("/v1/cache/%72evalidate", &[], "2").await.ok();
    assert_eq!(server.kept("/v1/cache/%72evalidate").await.as_deref(), Some("2"));
    assert_eq!(server.get("/v1/cache/revalidate").await.refusal(), refused(405, "method_not_allowed"));
}

#[tokio::test]
async fn a_value_is_gone_when_its_time_is_over() {
    let (server, clock) = server_on_a_clock().await;
    server.keep(KEY, &[("x-vercel-revalidate", "60")], "1").await.ok();
    server.keep("/v1/cache/stays", &[], "2").await.ok();
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(server.kept(KEY).await.as_deref(), Some("1"));
    clock.advance(Duration::from_millis(1));
    assert_eq!(server.kept(KEY).await, None);
    server.keep(KEY, &[("x-vercel-revalidate", "31536000")], "3").await.ok();
    clock.advance(Duration::from_secs(31_535_999));
    assert_eq!(server.kept(KEY).await.as_deref(), Some("3"));
    // Kept anew it begins anew.
    server.keep(KEY, &[("x-vercel-revalidate", "2")], "4").await.ok();
    clock.advance(Duration::from_secs(1));
    assert_eq!(server.kept(KEY).await.as_deref(), Some("4"));
    clock.advance(Duration::from_secs(1));
    assert_eq!(server.kept(KEY).await, None);
    assert_eq!(server.kept("/v1/cache/stays").await.as_deref(), Some("2"));
}

#[tokio::test]
async fn a_tag_removes_what_has_it_and_nothing_else() {
    let server = server().await;
    let path = |key: &str| format!("/v1/cache/{key}");
    for (key, tags) in [("one", "a"), ("two", "b, c d"), ("three", "a,b"), ("four", "ab"), ("five", "")] {
        server.keep(&path(key), &[("x-vercel-cache-tags", tags)], "1").await.ok();
    }
    let there = async || {
        let mut there = Vec::new();
        for key in ["one", "two", "three", "four", "five"] {
            there.extend(server.kept(&path(key)).await.map(|_| key));
        }
        there
    };
    for (tags, left) in [
        ("A,c,unknown", &["one", "two", "three", "four", "five"][..]),
        ("a", &["two", "four", "five"]),
        ("x,c%20d", &["four", "five"]),
        ("a%2Cb,ab", &["five"]),
    ] {
        server.revalidate(tags).await;
        assert_eq!(there().await, left, "{tags}");
    }
    // A value that is kept anew has the tags that it is kept with.
    server.keep(&path("one"), &[("x-vercel-cache-tags", "a")], "1").await.ok();
    server.keep(&path("one"), &[], "2").await.ok();
    server.revalidate("a").await;
    assert_eq!(there().await, ["one", "five"]);
}

#[tokio::test]
async fn a_refused_call_names_what_is_wrong_and_changes_nothing() {
    let server = server().await;
    server.keep(KEY, &[], "1").await.ok();
    let (long_tag, many_tags) = ("t".repeat(257), "t,".repeat(128) + "t");
    for (name, value, status, code, limit) in [
        ("x-vercel-revalidate", "0", 400, "invalid_field", json!("31536000")),
        ("x-vercel-revalidate", "31536001", 400, "invalid_field", json!("31536000")),
        ("x-vercel-revalidate", "1.5", 400, "invalid_field", json!("31536000")),
        ("x-vercel-revalidate", "soon", 400, "invalid_field", json!("31536000")),
        ("x-vercel-cache-tags", &long_tag, 400, "invalid_field", json!("256")),
        ("x-vercel-cache-tags", &many_tags, 400, "invalid_field", json!("128")),
        ("content-type", "application/x-www-form-urlencoded", 415, "unsupported_media_type", Value::Null),
        ("content-type", "multipart/form-data; boundary=b", 415, "unsupported_media_type", Value::Null),
    ] {
        let reply = server.keep(KEY, &[(name, value)], "2").await;
        assert_eq!(reply.refusal(), refused(status, code), "{name}: {value}");
        let problem = reply.json();
        assert_eq!(problem["field"].as_str().expect("a field").to_lowercase(), name);
        assert_eq!(problem["limit"], limit, "{name}: {value}");
        assert!(problem["value"].is_string());
    }
    let reply = server.keep(KEY, &[], Body::empty()).await;
    assert_eq!((reply.refusal(), &reply.json()["field"]), (refused(400, "missing_field"), &json!("body")));
    let reply = server.keep(&format!("{KEY}?more=1"), &[], "2").await;
    assert_eq!((reply.refusal(), &reply.json()["field"]), (refused(400, "unknown_field"), &json!("more")));
    let long = format!("/v1/cache/{}", "k".repeat(1_025));
    for reply in [server.keep(&long, &[], "2").await, server.get(&long).await, server.delete(&long).await] {
        assert_eq!(reply.refusal(), refused(400, "invalid_field"));
        assert_eq!((&reply.json()["field"], &reply.json()["limit"]), (&json!("key"), &json!("1024")));
    }
    assert_eq!(server.get("/v1/cache/%ff").await.refusal(), refused(400, "invalid_field"));
    for (query, code, field) in [
        ("", "missing_field", "tags"),
        ("?tags=", "missing_field", "tags"),
        ("?tags=,%20,", "missing_field", "tags"),
        ("?tags=a&keys=b", "unknown_field", "keys"),
        (&format!("?tags={long_tag}"), "invalid_field", "tags"),
        (&format!("?tags={many_tags}"), "invalid_field", "tags"),
    ] {
        let reply = server.post_nothing(&format!("/v1/cache/revalidate{query}")).await;
        assert_eq!((reply.refusal(), &reply.json()["field"]), (refused(400, code), &json!(field)), "{query}");
    }
    for path in ["/v1/cache", "/v1/cache/", "/v1/cache/a/b"] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "not_found"), "{path}");
    }
    let reply = server.call(Method::PUT, KEY, &[], "2").await;
    assert_eq!(reply.refusal(), refused(405, "method_not_allowed"));
    assert_eq!(server.kept(KEY).await.as_deref(), Some("1"));
}

#[tokio::test]
async fn a_value_may_have_two_mebibytes() {
    let server = server().await;
    let largest = format!("\"{}\"", "v".repeat(VERCEL_CACHE_VALUE_BYTES_MAX - 2));
    server.keep(KEY, &[], largest.clone()).await.ok();
    let reply = server.keep(KEY, &[], largest.clone() + " ").await;
    assert_eq!(reply.refusal(), refused(413, "payload_too_large"));
    assert_eq!(reply.json()["limit"], "2097152");
    assert_eq!(server.kept(KEY).await, Some(largest));
}

#[tokio::test]
async fn what_is_held_stays_within_the_bytes_that_it_may_have() {
    let server = server().await;
    let metric = |page: &str, name: &str| {
        let line =
            page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ').map(str::to_owned));
        line.expect(name).parse::<usize>().expect("a whole number")
    };
    let page = async || String::from_utf8(server.get("/metrics").await.body).expect("utf-8");
    for number in 0..300 {
        let value = format!("\"{}\"", "v".repeat(number * 997 % 200_000));
        let path = format!("/v1/cache/{number}");
        server.keep(&path, &[("x-vercel-cache-tags", "t")], value.clone()).await.ok();
        assert_eq!(server.kept(&path).await, Some(value), "what came last is there");
        if number % 50 == 49 {
            let held = metric(&page().await, "millpond_cache_bytes");
            assert!(held <= RUNTIME_CACHE_BYTES_MIN, "{held} bytes after {number}");
        }
    }
    let page_before = page().await;
    assert_eq!(metric(&page_before, "millpond_cache_bytes_max"), RUNTIME_CACHE_BYTES_MIN);
    let values = metric(&page_before, "millpond_cache_values");
    assert!((1..300).contains(&values), "{values} of 300");
    let mut there = 0;
    for number in 0..300 {
        there += usize::from(server.kept(&format!("/v1/cache/{number}")).await.is_some());
    }
    assert_eq!(there, values);
    let page_after = page().await;
    assert_eq!(metric(&page_after, "millpond_cache_hits_total"), 300 + values);
    assert_eq!(metric(&page_after, "millpond_cache_misses_total"), 300 - values);
    server.revalidate("t").await;
    let page_at_last = page().await;
    assert_eq!(
        ["values", "bytes"].map(|name| metric(&page_at_last, &format!("millpond_cache_{name}"))),
        [0, 0]
    );
}

#[tokio::test]
async fn unless_it_is_turned_on_there_is_no_cache() {
    let server = Server::start().await;
    for (method, path) in [
        (Method::GET, KEY),
        (Method::POST, KEY),
        (Method::DELETE, KEY),
        (Method::POST, "/v1/cache/revalidate?tags=a"),
    ] {
        let reply = server.call(method.clone(), path, &[], "1").await;
        assert_eq!(reply.refusal(), refused(404, "not_found"), "{method} {path}");
        let detail = reply.json()["detail"].as_str().expect("a detail").to_owned();
        assert!(detail.contains("--runtime-cache"), "{detail}");
    }
}

#[tokio::test]
async fn what_a_web_page_can_send_is_refused() {
    let server = server().await;
    server.keep(KEY, &[("x-vercel-cache-tags", "a")], "1").await.ok();
    for (name, value, status, code) in [
        ("origin", "http://evil.example", 403, "cross_origin"),
        ("origin", "null", 403, "cross_origin"),
        ("sec-fetch-site", "cross-site", 403, "cross_origin"),
        ("host", "evil.example", 421, "host_not_allowed"),
    ] {
        for (method, path) in [
            (Method::GET, KEY),
            (Method::POST, KEY),
            (Method::DELETE, KEY),
            (Method::POST, "/v1/cache/revalidate?tags=a"),
        ] {
            let headers = [(name, value), ("content-type", "text/plain")];
            let reply = server.call(method.clone(), path, &headers, "2").await;
            assert_eq!(reply.refusal(), refused(status, code), "{method} {path} {name}: {value}");
        }
    }
    assert_eq!(server.kept(KEY).await.as_deref(), Some("1"));
}
