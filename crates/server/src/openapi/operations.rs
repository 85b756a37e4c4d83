//! The table of operations.

use millpond_api::ErrorCode::*;
use millpond_api::event::{batch, structured};
use millpond_api::limits::FILTER_BYTES_MAX;
use millpond_api::schema::{boolean, component, duration_in, id, integer, text, time, words};
use millpond_api::send::{DELAY, TTL};
use millpond_core::limits::IDEMPOTENCY_KEY_BYTES_MAX;
use serde_json::{Value, json};

use super::operation::{JSON, Operation};
use crate::paths;

const QUEUES: &str = "queues";
const MESSAGES: &str = "messages";
const DEAD_LETTERS: &str = "dead letters";

/// Operations on the queues of an environment; their paths are those behind the collection.
pub(super) fn of_queues() -> Vec<Operation> {
    let all = [collection(), queue(), verbs_of_queue(), sending(), leasing(), looking(), dead_letters()];
    all.into_iter().flatten().collect()
}

/// Operations that are not about queues.
pub(super) fn others() -> Vec<Operation> {
    vec![
        Operation::new("get", paths::HEALTH, "server", "health")
            .says("Whether the server answers", "It says nothing about the store.")
            .answers("Health")
            .codes(&[ShuttingDown]),
        Operation::new("get", paths::METRICS, "server", "metrics")
            .says(
                "What an operator watches",
                "In the text format of Prometheus; docs/metrics.md names each value.",
            )
            .answers_as(crate::metrics::MEDIA_TYPE, json!({ "type": "string" }))
            .codes(super::errors::QUERY)
            .codes(&[Internal]),
        Operation::new("get", paths::OPENAPI, "server", "openapi")
            .says("This document", "")
            .answers_as(JSON, json!({ "type": "object" })),
        Operation::new("post", paths::ENVIRONMENTS, "environments", "environments.create")
            .says("Make an environment", "Making it again is no error and changes nothing.")
            .of_engine()
            .query("env_id", id(), "The id of the environment.")
            .required()
            .header(
                "Idempotency-Key",
                text(1..=IDEMPOTENCY_KEY_BYTES_MAX),
                "Not needed: a repetition does no harm.",
            )
            .optional_body("Empty")
            .answers("Environment"),
    ]
}

fn collection() -> Vec<Operation> {
    vec![
        Operation::new("get", "", QUEUES, "queues.list")
            .says("List queues", "In the order of their names. A page may be short without being the last.")
            .of_engine()
            .query("page_size", page_size(), "At most so many; 50 unless given, 1,000 at most.")
            .query("page_token", text(0..=512), "`next_page_token` of the page before.")
            .query(
                "filter",
                text(0..=FILTER_BYTES_MAX),
                "Terms `name = ID`, `labels.KEY = VALUE`, `paused = true`, joined by `AND`.",
            )
            .query("order_by", words(["name", "name desc"]), "")
            .answers("QueueList")
            .codes(&[PageTokenInvalid]),
        Operation::new("post", "", QUEUES, "queues.create")
            .says("Make a queue", "What is not given has its default.")
            .of_engine()
            .query("queue_id", id(), "The id of the queue; the server makes one unless it is given.")
            .query("validate_only", boolean(), "Check everything and store nothing.")
            .keyed()
            .optional_body("QueueInput")
            .answers("Queue")
            .codes(&[QueueAlreadyExists, QueueLimit]),
    ]
}

