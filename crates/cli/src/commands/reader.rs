//! From what a command takes messages: a queue, or a topic on behalf of one of its groups.

use clap::Args;
use millpond_client::{Destination, GroupReader, Source};

/// Stands beside a QUEUE that need not be given then.
#[derive(Clone, Debug, Args)]
pub(crate) struct GroupArguments {
    /// Id or name of a topic, in place of QUEUE; with --group
    #[arg(long, value_name = "TOPIC", requires = "group")]
    topic: Option<String>,

    /// Id of the topic's group
    #[arg(long, value_name = "GROUP", requires = "topic")]
    group: Option<String>,
}

/// What that comes to.
#[derive(Clone, Debug)]
pub(crate) enum Reader {
    Queue(String),
    Group { topic: String, group: String, partition: Option<String> },
}

impl GroupArguments {
    /// Whether a group is named.
    pub(crate) fn is_given(&self) -> bool {
        self.topic.is_some()
    }

    /// The reader; without a topic there is a queue.
    pub(crate) fn reader(&self, queue: Option<&str>, partition: Option<&str>) -> Reader {
        match (&self.topic, &self.group) {
            (Some(topic), Some(group)) => Reader::Group {
                topic: topic.clone(),
                group: group.clone(),
                partition: partition.map(str::to_owned),
            },
            _ => Reader::Queue(queue.unwrap_or_default().to_owned()),
        }
    }
}

impl Reader {
    pub(crate) fn source(&self) -> Source {
        match self {
            Reader::Queue(queue) => Source::Queue(queue.clone()),
            Reader::Group { topic, group, partition } => {
                Source::Group(GroupReader { partition: partition.clone(), ..GroupReader::new(topic, group) })
            }
        }
    }

    /// Where its messages are.
    pub(crate) fn home(&self) -> Destination {
        match self {
            Reader::Queue(queue) => Destination::Queue(queue.clone()),
            Reader::Group { topic, .. } => Destination::topic(topic),
        }
    }

    /// How a sentence calls it.
    pub(crate) fn called(&self) -> String {
        match self {
            Reader::Queue(queue) => queue.clone(),
            Reader::Group { topic, group, .. } => format!("group {group} of topic {topic}"),
        }
    }

    /// How a command line names it, partitions aside.
    pub(crate) fn words(&self) -> String {
        match self {
            Reader::Queue(queue) => queue.clone(),
            Reader::Group { topic, group, .. } => format!("--topic {topic} --group {group}"),
        }
    }

    /// The command that hands messages out to it again.
    pub(crate) fn resume(&self) -> String {
        match self {
            Reader::Queue(queue) => format!("millpond queue resume {queue}"),
            Reader::Group { topic, group, .. } => format!("millpond group resume {group} --topic {topic}"),
        }
    }
}
