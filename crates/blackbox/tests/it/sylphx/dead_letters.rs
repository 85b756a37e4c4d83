//! S10, S11 and S14: where messages go that are out of attempts, how they come back, and the verbs that Sylphx has not.

use serde_json::{Value, json};

use super::{Bed, Q, event, event_ids};

/// More than one page of the loop behind replay.
const MANY: usize = 1_100;

#[test]
fn s10_dead_letters_stay_in_the_queues_own_set() {
    let mut bed = Bed::new(json!({ "max_deliveries": 2 }));
    let id = bed.bury("1");
    assert_eq!(bed.counts("q"), [0, 0, 0, 1]);
    let dead = bed.dead_letters("q");
    assert_eq!(dead.len(), 1);
    assert_eq!((&dead[0]["message_id"], &dead[0]["state"]), (&json!(id), &json!("dead")));
    assert_eq!((&dead[0]["event"], &dead[0]["delivery_count"]), (&event("1"), &json!(2)));
    assert_eq!(dead[0]["dead_letter_reason"], "attempts_spent");
    assert!(dead[0]["dead_letter_time"].is_string());
}

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
fn s10_the_other_queue_exists_in_the_same_environment_and_is_part_of_no_circle() {
    let mut bed = Bed::new(json!({}));
    let with = |target: &str| json!({ "spec": { "dead_letter_queue": target } });
    for target in ["nowhere", "a", "orgs/other/projects/other/envs/other/queues/q", "Q"] {
        let problem = bed.post_refused("/v1/queues?queue_id=a", with(target), 400, "invalid_field");
        assert_eq!(problem["field"], "spec.dead_letter_queue", "{target}");
    }
    // A chain is allowed.
    bed.post("/v1/queues?queue_id=a", with("q"));
    bed.post("/v1/queues?queue_id=b", with("a"));
    // A circle is not.
    for target in ["a", "b"] {
        let problem = bed.refused("PATCH", Q, Some(&with(target)), 400, "invalid_field");
        assert_eq!(problem["field"], "spec.dead_letter_queue", "{target}");
    }
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
fn s11_a_replay_brings_all_dead_letters_back_with_fresh_counts_and_the_same_ids() {
    let mut bed = Bed::new(json!({ "max_deliveries": 2 }));
    let ids = [bed.bury("1"), bed.bury("2")];
    assert_eq!(bed.post(&format!("{Q}:replay"), json!({})), json!({ "replayed_count": "2" }));
    assert_eq!(bed.counts("q"), [2, 0, 0, 0]);
    assert!(bed.dead_letters("q").is_empty());
    let held = bed.lease("q", json!({ "max_messages": 2 }));
    for (message, id) in held.iter().zip(&ids) {
        assert_eq!((&message["message_id"], &message["delivery_count"]), (&json!(id), &json!(1)));
    }
    assert_eq!(bed.settle("q", "nack", &held), json!([]));
    let held = bed.lease("q", json!({ "max_messages": 2 }));
    assert_eq!(bed.settle("q", "nack", &held), json!([]));
    assert_eq!(bed.counts("q"), [0, 0, 0, 2], "a whole cycle of deliveries, and no more");
    assert_eq!(bed.post(&format!("{Q}:replay"), json!({})), json!({ "replayed_count": "2" }));
    assert_eq!(bed.post(&format!("{Q}:replay"), json!({})), json!({ "replayed_count": "0" }));
}

#[test]
fn s11_a_replay_takes_a_range_of_times_of_death_from_its_start_to_before_its_end() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    let mut ids = Vec::new();
    for id in ["1", "2", "3"] {
        ids.push(bed.bury(id));
        bed.client.pass(1);
    }
    let times: Vec<Value> =
        bed.dead_letters("q").iter().map(|dead| dead["dead_letter_time"].clone()).collect();
    let replay = format!("{Q}:replay");
    let range = json!({ "start_time": times[1], "end_time": times[2] });
    assert_eq!(bed.post(&replay, range.clone()), json!({ "replayed_count": "1" }));
    assert_eq!(bed.lease("q", json!({ "max_messages": 10 }))[0]["message_id"], ids[1].as_str());
    assert_eq!(bed.counts("q"), [0, 1, 0, 2]);
    assert_eq!(bed.post(&replay, range), json!({ "replayed_count": "0" }));
    let before = bed.post(&replay, json!({ "end_time": times[2] }));
    assert_eq!(before, json!({ "replayed_count": "1" }));
    assert_eq!(bed.post(&replay, json!({ "start_time": times[2] })), json!({ "replayed_count": "1" }));
}

#[test]
fn s11_a_range_that_ends_before_it_starts_or_is_no_range_is_refused() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    bed.bury("1");
    let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    for (body, code) in [
        (json!({ "start_time": late, "end_time": early }), "invalid_field"),
        (json!({ "start_time": early, "end_time": early }), "invalid_field"),
        (json!({ "start_time": "yesterday" }), "invalid_field"),
        (json!({ "message_ids": [] }), "invalid_field"),
        (json!({ "from": early }), "unknown_field"),
    ] {
        bed.post_refused(&format!("{Q}:replay"), body, 400, code);
    }
    assert_eq!(bed.counts("q"), [0, 0, 0, 1], "nothing was replayed");
}

#[test]
fn s11_a_queue_whose_dead_letters_go_elsewhere_has_nothing_to_replay() {
    let mut bed = Bed::new(json!({}));
    bed.create("source", json!({ "dead_letter_queue": "q" }));
    bed.post_refused("/v1/queues/source:replay", json!({}), 409, "invalid_state");
    bed.post_refused("/v1/queues/none:replay", json!({}), 404, "queue_not_found");
}

