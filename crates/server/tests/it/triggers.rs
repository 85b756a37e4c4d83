//! Triggers and the signing secret.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Request, StatusCode};
use millpond_api::limits;
use millpond_core::command::Trouble;
use millpond_core::id::Uid;
use millpond_core::id::{MessageId, Sequence};
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, limits as core_limits};
use millpond_engine::{Engine, EngineSettings};
use millpond_server::{PushOutcome, PushRecord, PushStatistics};
use millpond_test_stores::new_store;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::fake_pushes::FakePushes;
use crate::harness::{HOME, ManualClock, Server, event, refused};

fn trigger() -> Value {
    json!({ "topic": "orders", "group": "billing", "target": "http://127.0.0.1:3000/queue" })
}

/// The same with a field set.
fn with(field: &str, value: Value) -> Value {
    let mut body = trigger();
    body[field] = value;
    body
}

fn ids(answer: &Value) -> Vec<String> {
    answer["triggers"].as_array().expect("a list").iter().map(|item| item["trigger_id"].to_string()).collect()
}

async fn uid_of(server: &Server, id: &str) -> Uid {
    let answer = server.engine.submit(HOME, Command::ListTriggers).await.expect("an answer");
    let Outcome::Triggers(views) = answer.outcome else { panic!("{:?}", answer.outcome) };
    views.iter().find(|view| *view.trigger.id == *id).expect("it is there").trigger.uid
}

#[tokio::test]
async fn a_trigger_is_made_shown_listed_and_deleted() {
    let server = Server::start().await;
    assert_eq!(server.get("/v1/triggers").await.ok(), json!({ "triggers": [] }));
    let made = server.post("/v1/triggers?trigger_id=Mail_1", trigger()).await.ok();
    let created = made["create_time"].as_str().expect("a time");
    let expected = json!({
        "name": format!("{HOME}/triggers/Mail_1"), "trigger_id": "Mail_1", "uid": made["uid"], "deployment": null,
        "current": false, "topic": "orders", "group": "billing", "target": "http://127.0.0.1:3000/queue",
        "retry_after": "60s", "initial_delay": "0s", "max_deliveries": null, "max_concurrency": null,
        "dead_letter_queue": null, "visibility_timeout": "300s", "starts_at": created, "create_time": created,
        "state": "active", "trouble": null, "pushes": null,
    });
    assert_eq!(made, expected);
    assert_eq!(server.get("/v1/triggers/Mail_1").await.ok(), made);
    assert_eq!(server.get(&format!("/v1/{HOME}/triggers/Mail_1")).await.ok(), made);
    let pushes = server.get("/v1/triggers/Mail_1/pushes").await.ok();
    assert_eq!(pushes, json!({ "pushes": null, "last": [] }));

    let own = server.post("/v1/triggers", with("group", json!("audit"))).await.ok();
    let id = own["trigger_id"].as_str().expect("an id");
    assert!(id.starts_with("trg_") && id.bytes().all(|byte| !byte.is_ascii_uppercase()), "{id}");
    assert_eq!(server.get("/v1/triggers").await.ok(), json!({ "triggers": [made, own] }));

    let again = server.post("/v1/triggers?trigger_id=Mail_1", with("group", json!("other"))).await;
    assert_eq!(again.refusal(), refused(409, "trigger_already_exists"));
    assert_eq!(again.json()["field"], "trigger_id");
    assert_eq!(server.delete("/v1/triggers/Mail_1").await.ok(), json!({}));
    for path in ["/v1/triggers/Mail_1", "/v1/triggers/Mail_1/pushes"] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "trigger_not_found"), "{path}");
    }
    assert_eq!(server.delete("/v1/triggers/Mail_1").await.refusal(), refused(404, "trigger_not_found"));
    server.delete("/v1/triggers/Mail_1?allow_missing=true").await.ok();
    let anew = server.post("/v1/triggers?trigger_id=Mail_1", trigger()).await.ok();
    assert_ne!(anew["uid"], made["uid"]);
}

