//! Triggers, deployments and the signing secret: what is taken, what is refused, what is answered.

use std::time::Duration;

use millpond_api::deployment::{
    Deployment, DeploymentBody, check_deployment_id, render_deployments, trigger_id,
};
use millpond_api::name::{QueueReference, check_topic_id};
use millpond_api::push::{PushCounts, PushOutcome, PushRecord, TriggerPushes};
use millpond_api::signing_secret::{RotateRequest, SigningSecret};
use millpond_api::trigger::{Trigger, TriggerBody, TriggerState, TriggerTrouble, render_triggers};
use millpond_api::{ErrorCode, InputError, limits};
use serde_json::{Value, json};

fn parse(body: &Value) -> Result<TriggerBody, InputError> {
    TriggerBody::parse(body.to_string().as_bytes())
}

/// A body with this field set.
fn with(field: &str, value: Value) -> Value {
    let mut body = json!({ "topic": "orders", "group": "billing", "target": "http://127.0.0.1:3000/queue" });
    body[field] = value;
    body
}

#[test]
fn every_setting_is_read_and_all_but_three_are_optional() {
    let whole = json!({
        "topic": "orders-*", "group": "billing", "target": "https://h/q", "retry_after": "5s",
        "initial_delay": "1.5s", "max_deliveries": 3, "max_concurrency": 10, "dead_letter_queue": "dead",
        "visibility_timeout": "30s",
    });
    let expected = TriggerBody {
        topic: "orders-*".to_owned(),
        group: "billing".to_owned(),
        target: "https://h/q".to_owned(),
        retry_after: Some(Duration::from_secs(5)),
        initial_delay: Some(Duration::from_millis(1_500)),
        max_deliveries: Some(3),
        max_concurrency: Some(10),
        dead_letter_queue: Some(QueueReference::Id("dead".to_owned())),
        visibility_timeout: Some(Duration::from_secs(30)),
    };
    assert_eq!(parse(&whole), Ok(expected));
    let least = parse(&with("max_deliveries", Value::Null)).expect("a null is the same as nothing");
    assert_eq!((least.max_deliveries, least.retry_after, least.visibility_timeout), (None, None, None));
    for field in ["topic", "group", "target"] {
        let error = parse(&with(field, Value::Null)).expect_err(field);
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::MissingField, Some(field)));
    }
}

#[test]
fn each_setting_is_taken_at_its_bounds_and_refused_beyond() {
    let long = |bytes: usize| json!("t".repeat(bytes));
    let start = |bytes: usize| json!(format!("{}*", "t".repeat(bytes)));
    let target = |bytes: usize| json!(format!("http://h/{}", "p".repeat(bytes - "http://h/".len())));
    for (field, taken, refused) in [
        ("topic", vec![json!("*"), json!("-_A*"), long(255), start(255)], vec![long(256), start(256)]),
        ("topic", vec![], vec![json!(""), json!("**"), json!("a*b"), json!("*a"), json!("a.b"), json!(1)]),
        ("group", vec![json!("G_-1"), long(255)], vec![long(256), json!("g*"), json!("")]),
        ("target", vec![target(2_048)], vec![target(2_049), json!("ftp://h/"), json!("//h/"), json!("")]),
        ("retry_after", vec![json!("0.001s"), json!("86400s")], vec![json!("0s"), json!("86400.001s")]),
        ("initial_delay", vec![json!("0s"), json!("86400s")], vec![json!("-1s"), json!("86400.001s")]),
        ("max_deliveries", vec![json!(1), json!(1_000_000)], vec![json!(0), json!(1_000_001), json!("1")]),
        ("max_concurrency", vec![json!(1), json!(1_000_000)], vec![json!(0), json!(1_000_001)]),
        ("visibility_timeout", vec![json!("1s"), json!("43200s")], vec![json!("0s"), json!("43200.001s")]),
        ("dead_letter_queue", vec![json!("dead")], vec![json!("Dead"), json!("a/b"), json!("")]),
    ] {
        for value in taken {
            assert!(parse(&with(field, value.clone())).is_ok(), "{field} {value}");
        }
        for value in refused {
            let error = parse(&with(field, value.clone())).expect_err(field);
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::InvalidField, Some(field)),
                "{value}"
            );
        }
    }
    let bounded = parse(&with("topic", start(256))).expect_err("too long");
    assert_eq!(bounded.limit.as_deref(), Some("255"));
}

