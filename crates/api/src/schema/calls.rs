//! Bodies and answers of the verbs.

use serde_json::{Value, json};

use super::{
    about, answer, component, count, count_input, duration_in, input, integer, list, message_id_input, time,
    topic_id, words,
};
use crate::dead_letters::{REDRIVE_NAMES, REPLAY_NAMES};
use crate::lease::{LEASE_NAMES, TOPIC_LEASE_NAMES, VISIBILITY_TIMEOUT, WAIT};
use crate::limits::{
    EVENTS_PER_CALL_MAX, LEASE_MESSAGES_MAX, LEASED_MAX, LEASES_PER_CALL_MAX, MESSAGE_IDS_PER_CALL_MAX,
    PEEK_MESSAGES_MAX,
};
use crate::message::{PEEK_NAMES, PEEK_STATES, TOPIC_PEEK_NAMES, TOPIC_PEEK_STATES};
use crate::name::{self, Kind};
use crate::purge::{PURGE_NAMES, TARGETS};
use crate::queue::STARTS;
use crate::send::{DELAY, SEND_NAMES, TTL};
use crate::settle::{ACK, EXTEND, EXTEND_ENTRY, LEASE_ID, NACK, NACK_ENTRY, Names, SEND_ENTRY_NAMES, SETTLE};

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    let mut all = vec![
        ("Empty", json!({ "type": "object", "maxProperties": 0 })),
        ("Environment", answer(vec![("name", json!({ "type": "string" }))])),
        ("Health", answer(vec![("status", json!({ "const": "ok" }))])),
        ("PeekInput", peek_input()),
        ("PurgeInput", purge_input()),
        ("Purged", answer(vec![("purged_count", count())])),
        ("RedriveInput", redrive_input()),
        ("Redriven", redriven()),
        ("ReplayInput", by_time_or_id(input(REPLAY_NAMES, Vec::new(), selection()))),
        ("Replayed", answer(vec![("replayed_count", count())])),
        ("SendInput", send_input()),
        ("Sent", answer(vec![("message_ids", list(json!({ "type": "string" }), 1..=EVENTS_PER_CALL_MAX))])),
        ("TopicPeekInput", topic_peek_input()),
    ];
    all.extend(of_leases(&OF_QUEUE));
    all.extend(of_leases(&OF_TOPIC));
    all
}

/// Names of the components that differ between the leases of queues and those of groups.
struct Leases {
    kind: Kind,
    ack: &'static str,
    extend: &'static str,
    id: &'static str,
    id_input: &'static str,
    lease: &'static str,
    leased: &'static str,
    message: &'static str,
    nack: &'static str,
    settle: &'static str,
    settled: &'static str,
    stale: &'static str,
}

const OF_QUEUE: Leases = Leases {
    kind: Kind::Queue,
    ack: "AckInput",
    extend: "ExtendInput",
    id: "LeaseId",
    id_input: "LeaseIdInput",
    lease: "LeaseInput",
    leased: "Leased",
    message: "LeasedMessage",
    nack: "NackInput",
    settle: "SettleInput",
    settled: "Settled",
    stale: "StaleLeases",
};

const OF_TOPIC: Leases = Leases {
    kind: Kind::Topic,
    ack: "GroupAckInput",
    extend: "GroupExtendInput",
    id: "GroupLeaseId",
    id_input: "GroupLeaseIdInput",
    lease: "GroupLeaseInput",
    leased: "GroupLeased",
    message: "GroupLeasedMessage",
    nack: "GroupNackInput",
    settle: "GroupSettleInput",
    settled: "GroupSettled",
    stale: "GroupStaleLeases",
};

fn of_leases(of: &Leases) -> Fields {
    let call = |names: &Names, may: Fields| {
        let leases = list(component(of.id_input), 1..=LEASES_PER_CALL_MAX);
        let must = [("leases", leases)].into_iter().chain(of.group());
        input(names.of(of.kind), must.collect(), may)
    };
    let sends = list(component("Sent"), 0..=EVENTS_PER_CALL_MAX);
    let sends = about(sends, "The answers to the sends, in order.");
    vec![
        (of.ack, call(&ACK, Vec::new())),
        (of.extend, call(&EXTEND, vec![("visibility_timeout", timeout())])),
        (of.id, of.lease_id()),
        (of.id_input, input(LEASE_ID.of(of.kind), of.lease_id_fields(), Vec::new())),
        (of.lease, of.lease_input()),
        (of.leased, answer(vec![("messages", list(component(of.message), 0..=leased_max()))])),
        (of.message, of.leased_message()),
        (of.nack, call(&NACK, vec![("delay", nack_delay())])),
        (of.settle, of.settle_input()),
        (of.settled, answer(vec![("stale_leases", of.stale_leases()), ("sends", sends)])),
        (of.stale, answer(vec![("stale_leases", of.stale_leases())])),
    ]
}

fn leased_max() -> usize {
    usize::try_from(LEASE_MESSAGES_MAX).unwrap_or(usize::MAX)
}

impl Leases {
    fn is_of_groups(&self) -> bool {
        self.kind == Kind::Topic
    }

    /// The group, which every call on a topic names.
    fn group(&self) -> Option<(&'static str, Value)> {
        self.is_of_groups().then(|| ("group", about(topic_id(), "The id of the group.")))
    }