#[tokio::test]
async fn every_setting_is_kept() {
    let server = Server::with_queue(json!({})).await;
    let body = json!({
        "topic": "orders-*", "group": "billing", "target": "https://localhost/q?a=b", "retry_after": "1s",
        "initial_delay": "3600s", "max_deliveries": 3, "max_concurrency": 7, "dead_letter_queue": "q",
        "visibility_timeout": "30s",
    });
    let made = server.post("/v1/triggers?trigger_id=t", body.clone()).await.ok();
    for (field, value) in body.as_object().expect("an object") {
        let expected = if field == "dead_letter_queue" { &json!(format!("{HOME}/queues/q")) } else { value };
        assert_eq!(&made[field], expected, "{field}");
    }
    assert_eq!(made["state"], "starting");
    assert_ne!(made["starts_at"], made["create_time"]);
    let whole = with("dead_letter_queue", made["dead_letter_queue"].clone());
    server.post("/v1/triggers?trigger_id=u&validate_only=true", whole).await.ok();
    assert_eq!(ids(&server.get("/v1/triggers").await.ok()), ["\"t\""], "what is only checked is not stored");
}

#[tokio::test]
async fn what_a_trigger_cannot_have_is_refused_by_field_and_stores_nothing() {
    let server = Server::start().await;
    for (query, body, code, field) in [
        ("trigger_id=a.b", trigger(), "invalid_field", "trigger_id"),
        ("topic_id=a", trigger(), "unknown_field", "topic_id"),
        ("", with("topic", Value::Null), "missing_field", "topic"),
        ("", with("topic", json!("a*b")), "invalid_field", "topic"),
        ("", with("group", json!("g*")), "invalid_field", "group"),
        ("", with("target", json!("ftp://h/")), "invalid_field", "target"),
        ("", with("target", json!("http://u:p@localhost/")), "invalid_field", "target"),
        ("", with("target", json!("http://localhost/#f")), "invalid_field", "target"),
        ("", with("retry_after", json!("0s")), "invalid_field", "retry_after"),
        ("", with("dead_letter_queue", json!("nowhere")), "invalid_field", "dead_letter_queue"),
        (
            "",
            with("dead_letter_queue", json!("orgs/a/projects/b/envs/c/queues/d")),
            "invalid_field",
            "dead_letter_queue",
        ),
        ("", with("deployment", json!("dpl_1")), "unknown_field", "deployment"),
    ] {
        let reply = server.post(&format!("/v1/triggers?{query}"), body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, code), "{query} {body}");
        let problem = reply.json();
        assert_eq!(problem["field"], field, "{problem}");
        assert!(problem["detail"].as_str().is_some_and(|detail| detail.starts_with(field)), "{problem}");
    }
    assert_eq!(server.get("/v1/triggers").await.ok(), json!({ "triggers": [] }));
    let nowhere = server.get("/v1/orgs/a/projects/b/envs/none/triggers").await;
    assert_eq!(nowhere.refusal(), refused(404, "environment_not_found"));
}

#[tokio::test]
async fn triggers_of_a_group_do_not_overlap() {
    let server = Server::start().await;
    server.post("/v1/triggers?trigger_id=a", with("topic", json!("ord*"))).await.ok();
    let reply = server.post("/v1/triggers?trigger_id=b", trigger()).await;
    assert_eq!(reply.refusal(), refused(409, "trigger_overlaps"));
    assert_eq!(reply.json()["field"], "topic");
    assert_eq!(reply.json()["detail"], "trigger a is for the same group and for topics of trigger b");
    server.post("/v1/triggers?trigger_id=b", with("group", json!("other"))).await.ok();
}

#[tokio::test]
async fn a_queue_that_takes_dead_letters_of_a_trigger_is_in_use() {
    let server = Server::with_queue(json!({})).await;
    server.post("/v1/triggers?trigger_id=mail", with("dead_letter_queue", json!("q"))).await.ok();
    let reply = server.delete("/v1/queues/q").await;
    assert_eq!(reply.refusal(), refused(409, "invalid_state"));
    let detail = "it is the dead-letter queue of trigger mail; force deletes it even so";
    assert_eq!(reply.json()["detail"], detail);
    server.delete("/v1/queues/q?force=true").await.ok();
}

