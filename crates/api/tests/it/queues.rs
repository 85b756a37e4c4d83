//! The queue resource: what is taken, what is refused, what is answered.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_api::name::{EnvironmentName, Kind, QueueReference, ResourceName};
use millpond_api::queue::{
    AtLimit, Backoff, Condition, ConditionStatus, LimitCounts, LostLease, Queue, QueueBody, QueueMeta,
    QueueOrder, QueueSpec, QueueStatus, Thousandths, Why,
};
use millpond_api::{ErrorCode, InputError, limits};
use serde_json::{Value, json};

fn parse(body: Value) -> Result<QueueBody, InputError> {
    QueueBody::parse(Kind::Queue, body.to_string().as_bytes())
}

fn seconds(seconds: u64) -> Option<Duration> {
    Some(Duration::from_secs(seconds))
}

fn full_spec() -> (Value, QueueSpec) {
    let body = json!({
        "visibility_timeout": "30s", "max_deliveries": 5, "dead_letter_queue": "dead", "retention": "345600s",
        "at_limit": "drop", "concurrency_max": 10, "delay": "5s", "finished_retention": "86400s",
        "fresh_first": true, "leased_max": 100000, "limit_counts": "failures", "order": "sent",
        "backoff": {"initial": "0.250s", "factor": 2, "max": "3600s", "jitter_min": 0.5, "jitter_max": 1.5},
        "lost_lease": {"spends_attempt": false, "in_a_row_max": 10, "backs_off": true},
    });
    let spec = QueueSpec {
        visibility_timeout: seconds(30),
        max_deliveries: Some(5),
        dead_letter_queue: Some(QueueReference::Id("dead".to_owned())),
        retention: seconds(345_600),
        at_limit: Some(AtLimit::Drop),
        backoff: Some(Backoff {
            initial: Some(Duration::from_millis(250)),
            factor: Some(Thousandths(2_000)),
            max: seconds(3_600),
            jitter_min: Some(Thousandths(500)),
            jitter_max: Some(Thousandths(1_500)),
        }),
        concurrency_max: Some(10),
        delay: seconds(5),
        finished_retention: seconds(86_400),
        fresh_first: Some(true),
        leased_max: Some(100_000),
        limit_counts: Some(LimitCounts::Failures),
        lost_lease: Some(LostLease {
            spends_attempt: Some(false),
            in_a_row_max: Some(10),
            backs_off: Some(true),
        }),
        order: Some(QueueOrder::Sent),
    };
    (body, spec)
}

#[test]
fn everything_is_optional() {
    for body in ["", "{}", r#"{"spec":{},"meta":{}}"#, r#"{"spec":null,"meta":null}"#] {
        assert_eq!(QueueBody::parse(Kind::Queue, body.as_bytes()), Ok(QueueBody::default()), "{body}");
    }
}

#[test]
fn every_setting_is_read() {
    let (body, spec) = full_spec();
    assert_eq!(parse(json!({"spec": body})).map(|queue| queue.spec), Ok(spec));
    let meta =
        json!({"display_name": "Mail", "etag": "7", "labels": {"team": "a"}, "annotations": {"x/y": ""}});
    let queue = parse(json!({"meta": meta, "name": "orgs/a/projects/b/envs/c/queues/d"})).expect("valid");
    assert_eq!(queue.display_name.as_deref(), Some("Mail"));
    assert_eq!(queue.etag.as_deref(), Some("7"));
    assert_eq!(queue.labels, Some(BTreeMap::from([("team".to_owned(), "a".to_owned())])));
    assert_eq!(queue.annotations, Some(BTreeMap::from([("x/y".to_owned(), String::new())])));
    assert_eq!(queue.name.map(|name| name.id().to_owned()).as_deref(), Some("d"));
}

/// Sets `spec.<path>` to the value: `true` if that is taken. A refusal must name the path.
fn takes(path: &str, value: Value) -> bool {
    let (parent, field) = path.split_once('.').map_or((None, path), |(parent, field)| (Some(parent), field));
    let inner = json!({field: value});
    let spec = parent.map_or(inner.clone(), |parent| json!({parent: inner}));
    match parse(json!({"spec": spec})) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.code, ErrorCode::InvalidField, "{}", error.detail);
            assert_eq!(error.field, Some(format!("spec.{path}")), "{}", error.detail);
            assert!(error.detail.contains(error.value.as_deref().expect("a value")), "{}", error.detail);
            false
        }
    }
}