    fn lease_id_fields(&self) -> Fields {
        let mut fields = vec![("message_id", message_id_input()), ("lease_generation", count_input())];
        fields.extend(self.is_of_groups().then(|| ("delivery", count_input())));
        fields
    }

    fn lease_id(&self) -> Value {
        let mut fields = vec![("message_id", json!({ "type": "string" })), ("lease_generation", count())];
        fields.extend(self.is_of_groups().then(|| ("delivery", count())));
        about(answer(fields), "Names a hold on a message; give it back to settle it.")
    }

    fn stale_leases(&self) -> Value {
        about(
            list(component(self.id), 0..=LEASES_PER_CALL_MAX),
            "Leases that were no longer held, in request order.",
        )
    }

    fn lease_input(&self) -> Value {
        let messages = || integer(1..=LEASE_MESSAGES_MAX);
        let mut may = vec![
            ("max_messages", about(messages(), "At most so many; 1 unless given.")),
            ("min_messages", about(messages(), "Wait for so many; at most `max_messages`.")),
            ("max_wait", duration_in(WAIT)),
            ("visibility_timeout", timeout()),
            ("wait", duration_in(WAIT)),
        ];
        if !self.is_of_groups() {
            return input(LEASE_NAMES, Vec::new(), may);
        }
        let start = words(STARTS.map(|(word, _)| word));
        may.extend([
            ("partition", about(topic_id(), "Only messages of this partition.")),
            ("start", about(start, "Where the group begins if this makes it; `earliest` unless given.")),
            (
                "max_in_flight",
                about(integer(1..=LEASED_MAX), "Refused unless fewer messages of the group are leased."),
            ),
        ]);
        input(TOPIC_LEASE_NAMES, self.group().into_iter().collect(), may)
    }

    fn leased_message(&self) -> Value {
        answer(vec![
            ("message_id", json!({ "type": "string" })),
            ("event", component("Event")),
            ("lease", component(self.id)),
            (
                "delivery_count",
                about(json!({ "type": "integer", "minimum": 1 }), "Leases granted, this one included."),
            ),
            ("lease_expire_time", time()),
        ])
    }

    fn settle_input(&self) -> Value {
        let entries = |names: &Names, may: Fields| {
            list(input(names.of(self.kind), self.lease_id_fields(), may), 0..=LEASES_PER_CALL_MAX)
        };
        let acks = list(component(self.id_input), 0..=LEASES_PER_CALL_MAX);
        let nacks = entries(&NACK_ENTRY, vec![("delay", nack_delay())]);
        let extends = entries(&EXTEND_ENTRY, vec![("visibility_timeout", timeout())]);
        let sends = list(send_entry(), 0..=EVENTS_PER_CALL_MAX);
        let require =
            about(words(["all"]), "One stale lease refuses all, as it does wherever there are sends.");
        let may = vec![
            ("acks", about(acks, "Leases whose work is done.")),
            ("nacks", about(nacks, "Leases whose work failed.")),
            ("extends", about(extends, "Leases that go on.")),
            ("sends", about(sends, "What is sent in the same commit.")),
            ("require", require),
        ];
        about(
            input(SETTLE.of(self.kind), self.group().into_iter().collect(), may),
            "At least one lease or send; at most 100 leases and 100 events in all.",
        )
    }
}

/// One send of a settle call: to a queue or to a topic.
fn send_entry() -> Value {
    let queue = json!({ "type": "string", "pattern": name::QUEUE_REFERENCE_PATTERN });
    let topic = json!({ "type": "string", "pattern": name::TOPIC_REFERENCE_PATTERN });
    let may = vec![
        ("queue", about(queue, "Where to; the queue or topic of the call unless given.")),
        ("topic", about(topic, "Or to this topic.")),
        ("partition", about(topic_id(), "To this partition of the topic.")),
        ("delay", duration_in(DELAY)),
        ("priority", integer(i32::MIN..=i32::MAX)),
        ("ttl", duration_in(TTL)),
    ];
    let mut schema = input(SEND_ENTRY_NAMES, vec![("events", events_input())], may);
    let given = |name: &str| json!({ "required": [name], "properties": { name: { "type": "string" } } });
    schema["not"] = json!({ "allOf": [given("queue"), { "anyOf": [given("topic"), given("partition")] }] });
    schema
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

fn peek_input() -> Value {
    let may = vec![
        ("max_messages", about(integer(1..=PEEK_MESSAGES_MAX), "At most so many; 10 unless given.")),
        ("state", about(words(PEEK_STATES.map(|(word, _)| word)), "Which ones; `ready` unless given.")),
    ];
    input(PEEK_NAMES, Vec::new(), may)
}

fn topic_peek_input() -> Value {
    let partition = about(topic_id(), "Those of this partition; those of none unless given.");
    let states = words(TOPIC_PEEK_STATES.map(|(word, _)| word));
    let may = vec![
        ("max_messages", about(integer(1..=PEEK_MESSAGES_MAX), "At most so many; 10 unless given.")),
        ("state", about(states, "Which ones; `ready` unless given.")),
        ("partition", partition),
    ];
    input(TOPIC_PEEK_NAMES, Vec::new(), may)
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
