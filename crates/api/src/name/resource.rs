//! What an environment holds, by name: queues, topics, and the groups and partitions of topics.

use std::fmt;

use super::{EnvironmentName, QueueName, check_id};
use crate::input_error::{Fault, InputError};
use crate::limits::TOPIC_ID_BYTES_MAX;

/// What [`check_topic_id`] takes, as a pattern, lengths aside.
pub const TOPIC_ID_PATTERN: &str = "^[A-Za-z0-9_-]+$";

/// Checks the id of a topic, a group or a partition: 1 to 255 letters, digits, `_` and `-`. Upper and lower case differ.
pub fn check_topic_id(id: &str) -> Result<(), Fault> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if (1..=TOPIC_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(legal) {
        return Ok(());
    }
    let expected = format!("1 to {TOPIC_ID_BYTES_MAX} letters, digits, '_' and '-'");
    Err(if id.len() > TOPIC_ID_BYTES_MAX {
        Fault::beyond(TOPIC_ID_BYTES_MAX, expected)
    } else {
        Fault::new(expected)
    })
}

/// What a name names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A reader's place in a topic.
    Group,
    /// A part of a topic's messages.
    Partition,
    /// Each message is for one consumer.
    Queue,
    /// Each message is for every group.
    Topic,
}

impl Kind {
    /// The word for one of them.
    pub fn noun(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Partition => "partition",
            Self::Queue => "queue",
            Self::Topic => "topic",
        }
    }

    /// The word for many of them: their part of a path, and the name of their list.
    pub fn collection(self) -> &'static str {
        match self {
            Self::Group => "groups",
            Self::Partition => "partitions",
            Self::Queue => "queues",
            Self::Topic => "topics",
        }
    }

    /// The query parameter with the id of one that is made.
    pub fn id_parameter(self) -> &'static str {
        match self {
            Self::Group => "group_id",
            Self::Partition => "partition_id",
            Self::Queue => "queue_id",
            Self::Topic => "topic_id",
        }
    }

    /// Whether something is an id of one.
    pub fn check_id(self, id: &str) -> Result<(), Fault> {
        match self {
            Self::Queue => check_id(id),
            Self::Group | Self::Partition | Self::Topic => check_topic_id(id),
        }
    }

    fn form(self) -> &'static str {
        match self {
            Self::Group => "orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/groups/{group}",
            Self::Partition => {
                "orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/partitions/{partition}"
            }
            Self::Queue => "orgs/{org}/projects/{project}/envs/{env}/queues/{queue}",
            Self::Topic => "orgs/{org}/projects/{project}/envs/{env}/topics/{topic}",
        }
    }
}

/// The whole name of a queue, a topic, or a topic's group or partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceName {
    environment: EnvironmentName,
    kind: Kind,
    /// The topic that a group or partition belongs to; of others none.
    topic: Option<String>,
    id: String,
}

impl ResourceName {
    /// The name from environment and path: `queues/{queue}`, `topics/{topic}`, `topics/{topic}/groups/{group}`,
    /// `topics/{topic}/partitions/{partition}`.
    pub fn new(environment: EnvironmentName, path: &str) -> Result<Self, InputError> {
        let parts: Vec<_> = path.splitn(5, '/').collect();
        let (kind, topic, id) = match parts[..] {
            ["queues", id] => (Kind::Queue, None, id),
            ["topics", id] => (Kind::Topic, None, id),
            ["topics", topic, "groups", id] => (Kind::Group, Some(topic), id),
            ["topics", topic, "partitions", id] => (Kind::Partition, Some(topic), id),
            _ => return Err(Fault::new("queues/{queue}, topics/{topic} or a part of one").at("name", path)),
        };
        kind.check_id(id).map_err(|fault| fault.at(kind.noun(), id))?;
        if let Some(topic) = topic {
            check_topic_id(topic).map_err(|fault| fault.at("topic", topic))?;
        }
        Ok(Self { environment, kind, topic: topic.map(str::to_owned), id: id.to_owned() })
    }

    /// Reads the whole name of one of this kind, as it stands in `field`.
    pub fn parse(kind: Kind, field: &str, text: &str) -> Result<Self, InputError> {
        // Behind the six segments of the environment.
        let split = text.match_indices('/').nth(5).map(|(at, _)| (&text[..at], &text[at + 1..]));
        let Some((environment, path)) = split else { return Err(Fault::new(kind.form()).at(field, text)) };
        let environment = EnvironmentName::parse(field, environment)?;
        match Self::new(environment, path) {
            Ok(name) if name.kind == kind => Ok(name),
            _ => Err(Fault::new(kind.form()).at(field, text)),
        }
    }

