//! Triggers, deployments, what became of pushes, and what they are signed with.

use serde_json::{Value, json};

use super::queues::queue_reference;
use super::{
    about, answer, boolean, component, count, duration_in, input, integer, list, nullable, time, topic_id,
    words,
};
use crate::deployment::DEPLOYMENT_NAMES;
use crate::lease::VISIBILITY_TIMEOUT;
use crate::limits::{
    DEPLOYMENT_ID_BYTES_MAX, LEASED_MAX, PUSHES_KEPT_MAX, TARGET_BYTES_MAX, TOPIC_ID_BYTES_MAX,
    TRIGGER_DELIVERIES_MAX, TRIGGERS_MAX,
};
use crate::name;
use crate::push::PushOutcome;
use crate::signing_secret::{GRACE, ROTATE_NAMES};
use crate::trigger::{INITIAL_DELAY, RETRY_AFTER, TARGET_PATTERN, TOPIC_PATTERN, TRIGGER_NAMES};

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    vec![
        ("Deployment", deployment()),
        ("DeploymentInput", deployment_input()),
        ("DeploymentList", answer(vec![("deployments", all_of("Deployment"))])),
        ("PushCounts", push_counts()),
        ("PushRecord", push_record()),
        ("RotateInput", rotate_input()),
        ("SigningSecret", signing_secret()),
        ("Trigger", trigger()),
        ("TriggerInput", trigger_input()),
        ("TriggerList", answer(vec![("triggers", all_of("Trigger"))])),
        ("TriggerPushes", trigger_pushes()),
        ("TriggerTrouble", trouble()),
    ]
}

/// The id of a deployment.
pub fn deployment_id() -> Value {
    json!({ "type": "string", "pattern": name::TOPIC_ID_PATTERN, "maxLength": DEPLOYMENT_ID_BYTES_MAX })
}

fn string() -> Value {
    json!({ "type": "string" })
}

fn all_of(item: &str) -> Value {
    list(component(item), 0..=TRIGGERS_MAX)
}

fn whole_name() -> Value {
    about(string(), "The whole name.")
}

/// Those that must be given.
fn addresses() -> Fields {
    let topic = json!({
        "type": "string",
        "pattern": TOPIC_PATTERN,
        "maxLength": TOPIC_ID_BYTES_MAX + 1,
        "examples": ["orders-*"],
    });
    let target = json!({
        "type": "string",
        "pattern": TARGET_PATTERN,
        "maxLength": TARGET_BYTES_MAX,
        "examples": ["http://127.0.0.1:3000/queue"],
    });
    vec![
        ("topic", about(topic, "The id of a topic, or the start of such ids and a `*` behind it.")),
        ("group", about(topic_id(), "The id of the group; it is made where it is not there.")),
        ("target", about(target, "Where to: a URL without user name and fragment, allowed by the server.")),
    ]
}

fn durations() -> Fields {
    vec![
        ("retry_after", duration_in(RETRY_AFTER)),
        ("initial_delay", duration_in(INITIAL_DELAY)),
        ("visibility_timeout", duration_in(VISIBILITY_TIMEOUT)),
    ]
}

fn bounds() -> Fields {
    let deliveries = integer(1..=TRIGGER_DELIVERIES_MAX);
    let concurrency = integer(1..=LEASED_MAX);
    vec![
        ("max_deliveries", about(deliveries, "At this count a message leaves the group; without it never.")),
        ("max_concurrency", about(concurrency, "So many messages of the group in flight at once, exactly.")),
        ("dead_letter_queue", about(queue_reference(), "Takes messages that are out of deliveries.")),
    ]
}

fn trigger_input() -> Value {
    let may = durations().into_iter().chain(bounds()).collect();
    about(input(TRIGGER_NAMES, addresses(), may), "A trigger to be made.")
}

