//! Paths, methods, guards and regions.

use axum::body::Body;
use axum::http::Method;
use millpond_api::name::EnvironmentName;

use super::{GROUP, PARTS, TOPIC, Timed, error, failure, messages, sent};
use crate::harness::Server;

#[tokio::test]
async fn any_prefix_leads_to_the_same_topic() {
    let timed = Timed::start().await;
    for prefix in ["", "/r/iad1", "/_svc/_queues", "/v1/queues", "/a%2Fb"] {
        let path = format!("{prefix}/api/v3/topic/%6Frders");
        sent(&timed.post(&path, &[("authorization", "Bearer t")], "x").await);
    }
    assert_eq!(timed.receive(&format!("/elsewhere{GROUP}"), &[]).await.len(), 5);
}

#[tokio::test]
async fn what_is_no_endpoint_is_not_found() {
    let timed = Timed::start().await;
    for rest in ["orders/", "orders/consumer", "orders/consumer/g/lease", "orders/batch/x", "a/b/c/d/e/f/g"] {
        let path = format!("/api/v3/topic/{rest}");
        assert_eq!(error(&timed.post(&path, &[], "").await), failure(404, &format!("no route {path}")));
    }
    let native = timed.post("/api/v3/topics/orders", &[], "").await;
    assert_eq!(native.refusal(), crate::harness::refused(404, "not_found"));
}

#[tokio::test]
async fn what_an_endpoint_does_not_take_is_405_and_says_what_it_takes() {
    let timed = Timed::start().await;
    for (path, taken) in [
        (TOPIC, "POST"),
        ("/api/v3/topic/orders/batch", "POST"),
        (GROUP, "POST"),
        ("/api/v3/topic/orders/consumer/g/id/m", "POST"),
        ("/api/v3/topic/orders/consumer/g/lease/h", "DELETE, PATCH"),
        ("/api/v3/topic/orders/consumer/g/lease/h/visibility", "PATCH"),
    ] {
        for method in [Method::GET, Method::PUT, Method::POST, Method::PATCH, Method::DELETE, Method::OPTIONS]
        {
            let reply = timed.call(method.clone(), path, &[], Body::empty()).await;
            let is_taken = taken.split(", ").any(|own| own == method.as_str());
            assert_eq!(reply.status == 405, !is_taken, "{method} {path}: {}", reply.status);
            assert_eq!(reply.header("allow"), if is_taken { "" } else { taken });
        }
    }
}

#[tokio::test]
async fn names_are_of_letters_digits_and_two_signs() {
    let timed = Timed::start().await;
    let longest = "t".repeat(255);
    sent(&timed.post(&format!("/api/v3/topic/{longest}"), &[], "").await);
    assert_eq!(timed.receive(&format!("/api/v3/topic/{longest}/consumer/{longest}"), &[]).await.len(), 1);
    for path in [
        "/api/v3/topic/a.b",
        "/api/v3/topic/a%2Fb",
        "/api/v3/topic/%ff",
        "/api/v3/topic/",
        "/api/v3/topic/orders/consumer/",
        "/api/v3/topic/orders/consumer/g%20",
        &format!("/api/v3/topic/{longest}t"),
    ] {
        assert_eq!(error(&timed.post(path, &[PARTS], "").await).0, 400, "{path}");
    }
}

#[tokio::test]
async fn web_pages_are_kept_out() {
    let timed = Timed::start().await;
    let reply = timed.post(TOPIC, &[("host", "evil.example.com")], "x").await;
    assert_eq!(error(&reply).0, 421);
    for (name, value) in [("origin", "http://evil.example.com"), ("sec-fetch-site", "cross-site")] {
        assert_eq!(error(&timed.post(TOPIC, &[(name, value)], "x").await).0, 403);
    }
    assert_eq!(timed.receive(GROUP, &[]).await, []);
}

#[tokio::test]
async fn a_region_has_the_environment_that_it_was_given() {
    let engine = Timed::start().await.server.engine;
    let name = |env: &str| EnvironmentName::new("default", "vercel", env).expect("valid");
    engine.create_environment(&name("iad1").to_string()).await.expect("it is made");
    let regions = [("iad1".to_owned(), name("iad1")), ("fra1".to_owned(), name("missing"))];
    let server = Server::made(engine, 10, |app| app.with_vercel_regions(regions)).await;
    let send = async |prefix: &str| server.call(Method::POST, &format!("{prefix}{TOPIC}"), &[], "x").await;
    for prefix in ["/r/iad1", "/x/r/iad1", "", "/iad1"] {
        sent(&send(prefix).await);
    }
    let receive = async |prefix: &str| {
        let headers = [PARTS, ("vqs-max-messages", "10")];
        messages(&server.call(Method::POST, &format!("{prefix}{GROUP}"), &headers, "").await).len()
    };
    assert_eq!((receive("/r/iad1").await, receive("").await), (2, 2));
    let expected = failure(400, "region sfo1 has no environment here, vercel-region gives it one");
    assert_eq!(error(&send("/r/sfo1").await), expected);
    let (status, text) = error(&send("/r/fra1").await);
    assert_eq!((status, text.contains("does not exist")), (500, true));
}
