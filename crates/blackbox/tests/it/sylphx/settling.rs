//! S8, S9, S12 and S13: how a lease ends, what counts, and that only its holder can end it.

use serde_json::{Value, json};

use super::{Bed, Q, event, number};

fn generation(message: &Value) -> u64 {
    number(&message["lease"]["lease_generation"])
}

#[test]
fn s08_an_ack_removes_for_good() {
    let mut bed = Bed::new(json!({}));
    let ids = bed.send(&["1"]);
    let held = bed.lease("q", json!({}));
    assert_eq!(bed.settle("q", "ack", &held), json!([]));
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
    assert!(bed.lease("q", json!({})).is_empty());
    bed.refused("GET", &format!("{Q}/messages/{}", ids[0]), None, 404, "message_not_found");
}

#[test]
fn s08_a_nack_returns_at_once_or_after_its_delay() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let held = bed.lease("q", json!({}));
    assert_eq!(held[0]["delivery_count"], 1, "it counts from the lease on");
    assert_eq!(bed.settle("q", "nack", &held), json!([]));
    let held = bed.lease("q", json!({}));
    assert_eq!(held[0]["delivery_count"], 2);
    let delayed = json!({ "leases": [held[0]["lease"]], "delay": "1s" });
    assert_eq!(bed.post(&format!("{Q}:nack"), delayed), json!({ "stale_leases": [] }));
    assert_eq!(bed.counts("q"), [0, 0, 1, 0]);
    assert!(bed.lease("q", json!({})).is_empty(), "it is hidden");
    assert_eq!(bed.take(60)["delivery_count"], 3);
}

#[test]
fn s08_a_lease_that_runs_out_returns_the_message_and_counts() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    assert_eq!(bed.take(1)["delivery_count"], 1);
    assert_eq!(bed.take(1)["delivery_count"], 2);
    assert_eq!(bed.take(60)["delivery_count"], 3);
}

#[test]
fn s08_a_nack_delay_is_at_most_12_hours() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let held = bed.lease("q", json!({}));
    let nack = |delay: &str| json!({ "leases": [held[0]["lease"]], "delay": delay });
    let problem = bed.post_refused(&format!("{Q}:nack"), nack("43200.001s"), 400, "invalid_field");
    assert_eq!(problem["field"], "delay");
    assert_eq!(bed.counts("q"), [0, 1, 0, 0], "a refused call settles nothing");
    assert_eq!(bed.post(&format!("{Q}:nack"), nack("43200s")), json!({ "stale_leases": [] }));
}

#[test]
fn s09_after_five_deliveries_a_message_leaves_ready_unless_told_otherwise() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    for count in 1..=5 {
        let held = bed.lease("q", json!({}));
        assert_eq!(held[0]["delivery_count"], count);
        assert_eq!(bed.counts("q"), [0, 1, 0, 0], "the lease itself ends nothing");
        assert_eq!(bed.settle("q", "nack", &held), json!([]));
    }
    assert_eq!(bed.counts("q"), [0, 0, 0, 1]);
    assert!(bed.lease("q", json!({})).is_empty());
    for (deliveries, taken) in [(0, false), (1, true), (100, true), (101, false)] {
        let path = format!("/v1/queues?queue_id=d{deliveries}");
        let body = json!({ "spec": { "max_deliveries": deliveries } });
        match taken {
            true => assert_eq!(bed.post(&path, body)["spec"]["max_deliveries"], deliveries),
            false => drop(bed.post_refused(&path, body, 400, "invalid_field")),
        }
    }
}

#[test]
fn s09_the_holder_of_the_last_lease_can_still_ack() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    bed.send(&["1"]);
    let last = bed.lease("q", json!({}));
    assert_eq!(bed.settle("q", "extend", &last), json!([]));
    assert_eq!(bed.settle("q", "ack", &last), json!([]));
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
}

#[test]
fn s09_the_last_lease_that_runs_out_ends_the_message_too() {
    let mut bed = Bed::new(json!({ "max_deliveries": 2 }));
    bed.send(&["1"]);
    bed.take(1);
    bed.take(1);
    bed.client.pass(1);
    assert_eq!(bed.counts("q"), [0, 0, 0, 1]);
}

