//! Bodies and answers of the verbs.

use serde_json::{Value, json};

use super::{
    about, answer, component, count, count_input, duration_in, input, integer, list, message_id_input, time,
    words,
};
use crate::dead_letters::{REDRIVE_NAMES, REPLAY_NAMES};
use crate::lease::{LEASE_NAMES, VISIBILITY_TIMEOUT, WAIT};
use crate::limits::{
    EVENTS_PER_CALL_MAX, LEASE_MESSAGES_MAX, LEASES_PER_CALL_MAX, MESSAGE_IDS_PER_CALL_MAX, PEEK_MESSAGES_MAX,
};
use crate::message::{PEEK_NAMES, PEEK_STATES};
use crate::name;
use crate::purge::{PURGE_NAMES, TARGETS};
use crate::send::{DELAY, SEND_NAMES, TTL};
use crate::settle::{
    ACK_NAMES, EXTEND_ENTRY_NAMES, EXTEND_NAMES, LEASE_ID_NAMES, NACK_ENTRY_NAMES, NACK_NAMES,
    SEND_ENTRY_NAMES, SETTLE_NAMES,
};

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    vec![
        ("AckInput", input(ACK_NAMES, vec![("leases", leases_input())], Vec::new())),
        ("Empty", json!({ "type": "object", "maxProperties": 0 })),
        ("Environment", answer(vec![("name", json!({ "type": "string" }))])),
        (
            "ExtendInput",
            input(EXTEND_NAMES, vec![("leases", leases_input())], vec![("visibility_timeout", timeout())]),
        ),
        ("Health", answer(vec![("status", json!({ "const": "ok" }))])),
        ("LeaseId", lease_id()),
        ("LeaseIdInput", input(LEASE_ID_NAMES, lease_id_fields(), Vec::new())),
        ("LeaseInput", lease_input()),
        ("Leased", answer(vec![("messages", list(component("LeasedMessage"), 0..=leased_max()))])),
        ("LeasedMessage", leased_message()),
        ("NackInput", input(NACK_NAMES, vec![("leases", leases_input())], vec![("delay", nack_delay())])),
        ("PeekInput", peek_input()),
        ("PurgeInput", purge_input()),
        ("Purged", answer(vec![("purged_count", count())])),
        ("RedriveInput", redrive_input()),
        ("Redriven", redriven()),
        ("ReplayInput", by_time_or_id(input(REPLAY_NAMES, Vec::new(), selection()))),
        ("Replayed", answer(vec![("replayed_count", count())])),
        ("SendInput", send_input()),
        ("Sent", answer(vec![("message_ids", list(json!({ "type": "string" }), 1..=EVENTS_PER_CALL_MAX))])),
        ("SettleInput", settle_input()),
        ("Settled", settled()),
        ("StaleLeases", answer(vec![("stale_leases", stale_leases())])),
    ]
}

fn leased_max() -> usize {
    usize::try_from(LEASE_MESSAGES_MAX).unwrap_or(usize::MAX)
}

fn lease_id_fields() -> Fields {
    vec![("message_id", message_id_input()), ("lease_generation", count_input())]
}

fn lease_id() -> Value {
    let fields = vec![("message_id", json!({ "type": "string" })), ("lease_generation", count())];
    about(answer(fields), "Names a hold on a message; give it back to settle it.")
}

fn leases_input() -> Value {
    list(component("LeaseIdInput"), 1..=LEASES_PER_CALL_MAX)
}

fn stale_leases() -> Value {
    about(
        list(component("LeaseId"), 0..=LEASES_PER_CALL_MAX),
        "Leases that were no longer held, in request order.",
    )
}

fn timeout() -> Value {
    duration_in(VISIBILITY_TIMEOUT)
}

fn nack_delay() -> Value {
    duration_in(DELAY)
}

fn events_input() -> Value {
    list(component("EventInput"), 1..=EVENTS_PER_CALL_MAX)
}

fn send_input() -> Value {
    input(SEND_NAMES, vec![("events", events_input())], vec![("delay", duration_in(DELAY))])
}

