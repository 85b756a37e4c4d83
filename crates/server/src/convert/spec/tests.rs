//! What bodies and masks make of specs.

use millpond_api::queue::QueueUpdate;
use serde_json::json;

use super::*;

fn home() -> EnvironmentName {
    EnvironmentName::new("acme", "shop", "prod").expect("valid")
}

/// What a body and a mask make of a spec.
fn update(base: &QueueSpec, body: &str, mask: Option<&str>) -> Result<QueueSpec, ApiError> {
    let update =
        QueueUpdate::parse(Kind::Queue, body.as_bytes(), mask).unwrap_or_else(|error| panic!("{error}"));
    merge(base, &QueueSpec::default(), &update.body.spec, &update.mask, &home())
}

/// Unlike the default in every field.
fn other() -> QueueSpec {
    QueueSpec {
        at_limit: AtLimit::MoveTo { queue: "dead".into(), otherwise: Gone::Drop },
        attempt_limit: Some(AttemptLimit { max: 7, counts: Counted::Failures }),
        backoff: Some(Backoff { jitter_permille: (500, 1_500), ..BACKOFF_DEFAULT }),
        concurrency_max: Some(3),
        delay: Duration::from_secs(5),
        finished_retention: Duration::from_secs(60),
        fresh_first: true,
        leased_max: 10,
        lost_lease: LostLease { backs_off: true, in_a_row_max: Some(2), spends_attempt: false },
        order: Order::Sent,
        retention: Some(Duration::from_secs(3_600)),
        visibility_timeout: Duration::from_secs(1),
    }
}

fn as_body(spec: &QueueSpec) -> String {
    let spec = serde_json::to_string(&from_core(spec, Kind::Queue, &home())).expect("json");
    format!(r#"{{"spec":{spec}}}"#)
}

#[test]
fn nothing_named_is_nothing_changed() {
    let unlimited = QueueSpec { attempt_limit: None, retention: None, ..other() };
    for base in [QueueSpec::default(), other(), unlimited] {
        for body in ["", "{}", r#"{"spec":{}}"#, r#"{"spec":{"backoff":{}}}"#, r#"{"meta":{"labels":{}}}"#] {
            let body =
                if base.backoff.is_none() { body.replace(r#""backoff":{}"#, "") } else { body.to_owned() };
            assert_eq!(update(&base, &body, None).ok(), Some(base.clone()), "{body}");
        }
        let body = as_body(&other());
        assert_eq!(update(&base, &body, Some("meta.labels")).ok(), Some(base.clone()));
    }
}

#[test]
fn what_is_answered_means_the_same_when_it_is_sent_back() {
    for base in [QueueSpec::default(), other()] {
        for wanted in [QueueSpec::default(), other()] {
            let body = as_body(&wanted);
            assert_eq!(update(&base, &body, Some("spec")).ok(), Some(wanted.clone()), "{body}");
            if wanted == other() {
                assert_eq!(update(&base, &body, None).ok(), Some(wanted));
            }
        }
    }
}

#[test]
fn each_setting_is_changed_alone_and_put_back_alone() {
    let settings: serde_json::Value = serde_json::from_str(&as_body(&other())).expect("json");
    let settings = settings["spec"].as_object().expect("an object").clone();
    assert_eq!(settings.len(), 14);
    for (name, value) in settings {
        let body = json!({ "spec": { &name: value } }).to_string();
        let mask = format!("spec.{name}");
        let changed = update(&QueueSpec::default(), &body, None).expect(&name);
        assert_ne!(changed, QueueSpec::default(), "{name}");
        let masked = update(&QueueSpec::default(), &as_body(&other()), Some(&mask)).expect(&name);
        // A backoff is made by defaults either way; the rest has one value only.
        assert_eq!(masked, changed, "{name}");
        let null = json!({ "spec": { &name: null } }).to_string();
        for (body, mask) in [(null.as_str(), None), ("", Some(mask.as_str()))] {
            assert_eq!(update(&changed, body, mask).ok(), Some(QueueSpec::default()), "{name} {body}");
            assert_ne!(update(&other(), body, mask).ok(), Some(other()), "{name} {body}");
        }
    }
}

#[test]
fn parts_of_a_setting_are_changed_alone_unless_a_mask_names_the_whole() {
    let body = r#"{"spec":{"backoff":{"initial":"2s"},"lost_lease":{"in_a_row_max":0}}}"#;
    let parts = update(&other(), body, None).expect("valid");
    let backoff = other().backoff.map(|backoff| Backoff { initial: Duration::from_secs(2), ..backoff });
    assert_eq!(parts.backoff, backoff);
    assert_eq!(parts.lost_lease, LostLease { in_a_row_max: None, ..other().lost_lease });
    let whole = update(&other(), body, Some("spec.backoff,spec.lost_lease")).expect("valid");
    assert_eq!(whole.backoff, Some(Backoff { initial: Duration::from_secs(2), ..BACKOFF_DEFAULT }));
    assert_eq!(whole.lost_lease, QueueSpec::default().lost_lease);
    let made = update(&QueueSpec::default(), body, None).expect("valid");
    assert_eq!(made.backoff, whole.backoff);
}

#[test]
fn a_part_of_a_backoff_never_contradicts_the_defaults_of_the_rest() {
    let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
    let long = backoff_to_core(&wire::Backoff { initial: hours(2), ..wire::Backoff::default() });
    assert_eq!(Some(long.max), hours(2));
    let short =
        backoff_to_core(&wire::Backoff { max: Some(Duration::from_millis(1)), ..wire::Backoff::default() });
    assert_eq!(short.initial, Duration::from_millis(1));
    let wide = backoff_to_core(&wire::Backoff {
        jitter_min: Some(wire::Thousandths(2_000)),
        ..wire::Backoff::default()
    });
    assert_eq!(wide.jitter_permille, (2_000, 2_000));
}

#[test]
fn a_dead_letter_queue_of_another_environment_is_refused() {
    let other = "orgs/acme/projects/shop/envs/test/queues/dead";
    let body = json!({ "spec": { "dead_letter_queue": other } }).to_string();
    assert!(update(&QueueSpec::default(), &body, None).is_err());
}
