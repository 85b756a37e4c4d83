//! The queue resource.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    about, answer, answer_with, boolean, component, count, duration_in, input, integer, list, text, time,
    words,
};
use crate::lease::VISIBILITY_TIMEOUT;
use crate::limits::{
    ANNOTATION_VALUE_BYTES_MAX, ANNOTATIONS_MAX, BACKOFF_FACTOR_THOUSANDTHS_MAX,
    BACKOFF_JITTER_THOUSANDTHS_MAX, BACKOFF_MAX, CONCURRENCY_MAX, DISPLAY_NAME_BYTES_MAX,
    FINISHED_RETENTION_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LEASED_MAX,
    LOST_IN_A_ROW_MAX, MAX_DELIVERIES_MAX, QUEUES_PAGE_MAX, RETENTION_MAX, RETENTION_MIN,
};
use crate::name::{self, Kind};
use crate::queue::{
    AT_LIMIT, BACKOFF_NAMES, LIMIT_COUNTS, LOST_LEASE_NAMES, META_NAMES, QUEUE_NAMES, QUEUE_ORDER, spec_names,
};
use crate::send::DELAY;

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    vec![
        ("Condition", condition()),
        ("Queue", queue()),
        ("QueueInput", queue_input()),
        ("QueueList", queue_list()),
        ("QueueMeta", queue_meta()),
        ("QueueSpec", answer_with(Vec::new(), settings(answered))),
        ("QueueSpecInput", input(spec_names(Kind::Queue), Vec::new(), settings(sent))),
        ("QueueStatus", queue_status()),
        ("QueueWhy", queue_why()),
        ("Why", why()),
    ]
}

fn queue_name() -> Value {
    json!({ "type": "string", "pattern": name::QUEUE_NAME_PATTERN })
}

pub(super) fn queue_reference() -> Value {
    json!({ "type": "string", "pattern": name::QUEUE_REFERENCE_PATTERN })
}

/// Whatever a client may send back of what it has read; passed over.
pub(super) fn read_only() -> Value {
    json!({ "description": "Set by the server alone; passed over." })
}

fn queue() -> Value {
    let schema = answer(vec![
        ("name", about(queue_name(), "The whole name.")),
        (
            "uid",
            about(json!({ "type": "string" }), "Never used again, not even for a queue of the same name."),
        ),
        ("meta", component("QueueMeta")),
        ("spec", component("QueueSpec")),
        ("status", component("QueueStatus")),
    ]);
    about(schema, "A queue.")
}

fn queue_input() -> Value {
    let may = vec![
        ("name", about(queue_name(), "The whole name; must agree with the path and with `queue_id`.")),
        ("uid", read_only()),
        ("meta", meta_input()),
        ("spec", component("QueueSpecInput")),
        ("status", read_only()),
    ];
    about(input(QUEUE_NAMES, Vec::new(), may), "A queue to be made, or a change of one.")
}

fn queue_list() -> Value {
    let most = usize::try_from(QUEUES_PAGE_MAX).unwrap_or(usize::MAX);
    answer(vec![("queues", list(component("Queue"), 0..=most)), ("next_page_token", next_page_token())])
}

/// Leads to the next page.
pub(super) fn next_page_token() -> Value {
    about(json!({ "type": "string" }), "Leads to the next page; empty on the last.")
}

fn strings(entries_max: usize, value_bytes_max: usize) -> Value {
    json!({
        "type": "object",
        "maxProperties": entries_max,
        "propertyNames": { "pattern": format!("^[A-Za-z0-9_./-]{{1,{LABEL_KEY_BYTES_MAX}}}$") },
        "additionalProperties": text(0..=value_bytes_max),
    })
}

/// What a client sets of `meta`.
fn own_meta() -> Fields {
    vec![
        ("display_name", about(text(0..=DISPLAY_NAME_BYTES_MAX), "For people.")),
        ("labels", about(strings(LABELS_MAX, LABEL_VALUE_BYTES_MAX), "For selecting.")),
        (
            "annotations",
            about(strings(ANNOTATIONS_MAX, ANNOTATION_VALUE_BYTES_MAX), "For tools to leave notes."),
        ),
    ]
}

pub(super) fn meta_input() -> Value {
    let etag = about(
        text(1..=LABEL_VALUE_BYTES_MAX),
        "The state that the client has in mind: a change of any other is refused.",
    );
    let server = ["generation", "create_time", "update_time"].map(|name| (name, read_only()));
    let may = own_meta().into_iter().chain([("etag", etag)]).chain(server).collect();
    input(META_NAMES, Vec::new(), may)
}

fn queue_meta() -> Value {
    let (mut always, mut sometimes) = (Vec::new(), Vec::new());
    for (name, schema) in own_meta() {
        if name == "display_name" { sometimes.push((name, schema)) } else { always.push((name, schema)) }
    }
    always.extend([
        ("generation", about(count(), "Grows with each change of the spec.")),
        ("etag", about(text(1..=LABEL_VALUE_BYTES_MAX), "Changes with each change of the queue.")),
        ("create_time", time()),
        ("update_time", time()),
    ]);
    answer_with(always, sometimes)
}