fn queue() -> Vec<Operation> {
    let of_queue =
        |method, id| Operation::new(method, "/{queue}", QUEUES, id).of_queue().codes(&[MethodNotAllowed]);
    vec![
        of_queue("get", "queues.get").says("Get a queue", "With exact counts.").answers("Queue"),
        of_queue("patch", "queues.update")
            .says(
                "Change a queue",
                "Without `update_mask`, what the body names; a null puts the default back. Labels and annotations are replaced.",
            )
            .query("update_mask", text(0..=1_024), "`spec`, `spec.FIELD`, `meta.labels`, `meta.annotations`, `meta.display_name`, joined by commas.")
            .query("etag", text(0..=63), "Only if the queue has this etag.")
            .query("allow_missing", boolean(), "Make the queue if there is none.")
            .query("validate_only", boolean(), "Check everything and store nothing.")
            .header("If-Match", json!({ "type": "string" }), "The etag in quotes, or `*`.")
            .keyed()
            .optional_body("QueueInput")
            .answers("Queue")
            .codes(&[EtagMismatch, QueueLimit]),
        of_queue("delete", "queues.delete")
            .says("Delete a queue", "And all that is in it.")
            .query("etag", text(0..=63), "Only if the queue has this etag.")
            .query("allow_missing", boolean(), "A missing queue is no error.")
            .query("force", boolean(), "Also if another queue names it as its dead-letter queue.")
            .query("validate_only", boolean(), "Check everything and store nothing.")
            .keyed()
            .answers("Empty")
            .codes(super::errors::BODY)
            .codes(&[EtagMismatch, InvalidState]),
    ]
}

fn verbs_of_queue() -> Vec<Operation> {
    vec![
        Operation::new("post", "/{queue}:pause", QUEUES, "queues.pause")
            .says("Pause a queue", "It takes messages and hands none out.")
            .of_queue()
            .keyed()
            .optional_body("Empty")
            .answers("Queue"),
        Operation::new("post", "/{queue}:resume", QUEUES, "queues.resume")
            .says("Resume a queue", "")
            .of_queue()
            .keyed()
            .optional_body("Empty")
            .answers("Queue"),
        Operation::new("get", "/{queue}:why", QUEUES, "queues.why")
            .says("Why nothing is delivered", "The first reason that applies.")
            .of_queue()
            .answers("QueueWhy"),
        Operation::new("post", "/{queue}:purge", QUEUES, "queues.purge")
            .says("Remove many messages", "Leased ones stay, but leave when their lease ends.")
            .of_queue()
            .keyed()
            .optional_body("PurgeInput")
            .answers("Purged"),
    ]
}

