//! S25: every error is a problem of RFC 9457 with a code of one closed set.

use millpond_blackbox::server::Launch;
use serde_json::{Value, json};

use super::{Bed, Q, problem};

/// What every problem holds.
const MEMBERS: [&str; 8] = ["type", "title", "status", "detail", "instance", "code", "retryable", "effect"];

#[test]
fn s25_every_error_is_a_problem_with_a_code_and_the_id_of_its_request() {
    let mut bed = Bed::new(json!({}));
    let etag = format!("{Q}?etag=other");
    let own = json!({ "events": [] }).to_string();
    let calls: [(&str, &str, &str, &str, u16, &str); 11] = [
        ("POST", "/v1/queues/q:send", "application/json", &own, 400, "invalid_field"),
        ("POST", "/v1/queues/q:send", "application/json", "{}", 400, "missing_field"),
        ("POST", "/v1/queues/q:lease", "application/json", r#"{"x": 1}"#, 400, "unknown_field"),
        ("POST", "/v1/queues/q:ack", "application/json", "{", 400, "malformed_json"),
        ("GET", "/v1/queues?page_token=nonsense", "application/json", "", 400, "page_token_invalid"),
        ("GET", "/v1/queues/none", "application/json", "", 404, "queue_not_found"),
        ("GET", "/v1/nothing", "application/json", "", 404, "not_found"),
        ("PUT", "/v1/queues/q", "application/json", "{}", 405, "method_not_allowed"),
        ("POST", "/v1/queues?queue_id=q", "application/json", "{}", 409, "queue_already_exists"),
        ("DELETE", &etag, "application/json", "", 409, "etag_mismatch"),
        ("POST", "/v1/queues/q:lease", "text/plain", "{}", 415, "unsupported_media_type"),
    ];
    let mut instances = Vec::new();
    for (method, path, content_type, body, status, code) in calls {
        let response = bed.raw(method, path, &[("content-type", content_type)], body.as_bytes());
        let problem = problem(&response, status, code);
        for member in MEMBERS {
            assert!(problem.get(member).is_some(), "{code}: {member}");
        }
        assert_eq!(problem["status"], status, "{code}");
        let page = format!("/errors/{}", code.replace('_', "-"));
        assert!(problem["type"].as_str().is_some_and(|kind| kind.ends_with(&page)), "{problem}");
        assert_eq!(problem["instance"].as_str(), response.header("millpond-request-id"), "{code}");
        assert_eq!((&problem["retryable"], &problem["effect"]), (&json!(false), &json!("none")), "{code}");
        assert_eq!((problem.get("retry_after_ms"), response.header("retry-after")), (None, None), "{code}");
        instances.push(problem["instance"].clone());
    }
    let of_requests: std::collections::BTreeSet<String> = instances.iter().map(Value::to_string).collect();
    assert_eq!(of_requests.len(), instances.len(), "each request has an id of its own");
}

#[test]
fn s25_a_refused_field_is_told_with_its_value_and_limit() {
    let mut bed = Bed::new(json!({}));
    let lease = format!("{Q}:lease");
    let problem = bed.post_refused(&lease, json!({ "max_messages": 101 }), 400, "invalid_field");
    assert_eq!(problem["field"], "max_messages");
    assert_eq!((&problem["value"], &problem["limit"]), (&json!("101"), &json!("100")));
}

#[test]
fn s25_a_quota_has_a_code_of_its_own_and_says_whether_to_come_back() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let launch = Launch::of(directory.path()).argument("--max-queues").argument("1");
    let server = launch.argument("--max-messages").argument("1").start();
    let client = server.client();
    let mut bed = Bed { directory, server, client };
    bed.create("q", json!({}));
    let queue = bed.post_refused("/v1/queues?queue_id=second", json!({}), 429, "queue_limit");
    bed.send(&["1"]);
    let events = json!({ "events": [super::event("2")] });
    let message = bed.post_refused(&format!("{Q}:send"), events, 429, "message_limit");
    // Queues stay until somebody deletes one; messages leave by themselves.
    for (problem, retryable) in [(queue, false), (message, true)] {
        assert_eq!((&problem["limit"], &problem["retryable"]), (&json!("1"), &json!(retryable)), "{problem}");
    }
    assert_eq!(bed.counts("q"), [1, 0, 0, 0]);
}