#[test]
fn each_setting_is_taken_at_its_bounds_and_refused_beyond() {
    for (path, taken, refused) in [
        ("visibility_timeout", [json!("1s"), json!("43200s")], [json!("0.999s"), json!("43200.001s")]),
        ("max_deliveries", [json!(1), json!(100)], [json!(0), json!(101)]),
        ("retention", [json!("60s"), json!("1209600s")], [json!("59.999s"), json!("1209600.001s")]),
        ("delay", [json!("0s"), json!("43200s")], [json!("-1s"), json!("43200.001s")]),
        ("finished_retention", [json!("0s"), json!("1209600s")], [json!("-0s"), json!("1209600.001s")]),
        ("concurrency_max", [json!(1), json!(1_000_000)], [json!(0), json!(1_000_001)]),
        ("leased_max", [json!(1), json!(1_000_000)], [json!(0), json!(1_000_001)]),
        ("lost_lease.in_a_row_max", [json!(0), json!(100)], [json!(-1), json!(101)]),
        ("backoff.initial", [json!("0s"), json!("86400s")], [json!("0"), json!("86400.001s")]),
        ("backoff.max", [json!("0s"), json!("86400s")], [json!(0), json!("86400.001s")]),
        ("backoff.factor", [json!(1), json!(100)], [json!(0.999), json!(100.001)]),
        ("backoff.jitter_min", [json!(0), json!(10)], [json!(-0.5), json!(10.001)]),
        ("backoff.jitter_max", [json!(0), json!(1.001)], [json!(1.0001), json!("1")]),
        ("at_limit", [json!("drop"), json!("dead_letter_set")], [json!("Drop"), json!(true)]),
        ("limit_counts", [json!("deliveries"), json!("failures")], [json!("retries"), json!(1)]),
        ("order", [json!("visible"), json!("sent")], [json!("fifo"), json!([])]),
        ("fresh_first", [json!(true), json!(false)], [json!("true"), json!(1)]),
        ("lost_lease.spends_attempt", [json!(true), json!(false)], [json!(0), json!({})]),
        ("lost_lease.backs_off", [json!(true), json!(false)], [json!(0), json!({})]),
        (
            "dead_letter_queue",
            [json!("dead"), json!("orgs/a/projects/b/envs/c/queues/dead")],
            [json!("Dead"), json!("a/b")],
        ),
    ] {
        for value in taken {
            assert!(takes(path, value.clone()), "{path} {value}");
        }
        for value in refused {
            assert!(!takes(path, value.clone()), "{path} {value}");
        }
    }
}

#[test]
fn two_ends_of_a_range_are_in_order() {
    let backoff = |backoff: Value| parse(json!({"spec": {"backoff": backoff}}));
    assert!(backoff(json!({"initial": "10s", "max": "10s", "jitter_min": 1, "jitter_max": 1})).is_ok());
    let error = backoff(json!({"initial": "10s", "max": "9.999s"})).expect_err("max below initial");
    assert_eq!(error.detail, "spec.backoff.max is \"9.999s\", expected at least initial");
    let error = backoff(json!({"jitter_min": 1.5, "jitter_max": 1.499})).expect_err("jitter upside down");
    assert_eq!(error.detail, "spec.backoff.jitter_max is 1.499, expected at least jitter_min");
}

#[test]
fn unknown_fields_are_refused_by_path() {
    for (body, field) in [
        (json!({"foo": 1}), "foo"),
        (json!({"spec": {"foo": 1}}), "spec.foo"),
        (json!({"spec": {"backoff": {"foo": 1}}}), "spec.backoff.foo"),
        (json!({"spec": {"lost_lease": {"foo": 1}}}), "spec.lost_lease.foo"),
        (json!({"meta": {"foo": 1}}), "meta.foo"),
    ] {
        let error = parse(body).expect_err(field);
        assert_eq!((error.code, error.field.as_deref()), (ErrorCode::UnknownField, Some(field)));
    }
}

