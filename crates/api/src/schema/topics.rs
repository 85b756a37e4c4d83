//! Topics, groups and partitions: resources like queues, with fewer settings and counts.

use serde_json::{Value, json};

use super::queues::{Part, answered, meta_input, next_page_token, read_only, sent, settings};
use super::{about, answer, answer_with, boolean, component, count, input, list, words};
use crate::limits::QUEUES_PAGE_MAX;
use crate::name::{GROUP_NAME_PATTERN, Kind, PARTITION_NAME_PATTERN, TOPIC_NAME_PATTERN};
use crate::queue::{GROUP_NAMES, QUEUE_NAMES, STARTS, spec_names};

type Fields = Vec<(&'static str, Value)>;

pub(super) fn all() -> Fields {
    vec![
        ("Group", about(resource(GROUP_NAME_PATTERN, "GroupSpec", "GroupStatus"), "A reader of a topic.")),
        ("GroupInput", group_input()),
        ("GroupList", page(Kind::Group, "Group")),
        ("GroupSpec", answer_with(Vec::new(), settings_of(Kind::Group, answered))),
        ("GroupSpecInput", input(spec_names(Kind::Group), Vec::new(), settings_of(Kind::Group, sent))),
        ("GroupStatus", group_status()),
        (
            "Partition",
            about(resource(PARTITION_NAME_PATTERN, "TopicSpec", "TopicStatus"), "A part of a topic."),
        ),
        ("PartitionList", page(Kind::Partition, "Partition")),
        ("Topic", about(resource(TOPIC_NAME_PATTERN, "TopicSpec", "TopicStatus"), "A topic.")),
        ("TopicInput", topic_input()),
        ("TopicList", page(Kind::Topic, "Topic")),
        ("TopicSpec", answer_with(Vec::new(), settings_of(Kind::Topic, answered))),
        ("TopicSpecInput", input(spec_names(Kind::Topic), Vec::new(), settings_of(Kind::Topic, sent))),
        ("TopicStatus", topic_status()),
    ]
}

fn settings_of(kind: Kind, part: Part) -> Fields {
    let own = spec_names(kind);
    settings(part).into_iter().filter(|(name, _)| own.contains(name)).collect()
}

fn name(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

fn resource(pattern: &str, spec: &str, status: &str) -> Value {
    answer(vec![
        ("name", about(name(pattern), "The whole name.")),
        (
            "uid",
            about(json!({ "type": "string" }), "Never used again, not even for another of the same name."),
        ),
        ("meta", component("QueueMeta")),
        ("spec", component(spec)),
        ("status", component(status)),
    ])
}

fn body(pattern: &str, spec: &str) -> Fields {
    vec![
        (
            "name",
            about(name(pattern), "The whole name; must agree with the path and with the id in the query."),
        ),
        ("uid", read_only()),
        ("meta", meta_input()),
        ("spec", component(spec)),
        ("status", read_only()),
    ]
}

fn topic_input() -> Value {
    let may = body(TOPIC_NAME_PATTERN, "TopicSpecInput");
    about(input(QUEUE_NAMES, Vec::new(), may), "A topic to be made, or a change of one.")
}

fn group_input() -> Value {
    let start = words(STARTS.map(|(word, _)| word));
    let start = about(start, "Where it begins if it is made now: at the oldest message unless given.");
    let may = body(GROUP_NAME_PATTERN, "GroupSpecInput").into_iter().chain([("start", start)]).collect();
    about(input(GROUP_NAMES, Vec::new(), may), "A group to be made, or a change of one.")
}

fn page(kind: Kind, item: &str) -> Value {
    let most = usize::try_from(QUEUES_PAGE_MAX).unwrap_or(usize::MAX);
    answer(vec![(kind.collection(), list(component(item), 0..=most)), ("next_page_token", next_page_token())])
}

fn topic_status() -> Value {
    let always = vec![
        ("observed_generation", count()),
        ("conditions", json!({ "type": "array", "items": component("Condition") })),
        ("ready_count", about(count(), "Messages that are visible.")),
        ("delayed_count", about(count(), "Messages hidden until a time.")),
    ];
    about(answer(always), "Exact counts, of a topic over all its partitions.")
}

fn group_status() -> Value {
    let always = vec![
        ("observed_generation", count()),
        ("conditions", json!({ "type": "array", "items": component("Condition") })),
        ("ready_count", about(count(), "Messages that could be leased now.")),
        ("leased_count", about(count(), "Messages under a lease.")),
        ("delayed_count", about(count(), "Messages that failed and wait for their next try.")),
        ("paused", boolean()),
    ];
    about(
        answer_with(always, vec![("why", component("Why"))]),
        "Exact counts, the caller's own writes included.",
    )
}
