//! Triggers: what pushes messages of topics to a target, for a group.
//!
//! A trigger is made and removed, never changed, so a body holds only what a client sets: what the server adds is refused
//! in it. What is not given has the server's default.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::{Serialize, Serializer};

use crate::input_error::{Fault, InputError};
use crate::lease::VISIBILITY_TIMEOUT;
use crate::limits::{
    LEASED_MAX, TARGET_BYTES_MAX, TOPIC_ID_BYTES_MAX, TRIGGER_DELIVERIES_MAX, TRIGGER_RETRY_AFTER_MIN,
    TRIGGER_WAIT_MAX,
};
use crate::name::{QueueReference, check_topic_id};
use crate::push::PushCounts;
use crate::queue::as_time;
use crate::reader::Node;
use crate::{duration, writer};

/// Fields that a client sets.
pub(crate) const TRIGGER_NAMES: &[&str] = &[
    "topic",
    "group",
    "target",
    "retry_after",
    "initial_delay",
    "max_deliveries",
    "max_concurrency",
    "dead_letter_queue",
    "visibility_timeout",
];

/// What [`check_topic_pattern`] takes, as a pattern, lengths aside.
pub(crate) const TOPIC_PATTERN: &str = "^([A-Za-z0-9_-]+\\*?|\\*)$";
/// What a target starts with.
pub(crate) const TARGET_PATTERN: &str = "^https?://";

pub(crate) const RETRY_AFTER: RangeInclusive<Duration> = TRIGGER_RETRY_AFTER_MIN..=TRIGGER_WAIT_MAX;
pub(crate) const INITIAL_DELAY: RangeInclusive<Duration> = Duration::ZERO..=TRIGGER_WAIT_MAX;

/// A trigger to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TriggerBody {
    /// The id of a topic, or the start of such ids and a `*` behind it.
    pub topic: String,
    /// The id of the group.
    pub group: String,
    /// Where to: begins with `http://` or `https://`, 2,048 bytes at most. The rest of it is the server's to check.
    pub target: String,
    /// How long a message waits whose push failed, 1 ms to 24h.
    pub retry_after: Option<Duration>,
    /// For how long nothing is pushed at first, up to 24h.
    pub initial_delay: Option<Duration>,
    /// Deliveries after which a message leaves the group: 1 to 1,000,000. None is no limit.
    pub max_deliveries: Option<u32>,
    /// Messages of the group in flight at once: 1 to 1,000,000. None is no limit of the trigger's.
    pub max_concurrency: Option<u32>,
    /// Takes messages out of deliveries.
    pub dead_letter_queue: Option<QueueReference>,
    /// How long the lease of a push lasts, 1s to 12h.
    pub visibility_timeout: Option<Duration>,
}

impl TriggerBody {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<TriggerBody, InputError> {
        TriggerBody::read(&Node::root(body)?)
    }

    pub(crate) fn read(node: &Node<'_, '_>) -> Result<TriggerBody, InputError> {
        let mut object = node.object(TRIGGER_NAMES)?;
        let checked = |node: Node<'_, '_>, check: fn(&str) -> Result<(), Fault>| {
            let text = node.string()?;
            check(&text).map_err(|fault| node.refuse(fault))?;
            Ok::<_, InputError>(text.into_owned())
        };
        Ok(TriggerBody {
            topic: checked(object.require("topic")?, check_topic_pattern)?,
            group: checked(object.require("group")?, check_topic_id)?,
            target: checked(object.require("target")?, check_target_start)?,
            retry_after: object.optional("retry_after", |node| node.duration(RETRY_AFTER))?,
            initial_delay: object.optional("initial_delay", |node| node.duration(INITIAL_DELAY))?,
            max_deliveries: object
                .optional("max_deliveries", |node| node.integer(1..=TRIGGER_DELIVERIES_MAX))?,
            max_concurrency: object.optional("max_concurrency", |node| node.integer(1..=LEASED_MAX))?,
            dead_letter_queue: object
                .optional("dead_letter_queue", |node| QueueReference::parse(&node.path(), &node.string()?))?,
            visibility_timeout: object
                .optional("visibility_timeout", |node| node.duration(VISIBILITY_TIMEOUT))?,
        })
    }
}