#[tokio::test]
async fn only_allowed_targets_are_taken() {
    let (server, pushes) = FakePushes::serve().await;
    let body = with("target", json!("http://10.0.0.7/queue"));
    for query in ["", "?validate_only=true"] {
        let reply = server.post(&format!("/v1/triggers{query}"), body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, "target_not_allowed"));
        let problem = reply.json();
        assert_eq!((&problem["field"], &problem["value"]), (&json!("target"), &body["target"]));
        assert_eq!(problem["detail"], "target is http://10.0.0.7/queue, which is not in an allowed network");
    }
    let malformed = server.post("/v1/triggers", with("target", json!("http://:80/"))).await;
    assert_eq!(malformed.refusal(), refused(400, "invalid_field"));
    server.post("/v1/triggers?trigger_id=t&validate_only=true", trigger()).await.ok();
    assert_eq!(pushes.take_changed(), [""; 0], "nothing was stored");
    server.post("/v1/triggers?trigger_id=t", trigger()).await.ok();
    assert_eq!(pushes.take_changed(), [HOME]);
    assert_eq!(ids(&server.get("/v1/triggers").await.ok()), ["\"t\""]);
}

#[tokio::test]
async fn a_change_is_answered_once_the_pushes_know_of_it() {
    let (server, pushes) = FakePushes::serve().await;
    server.post("/v1/triggers?trigger_id=t", trigger()).await.ok();
    let made = pushes.began.acquire().await.expect("it is open");
    made.forget();
    pushes.may_end.forget_permits(usize::MAX >> 4);
    let request = Request::delete("/v1/triggers/t").header("host", "localhost").body(Body::empty());
    let mut deleting = Box::pin(server.router.clone().oneshot(request.expect("a valid request")));
    let told = tokio::select! {
        biased;
        _ = &mut deleting => false,
        _ = pushes.began.acquire() => true,
    };
    assert!(told, "it is answered before the pushes know");
    assert_eq!(server.get("/v1/triggers").await.ok(), json!({ "triggers": [] }), "by then it is gone");
    pushes.may_end.add_permits(1);
    let Ok(response) = deleting.await;
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(pushes.take_changed(), [HOME, HOME]);
    pushes.may_end.add_permits(1);
    assert_eq!(server.delete("/v1/triggers/t").await.refusal(), refused(404, "trigger_not_found"));
    server.delete("/v1/triggers/t?allow_missing=true").await.ok();
    assert_eq!(pushes.take_changed(), [""; 0]);
}

fn record(outcome: PushOutcome, status: Option<u16>, error: Option<&str>) -> PushRecord {
    PushRecord {
        at: Timestamp::from_millis(1_000),
        message: MessageId { sent_at: Timestamp::from_millis(0), sequence: Sequence(1), nonce: 0 },
        delivery_count: 2,
        inline: status.is_some(),
        duration_ms: 30,
        outcome,
        status,
        error: error.map(str::to_owned),
    }
}