fn thousandths(least: u32, most: u32) -> Value {
    let [least, most] = [least, most].map(|bound| f64::from(bound) / 1_000.0);
    let decimals = "With at most three decimals.";
    json!({ "type": "number", "minimum": least, "maximum": most, "description": decimals })
}

/// How the parts of `spec` that are objects are written.
pub(super) type Part = fn(&[&str], Fields) -> Value;

pub(super) fn answered(_: &[&str], fields: Fields) -> Value {
    answer_with(Vec::new(), fields)
}

pub(super) fn sent(names: &[&str], fields: Fields) -> Value {
    input(names, Vec::new(), fields)
}

pub(super) fn settings(part: Part) -> Fields {
    vec![
        ("visibility_timeout", duration_in(VISIBILITY_TIMEOUT)),
        (
            "max_deliveries",
            about(integer(1..=MAX_DELIVERIES_MAX), "At this count a message is out of attempts."),
        ),
        (
            "dead_letter_queue",
            about(queue_reference(), "Takes messages out of attempts: a queue of the environment."),
        ),
        ("retention", duration_in(RETENTION_MIN..=RETENTION_MAX)),
        (
            "at_limit",
            about(
                words(AT_LIMIT.map(|(word, _)| word)),
                "What happens out of attempts without a dead-letter queue.",
            ),
        ),
        ("backoff", backoff(part)),
        ("concurrency_max", about(integer(1..=CONCURRENCY_MAX), "So many leased at once, exactly.")),
        ("delay", duration_in(DELAY)),
        ("finished_retention", duration_in(Duration::ZERO..=FINISHED_RETENTION_MAX)),
        ("fresh_first", about(boolean(), "Never-delivered messages before retried ones.")),
        ("leased_max", about(integer(1..=LEASED_MAX), "Bound on leases held at once.")),
        ("limit_counts", about(words(LIMIT_COUNTS.map(|(word, _)| word)), "What `max_deliveries` counts.")),
        ("lost_lease", lost_lease(part)),
        ("order", about(words(QUEUE_ORDER.map(|(word, _)| word)), "Which of two ready messages goes first.")),
    ]
}

fn backoff(part: Part) -> Value {
    let wait = || duration_in(Duration::ZERO..=BACKOFF_MAX);
    let jitter = || thousandths(0, BACKOFF_JITTER_THOUSANDTHS_MAX);
    let may = vec![
        ("initial", wait()),
        ("factor", thousandths(1_000, BACKOFF_FACTOR_THOUSANDTHS_MAX)),
        ("max", wait()),
        ("jitter_min", jitter()),
        ("jitter_max", jitter()),
    ];
    let text = "Wait after failure n: initial x factor^(n - 1), at most max, times a number from jitter_min to jitter_max.";
    about(part(BACKOFF_NAMES, may), text)
}

fn lost_lease(part: Part) -> Value {
    let may = vec![
        ("spends_attempt", boolean()),
        ("in_a_row_max", integer(0..=LOST_IN_A_ROW_MAX)),
        ("backs_off", boolean()),
    ];
    about(part(LOST_LEASE_NAMES, may), "What a lease that ran out means.")
}

fn condition() -> Value {
    answer(vec![
        ("type", json!({ "type": "string" })),
        ("status", words(["False", "True", "Unknown"])),
        ("reason", about(json!({ "type": "string" }), "One word for programs.")),
        ("message", about(json!({ "type": "string" }), "One sentence for people.")),
        ("last_transition_time", time()),
    ])
}

fn queue_status() -> Value {
    let always = vec![
        ("observed_generation", count()),
        ("conditions", json!({ "type": "array", "items": component("Condition") })),
        ("ready_count", about(count(), "Messages that could be leased now.")),
        ("leased_count", about(count(), "Messages under a lease.")),
        ("delayed_count", about(count(), "Messages hidden until a time.")),
        ("dead_letter_count", about(count(), "Messages out of attempts.")),
        ("finished_count", about(count(), "Settled messages that are still kept.")),
        ("paused", boolean()),
    ];
    about(
        answer_with(always, vec![("why", component("Why"))]),
        "Exact counts, the caller's own writes included.",
    )
}

fn why() -> Value {
    let always = vec![
        ("reason", about(json!({ "type": "string" }), "One word for programs.")),
        ("detail", about(json!({ "type": "string" }), "One sentence for people.")),
    ];
    about(answer_with(always, vec![("since", time()), ("until", time())]), "Why nothing is being handed out.")
}

fn queue_why() -> Value {
    answer(vec![("why", component("Why")), ("sentence", json!({ "type": "string" }))])
}
