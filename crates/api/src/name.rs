//! The one parser for resource names and ids.
//!
//! An id is 1 to 63 lower-case letters, digits and hyphens, with a letter or digit at both ends. Nothing
//! else gets through: no percent-encoding, no upper case, no `..`, no letters beyond ASCII. So a name has one
//! spelling only, and none can climb out of its place where it becomes part of a path. The ids of topics and of what belongs to
//! them are wider (`resource.rs`), with letters of both cases and `_`.

mod resource;

use std::fmt;

use crate::input_error::{Fault, InputError};
use crate::limits::ID_BYTES_MAX;

pub use resource::{Kind, ResourceName, TOPIC_ID_PATTERN, TopicReference, check_topic_id};

/// What [`check_id`] takes, as a pattern, lengths aside.
pub const ID_PATTERN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";
/// What [`QueueName::parse`] takes.
pub(crate) const QUEUE_NAME_PATTERN: &str = concat!(
    "^orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/queues/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
);
/// What [`QueueReference::parse`] takes.
pub(crate) const QUEUE_REFERENCE_PATTERN: &str = concat!(
    "^(orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/queues/)?[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
);

/// What [`ResourceName::parse`] takes of topics, groups and partitions.
pub(crate) const TOPIC_NAME_PATTERN: &str = concat!(
    "^orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/topics/[A-Za-z0-9_-]{1,255}$"
);
pub(crate) const GROUP_NAME_PATTERN: &str = concat!(
    "^orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/topics/[A-Za-z0-9_-]{1,255}/groups/[A-Za-z0-9_-]{1,255}$"
);
pub(crate) const PARTITION_NAME_PATTERN: &str = concat!(
    "^orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/topics/[A-Za-z0-9_-]{1,255}/partitions/[A-Za-z0-9_-]{1,255}$"
);
/// What [`TopicReference::parse`] takes.
pub(crate) const TOPIC_REFERENCE_PATTERN: &str = concat!(
    "^(orgs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/projects/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?",
    "/envs/[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?/topics/)?[A-Za-z0-9_-]{1,255}$"
);

const _: () = assert!(ID_BYTES_MAX == 63, "the patterns above say so");

/// Checks an id.
pub fn check_id(id: &str) -> Result<(), Fault> {
    let bytes = id.as_bytes();
    let letter_or_digit = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [bytes.first(), bytes.last()].into_iter().all(|end| end.is_some_and(letter_or_digit));
    let inside = bytes.iter().all(|byte| letter_or_digit(byte) || *byte == b'-');
    if bytes.len() > ID_BYTES_MAX {
        return Err(Fault::beyond(ID_BYTES_MAX, format!("an id of 1 to {ID_BYTES_MAX} bytes")));
    }
    if ends && inside {
        return Ok(());
    }
    let expected =
        "an id of lower-case letters, digits and hyphens that starts and ends with a letter or digit";
    Err(Fault::new(expected))
}

/// Checks an id that stood in `field`.
pub fn parse_id(field: &str, id: &str) -> Result<String, InputError> {
    check_id(id).map_err(|fault| fault.at(field, id))?;
    Ok(id.to_owned())
}

/// Splits `emails:send` into id and verb. Without a colon there is no verb. Neither part is checked.
pub fn split_verb(segment: &str) -> (&str, Option<&str>) {
    match segment.split_once(':') {
        Some((id, verb)) => (id, Some(verb)),
        None => (segment, None),
    }
}

/// `orgs/{o}/projects/{p}/envs/{e}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EnvironmentName {
    organization: String,
    project: String,
    environment: String,
}

impl EnvironmentName {
    /// The name from its three ids.
    pub fn new(organization: &str, project: &str, environment: &str) -> Result<EnvironmentName, InputError> {
        Ok(EnvironmentName {
            organization: parse_id("org", organization)?,
            project: parse_id("project", project)?,
            environment: parse_id("env", environment)?,
        })
    }

    /// Reads the whole name, as it stands in `field`.
    pub fn parse(field: &str, text: &str) -> Result<EnvironmentName, InputError> {
        let parts: Vec<_> = text.splitn(7, '/').collect();
        match parts[..] {
            ["orgs", organization, "projects", project, "envs", environment] => {
                let id =
                    |id: &str| check_id(id).map(|()| id.to_owned()).map_err(|fault| fault.at(field, text));
                Ok(EnvironmentName {
                    organization: id(organization)?,
                    project: id(project)?,
                    environment: id(environment)?,
                })
            }
            _ => Err(Fault::new("orgs/{org}/projects/{project}/envs/{env}").at(field, text)),
        }
    }

    /// The organization's id.
    pub fn organization(&self) -> &str {
        &self.organization
    }

    /// The project's id.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The environment's own id.
    pub fn environment(&self) -> &str {
        &self.environment
    }
}

impl fmt::Display for EnvironmentName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EnvironmentName { organization, project, environment } = self;
        write!(formatter, "orgs/{organization}/projects/{project}/envs/{environment}")
    }
}