#[tokio::test]
async fn a_trigger_shows_what_became_of_its_pushes() {
    let (server, pushes) = FakePushes::serve().await;
    let made = server.post("/v1/triggers?trigger_id=t", trigger()).await.ok();
    assert_eq!(made["pushes"], Value::Null);
    let statistics = PushStatistics {
        total: 21,
        succeeded: 1,
        failed: 2,
        broken: 3,
        gave_up: 4,
        unreachable: 5,
        unwritable: 6,
        in_flight: 7,
        duration_p50_ms: Some(10),
        duration_p99_ms: Some(30),
        last: vec![
            record(PushOutcome::Unreachable, None, Some("refused")),
            record(PushOutcome::Failed, Some(503), None),
            record(PushOutcome::Succeeded, Some(200), None),
        ],
    };
    let uid = made["uid"].as_str().expect("a uid").to_owned();
    pushes.statistics.lock().expect("no test fails with it").insert(uid, statistics);
    let counts = json!({
        "total": "21", "succeeded": "1", "failed": "2", "broken": "3", "gave_up": "4", "unreachable": "5",
        "unwritable": "6", "in_flight": "7", "duration_p50_ms": 10, "duration_p99_ms": 30,
    });
    assert_eq!(server.get("/v1/triggers/t").await.ok()["pushes"], counts);
    assert_eq!(server.get("/v1/triggers").await.ok()["triggers"][0]["pushes"], counts);
    let all = server.get("/v1/triggers/t/pushes").await.ok();
    assert_eq!(all["pushes"], counts);
    let outcomes: Vec<_> =
        all["last"].as_array().expect("a list").iter().map(|push| &push["outcome"]).collect();
    assert_eq!(outcomes, ["unreachable", "failed", "succeeded"]);
    let expected = json!({
        "at": "1970-01-01T00:00:01Z", "message_id": "msg_00000000000000000G00000000", "delivery_count": 2,
        "inline": false, "duration_ms": 30, "outcome": "unreachable", "status": null, "error": "refused",
    });
    assert_eq!(all["last"][0]["message_id"].as_str().map(str::len), Some(30));
    let mut first = all["last"][0].clone();
    first["message_id"] = expected["message_id"].clone();
    assert_eq!(first, expected);
}

async fn on_a_clock() -> (Server, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    let engine = Engine::start_with_clock(EngineSettings::default(), Arc::new(new_store()), clock.clone());
    (Server::over(engine).await, clock)
}

#[tokio::test]
async fn a_trigger_starts_is_active_and_goes_down() {
    let (server, clock) = on_a_clock().await;
    let made = server.post("/v1/triggers?trigger_id=t", with("initial_delay", json!("60s"))).await.ok();
    assert_eq!(made["state"], "starting");
    clock.advance(Duration::from_millis(59_999));
    assert_eq!(server.get("/v1/triggers/t").await.ok()["state"], "starting");
    clock.advance(Duration::from_millis(1));
    assert_eq!(server.get("/v1/triggers/t").await.ok()["state"], "active");
    let uid = uid_of(&server, "t").await;
    let report = |trouble| Command::ReportTrigger { id: "t".into(), uid, trouble };
    let trouble = Trouble {
        since: Timestamp::from_millis(0),
        error: "connection refused".into(),
        next_try: Timestamp::from_millis(1_000),
    };
    server.engine.submit(HOME, report(Some(trouble))).await.expect("an answer");
    let down = server.get("/v1/triggers/t").await.ok();
    let expected = json!({ "since": "1970-01-01T00:00:00Z", "error": "connection refused", "next_try": "1970-01-01T00:00:01Z" });
    assert_eq!((&down["state"], &down["trouble"]), (&json!("down"), &expected));
    server.engine.submit(HOME, report(None)).await.expect("an answer");
    assert_eq!(server.get("/v1/triggers/t").await.ok()["state"], "active");
}