#[test]
fn s12_the_lease_of_another_is_not_settled_and_is_listed() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let old = [bed.take(1)];
    let new = [bed.take(3_600)];
    assert!(generation(&new[0]) > generation(&old[0]));
    for verb in ["nack", "extend", "ack"] {
        assert_eq!(bed.settle("q", verb, &old), json!([old[0]["lease"]]), "{verb}");
        assert_eq!(bed.counts("q"), [0, 1, 0, 0], "{verb} changed nothing");
    }
    assert_eq!(bed.settle("q", "ack", &new), json!([]));
}

#[test]
fn s12_a_lease_that_ran_out_is_stale_although_nobody_took_the_message() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let old = [bed.take(1)];
    bed.client.pass(1);
    assert_eq!(bed.settle("q", "ack", &old), json!([old[0]["lease"]]));
    assert_eq!(bed.counts("q"), [1, 0, 0, 0]);
}

#[test]
fn s12_a_call_lists_what_is_stale_in_its_own_order_and_settles_the_rest_once() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1", "2", "3"]);
    let held = bed.lease("q", json!({ "max_messages": 3 }));
    let [first, second, third] = [0, 1, 2].map(|at: usize| held[at]["lease"].clone());
    let mut superseded = second.clone();
    superseded["lease_generation"] = json!((generation(&held[1]) - 1).to_string());
    let unknown = json!({ "message_id": "msg_nothing", "lease_generation": "1" });
    let call = json!({ "leases": [unknown, first, superseded, third, first] });
    let ack = format!("{Q}:ack");
    assert_eq!(bed.post(&ack, call), json!({ "stale_leases": [unknown, superseded] }));
    assert_eq!(bed.counts("q"), [0, 1, 0, 0], "the second is held as before");
    let again = bed.post(&ack, json!({ "leases": [third, first] }));
    assert_eq!(again, json!({ "stale_leases": [third, first] }), "a repeated ack is stale and harmless");
}

#[test]
fn s12_generations_rise_through_replay_and_moves() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    bed.create("other", json!({}));
    bed.create("source", json!({ "max_deliveries": 1, "dead_letter_queue": "other" }));
    // Leases the one message of a queue and nacks it; answers the generation.
    let fail = |bed: &mut Bed, queue: &str| {
        let held = bed.lease(queue, json!({}));
        assert_eq!(bed.settle(queue, "nack", &held), json!([]));
        generation(&held[0])
    };
    bed.send(&["1"]);
    let first = fail(&mut bed, "q");
    assert_eq!(bed.post(&format!("{Q}:replay"), json!({})), json!({ "replayed_count": "1" }));
    assert!(fail(&mut bed, "q") > first);

    bed.post("/v1/queues/source:send", json!({ "events": [event("1")] }));
    let mut generations = vec![fail(&mut bed, "source"), fail(&mut bed, "other")];
    let moved = bed.post("/v1/queues/other:redrive", json!({}));
    assert_eq!(moved, json!({ "redriven_count": "1", "skipped_count": "0" }));
    generations.push(fail(&mut bed, "source"));
    assert!(generations.windows(2).all(|pair| pair[0] < pair[1]), "{generations:?}");
}

#[test]
fn s13_an_extended_lease_is_the_same_lease_counted_from_now() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let held = [bed.take(1)];
    let call = json!({ "leases": [held[0]["lease"]], "visibility_timeout": "3600s" });
    assert_eq!(bed.post(&format!("{Q}:extend"), call.clone()), json!({ "stale_leases": [] }));
    bed.client.pass(1);
    assert!(bed.lease("q", json!({})).is_empty(), "it is held past its first end");
    assert_eq!(bed.settle("q", "ack", &held), json!([]), "under the same generation");
    let stale = bed.post(&format!("{Q}:extend"), call);
    assert_eq!(stale, json!({ "stale_leases": [held[0]["lease"]] }));
}

#[test]
fn s13_an_extension_can_shorten_and_is_within_1_second_and_12_hours() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let held = bed.lease("q", json!({ "visibility_timeout": "3600s" }));
    let extend = format!("{Q}:extend");
    let call = |timeout: &str| json!({ "leases": [held[0]["lease"]], "visibility_timeout": timeout });
    for timeout in ["0s", "0.999s", "43200.001s"] {
        let problem = bed.post_refused(&extend, call(timeout), 400, "invalid_field");
        assert_eq!(problem["field"], "visibility_timeout", "{timeout}");
    }
    assert_eq!(bed.post(&extend, call("1s")), json!({ "stale_leases": [] }));
    assert_eq!(bed.take(60)["delivery_count"], 2, "it ended after a second");
}
