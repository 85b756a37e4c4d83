//! The table of operations on topics and their groups; their paths are those behind the collection of topics.

use millpond_api::ErrorCode::*;
use millpond_api::event::batch;
use millpond_api::limits::FILTER_BYTES_MAX;
use millpond_api::schema::{boolean, component, duration_in, text, topic_id, words};
use millpond_api::send::{DELAY, TTL};
use serde_json::json;

use super::operation::Operation;
use super::operations::{page_size, send_bodies};

const TOPICS: &str = "topics";
const GROUPS: &str = "groups";
const MESSAGES: &str = "messages";

/// All of them.
pub(super) fn of_topics() -> Vec<Operation> {
    let parts = [collection(), topic(), groups(), group(), partitions()];
    let calls = [sending(), leasing(), looking()];
    parts.into_iter().chain(calls).flatten().collect()
}

/// The parameters of a list.
fn listed(operation: Operation) -> Operation {
    operation
        .says("List", "In the order of their ids. A page may be short without being the last.")
        .of_engine()
        .query("page_size", page_size(), "At most so many; 50 unless given, 1,000 at most.")
        .query("page_token", text(0..=512), "`next_page_token` of the page before.")
        .query(
            "filter",
            text(0..=FILTER_BYTES_MAX),
            "Terms `name = ID`, `labels.KEY = VALUE`, `paused = true`, joined by `AND`.",
        )
        .query("order_by", words(["name", "name desc"]), "")
        .codes(&[PageTokenInvalid])
}

/// The parameters of a change.
fn changed(operation: Operation) -> Operation {
    operation
        .says(
            "Change",
            "Without `update_mask`, what the body names; a null puts the default back. Labels and annotations are replaced.",
        )
        .of_engine()
        .query("update_mask", text(0..=1_024), "`spec`, `spec.FIELD`, `meta.labels`, `meta.annotations`, `meta.display_name`, joined by commas.")
        .query("etag", text(0..=63), "Only if it has this etag.")
        .query("allow_missing", boolean(), "Make it if it is not there.")
        .query("validate_only", boolean(), "Check everything and store nothing.")
        .header("If-Match", json!({ "type": "string" }), "The etag in quotes, or `*`.")
        .keyed()
        .codes(&[EtagMismatch, MethodNotAllowed, QueueLimit])
}

/// The parameters of a removal.
fn deleted(operation: Operation) -> Operation {
    operation
        .of_engine()
        .query("etag", text(0..=63), "Only if it has this etag.")
        .query("allow_missing", boolean(), "If it is not there, that is no error.")
        .query("validate_only", boolean(), "Check everything and store nothing.")
        .keyed()
        .answers("Empty")
        .codes(super::errors::BODY)
        .codes(&[EtagMismatch, MethodNotAllowed])
}

fn collection() -> Vec<Operation> {
    vec![
        listed(Operation::new("get", "", TOPICS, "topics.list")).answers("TopicList"),
        Operation::new("post", "", TOPICS, "topics.create")
            .says("Make a topic", "What is not given has its default.")
            .of_engine()
            .query("topic_id", topic_id(), "The id of the topic; the server makes one unless it is given.")
            .query("validate_only", boolean(), "Check everything and store nothing.")
            .keyed()
            .optional_body("TopicInput")
            .answers("Topic")
            .codes(&[QueueLimit, TopicAlreadyExists]),
    ]
}

fn topic() -> Vec<Operation> {
    let of = |method, id| Operation::new(method, "/{topic}", TOPICS, id).codes(&[TopicNotFound]);
    vec![
        of("get", "topics.get")
            .says("Get a topic", "With exact counts over all its partitions.")
            .of_engine()
            .answers("Topic")
            .codes(&[MethodNotAllowed]),
        changed(of("patch", "topics.update")).optional_body("TopicInput").answers("Topic"),
        deleted(of("delete", "topics.delete"))
            .says("Delete a topic", "With its messages, groups and partitions."),
    ]
}

fn groups() -> Vec<Operation> {
    let of = |method, id| Operation::new(method, "/{topic}/groups", GROUPS, id).codes(&[TopicNotFound]);
    vec![
        listed(of("get", "groups.list")).answers("GroupList"),
        of("post", "groups.create")
            .says("Make a group", "Its first lease makes it as well. What is not given has its default.")
            .of_engine()
            .query("group_id", topic_id(), "The id of the group; the server makes one unless it is given.")
            .query("validate_only", boolean(), "Check everything and store nothing.")
            .keyed()
            .optional_body("GroupInput")
            .answers("Group")
            .codes(&[GroupAlreadyExists, QueueLimit]),
    ]
}