    /// The environment that holds it.
    pub fn environment(&self) -> &EnvironmentName {
        &self.environment
    }

    /// What it names.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its own id, the last part of the name.
    pub fn id(&self) -> &str {
        &self.id
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { environment, kind, topic, id } = self;
        let collection = kind.collection();
        match topic {
            Some(topic) => write!(formatter, "{environment}/topics/{topic}/{collection}/{id}"),
            None => write!(formatter, "{environment}/{collection}/{id}"),
        }
    }
}

impl From<QueueName> for ResourceName {
    fn from(name: QueueName) -> Self {
        let QueueName { environment, queue } = name;
        Self { environment, kind: Kind::Queue, topic: None, id: queue }
    }
}

/// A topic named by another call: its whole name, or its id alone for one in the same environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicReference {
    /// The whole name.
    Name(ResourceName),
    /// The id.
    Id(String),
}

impl TopicReference {
    /// Reads a name or an id, as it stands in `field`.
    pub fn parse(field: &str, text: &str) -> Result<Self, InputError> {
        if text.contains('/') {
            return ResourceName::parse(Kind::Topic, field, text).map(Self::Name);
        }
        check_topic_id(text).map_err(|fault| fault.at(field, text))?;
        Ok(Self::Id(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HOME: &str = "orgs/acme/projects/shop/envs/prod";

    #[test]
    fn names_are_read_and_written_alike() {
        let long = "x".repeat(TOPIC_ID_BYTES_MAX);
        for (kind, path) in [
            (Kind::Queue, "queues/mail-out"),
            (Kind::Topic, "topics/Orders_2"),
            (Kind::Group, "topics/-t/groups/_G"),
            (Kind::Partition, "topics/t/partitions/eu-1"),
            (Kind::Topic, &format!("topics/{long}")),
        ] {
            let text = format!("{HOME}/{path}");
            let name = ResourceName::parse(kind, "name", &text).expect(path);
            assert_eq!((name.to_string(), name.kind()), (text.clone(), kind));
            assert_eq!(Some(name.id()), path.rsplit('/').next());
            let others = [Kind::Group, Kind::Partition, Kind::Queue, Kind::Topic];
            let taken = others.into_iter().filter(|kind| ResourceName::parse(*kind, "name", &text).is_ok());
            assert_eq!(taken.count(), 1, "{path}");
        }
    }

    #[test]
    fn other_paths_are_no_names() {
        let long = "x".repeat(TOPIC_ID_BYTES_MAX + 1);
        for path in [
            "topics/",
            "topics/a.b",
            "topics/a:b",
            "topics/t/",
            "topics/t/groups",
            "topics/t/groups/",
            "topics/t/groups/g/x",
            "topics/t/queues/q",
            "topics//groups/g",
            "queues/Mail",
            &format!("topics/{long}"),
        ] {
            for kind in [Kind::Group, Kind::Partition, Kind::Queue, Kind::Topic] {
                assert!(ResourceName::parse(kind, "name", &format!("{HOME}/{path}")).is_err(), "{path}");
            }
        }
        assert!(ResourceName::parse(Kind::Topic, "name", "topics/t").is_err());
    }

    #[test]
    fn a_topic_is_referred_to_by_name_or_id() {
        assert_eq!(TopicReference::parse("f", "Orders"), Ok(TopicReference::Id("Orders".to_owned())));
        assert!(matches!(
            TopicReference::parse("f", &format!("{HOME}/topics/t")),
            Ok(TopicReference::Name(name)) if name.id() == "t"
        ));
        for bad in ["", "a.b", "topics/t", &format!("{HOME}/queues/q"), &format!("{HOME}/topics/t/groups/g")]
        {
            assert!(TopicReference::parse("f", bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_written_back_unchanged(text in "orgs/a/projects/b/envs/c/((topics|groups|queues|.)/?[A-Za-z_.]{0,3}/?){0,4}") {
            for kind in [Kind::Group, Kind::Partition, Kind::Queue, Kind::Topic] {
                if let Ok(name) = ResourceName::parse(kind, "name", &text) {
                    prop_assert_eq!(name.to_string(), &*text);
                }
            }
        }
    }
}
