//! S23 and S24: at least once, in the order in which messages became visible, to a loop of plain HTTP calls.

use std::collections::BTreeMap;

use millpond_blackbox::server::Launch;
use serde_json::{Value, json};

use super::{Bed, Q, event, event_ids};

const MESSAGES: usize = 250;

#[test]
fn s23_what_was_not_acked_comes_again_under_its_id_also_after_a_kill() {
    let mut bed = Bed::new(json!({ "visibility_timeout": "1s" }));
    let ids = bed.send(&["1", "2"]);
    let held = bed.lease("q", json!({ "max_messages": 2 }));
    assert_eq!(bed.settle("q", "ack", &held[..1]), json!([]));
    let Bed { directory, server, .. } = bed;
    server.kill();
    let server = Launch::of(directory.path()).start();
    let client = server.client();
    let mut bed = Bed { directory, server, client };
    let again = bed.take(60);
    assert_eq!(again["message_id"], ids[1].as_str());
    assert_eq!(again["delivery_count"], 2);
    assert_eq!(bed.counts("q"), [0, 1, 0, 0], "and nothing else");
}

#[test]
fn s23_what_became_visible_first_goes_first() {
    let mut bed = Bed::new(json!({}));
    bed.post(&format!("{Q}:send"), json!({ "events": [event("late")], "delay": "1s" }));
    bed.send(&["1", "2"]);
    let first = bed.lease("q", json!({}));
    assert_eq!(event_ids(&first), ["1"]);
    bed.client.pass(1);
    assert_eq!(bed.settle("q", "nack", &first), json!([]), "it is visible from now on");
    let all = bed.lease("q", json!({ "max_messages": 10 }));
    assert_eq!(event_ids(&all), ["2", "late", "1"]);
}

/// Nothing is registered or deployed: a loop of lease, work, ack or nack is a worker.
#[test]
fn s24_a_worker_is_a_loop_of_plain_calls() {
    let mut bed = Bed::new(json!({}));
    let ids: Vec<String> = (0..MESSAGES).map(|number| number.to_string()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for ids in ids.chunks(100) {
        bed.send(ids);
    }
    let mut done: BTreeMap<String, u64> = BTreeMap::new();
    loop {
        let messages = bed.lease("q", json!({ "max_messages": 10 }));
        if messages.is_empty() {
            break;
        }
        // The first time the work on every tenth fails.
        let fails = |message: &Value| {
            let number = message["event"]["id"].as_str().and_then(|id| id.parse::<usize>().ok());
            number.is_some_and(|number| number % 10 == 0) && message["delivery_count"] == 1
        };
        let (failed, worked): (Vec<Value>, Vec<Value>) = messages.into_iter().partition(fails);
        for message in &worked {
            *done.entry(message["event"]["id"].to_string()).or_default() += 1;
        }
        for (verb, messages) in [("nack", failed), ("ack", worked)] {
            if !messages.is_empty() {
                assert_eq!(bed.settle("q", verb, &messages), json!([]));
            }
        }
    }
    assert_eq!(done.len(), MESSAGES);
    assert!(done.values().all(|times| *times == 1), "{done:?}");
    assert_eq!(bed.counts("q"), [0, 0, 0, 0]);
}