fn group() -> Vec<Operation> {
    let of = |method, path, id| Operation::new(method, path, GROUPS, id).codes(&[GroupNotFound]);
    const GROUP: &str = "/{topic}/groups/{group}";
    vec![
        of("get", GROUP, "groups.get")
            .says("Get a group", "With exact counts: what it has not had yet, and what it has under way.")
            .of_engine()
            .answers("Group")
            .codes(&[MethodNotAllowed]),
        changed(of("patch", GROUP, "groups.update"))
            .optional_body("GroupInput")
            .answers("Group")
            .codes(&[TopicNotFound]),
        deleted(of("delete", GROUP, "groups.delete"))
            .says("Delete a group", "Its leases end. A group that is made later under this id begins anew."),
        of("post", "/{topic}/groups/{group}:pause", "groups.pause")
            .says("Pause a group", "Nothing is handed out to it; other groups go on.")
            .of_engine()
            .keyed()
            .optional_body("Empty")
            .answers("Group"),
        of("post", "/{topic}/groups/{group}:resume", "groups.resume")
            .says("Resume a group", "")
            .of_engine()
            .keyed()
            .optional_body("Empty")
            .answers("Group"),
        of("get", "/{topic}/groups/{group}:why", "groups.why")
            .says("Why nothing is delivered", "The first reason that applies.")
            .of_engine()
            .answers("QueueWhy"),
    ]
}

fn partitions() -> Vec<Operation> {
    vec![
        listed(Operation::new("get", "/{topic}/partitions", TOPICS, "partitions.list"))
            .answers("PartitionList")
            .codes(&[TopicNotFound]),
        deleted(Operation::new("delete", "/{topic}/partitions/{partition}", TOPICS, "partitions.delete"))
            .says("Delete a partition", "With its messages, for all groups.")
            .codes(&[PartitionNotFound]),
    ]
}

fn sending() -> Vec<Operation> {
    let attribute = || json!({ "type": "string" });
    let send = Operation::new("post", "/{topic}:send", MESSAGES, "topics.send")
        .says("Send messages", "All or none. One of four forms, told apart by content type and headers.")
        .of_engine()
        .query("delay", duration_in(DELAY), "How long they stay hidden; not beside `delay` in the body.")
        .query("partition", topic_id(), "The partition that they go to, made if it is not there.")
        .query("ttl", duration_in(TTL), "How long they live at most.")
        .header("ce-specversion", attribute(), "`1.0`; makes the body the data of one event.")
        .header("ce-id", attribute(), "The event's id, in binary mode.")
        .header("ce-source", attribute(), "Its source.")
        .header("ce-type", attribute(), "Its type. Other attributes are `ce-` headers as well.")
        .keyed()
        .bodies(&send_bodies(), true)
        .answers("Sent")
        .codes(&[ByteLimit, MessageLimit, MissingField, PartitionNotFound, QueueLimit])
        .codes(&[TopicNotFound, UploadLimit]);
    vec![send]
}

fn leasing() -> Vec<Operation> {
    let of = |path, id| Operation::new("post", path, MESSAGES, id).of_engine().codes(&[GroupNotFound]);
    let stale = "Leases that are no longer held are listed, the others are settled.";
    vec![
        of("/{topic}:lease", "topics.lease")
            .says(
                "Lease messages for a group",
                "Waits for them if it is told to. Others of the group do not get them until the lease ends. Makes the group if it is not there.",
            )
            .body("GroupLeaseInput")
            .answers("GroupLeased")
            .answers_as(batch::MEDIA_TYPE, component("CloudEventBatch"))
            .codes(&[ConcurrencyLimit, QueueLimit, TopicNotFound]),
        of("/{topic}:ack", "topics.ack")
            .says("End leases of a group, the work being done", stale)
            .body("GroupAckInput")
            .answers("GroupStaleLeases"),
        of("/{topic}:nack", "topics.nack")
            .says("End leases of a group, the work having failed", stale)
            .body("GroupNackInput")
            .answers("GroupStaleLeases"),
        of("/{topic}:extend", "topics.extend")
            .says("Let leases of a group last longer", "At most as long as their messages live.")
            .body("GroupExtendInput")
            .answers("GroupStaleLeases")
            .codes(&[BeyondExpiry]),
        of("/{topic}:settle", "topics.settle")
            .says(
                "Ack, nack, extend and send in one commit",
                "With sends, or `require: all`, one stale lease refuses everything.",
            )
            .keyed()
            .body("GroupSettleInput")
            .answers("GroupSettled")
            .codes(&[BeyondExpiry, ByteLimit, LeaseStale, MessageLimit, PartitionNotFound, QueueLimit])
            .codes(&[QueueNotFound, TopicNotFound]),
    ]
}

fn looking() -> Vec<Operation> {
    let of =
        |method, path, id| Operation::new(method, path, MESSAGES, id).of_engine().codes(&[TopicNotFound]);
    vec![
        of("post", "/{topic}:peek", "topics.peek")
            .says(
                "Look at messages",
                "Of one partition, or those that were sent to none. An answer holds 8 MiB of contents at most.",
            )
            .optional_body("TopicPeekInput")
            .answers("TopicMessageList")
            .codes(&[PartitionNotFound]),
        of("get", "/{topic}/messages/{message}", "topics.messages.get")
            .says("Get a message", "Of whichever partition.")
            .answers("TopicMessage")
            .codes(&[MessageNotFound]),
        of("get", "/{topic}/messages/{message}/data", "topics.messages.data")
            .says(
                "Get the data of a message",
                "The bytes as they were sent, with their content type. While they are being read they stay, whatever becomes of the message.",
            )
            .answers_bytes()
            .codes(&[MessageNotFound]),
    ]
}
