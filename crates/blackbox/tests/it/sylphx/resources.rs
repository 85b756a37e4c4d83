//! S15, S16, S19 and S20: how long messages live, what queues are called, what is counted, and calls made twice.

use serde_json::{Value, json};

use super::{Bed, JSON, Q, answered, event, problem};

const REPLAYED: &str = "millpond-idempotent-replay";

#[test]
fn s15_a_retention_is_4_days_unless_told_and_from_a_minute_to_14_days() {
    let mut bed = Bed::new(json!({}));
    assert_eq!(bed.get(Q)["spec"]["retention"], "345600s");
    for (retention, taken) in [("59.999s", false), ("60s", true), ("1209600s", true), ("1209600.001s", false)]
    {
        let path = format!("/v1/queues?queue_id=r-{}", retention.replace('.', "-"));
        let body = json!({ "spec": { "retention": retention } });
        match taken {
            true => assert_eq!(bed.post(&path, body)["spec"]["retention"], retention),
            false => {
                let problem = bed.post_refused(&path, body, 400, "invalid_field");
                assert_eq!(problem["field"], "spec.retention");
            }
        }
    }
}

#[test]
fn s15_a_message_may_live_shorter_than_its_queue_says() {
    let mut bed = Bed::new(json!({}));
    bed.post(&format!("{Q}:send?ttl=1s"), json!({ "events": [event("1")] }));
    bed.send(&["2"]);
    bed.client.pass(1);
    let left = bed.lease("q", json!({ "max_messages": 10 }));
    assert_eq!(super::event_ids(&left), ["2"]);
}

#[test]
fn s16_a_queue_is_named_below_its_environment_and_has_an_id_of_its_own() {
    let mut bed = Bed::new(json!({}));
    let made = bed.get(Q);
    let name = made["name"].as_str().expect("a name").to_owned();
    let parts: Vec<&str> = name.split('/').collect();
    assert!(matches!(parts[..], ["orgs", _, "projects", _, "envs", _, "queues", "q"]), "{name}");
    assert_eq!(bed.get(&format!("/v1/{name}")), made, "the whole name is a path");

    bed.post("/v1/orgs/acme/projects/shop/envs?env_id=prod", json!({}));
    let there = "/v1/orgs/acme/projects/shop/envs/prod/queues";
    let other = bed.post(&format!("{there}?queue_id=q"), json!({}));
    assert_eq!(other["name"], "orgs/acme/projects/shop/envs/prod/queues/q");
    assert_ne!(other["uid"], made["uid"], "environments are apart");
}

#[test]
fn s16_an_id_has_1_to_63_lower_case_letters_digits_and_hyphens() {
    let mut bed = Bed::new(json!({}));
    let longest = "x".repeat(63);
    for id in ["a", "0", "a-b", "2-fast", &longest] {
        bed.post(&format!("/v1/queues?queue_id={id}"), json!({}));
    }
    let longer = "x".repeat(64);
    for id in ["A", "a_b", "-a", "a-", "a.b", "%C5%BE", "a%2Fb", &longer] {
        let path = format!("/v1/queues?queue_id={id}");
        let problem = bed.post_refused(&path, json!({}), 400, "invalid_field");
        assert_eq!(problem["field"], "queue_id", "{id}");
    }
    let made = bed.post("/v1/queues?queue_id=", json!({}));
    let name = made["name"].as_str().expect("a name");
    assert!(!name.ends_with('/'), "the server makes an id where none is given: {name}");
}

/// A call with a key; whether its answer is a remembered one, and the answer.
fn keyed(bed: &mut Bed, key: &str, (method, path): (&str, &str), body: &str) -> (bool, Value) {
    let response = bed.raw(method, path, &[JSON, ("idempotency-key", key)], body.as_bytes());
    let replayed = response.header(REPLAYED);
    assert!(matches!(replayed, None | Some("true")), "{replayed:?}");
    (replayed.is_some(), answered(&response))
}

#[test]
fn s20_a_refused_call_leaves_its_key_unused() {
    let mut bed = Bed::new(json!({}));
    let call = ("POST", "/v1/queues?queue_id=q");
    let response = bed.raw(call.0, call.1, &[JSON, ("idempotency-key", "k")], b"{}");
    problem(&response, 409, "queue_already_exists");
    bed.delete(Q);
    assert!(!keyed(&mut bed, "k", call, "{}").0);
}
