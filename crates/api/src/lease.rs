//! `:lease`: the call, and the answer in our form or as a batch of CloudEvents.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::event::{AttributeValue, Event, batch, sylphx};
use crate::input_error::{Fault, InputError};
use crate::limits::{
    LEASE_MESSAGES_MAX, LEASED_MAX, VISIBILITY_TIMEOUT_MAX, VISIBILITY_TIMEOUT_MIN, WAIT_MAX,
};
use crate::name::Kind;
use crate::queue::{STARTS, Start};
use crate::reader::{Node, Object};
use crate::{time, writer};

pub(crate) const VISIBILITY_TIMEOUT: RangeInclusive<Duration> =
    VISIBILITY_TIMEOUT_MIN..=VISIBILITY_TIMEOUT_MAX;

pub(crate) const WAIT: RangeInclusive<Duration> = Duration::ZERO..=WAIT_MAX;
/// Fields of a lease call.
pub(crate) const LEASE_NAMES: &[&str] =
    &["max_messages", "min_messages", "max_wait", "visibility_timeout", "wait"];

/// Fields of a lease call on a topic.
pub(crate) const TOPIC_LEASE_NAMES: &[&str] = &[
    "max_messages",
    "min_messages",
    "max_wait",
    "visibility_timeout",
    "wait",
    "group",
    "partition",
    "start",
    "max_in_flight",
];

/// What `:lease` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRequest {
    /// At most this many messages.
    pub max_messages: u32,
    /// Wait until there are this many, or `wait` or `max_wait` has passed; at most `max_messages`.
    pub min_messages: u32,
    /// Once there is a message, wait at most so long for `min_messages`. None is as long as `wait`.
    pub max_wait: Option<Duration>,
    /// How long they stay hidden from others. None is the queue's own timeout.
    pub visibility_timeout: Option<Duration>,
    /// How long to wait for messages. Zero answers at once.
    pub wait: Duration,
    /// For which group, on a topic.
    pub group: Option<GroupLease>,
}

/// What a lease call on a topic says beside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupLease {
    /// The id of the group; made by the call if there is none.
    pub group: String,
    /// Only messages of the partition with this id.
    pub partition: Option<String>,
    /// Where the group begins if it is made.
    pub start: Start,
    /// Refused unless fewer messages of the group are leased, and no more than so many are afterwards.
    pub max_in_flight: Option<u32>,
}

impl LeaseRequest {
    /// Reads a body of a call on a queue or a topic. On a queue, no body at all asks for one message, at once.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<LeaseRequest, InputError> {
        let root = Node::optional_root(body)?;
        let mut object = root.object(if kind == Kind::Topic { TOPIC_LEASE_NAMES } else { LEASE_NAMES })?;
        let count = |node: Node<'_, '_>| node.integer(1..=LEASE_MESSAGES_MAX);
        let max_messages = object.optional("max_messages", count)?.unwrap_or(1);
        let min_messages = object.optional("min_messages", |node| {
            let value = count(node)?;
            if value <= max_messages {
                return Ok(value);
            }
            let expected = format!("at most max_messages, which is {max_messages}");
            Err(node.refuse(Fault::beyond(max_messages, expected)))
        })?;
        let visibility_timeout =
            object.optional("visibility_timeout", |node| node.duration(VISIBILITY_TIMEOUT))?;
        let max_wait = object.optional("max_wait", |node| node.duration(WAIT))?;
        let wait = object.optional("wait", |node| node.duration(WAIT))?;
        let group = if kind == Kind::Topic { Some(GroupLease::read(&mut object)?) } else { None };
        Ok(LeaseRequest {
            max_messages,
            min_messages: min_messages.unwrap_or(1),
            max_wait,
            visibility_timeout,
            wait: wait.unwrap_or_default(),
            group,
        })
    }
}

impl GroupLease {
    fn read(object: &mut Object<'_, '_>) -> Result<GroupLease, InputError> {
        Ok(GroupLease {
            group: read_id(&object.require("group")?, Kind::Group)?,
            partition: object.optional("partition", |node| read_id(&node, Kind::Partition))?,
            start: object.optional("start", |node| node.word(&STARTS))?.unwrap_or_default(),
            max_in_flight: object.optional("max_in_flight", |node| node.integer(1..=LEASED_MAX))?,
        })
    }
}