#[test]
fn what_the_server_adds_is_no_field_of_a_body() {
    for field in ["name", "uid", "deployment", "current", "state", "pushes", "trigger_id"] {
        let error = parse(&with(field, json!("x"))).expect_err(field);
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::UnknownField, Some(field)));
    }
}

#[test]
fn a_deployment_names_the_trigger_that_is_wrong() {
    let deployment = |triggers: Value| {
        DeploymentBody::parse(json!({ "triggers": triggers }).to_string().as_bytes())
            .map(|body| body.triggers.len())
    };
    let good = with("group", json!("g"));
    assert_eq!(deployment(json!([good, good])), Ok(2));
    assert_eq!(deployment(vec![good.clone(); limits::TRIGGERS_MAX].into()), Ok(limits::TRIGGERS_MAX));
    for (triggers, code, field) in [
        (json!([]), ErrorCode::InvalidField, "triggers"),
        (vec![good.clone(); limits::TRIGGERS_MAX + 1].into(), ErrorCode::InvalidField, "triggers"),
        (json!([good, with("topic", json!("a.b"))]), ErrorCode::InvalidField, "triggers[1].topic"),
        (json!([good, {}]), ErrorCode::MissingField, "triggers[1].topic"),
        (json!([with("id", json!("x"))]), ErrorCode::UnknownField, "triggers[0].id"),
        (Value::Null, ErrorCode::MissingField, "triggers"),
    ] {
        let error = deployment(triggers).expect_err(field);
        assert_eq!((error.code, error.field.as_deref()), (code, Some(field)));
    }
}

#[test]
fn ids_of_deployments_leave_room_for_those_of_their_triggers() {
    let longest = "d".repeat(limits::DEPLOYMENT_ID_BYTES_MAX);
    assert_eq!(check_deployment_id(&longest), Ok(()));
    assert_eq!(check_topic_id(&trigger_id(&longest, limits::TRIGGERS_MAX)), Ok(()));
    let error = check_deployment_id(&(longest + "d")).expect_err("too long");
    assert_eq!(error.limit.as_deref(), Some("250"));
    for bad in ["", "a.b", "a:b", "dpl 1"] {
        assert!(check_deployment_id(bad).is_err(), "{bad}");
    }
}