#[tokio::test]
async fn why_names_the_trigger_that_does_not_push() {
    let (server, clock) = on_a_clock().await;
    server.post("/v1/topics?topic_id=orders", json!({})).await.ok();
    server.post("/v1/topics/orders/groups?group_id=billing", json!({})).await.ok();
    let path = "/v1/topics/orders:send?partition=dpl_1";
    server.post(path, json!({ "events": [event("1")] })).await.ok();
    let why = async || server.get("/v1/topics/orders/groups/billing:why").await.ok()["why"].clone();
    let other = json!({ "triggers": [with("topic", json!("mail"))] });
    server.post("/v1/deployments?deployment_id=dpl_2", other).await.ok();
    let nobody = why().await;
    assert_eq!((&nobody["reason"], nobody.get("until")), (&json!("no_deployment"), None));
    assert!(nobody["detail"].as_str().is_some_and(|detail| detail.contains("dpl_1")), "{nobody}");

    let own = json!({ "triggers": [with("initial_delay", json!("60s"))] });
    let made = server.post("/v1/deployments?deployment_id=dpl_1", own).await.ok();
    let starts = why().await;
    assert_eq!(
        (&starts["reason"], &starts["until"]),
        (&json!("trigger_starts"), &made["triggers"][0]["starts_at"])
    );
    clock.advance(Duration::from_secs(60));
    let trouble = Trouble {
        since: Timestamp::from_millis(0),
        error: "connection refused".into(),
        next_try: Timestamp::from_millis(1_000),
    };
    let uid = uid_of(&server, "dpl_1-1").await;
    let report = Command::ReportTrigger { id: "dpl_1-1".into(), uid, trouble: Some(trouble) };
    server.engine.submit(HOME, report).await.expect("an answer");
    let down = why().await;
    assert_eq!((&down["reason"], &down["until"]), (&json!("target_down"), &json!("1970-01-01T00:00:01Z")));
    assert!(down["detail"].as_str().is_some_and(|detail| detail.contains("connection refused")), "{down}");
}

#[tokio::test]
async fn the_secret_is_made_when_it_is_first_asked_for() {
    let (server, clock) = on_a_clock().await;
    let first = server.get("/v1/signing-secret").await.ok();
    let text = first["secret"].as_str().expect("a secret");
    let encoded = text.strip_prefix("whsec_").expect("its form");
    assert_eq!((encoded.len(), encoded.ends_with('=')), (44, true), "32 bytes in base64");
    assert_eq!(first["previous_until"], Value::Null);
    clock.advance(Duration::from_secs(1));
    assert_eq!(server.get("/v1/signing-secret").await.ok(), first);
    assert_eq!(server.get(&format!("/v1/{HOME}/signing-secret")).await.ok(), first);
    server.post_nothing("/v1/orgs/a/projects/b/envs?env_id=c").await.ok();
    let elsewhere = server.get("/v1/orgs/a/projects/b/envs/c/signing-secret").await.ok();
    assert_ne!(elsewhere["secret"], first["secret"]);
}

#[tokio::test]
async fn a_secret_that_is_replaced_signs_for_a_while() {
    let (server, pushes) = FakePushes::serve().await;
    let rotate = "/v1/signing-secret:rotate";
    let first = server.post_nothing(rotate).await.ok();
    assert_eq!(first["previous_until"], Value::Null, "there was none before");
    assert_eq!(pushes.take_changed(), [HOME]);
    let second = server.post(rotate, json!({ "grace": "3600s" })).await.ok();
    assert_ne!(second["secret"], first["secret"]);
    assert!(second["previous_until"].as_str() > second["since"].as_str(), "{second}");
    assert_eq!(server.get("/v1/signing-secret").await.ok(), second);
    let third = server.post(rotate, json!({ "grace": "0s" })).await.ok();
    assert_eq!(third["previous_until"], Value::Null, "the one before is done with");
    for body in [json!({ "grace": "2592001s" }), json!({ "grace": "24h" })] {
        let reply = server.post(rotate, body.clone()).await;
        assert_eq!(reply.refusal(), refused(400, "invalid_field"), "{body}");
        assert_eq!(reply.json()["field"], "grace");
    }
    assert_eq!(server.post(rotate, json!({ "secret": "x" })).await.refusal(), refused(400, "unknown_field"));
    assert_eq!(server.get("/v1/signing-secret").await.ok(), third, "what is refused replaces nothing");
}