/// Checks which topics a trigger is for: one by its id, or all whose ids start with what stands before a `*`.
pub fn check_topic_pattern(text: &str) -> Result<(), Fault> {
    let start = text.strip_suffix('*').unwrap_or(text);
    if text == "*" || check_topic_id(start).is_ok() {
        return Ok(());
    }
    let expected = format!(
        "the id of a topic, 1 to {TOPIC_ID_BYTES_MAX} letters, digits, '_' and '-', or the start of one and a '*' behind it"
    );
    Err(if start.len() > TOPIC_ID_BYTES_MAX {
        Fault::beyond(TOPIC_ID_BYTES_MAX, expected)
    } else {
        Fault::new(expected)
    })
}

fn check_target_start(text: &str) -> Result<(), Fault> {
    let starts = text.starts_with("http://") || text.starts_with("https://");
    if starts && text.len() <= TARGET_BYTES_MAX {
        return Ok(());
    }
    let expected = format!("an http or https URL of at most {TARGET_BYTES_MAX} bytes");
    Err(if starts { Fault::beyond(TARGET_BYTES_MAX, expected) } else { Fault::new(expected) })
}

/// A trigger as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trigger {
    /// `orgs/{o}/projects/{p}/envs/{e}/triggers/{t}`.
    pub name: String,
    /// Its id.
    pub trigger_id: String,
    /// Never used again, not even for a trigger made later under the same id.
    pub uid: String,
    /// The deployment that it belongs to.
    pub deployment: Option<String>,
    /// Its deployment is the current one.
    pub current: bool,
    /// The topic, or the start of topics' ids with a `*` behind it.
    pub topic: String,
    /// The group.
    pub group: String,
    /// Where to.
    pub target: String,
    /// How long a message waits whose push failed.
    #[serde(serialize_with = "as_duration")]
    pub retry_after: Duration,
    /// For how long nothing was pushed at first.
    #[serde(serialize_with = "as_duration")]
    pub initial_delay: Duration,
    /// Deliveries after which a message leaves the group.
    pub max_deliveries: Option<u32>,
    /// Messages of the group in flight at once.
    pub max_concurrency: Option<u32>,
    /// The whole name of the queue that takes messages out of deliveries.
    pub dead_letter_queue: Option<String>,
    /// How long the lease of a push lasts.
    #[serde(serialize_with = "as_duration")]
    pub visibility_timeout: Duration,
    /// Nothing is pushed before this time, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub starts_at: i64,
    /// When it was made, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub create_time: i64,
    /// How it is doing.
    pub state: TriggerState,
    /// What is wrong with its target.
    pub trouble: Option<TriggerTrouble>,
    /// What became of its pushes since the server was started. None: this server does not push it.
    pub pushes: Option<PushCounts>,
}

/// How a trigger is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerState {
    /// It pushes what there is.
    Active,
    /// Its target cannot be reached; it is tried again.
    Down,
    /// It was made lately and waits for its initial delay to be over.
    Starting,
}

/// What is wrong with a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TriggerTrouble {
    /// Since when, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub since: i64,
    /// What the last try said.
    pub error: String,
    /// When it is tried again, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub next_try: i64,
}

impl Trigger {
    /// The resource as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and structs serialize")
    }
}

/// All triggers of an environment.
pub fn render_triggers(triggers: &[Trigger]) -> String {
    let mut out = String::from("{");
    writer::push_name(&mut out, "triggers");
    writer::push_list(&mut out, triggers, |out, trigger| out.push_str(&trigger.render()));
    out.push('}');
    out
}

fn as_duration<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&duration::render(*duration))
}