/// The forms of a send.
pub(super) fn send_bodies() -> [(&'static str, Value); 4] {
    [
        (JSON, component("SendInput")),
        (structured::MEDIA_TYPE, component("CloudEventInput")),
        (batch::MEDIA_TYPE, component("CloudEventBatchInput")),
        (
            "application/octet-stream",
            json!({ "description": "The data of a CloudEvent whose attributes are headers; any type." }),
        ),
    ]
}

fn sending() -> Vec<Operation> {
    let attribute = || json!({ "type": "string" });
    let send = Operation::new("post", "/{queue}:send", MESSAGES, "queues.send")
        .says("Send messages", "All or none. One of four forms, told apart by content type and headers.")
        .of_queue()
        .query("delay", duration_in(DELAY), "How long they stay hidden; not beside `delay` in the body.")
        .query("priority", integer(i32::MIN..=i32::MAX), "Higher is handed out first.")
        .query("ttl", duration_in(TTL), "How long they live at most.")
        .header("ce-specversion", attribute(), "`1.0`; makes the body the data of one event.")
        .header("ce-id", attribute(), "The event's id, in binary mode.")
        .header("ce-source", attribute(), "Its source.")
        .header("ce-type", attribute(), "Its type. Other attributes are `ce-` headers as well.")
        .keyed()
        .bodies(&send_bodies(), true)
        .answers("Sent")
        .codes(&[ByteLimit, MessageLimit, MissingField, UploadLimit]);
    vec![send]
}

fn leasing() -> Vec<Operation> {
    vec![
        Operation::new("post", "/{queue}:lease", MESSAGES, "queues.lease")
            .says(
                "Lease messages",
                "Waits for them if it is told to. They stay hidden from others until the lease ends.",
            )
            .of_queue()
            .optional_body("LeaseInput")
            .answers("Leased")
            .answers_as(batch::MEDIA_TYPE, component("CloudEventBatch")),
        Operation::new("post", "/{queue}:ack", MESSAGES, "queues.ack")
            .says(
                "End leases, the work being done",
                "Leases that are no longer held are listed, the others are settled.",
            )
            .of_queue()
            .body("AckInput")
            .answers("StaleLeases"),
        Operation::new("post", "/{queue}:nack", MESSAGES, "queues.nack")
            .says(
                "End leases, the work having failed",
                "Leases that are no longer held are listed, the others are settled.",
            )
            .of_queue()
            .body("NackInput")
            .answers("StaleLeases"),
        Operation::new("post", "/{queue}:extend", MESSAGES, "queues.extend")
            .says("Let leases last longer", "At most 12 hours in all from their grant.")
            .of_queue()
            .body("ExtendInput")
            .answers("StaleLeases"),
        Operation::new("post", "/{queue}:settle", MESSAGES, "queues.settle")
            .says(
                "Ack, nack, extend and send in one commit",
                "With sends, or `require: all`, one stale lease refuses everything.",
            )
            .of_queue()
            .keyed()
            .body("SettleInput")
            .answers("Settled")
            .codes(&[ByteLimit, LeaseStale, MessageLimit])
            // Of sends to topics.
            .codes(&[PartitionNotFound, QueueLimit, TopicNotFound]),
    ]
}

fn looking() -> Vec<Operation> {
    vec![
        Operation::new("post", "/{queue}:peek", MESSAGES, "queues.peek")
            .says(
                "Look at messages",
                "Nothing is leased or counted. An answer holds 8 MiB of contents at most.",
            )
            .of_queue()
            .optional_body("PeekInput")
            .answers("MessageList"),
        Operation::new("get", "/{queue}/messages/{message}", MESSAGES, "messages.get")
            .says("Get a message", "In whatever state it is.")
            .of_queue()
            .answers("Message")
            .codes(&[MessageNotFound]),
        Operation::new("get", "/{queue}/messages/{message}/data", MESSAGES, "messages.data")
            .says(
                "Get the data of a message",
                "The bytes as they were sent, with their content type. While they are being read they stay, whatever becomes of the message.",
            )
            .of_queue()
            .header(
                "Millpond-Lease-Generation",
                json!({ "type": "integer", "minimum": 0 }),
                "Of the reader's lease; a leased message is only read by who holds it.",
            )
            .answers_bytes()
            .codes(&[InvalidState, LeaseStale, MessageNotFound]),
        Operation::new("delete", "/{queue}/messages/{message}", MESSAGES, "messages.delete")
            .says("Delete a message", "A leased one is refused.")
            .of_queue()
            .keyed()
            .answers("Empty")
            .codes(super::errors::BODY)
            .codes(&[InvalidState, MessageNotFound]),
    ]
}

fn dead_letters() -> Vec<Operation> {
    vec![
        Operation::new("get", "/{queue}/dead-letters", DEAD_LETTERS, "deadLetters.list")
            .says("List dead letters", "In the order in which they died. A page may be short without being the last.")
            .of_queue()
            .query("page_size", page_size(), "At most so many; 50 unless given, 100 at most.")
            .query("page_token", text(0..=512), "`next_page_token` of the page before.")
            .query("start_time", time_or_nothing(), "Died at this time or later.")
            .query("end_time", time_or_nothing(), "Died before this time.")
            .answers("DeadLetterList")
            .codes(&[PageTokenInvalid]),
        Operation::new("post", "/{queue}:replay", DEAD_LETTERS, "deadLetters.replay")
            .says(
                "Make dead letters ready again",
                "Where they are, with counts of zero. A call that is cut off has done a part and can be made again.",
            )
            .of_queue()
            .keyed()
            .optional_body("ReplayInput")
            .answers("Replayed")
            .codes(&[InvalidState]),
        Operation::new("post", "/{queue}:redrive", DEAD_LETTERS, "deadLetters.redrive")
            .says(
                "Move dead letters",
                "To `destination`, or each to the queue that it came from. A call that is cut off has done a part and can be made again.",
            )
            .of_queue()
            .keyed()
            .optional_body("RedriveInput")
            .answers("Redriven")
            .codes(&[InvalidState]),
    ]
}

/// An empty parameter is one that is not given.
fn time_or_nothing() -> Value {
    json!({ "anyOf": [time(), { "const": "" }] })
}

pub(super) fn page_size() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}