#[tokio::test]
async fn routes_say_which_methods_they_take() {
    let server = Server::start().await;
    for (method, path, allow) in [
        (Method::DELETE, "/v1/triggers", "GET,HEAD,POST"),
        (Method::PATCH, "/v1/triggers/t", "GET,HEAD,DELETE"),
        (Method::POST, "/v1/triggers/t/pushes", "GET,HEAD"),
        (Method::DELETE, "/v1/deployments", "GET,HEAD,POST"),
        (Method::PUT, "/v1/deployments/d", "GET,HEAD,DELETE"),
        (Method::POST, "/v1/signing-secret", "GET,HEAD"),
        (Method::GET, "/v1/signing-secret:rotate", "POST"),
    ] {
        let reply = server.call(method.clone(), path, &[], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(405, "method_not_allowed"), "{method} {path}");
        assert_eq!(reply.header("allow"), allow, "{method} {path}");
    }
    for path in ["/v1/triggers/", "/v1/triggers/t:why", "/v1/triggers/t/x", "/v1/deployments/d:rollback"] {
        assert_eq!(server.get(path).await.refusal(), refused(404, "not_found"), "{path}");
    }
    let upper = server.get("/v1/triggers/a.b").await;
    assert_eq!(upper.refusal(), refused(400, "invalid_field"));
    assert_eq!(upper.json()["field"], "trigger");
}

#[tokio::test]
async fn what_a_web_page_can_send_is_not_obeyed() {
    let server = Server::start().await;
    let calls = [
        (Method::GET, "/v1/signing-secret"),
        (Method::POST, "/v1/signing-secret:rotate"),
        (Method::POST, "/v1/triggers"),
        (Method::DELETE, "/v1/triggers/t"),
        (Method::POST, "/v1/deployments?deployment_id=d"),
        (Method::DELETE, "/v1/deployments/d"),
    ];
    for (method, path) in calls {
        for (name, value) in [("origin", "http://evil.example"), ("sec-fetch-site", "cross-site")] {
            let reply = server.call(method.clone(), path, &[(name, value)], Body::empty()).await;
            assert_eq!(reply.refusal(), refused(403, "cross_origin"), "{method} {path} {name}");
        }
        let reply = server.call(method.clone(), path, &[("host", "evil.example")], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(421, "host_not_allowed"), "{method} {path}");
        if method == Method::POST {
            let plain = [("content-type", "text/plain")];
            let reply = server.call(method.clone(), path, &plain, trigger().to_string()).await;
            assert_eq!(reply.refusal(), refused(415, "unsupported_media_type"), "{path}");
        }
    }
    assert_eq!(server.get("/v1/triggers").await.ok(), json!({ "triggers": [] }));
}

#[tokio::test]
async fn an_environment_has_a_thousand_triggers() {
    let server = Server::start().await;
    let many = |count: usize| {
        let groups = (0..count).map(|number| with("group", json!(format!("g{number}"))));
        json!({ "triggers": groups.collect::<Vec<_>>() })
    };
    server.post("/v1/deployments?deployment_id=d", many(999)).await.ok();
    server.post("/v1/triggers?trigger_id=t", trigger()).await.ok();
    let reply = server.post("/v1/triggers?trigger_id=u", with("group", json!("other"))).await;
    assert_eq!(reply.refusal(), refused(429, "trigger_limit"));
    assert_eq!(reply.json()["limit"], "1000");
    let mut ids = ids(&server.get("/v1/triggers").await.ok());
    ids.dedup();
    assert_eq!(ids.len(), 1_000);
}

#[test]
fn limits_of_the_wire_are_those_of_the_core() {
    assert_eq!(limits::TRIGGERS_MAX, core_limits::TRIGGERS_MAX);
    assert_eq!(limits::TARGET_BYTES_MAX, core_limits::TARGET_BYTES_MAX);
    assert_eq!(limits::TRIGGER_DELIVERIES_MAX, core_limits::PUSH_DELIVERIES_MAX);
    assert_eq!(limits::TRIGGER_WAIT_MAX, core_limits::TRIGGER_WAIT_MAX);
    assert_eq!(limits::TRIGGER_RETRY_AFTER_MIN, core_limits::RETRY_AFTER_MIN);
    assert_eq!(limits::SECRET_GRACE_MAX, core_limits::SECRET_GRACE_MAX);
    assert_eq!(limits::LEASED_MAX, core_limits::LEASED_MAX);
    assert_eq!(limits::VISIBILITY_TIMEOUT_MAX, core_limits::LEASE_MAX);
}
