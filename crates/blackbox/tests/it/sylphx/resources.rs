//! S15, S16, S19 and S20: how long messages live, what queues are called, what is counted, and calls made twice.

use millpond_blackbox::http::{Connection, Request};
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

#[test]
fn s16_a_uid_is_never_used_again() {
    let mut bed = Bed::new(json!({}));
    let mut uids = vec![bed.get(Q)["uid"].take()];
    for _ in 0..2 {
        bed.delete(Q);
        uids.push(bed.create("q", json!({}))["uid"].take());
    }
    let body = json!({ "spec": { "visibility_timeout": "60s" } });
    let changed = bed.call("PATCH", Q, Some(&body));
    assert_eq!(Some(&changed["uid"]), uids.last(), "a change keeps it");
    for (at, uid) in uids.iter().enumerate() {
        let text = uid.as_str().expect("a uid");
        assert!(text.starts_with("que_") && text.len() == "que_".len() + 26, "{text}");
        assert!(!uids[..at].contains(uid), "{uids:?}");
    }
}

#[test]
fn s19_counts_follow_every_answer_and_add_up() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    let mut other = bed.server.client();
    let mut check = |bed: &mut Bed, expected: [u64; 4]| {
        assert_eq!(bed.counts("q"), expected);
        let counts = other.counts("q").expect("counts");
        assert_eq!(
            [counts.ready, counts.leased, counts.delayed, counts.dead],
            expected,
            "on a connection of its own"
        );
    };
    check(&mut bed, [0, 0, 0, 0]);
    bed.send(&["1", "2", "3"]);
    check(&mut bed, [3, 0, 0, 0]);
    bed.post(&format!("{Q}:send"), json!({ "events": [event("4")], "delay": "3600s" }));
    check(&mut bed, [3, 0, 1, 0]);
    let held = bed.lease("q", json!({ "max_messages": 2 }));
    check(&mut bed, [1, 2, 1, 0]);
    assert_eq!(bed.settle("q", "nack", &held[..1]), json!([]));
    check(&mut bed, [1, 1, 1, 1]);
    assert_eq!(bed.settle("q", "ack", &held[1..]), json!([]));
    check(&mut bed, [1, 0, 1, 1]);
    bed.post(&format!("{Q}:replay"), json!({}));
    check(&mut bed, [2, 0, 1, 0]);
    bed.post(&format!("{Q}:purge"), json!({}));
    check(&mut bed, [0, 0, 0, 0]);
}

/// A call with a key; whether its answer is a remembered one, and the answer.
fn keyed(bed: &mut Bed, key: &str, (method, path): (&str, &str), body: &str) -> (bool, Value) {
    let response = bed.raw(method, path, &[JSON, ("idempotency-key", key)], body.as_bytes());
    let replayed = response.header(REPLAYED);
    assert!(matches!(replayed, None | Some("true")), "{replayed:?}");
    (replayed.is_some(), answered(&response))
}

#[test]
fn s20_the_same_key_and_call_get_the_first_answer() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    bed.bury("1");
    bed.create("gone", json!({}));
    for (call, body) in [
        (("POST", "/v1/queues?queue_id=made"), r#"{"spec": {"max_deliveries": 3}}"#),
        (("POST", "/v1/queues"), "{}"),
        (("PATCH", Q), r#"{"spec": {"visibility_timeout": "60s"}}"#),
        (("POST", "/v1/queues/q:send"), r#"{"events": [{"id": "2", "source": "/s", "type": "t"}]}"#),
        (("POST", "/v1/queues/q:replay"), "{}"),
        (("POST", "/v1/queues/q:purge"), "{}"),
        (("DELETE", "/v1/queues/gone"), ""),
    ] {
        let key = format!("{} {}", call.0, call.1);
        let (replayed, first) = keyed(&mut bed, &key, call, body);
        assert!(!replayed, "{key}");
        let before = bed.get(Q);
        for _ in 0..2 {
            assert_eq!(keyed(&mut bed, &key, call, body), (true, first.clone()), "{key}");
        }
        assert_eq!(bed.get(Q), before, "{key} was not done again");
    }
}

#[test]
fn s20_a_first_answer_outlives_a_kill_and_what_has_changed_since() {
    let mut bed = Bed::new(json!({}));
    let call = ("POST", "/v1/queues?queue_id=made");
    let first = keyed(&mut bed, "k", call, "{}").1;
    bed.delete("/v1/queues/made");
    let Bed { directory, server, .. } = bed;
    server.kill();
    let server = millpond_blackbox::server::Launch::of(directory.path()).start();
    let client = server.client();
    let mut bed = Bed { directory, server, client };
    assert_eq!(keyed(&mut bed, "k", call, "{}"), (true, first));
    bed.refused("GET", "/v1/queues/made", None, 404, "queue_not_found");
}

#[test]
fn s20_anything_else_under_a_key_is_refused() {
    let mut bed = Bed::new(json!({}));
    keyed(&mut bed, "k", ("POST", "/v1/queues?queue_id=made"), "{}");
    for (method, path, body) in [
        ("POST", "/v1/queues?queue_id=made", r#"{"spec": {}}"#),
        ("POST", "/v1/queues?queue_id=other", "{}"),
        ("POST", "/v1/queues/q:purge", "{}"),
    ] {
        let response = bed.raw(method, path, &[JSON, ("idempotency-key", "k")], body.as_bytes());
        let problem = problem(&response, 409, "idempotency_key_reused");
        assert_eq!(problem["field"], "idempotency-key", "{path}");
    }
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

/// Sylphx refuses the second call while the first is under way; here it waits for it.
#[test]
fn s20_calls_under_one_key_at_the_same_time_are_one() {
    let mut bed = Bed::new(json!({}));
    let events: Vec<Value> = vec![event("1"); 100];
    let (target, body) = (format!("{Q}:send"), json!({ "events": events }).to_string());
    let headers = [JSON, ("idempotency-key", "k")];
    let request = Request { method: "POST", target: &target, headers: &headers, body: body.as_bytes() };
    let mut connections: Vec<Connection> =
        (0..8).map(|_| Connection::open(bed.server.address()).expect("it connects")).collect();
    for connection in &mut connections {
        connection.send(&request).expect("it is sent");
    }
    let responses: Vec<_> =
        connections.iter_mut().map(|connection| connection.receive().expect("an answer")).collect();
    assert!(responses.iter().all(|response| answered(response) == answered(&responses[0])));
    let fresh = responses.iter().filter(|response| response.header(REPLAYED).is_none()).count();
    assert_eq!((fresh, bed.counts("q")), (1, [100, 0, 0, 0]));
}