#[test]
fn s11_a_replay_is_complete_however_many_there_are() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    let events = vec![event("1"); 100];
    for _ in 0..MANY / 100 {
        bed.post(&format!("{Q}:send"), json!({ "events": events }));
        let held = bed.lease("q", json!({ "max_messages": 100 }));
        assert_eq!(bed.settle("q", "nack", &held), json!([]));
    }
    assert_eq!(bed.counts("q"), [0, 0, 0, MANY as u64]);
    let replayed = bed.post(&format!("{Q}:replay"), json!({}));
    assert_eq!(replayed, json!({ "replayed_count": MANY.to_string() }));
    assert_eq!(bed.counts("q"), [MANY as u64, 0, 0, 0]);
}

#[test]
fn s14_a_peek_shows_messages_of_each_state_and_changes_nothing() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1, "finished_retention": "3600s" }));
    let dead = bed.bury("dead");
    bed.send(&["completed"]);
    let done = bed.lease("q", json!({}));
    assert_eq!(bed.settle("q", "ack", &done), json!([]));
    bed.send(&["leased"]);
    bed.lease("q", json!({ "visibility_timeout": "3600s" }));
    bed.post(&format!("{Q}:send"), json!({ "events": [event("delayed")], "delay": "3600s" }));
    bed.send(&["ready", "ready"]);
    let before = bed.counts("q");
    for (options, state, ids) in [
        (json!({}), "ready", &["ready", "ready"][..]),
        (json!({ "max_messages": 1 }), "ready", &["ready"]),
        (json!({ "state": "ready" }), "ready", &["ready", "ready"]),
        (json!({ "state": "delayed" }), "delayed", &["delayed"]),
        (json!({ "state": "leased" }), "leased", &["leased"]),
        (json!({ "state": "dead" }), "dead", &["dead"]),
        (json!({ "state": "completed" }), "completed", &["completed"]),
    ] {
        let answer = bed.post(&format!("{Q}:peek"), options.clone());
        let messages = answer["messages"].as_array().expect("messages");
        assert_eq!(event_ids(messages), ids, "{options}");
        assert!(messages.iter().all(|message| message["state"] == state), "{options}: {answer}");
        assert!(messages.iter().all(|message| message.get("lease").is_none()), "{options}: {answer}");
    }
    for options in [json!({ "max_messages": 0 }), json!({ "max_messages": 101 }), json!({ "state": "lost" })]
    {
        bed.post_refused(&format!("{Q}:peek"), options, 400, "invalid_field");
    }
    assert_eq!(bed.counts("q"), before);
    assert_eq!(bed.lease("q", json!({}))[0]["delivery_count"], 1, "nothing was counted");
    assert_eq!(bed.dead_letters("q")[0]["message_id"], dead.as_str());
}

#[test]
fn s14_dead_letters_are_listed_page_by_page_and_deleted_one_by_one() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    let ids = [bed.bury("1"), bed.bury("2"), bed.bury("3")];
    let list = format!("{Q}/dead-letters?page_size=2");
    let first = bed.get(&list);
    let token = first["next_page_token"].as_str().expect("a token").to_owned();
    assert_ne!(token, "");
    let second = bed.get(&format!("{list}&page_token={token}"));
    assert_eq!(second["next_page_token"], "");
    let messages =
        [&first, &second].map(|page| page["messages"].as_array().expect("messages").clone()).concat();
    let listed: Vec<_> = messages.iter().map(|message| message["message_id"].clone()).collect();
    assert_eq!(json!(listed), json!(ids));

    bed.delete(&format!("{Q}/messages/{}", ids[1]));
    assert_eq!(bed.counts("q"), [0, 0, 0, 2]);
    bed.refused("GET", &format!("{Q}/messages/{}", ids[1]), None, 404, "message_not_found");
    let left: Vec<_> = bed.dead_letters("q").iter().map(|dead| dead["message_id"].clone()).collect();
    assert_eq!(json!(left), json!([ids[0], ids[2]]));
}

#[test]
fn s14_a_purge_removes_what_waits_and_dead_letters_when_told_to() {
    let mut bed = Bed::new(json!({ "max_deliveries": 1 }));
    bed.bury("dead");
    bed.send(&["leased", "ready"]);
    let held = bed.lease("q", json!({}));
    bed.post(&format!("{Q}:send"), json!({ "events": [event("delayed")], "delay": "3600s" }));
    assert_eq!(bed.counts("q"), [1, 1, 1, 1]);
    let purge = format!("{Q}:purge");
    assert_eq!(bed.post(&purge, json!({})), json!({ "purged_count": "2" }));
    assert_eq!(bed.counts("q"), [0, 1, 0, 1]);
    assert_eq!(bed.post(&purge, json!({ "target": "dead_letters" })), json!({ "purged_count": "1" }));
    assert_eq!(bed.counts("q"), [0, 1, 0, 0]);
    bed.post_refused(&purge, json!({ "target": "leased" }), 400, "invalid_field");
    assert_eq!(bed.settle("q", "ack", &held), json!([]), "the holder may finish");
    bed.bury("dead");
    bed.post(&format!("{Q}:send"), json!({ "events": [event("delayed")], "delay": "3600s" }));
    assert_eq!(bed.post(&purge, json!({ "target": "all" })), json!({ "purged_count": "2" }));
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
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