fn lease_input() -> Value {
    let may = vec![
        ("max_messages", about(integer(1..=LEASE_MESSAGES_MAX), "At most so many; 1 unless given.")),
        ("min_messages", about(integer(1..=LEASE_MESSAGES_MAX), "Wait for so many; at most `max_messages`.")),
        ("max_wait", duration_in(WAIT)),
        ("visibility_timeout", timeout()),
        ("wait", duration_in(WAIT)),
    ];
    input(LEASE_NAMES, Vec::new(), may)
}

fn leased_message() -> Value {
    answer(vec![
        ("message_id", json!({ "type": "string" })),
        ("event", component("Event")),
        ("lease", component("LeaseId")),
        (
            "delivery_count",
            about(json!({ "type": "integer", "minimum": 1 }), "Leases granted, this one included."),
        ),
        ("lease_expire_time", time()),
    ])
}

fn peek_input() -> Value {
    let may = vec![
        ("max_messages", about(integer(1..=PEEK_MESSAGES_MAX), "At most so many; 10 unless given.")),
        ("state", about(words(PEEK_STATES.map(|(word, _)| word)), "Which ones; `ready` unless given.")),
    ];
    input(PEEK_NAMES, Vec::new(), may)
}

fn purge_input() -> Value {
    let target = words(TARGETS.map(|(word, _)| word));
    let target = about(target, "Which messages leave; `waiting`, ready and delayed ones, unless given.");
    input(PURGE_NAMES, Vec::new(), vec![("target", target)])
}

fn selection() -> Fields {
    let ids = list(message_id_input(), 1..=MESSAGE_IDS_PER_CALL_MAX);
    vec![
        ("start_time", about(time(), "Died at this time or later.")),
        ("end_time", about(time(), "Died before this time.")),
        ("message_ids", about(ids, "Only these.")),
    ]
}

fn redrive_input() -> Value {
    let destination = json!({ "type": "string", "pattern": name::QUEUE_REFERENCE_PATTERN });
    let destination = about(destination, "Where to; each goes to the queue that it came from unless given.");
    let fields = selection().into_iter().chain([("destination", destination)]).collect();
    by_time_or_id(input(REDRIVE_NAMES, Vec::new(), fields))
}

/// Not both of times and ids.
fn by_time_or_id(mut schema: Value) -> Value {
    let given =
        |name: &str, kind: &str| json!({ "required": [name], "properties": { name: { "type": kind } } });
    let time = json!({ "anyOf": [given("start_time", "string"), given("end_time", "string")] });
    schema["not"] = json!({ "allOf": [given("message_ids", "array"), time] });
    schema
}

fn redriven() -> Value {
    answer(vec![("redriven_count", count()), ("skipped_count", about(count(), "Those whose queue is gone."))])
}

fn settle_input() -> Value {
    let entries = |names, may: Fields| list(input(names, lease_id_fields(), may), 0..=LEASES_PER_CALL_MAX);
    let queue = json!({ "type": "string", "pattern": name::QUEUE_REFERENCE_PATTERN });
    let send = input(
        SEND_ENTRY_NAMES,
        vec![("events", events_input())],
        vec![
            ("queue", about(queue, "The queue of the call unless given.")),
            ("delay", duration_in(DELAY)),
            ("priority", integer(i32::MIN..=i32::MAX)),
            ("ttl", duration_in(TTL)),
        ],
    );
    let may = vec![
        (
            "acks",
            about(list(component("LeaseIdInput"), 0..=LEASES_PER_CALL_MAX), "Leases whose work is done."),
        ),
        (
            "nacks",
            about(entries(NACK_ENTRY_NAMES, vec![("delay", nack_delay())]), "Leases whose work failed."),
        ),
        (
            "extends",
            about(entries(EXTEND_ENTRY_NAMES, vec![("visibility_timeout", timeout())]), "Leases that go on."),
        ),
        ("sends", about(list(send, 0..=EVENTS_PER_CALL_MAX), "What is sent in the same commit.")),
        (
            "require",
            about(words(["all"]), "One stale lease refuses all, as it does wherever there are sends."),
        ),
    ];
    about(
        input(SETTLE_NAMES, Vec::new(), may),
        "At least one lease or send; at most 100 leases and 100 events in all.",
    )
}

fn settled() -> Value {
    let sends = list(component("Sent"), 0..=EVENTS_PER_CALL_MAX);
    answer(vec![
        ("stale_leases", stale_leases()),
        ("sends", about(sends, "The answers to the sends, in order.")),
    ])
}
