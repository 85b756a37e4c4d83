//! S6 and S7: who gets a message, for how long, and how long a call waits for one.

use millpond_blackbox::client::deliveries;
use serde_json::{Value, json};

use super::{Bed, Q, answered, event, event_ids};

#[test]
fn s06_a_lease_is_of_1_to_100_messages_and_1_second_to_12_hours() {
    let mut bed = Bed::new(json!({}));
    let lease = format!("{Q}:lease");
    for (field, value) in [
        ("max_messages", json!(0)),
        ("max_messages", json!(101)),
        ("max_messages", json!("1")),
        ("visibility_timeout", json!("0s")),
        ("visibility_timeout", json!("0.999s")),
        ("visibility_timeout", json!("43200.001s")),
        ("visibility_timeout", json!("43201s")),
        ("wait", json!("20.001s")),
        ("wait", json!("-1s")),
    ] {
        let problem = bed.post_refused(&lease, json!({ field: value }), 400, "invalid_field");
        assert_eq!(problem["field"], field, "{value}");
    }
    for (field, value) in [
        ("max_messages", json!(100)),
        ("visibility_timeout", json!("1s")),
        ("visibility_timeout", json!("43200s")),
        ("wait", json!("0s")),
    ] {
        assert_eq!(bed.post(&lease, json!({ field: value })), json!({ "messages": [] }), "{field} {value}");
    }
    for (spec, taken) in [("0.999s", false), ("1s", true), ("43200s", true), ("43200.001s", false)] {
        let queue = format!("/v1/queues?queue_id=t-{}", spec.replace('.', "-"));
        let body = json!({ "spec": { "visibility_timeout": spec } });
        match taken {
            true => assert_eq!(bed.post(&queue, body)["spec"]["visibility_timeout"], spec),
            false => drop(bed.post_refused(&queue, body, 400, "invalid_field")),
        }
    }
}

#[test]
fn s06_a_lease_takes_one_message_unless_told_and_hides_it_from_all_others() {
    let mut bed = Bed::new(json!({}));
    let ids: Vec<String> = (0..103).map(|number| format!("{number}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    bed.send(&ids[..100]);
    bed.send(&ids[100..]);
    assert_eq!(event_ids(&bed.lease("q", json!({}))), ["0"], "one by default");
    let mut other = bed.server.client();
    let leased = other.lease("q", 100, 0).expect("an answer");
    assert_eq!(leased.len(), 100);
    assert_eq!(leased[0].event["id"], "1", "the first is hidden from another client too");
    assert_eq!(event_ids(&bed.lease("q", json!({ "max_messages": 100 }))), ["101", "102"]);
    assert!(bed.lease("q", json!({ "max_messages": 100 })).is_empty());
    assert_eq!(bed.counts("q"), [0, 103, 0, 0]);
}

#[test]
fn s06_a_lease_lasts_as_the_queue_says_or_as_the_call_says() {
    let mut bed = Bed::new(json!({ "visibility_timeout": "1s" }));
    bed.send(&["1", "2"]);
    let by_queue = bed.lease("q", json!({}));
    let by_call = bed.lease("q", json!({ "visibility_timeout": "3600s" }));
    // The shorter one is waited for; the longer one stays hidden meanwhile and after it.
    let again = bed.take(3_600);
    assert_eq!(again["message_id"], by_queue[0]["message_id"]);
    assert_eq!(again["delivery_count"], 2);
    assert!(bed.lease("q", json!({})).is_empty());
    assert_eq!(bed.settle("q", "ack", &by_call), json!([]));
}

#[test]
fn s07_an_empty_queue_answers_an_empty_list_at_once_or_after_the_wait() {
    let mut bed = Bed::new(json!({}));
    let lease = format!("{Q}:lease");
    for options in [json!({}), json!({ "wait": "0s" }), json!({ "wait": "0.05s" })] {
        assert_eq!(bed.post(&lease, options.clone()), json!({ "messages": [] }), "{options}");
    }
}

#[test]
fn s07_a_waiting_call_is_answered_as_soon_as_one_message_is_ready() {
    let mut bed = Bed::new(json!({}));
    let mut poll = bed.poll(&json!({ "max_messages": 10, "wait": "20s" }));
    assert!(!poll.has_answer().expect("a connection"), "it waits");
    bed.send(&["1"]);
    let answer = answered(&poll.receive().expect("an answer"));
    assert_eq!(deliveries(&answer).len(), 1, "it does not wait for more");
}

#[test]
fn s07_a_message_whose_delay_ends_wakes_a_waiting_call() {
    let mut bed = Bed::new(json!({}));
    bed.post(&format!("{Q}:send"), json!({ "events": [event("1")], "delay": "1s" }));
    assert_eq!(event_ids(&bed.lease("q", json!({ "wait": "20s" }))), ["1"]);
}

#[test]
fn s07_a_client_that_hangs_up_leaves_nothing_leased() {
    let mut bed = Bed::new(json!({}));
    let poll = bed.poll(&json!({ "wait": "20s" }));
    // The server has noticed when it closes its side too.
    assert!(poll.hang_up().is_none(), "there was nothing to answer");
    bed.send(&["1"]);
    let message: Value = bed.take(60);
    assert_eq!((&message["event"]["id"], &message["delivery_count"]), (&json!("1"), &json!(1)));
}