/// `orgs/{o}/projects/{p}/envs/{e}/queues/{q}`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QueueName {
    environment: EnvironmentName,
    queue: String,
}

impl QueueName {
    /// The name from environment and id.
    pub fn new(environment: EnvironmentName, queue: &str) -> Result<QueueName, InputError> {
        Ok(QueueName { environment, queue: parse_id("queue", queue)? })
    }

    /// Reads the whole name, as it stands in `field`.
    pub fn parse(field: &str, text: &str) -> Result<QueueName, InputError> {
        let parts =
            text.rsplit_once('/').and_then(|(rest, queue)| Some((rest.strip_suffix("/queues")?, queue)));
        match parts {
            Some((environment, queue)) => {
                check_id(queue).map_err(|fault| fault.at(field, text))?;
                Ok(QueueName {
                    environment: EnvironmentName::parse(field, environment)?,
                    queue: queue.to_owned(),
                })
            }
            None => {
                Err(Fault::new("orgs/{org}/projects/{project}/envs/{env}/queues/{queue}").at(field, text))
            }
        }
    }

    /// The environment that holds the queue.
    pub fn environment(&self) -> &EnvironmentName {
        &self.environment
    }

    /// The queue's own id.
    pub fn queue(&self) -> &str {
        &self.queue
    }
}

impl fmt::Display for QueueName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/queues/{}", self.environment, self.queue)
    }
}

/// A queue named by another: its whole name, or its id alone for one in the same environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueReference {
    /// The whole name.
    Name(QueueName),
    /// The id, in the environment of the queue that refers to it.
    Id(String),
}

impl QueueReference {
    /// Reads a name or an id, as it stands in `field`.
    pub fn parse(field: &str, text: &str) -> Result<QueueReference, InputError> {
        if text.contains('/') {
            QueueName::parse(field, text).map(QueueReference::Name)
        } else {
            parse_id(field, text).map(QueueReference::Id)
        }
    }

    /// The whole name, as seen from `environment`.
    pub fn resolve(&self, environment: &EnvironmentName) -> QueueName {
        match self {
            QueueReference::Name(name) => name.clone(),
            QueueReference::Id(id) => QueueName { environment: environment.clone(), queue: id.clone() },
        }
    }
}

impl fmt::Display for QueueReference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            QueueReference::Name(name) => name.fmt(formatter),
            QueueReference::Id(id) => formatter.write_str(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ids_have_one_spelling() {
        for id in ["a", "0", "a-b", "a--b", "emails2", &"x".repeat(63)] {
            assert_eq!(check_id(id), Ok(()), "{id}");
        }
        let long = "x".repeat(64);
        let bad = [
            "", "-", "-a", "a-", "A", "a_b", "a.b", "..", "a%62", "a/b", "a:b", "ä", "ａ", "a b", "a\0",
            &long,
        ];
        for id in bad {
            assert!(check_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn names_are_read_and_written_alike() {
        let text = "orgs/acme/projects/shop/envs/prod/queues/emails";
        let name = QueueName::parse("name", text).expect("valid");
        assert_eq!(name.to_string(), text);
        assert_eq!(name.queue(), "emails");
        assert_eq!(name.environment().to_string(), "orgs/acme/projects/shop/envs/prod");
    }

    #[test]
    fn other_paths_are_no_names() {
        for text in [
            "",
            "emails",
            "queues/emails",
            "/orgs/a/projects/b/envs/c/queues/d",
            "orgs/a/projects/b/envs/c/queues/d/",
            "orgs/a/projects/b/envs/c/queues/",
            "orgs/a/projects/b/envs/../queues/d",
            "orgs/a/projects/b/envs/c/topics/d",
            "orgs/a/projects/b/envs/c/queues/d/queues/e",
            "orgs/a/projects/%62/envs/c/queues/d",
            "orgs/A/projects/b/envs/c/queues/d",
            "orgs//projects/b/envs/c/queues/d",
        ] {
            assert!(QueueName::parse("name", text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_verb_follows_the_first_colon() {
        assert_eq!(split_verb("emails:send"), ("emails", Some("send")));
        assert_eq!(split_verb("emails"), ("emails", None));
        assert_eq!(split_verb("emails:"), ("emails", Some("")));
        assert_eq!(split_verb("a:b:c"), ("a", Some("b:c")));
    }

    #[test]
    fn a_reference_is_resolved_in_the_environment_of_its_queue() {
        let environment = EnvironmentName::new("acme", "shop", "prod").expect("valid");
        let by_id = QueueReference::parse("q", "dead").expect("valid").resolve(&environment);
        let by_name = QueueReference::parse("q", &by_id.to_string()).expect("valid").resolve(&environment);
        assert_eq!(by_id, by_name);
        assert!(QueueReference::parse("q", "Dead").is_err());
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_written_back_unchanged(text in "(orgs/[a-z-]{0,3}/|projects/[a-z]/|envs/[a-z]/|queues/|.){0,6}") {
            if let Ok(name) = QueueName::parse("name", &text) {
                prop_assert_eq!(name.to_string(), text);
            }
        }
    }
}