fn trigger() -> Value {
    let mut fields = vec![
        ("name", whole_name()),
        ("trigger_id", topic_id()),
        ("uid", about(string(), "Never used again, not even for another of the same id.")),
        ("deployment", nullable(about(deployment_id(), "The deployment that it belongs to."))),
        ("current", about(boolean(), "Its deployment is the one deployed last.")),
        ("starts_at", about(time(), "Nothing is pushed before.")),
        ("create_time", time()),
        ("state", about(words(["active", "down", "starting"]), "How it is doing.")),
        ("trouble", nullable(component("TriggerTrouble"))),
        ("pushes", nullable(component("PushCounts"))),
    ];
    fields.extend(addresses());
    fields.extend(durations());
    fields.extend(bounds().into_iter().map(|(name, schema)| (name, nullable(schema))));
    about(answer(fields), "Pushes messages of topics to a target, for a group.")
}

fn trouble() -> Value {
    let fields = vec![
        ("since", time()),
        ("error", about(string(), "What the last try said.")),
        ("next_try", about(time(), "When it is tried again.")),
    ];
    about(answer(fields), "Why the target gets nothing for the time being.")
}

fn deployment_input() -> Value {
    let triggers = list(component("TriggerInput"), 1..=TRIGGERS_MAX);
    let triggers = about(triggers, "The n-th gets the id `DEPLOYMENT-n`, n from 1.");
    about(
        input(DEPLOYMENT_NAMES, vec![("triggers", triggers)], Vec::new()),
        "Takes the place of what it was.",
    )
}

fn deployment() -> Value {
    let fields = vec![
        ("name", whole_name()),
        ("deployment_id", deployment_id()),
        ("current", about(boolean(), "It is the one deployed last, which reads what was sent by none.")),
        ("create_time", about(time(), "When it was last deployed.")),
        ("triggers", all_of("Trigger")),
    ];
    about(answer(fields), "Triggers that are put and removed together.")
}

fn push_counts() -> Value {
    let milliseconds = || nullable(json!({ "type": "integer", "minimum": 0 }));
    let fields = vec![
        ("total", about(count(), "Pushes that ended.")),
        ("succeeded", about(count(), "The answer was 2xx.")),
        ("failed", about(count(), "The answer was another one.")),
        ("broken", about(count(), "The connection broke before an answer.")),
        ("gave_up", about(count(), "There was no answer while the lease lasted.")),
        ("unreachable", about(count(), "There was no connection.")),
        ("unwritable", about(count(), "The message cannot be written as a push.")),
        ("in_flight", about(count(), "Pushes that have no answer yet.")),
        (
            "duration_p50_ms",
            about(milliseconds(), "Half of the last ones that reached the target took at most so long."),
        ),
        ("duration_p99_ms", about(milliseconds(), "Of a hundred of them 99 did.")),
    ];
    about(answer(fields), "Pushes since the server was started; null where it does not push.")
}

fn push_record() -> Value {
    let inline = "The data went with it; otherwise its handler fetches the message by its id.";
    answer(vec![
        ("at", about(time(), "When it ended.")),
        ("message_id", string()),
        (
            "delivery_count",
            about(json!({ "type": "integer", "minimum": 1 }), "Deliveries, this one included."),
        ),
        ("inline", about(boolean(), inline)),
        ("duration_ms", json!({ "type": "integer", "minimum": 0 })),
        ("outcome", words(PushOutcome::ALL.map(PushOutcome::word))),
        ("status", about(json!({ "type": ["integer", "null"] }), "Of the answer, if there was one.")),
        ("error", about(nullable(string()), "How an answer that is not 2xx begins, or why there was none.")),
    ])
}

fn trigger_pushes() -> Value {
    let last = list(component("PushRecord"), 0..=PUSHES_KEPT_MAX);
    answer(vec![
        ("pushes", nullable(component("PushCounts"))),
        ("last", about(last, "The last ones, newest first.")),
    ])
}

fn rotate_input() -> Value {
    let grace = duration_in(GRACE);
    about(
        input(ROTATE_NAMES, Vec::new(), vec![("grace", grace)]),
        "How long the secret so far signs as well.",
    )
}

fn signing_secret() -> Value {
    let previous = nullable(about(time(), "Until when the one before signs as well; null without one."));
    answer(vec![
        ("secret", about(string(), "`whsec_` and 32 bytes in base64, as Standard Webhooks write it.")),
        ("since", time()),
        ("previous_until", previous),
    ])
}