/// Reads the id of something of this kind.
pub(crate) fn read_id(node: &Node<'_, '_>, kind: Kind) -> Result<String, InputError> {
    let id = node.string()?;
    kind.check_id(&id).map_err(|fault| node.refuse(fault))?;
    Ok(id.into_owned())
}

/// A message in a lease's answer.
#[derive(Clone, Debug)]
pub struct LeasedMessage<'a> {
    /// The id that `:send` answered.
    pub message_id: &'a str,
    /// The event, without data if that is elsewhere.
    pub event: &'a Event,
    /// Where the data is, if it is too large to be in here.
    pub data_url: Option<&'a str>,
    /// Names this lease when it is settled.
    pub lease_generation: u64,
    /// Names it beside, if it is a group's.
    pub delivery: Option<u64>,
    /// Leases granted so far, this one included.
    pub delivery_count: u64,
    /// When the lease runs out, in Unix milliseconds.
    pub lease_expire_time: i64,
}

/// The answer in our form.
pub fn render_leased(messages: &[LeasedMessage<'_>]) -> String {
    let mut out = String::from(r#"{"messages":"#);
    writer::push_list(&mut out, messages, push_message);
    out.push('}');
    out
}

fn push_message(out: &mut String, message: &LeasedMessage<'_>) {
    out.push('{');
    writer::push_text_field(out, "message_id", message.message_id);
    writer::push_name(out, "event");
    sylphx::render_with_data_url_into(out, message.event, message.data_url);
    writer::push_name(out, "lease");
    push_lease(out, message.message_id, message.lease_generation, message.delivery);
    writer::push_name(out, "delivery_count");
    writer::push_display(out, message.delivery_count);
    writer::push_text_field(out, "lease_expire_time", &time::render(message.lease_expire_time));
    out.push('}');
}

/// Appends `{message_id, lease_generation}`, and the delivery of a group's lease; 64-bit integers are strings.
pub(crate) fn push_lease(out: &mut String, message_id: &str, lease_generation: u64, delivery: Option<u64>) {
    out.push('{');
    writer::push_text_field(out, "message_id", message_id);
    writer::push_text_field(out, "lease_generation", &lease_generation.to_string());
    if let Some(delivery) = delivery {
        writer::push_text_field(out, "delivery", &delivery.to_string());
    }
    out.push('}');
}

/// The extension attribute that says where the data is, in a batch: CloudEvents' own for this.
pub const DATA_REFERENCE_ATTRIBUTE: &str = "dataref";
/// The extension attribute that holds the message id in a batch.
pub const MESSAGE_ID_ATTRIBUTE: &str = "millpondmessageid";
/// The extension attribute that holds the lease generation in a batch.
pub const LEASE_GENERATION_ATTRIBUTE: &str = "millpondgeneration";
/// The extension attribute that holds the delivery of a group's lease in a batch.
pub const DELIVERY_ATTRIBUTE: &str = "millponddelivery";
/// The extension attribute that holds the delivery count in a batch, as a string like all 64-bit integers.
pub const DELIVERY_COUNT_ATTRIBUTE: &str = "millponddeliveries";
/// The extension attribute that holds the end of the lease in a batch.
pub const LEASE_EXPIRE_TIME_ATTRIBUTE: &str = "millpondleaseend";

/// The answer as a batch of CloudEvents, lease and counts in extension attributes.
///
/// An event's own attributes of these names give way.
pub fn render_leased_batch(messages: &[LeasedMessage<'_>]) -> String {
    let events: Vec<_> = messages.iter().map(|message| (message.event, lease_attributes(message))).collect();
    batch::render(&events)
}

fn lease_attributes(message: &LeasedMessage<'_>) -> Vec<(&'static str, AttributeValue)> {
    let mut attributes = vec![
        (MESSAGE_ID_ATTRIBUTE, message.message_id.into()),
        (LEASE_GENERATION_ATTRIBUTE, AttributeValue::String(message.lease_generation.to_string())),
        (DELIVERY_COUNT_ATTRIBUTE, AttributeValue::String(message.delivery_count.to_string())),
        (LEASE_EXPIRE_TIME_ATTRIBUTE, AttributeValue::String(time::render(message.lease_expire_time))),
    ];
    let delivery = message.delivery.map(|delivery| AttributeValue::String(delivery.to_string()));
    attributes.extend(delivery.map(|delivery| (DELIVERY_ATTRIBUTE, delivery)));
    attributes.extend(message.data_url.map(|url| (DATA_REFERENCE_ATTRIBUTE, url.into())));
    attributes
}
