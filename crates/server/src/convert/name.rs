//! Names: the core's, short and within an environment, and those that clients see.
//!
//! To the core a queue is `q`, a topic `topics/t`, and what belongs to it `topics/t/groups/g` or `topics/t/partitions/p`.

use millpond_api::InputError;
use millpond_api::name::{EnvironmentName, Kind, ResourceName};

/// A topic as the core knows it.
pub(crate) fn topic(id: &str) -> Box<str> {
    format!("topics/{id}").into()
}

/// A group or a partition as the core knows it.
pub(crate) fn part(topic: &str, kind: Kind, id: &str) -> Box<str> {
    format!("topics/{topic}/{}/{id}", kind.collection()).into()
}

/// The whole name of what the core calls so.
pub(crate) fn whole(environment: EnvironmentName, name: &str) -> Result<ResourceName, InputError> {
    if name.contains('/') {
        return ResourceName::new(environment, name);
    }
    ResourceName::new(environment, &format!("queues/{name}"))
}

/// What the core's name is of, and how a sentence calls it.
pub(crate) fn called(name: &str) -> (Kind, String) {
    let parts: Vec<_> = name.split('/').collect();
    match parts[..] {
        ["topics", topic] => (Kind::Topic, format!("topic {topic}")),
        ["topics", topic, "groups", group] => (Kind::Group, format!("group {group} of topic {topic}")),
        ["topics", topic, "partitions", partition] => {
            (Kind::Partition, format!("partition {partition} of topic {topic}"))
        }
        _ => (Kind::Queue, format!("queue {name}")),
    }
}