#[test]
fn labels_and_annotations_have_sizes() {
    let label = |key: &str, value: &str| parse(json!({"meta": {"labels": {key: value}}})).is_ok();
    assert!(label(&"k".repeat(limits::LABEL_KEY_BYTES_MAX), &"v".repeat(limits::LABEL_VALUE_BYTES_MAX)));
    assert!(!label(&"k".repeat(limits::LABEL_KEY_BYTES_MAX + 1), ""));
    assert!(!label("k", &"v".repeat(limits::LABEL_VALUE_BYTES_MAX + 1)));
    assert!(!label("", "v"));
    assert!(!label("a b", "v"));
    let annotation = |bytes: usize| parse(json!({"meta": {"annotations": {"k": "v".repeat(bytes)}}})).is_ok();
    assert!(annotation(limits::ANNOTATION_VALUE_BYTES_MAX));
    assert!(!annotation(limits::ANNOTATION_VALUE_BYTES_MAX + 1));
    let many = |count: usize| -> Value { (0..count).map(|n| (format!("k{n}"), json!("v"))).collect() };
    for field in ["labels", "annotations"] {
        assert!(parse(json!({"meta": {field: many(64)}})).is_ok());
        assert!(parse(json!({"meta": {field: many(65)}})).is_err());
    }
    let display = |bytes: usize| parse(json!({"meta": {"display_name": "n".repeat(bytes)}})).is_ok();
    assert!(display(limits::DISPLAY_NAME_BYTES_MAX));
    assert!(!display(limits::DISPLAY_NAME_BYTES_MAX + 1));
    let error = parse(json!({"meta": {"labels": {"k": 5}}})).expect_err("a number");
    assert_eq!(error.detail, "meta.labels.k is 5, expected a string");
}

fn queue() -> Queue {
    let environment = EnvironmentName::new("acme", "shop", "prod").expect("valid");
    Queue {
        name: ResourceName::new(environment, "queues/emails").expect("valid"),
        uid: "que_1".to_owned(),
        meta: QueueMeta {
            generation: 3,
            etag: "7".to_owned(),
            create_time: 0,
            update_time: 1_791_369_000_500,
            display_name: None,
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            annotations: BTreeMap::new(),
        },
        spec: full_spec().1,
        status: QueueStatus {
            observed_generation: 3,
            conditions: vec![Condition {
                kind: "Ready".to_owned(),
                status: ConditionStatus::True,
                reason: "Open".to_owned(),
                message: "takes and hands out messages".to_owned(),
                last_transition_time: 0,
            }],
            ready_count: u64::MAX,
            leased_count: Some(1),
            delayed_count: 2,
            dead_letter_count: Some(3),
            finished_count: Some(4),
            paused: Some(true),
            why: Some(Why {
                reason: "paused".to_owned(),
                detail: "paused since 1970-01-01T00:00:00Z".to_owned(),
                since: Some(0),
                until: None,
            }),
        },
    }
}

#[test]
fn an_answer_holds_64_bit_integers_as_strings_and_times_in_utc() {
    let answer: Value = serde_json::from_str(&queue().render()).expect("json");
    let (mut spec, _) = full_spec();
    spec["backoff"]["initial"] = json!("0.250s");
    let expected = json!({
        "name": "orgs/acme/projects/shop/envs/prod/queues/emails",
        "uid": "que_1",
        "meta": {
            "generation": "3", "etag": "7", "create_time": "1970-01-01T00:00:00Z",
            "update_time": "2026-10-07T10:30:00.500Z", "labels": {"team": "a"}, "annotations": {},
        },
        "spec": spec,
        "status": {
            "observed_generation": "3",
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Open", "message": "takes and hands out messages",
                "last_transition_time": "1970-01-01T00:00:00Z",
            }],
            "ready_count": "18446744073709551615", "leased_count": "1", "delayed_count": "2",
            "dead_letter_count": "3", "finished_count": "4", "paused": true,
            "why": {
                "reason": "paused", "detail": "paused since 1970-01-01T00:00:00Z", "since": "1970-01-01T00:00:00Z",
            },
        },
    });
    assert_eq!(answer, expected);
}

#[test]
fn what_was_answered_can_be_sent_back() {
    let body = QueueBody::parse(Kind::Queue, queue().render().as_bytes())
        .expect("output-only fields are passed over");
    assert_eq!(body.spec, queue().spec);
    assert_eq!(body.etag.as_deref(), Some("7"));
    assert_eq!(body.name, Some(queue().name));
}
