//! S10, S11 and S14: where messages go that are out of attempts, how they come back, and the verbs that Sylphx has not.

use serde_json::json;

use super::{Bed, Q, event, event_ids};

#[test]
fn s10_or_move_to_another_queue_under_the_same_id_ready_and_with_a_count_of_its_own() {
    let mut bed = Bed::new(json!({}));
    bed.create("source", json!({ "max_deliveries": 2, "dead_letter_queue": "q" }));
    let sent = bed.post("/v1/queues/source:send", json!({ "events": [event("1")] }));
    for _ in 0..2 {
        let held = bed.lease("source", json!({}));
        assert_eq!(bed.settle("source", "nack", &held), json!([]));
    }
    assert_eq!((bed.counts("source"), bed.counts("q")), ([0, 0, 0, 0], [1, 0, 0, 0]));
    let held = bed.lease("q", json!({}));
    assert_eq!(held[0]["message_id"], sent["message_ids"][0]);
    assert_eq!(held[0]["delivery_count"], 1);
    let extensions = &held[0]["event"]["extensions"];
    assert_eq!(extensions["deadletterreason"], "attempts_spent");
    assert_eq!(extensions["deadletterqueue"], "source");
    assert!(extensions["deadlettertime"].is_string());
}

#[test]
fn s10_a_queue_that_takes_dead_letters_is_deleted_by_force_only() {
    let mut bed = Bed::new(json!({}));
    bed.create("source", json!({ "max_deliveries": 1, "dead_letter_queue": "q" }));
    bed.refused("DELETE", Q, None, 409, "invalid_state");
    bed.delete(&format!("{Q}?force=true"));
    bed.post("/v1/queues/source:send", json!({ "events": [event("1")] }));
    let held = bed.lease("source", json!({}));
    assert_eq!(bed.settle("source", "nack", &held), json!([]));
    assert_eq!(bed.counts("source"), [0, 0, 0, 1], "without it they stay in the queue's own set");
}

#[test]
fn s14_a_paused_queue_takes_messages_and_settles_but_hands_nothing_out() {
    let mut bed = Bed::new(json!({}));
    bed.send(&["1"]);
    let held = bed.lease("q", json!({}));
    assert_eq!(bed.post(&format!("{Q}:pause"), json!({}))["status"]["paused"], true);
    bed.send(&["2"]);
    assert!(bed.lease("q", json!({})).is_empty());
    assert_eq!(bed.settle("q", "ack", &held), json!([]));
    assert_eq!(bed.get(&format!("{Q}:why"))["why"]["reason"], "paused");
    assert_eq!(bed.post(&format!("{Q}:resume"), json!({}))["status"]["paused"], false);
    assert_eq!(event_ids(&bed.lease("q", json!({}))), ["2"]);
}