#[test]
fn a_secret_signs_for_a_day_after_its_replacement_unless_told() {
    let grace = |body: &str| RotateRequest::parse(body.as_bytes()).map(|request| request.grace.as_secs());
    for (body, seconds) in
        [("", 86_400), ("{}", 86_400), (r#"{"grace":null}"#, 86_400), (r#"{"grace":"0s"}"#, 0)]
    {
        assert_eq!(grace(body), Ok(seconds), "{body}");
    }
    assert_eq!(grace(r#"{"grace":"2592000s"}"#), Ok(30 * 86_400));
    for body in [r#"{"grace":"2592000.001s"}"#, r#"{"grace":"24h"}"#, r#"{"grace":1}"#] {
        let error = grace(body).expect_err(body);
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::InvalidField, Some("grace")));
    }
}

fn trigger() -> Trigger {
    Trigger {
        name: "orgs/o/projects/p/envs/e/triggers/dpl_1-1".to_owned(),
        trigger_id: "dpl_1-1".to_owned(),
        uid: "que_1".to_owned(),
        deployment: Some("dpl_1".to_owned()),
        current: true,
        topic: "orders-*".to_owned(),
        group: "billing".to_owned(),
        target: "http://h/".to_owned(),
        retry_after: Duration::from_secs(60),
        initial_delay: Duration::ZERO,
        max_deliveries: None,
        max_concurrency: Some(2),
        dead_letter_queue: None,
        visibility_timeout: Duration::from_millis(300_500),
        starts_at: 0,
        create_time: 0,
        state: TriggerState::Down,
        trouble: Some(TriggerTrouble { since: 0, error: "refused".to_owned(), next_try: 1_000 }),
        pushes: Some(PushCounts { total: u64::MAX, duration_p50_ms: Some(5), ..PushCounts::default() }),
    }
}

#[test]
fn answers_have_all_their_fields_and_say_null_where_there_is_nothing() {
    let read = |text: String| serde_json::from_str::<Value>(&text).expect("json");
    let expected = json!({
        "name": "orgs/o/projects/p/envs/e/triggers/dpl_1-1", "trigger_id": "dpl_1-1", "uid": "que_1",
        "deployment": "dpl_1", "current": true, "topic": "orders-*", "group": "billing", "target": "http://h/",
        "retry_after": "60s", "initial_delay": "0s", "max_deliveries": null, "max_concurrency": 2,
        "dead_letter_queue": null, "visibility_timeout": "300.500s", "starts_at": "1970-01-01T00:00:00Z",
        "create_time": "1970-01-01T00:00:00Z", "state": "down",
        "trouble": {"since": "1970-01-01T00:00:00Z", "error": "refused", "next_try": "1970-01-01T00:00:01Z"},
        "pushes": {
            "total": "18446744073709551615", "succeeded": "0", "failed": "0", "broken": "0", "gave_up": "0",
            "unreachable": "0", "unwritable": "0", "in_flight": "0", "duration_p50_ms": 5, "duration_p99_ms": null,
        },
    });
    assert_eq!(read(trigger().render()), expected);
    assert_eq!(read(render_triggers(&[trigger()])), json!({ "triggers": [expected] }));
    assert_eq!(render_triggers(&[]), r#"{"triggers":[]}"#);
    let deployment = Deployment {
        name: "orgs/o/projects/p/envs/e/deployments/dpl_1".to_owned(),
        deployment_id: "dpl_1".to_owned(),
        current: true,
        create_time: 0,
        triggers: vec![trigger()],
    };
    let expected = json!({
        "name": "orgs/o/projects/p/envs/e/deployments/dpl_1", "deployment_id": "dpl_1", "current": true,
        "create_time": "1970-01-01T00:00:00Z", "triggers": [expected],
    });
    assert_eq!(read(render_deployments(&[deployment])), json!({ "deployments": [expected] }));
}

#[test]
fn a_push_is_told_with_its_outcome() {
    let record = PushRecord {
        at: 0,
        message_id: "msg_1".to_owned(),
        delivery_count: 2,
        inline: true,
        duration_ms: 17,
        outcome: PushOutcome::Failed,
        status: Some(500),
        error: None,
    };
    let pushes = TriggerPushes { pushes: None, last: vec![record] };
    let answer: Value = serde_json::from_str(&pushes.render()).expect("json");
    let record = json!({
        "at": "1970-01-01T00:00:00Z", "message_id": "msg_1", "delivery_count": 2, "inline": true, "duration_ms": 17,
        "outcome": "failed", "status": 500, "error": null,
    });
    assert_eq!(answer, json!({ "pushes": null, "last": [record] }));
    for outcome in PushOutcome::ALL {
        assert_eq!(serde_json::to_value(outcome).ok(), Some(json!(outcome.word())));
    }
}

#[test]
fn a_secret_is_answered_and_not_printed() {
    let secret = SigningSecret { secret: "whsec_c2VjcmV0".to_owned(), since: 0, previous_until: Some(0) };
    let expected = r#"{"secret":"whsec_c2VjcmV0","since":"1970-01-01T00:00:00Z","previous_until":"1970-01-01T00:00:00Z"}"#;
    assert_eq!(secret.render(), expected);
    assert!(!format!("{secret:?}").contains("c2Vj"));
    let alone = SigningSecret { previous_until: None, ..secret };
    assert!(alone.render().ends_with(r#""previous_until":null}"#));
}
