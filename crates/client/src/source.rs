//! Where messages are taken from, and where they are sent to.

use serde::{Deserialize, Serialize};

/// What messages are taken from: a queue, or a topic on behalf of one of its groups. A plain string is a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A queue, by id or whole name.
    Queue(String),
    /// A group of a topic.
    Group(GroupReader),
}

/// A group, and how it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupReader {
    /// The topic, by id or whole name.
    pub topic: String,
    /// The id of the group; its first lease makes it.
    pub group: String,
    /// Only messages of the partition with this id.
    pub partition: Option<String>,
    /// Where the group begins if it is made.
    pub start: Start,
    /// A lease is refused (`concurrency_limit`) unless fewer messages of the group are leased.
    pub max_in_flight: Option<u32>,
}

impl GroupReader {
    /// All partitions, from the oldest message on, as many at once as the group allows.
    pub fn new(topic: impl Into<String>, group: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            group: group.into(),
            partition: None,
            start: Start::default(),
            max_in_flight: None,
        }
    }
}

/// Where a new group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// At the oldest message that is there.
    #[default]
    Earliest,
    /// Behind all messages that are visible by now.
    Latest,
}

/// Where messages are sent to, or looked for: a queue, or a topic. A plain string is a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A queue, by id or whole name.
    Queue(String),
    /// A topic.
    Topic {
        /// By id or whole name.
        topic: String,
        /// The id of a partition; the first send makes it.
        partition: Option<String>,
    },
}

impl Destination {
    /// A topic, and none of its partitions.
    pub fn topic(topic: impl Into<String>) -> Self {
        Self::Topic { topic: topic.into(), partition: None }
    }

    /// A partition of a topic.
    pub fn partition(topic: impl Into<String>, partition: impl Into<String>) -> Self {
        Self::Topic { topic: topic.into(), partition: Some(partition.into()) }
    }
}

macro_rules! from_queues {
    ($name:ident: $($text:ty),+) => {
        $(impl From<$text> for $name {
            fn from(queue: $text) -> Self {
                Self::Queue(queue.into())
            }
        })+

        impl From<&$name> for $name {
            fn from(own: &$name) -> Self {
                own.clone()
            }
        }
    };
}

from_queues!(Source: &str, &String, String);
from_queues!(Destination: &str, &String, String);

impl From<GroupReader> for Source {
    fn from(reader: GroupReader) -> Self {
        Self::Group(reader)
    }
}

impl From<&GroupReader> for Source {
    fn from(reader: &GroupReader) -> Self {
        Self::Group(reader.clone())
    }
}
