//! `:lease`: the call, and the answer in our form or as a batch of CloudEvents.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::event::{AttributeValue, Event, batch, sylphx};
use crate::input_error::{Fault, InputError};
use crate::limits::{LEASE_MESSAGES_MAX, VISIBILITY_TIMEOUT_MAX, VISIBILITY_TIMEOUT_MIN, WAIT_MAX};
use crate::reader::Node;
use crate::{time, writer};

pub(crate) const VISIBILITY_TIMEOUT: RangeInclusive<Duration> =
    VISIBILITY_TIMEOUT_MIN..=VISIBILITY_TIMEOUT_MAX;

pub(crate) const WAIT: RangeInclusive<Duration> = Duration::ZERO..=WAIT_MAX;
/// Fields of a lease call.
pub(crate) const LEASE_NAMES: &[&str] =
    &["max_messages", "min_messages", "max_wait", "visibility_timeout", "wait"];

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
}

impl LeaseRequest {
    /// Reads a body. No body at all asks for one message, at once.
    pub fn parse(body: &[u8]) -> Result<LeaseRequest, InputError> {
        let root = Node::optional_root(body)?;
        let mut object = root.object(LEASE_NAMES)?;
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
        Ok(LeaseRequest {
            max_messages,
            min_messages: min_messages.unwrap_or(1),
            max_wait,
            visibility_timeout,
            wait: wait.unwrap_or_default(),
        })
    }
}

/// A message in a lease's answer.
#[derive(Clone, Debug)]
pub struct LeasedMessage<'a> {
    /// The id that `:send` answered.
    pub message_id: &'a str,
    /// The event.
    pub event: &'a Event,
    /// Names this lease when it is settled.
    pub lease_generation: u64,
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
    sylphx::render_into(out, message.event);
    writer::push_name(out, "lease");
    push_lease(out, message.message_id, message.lease_generation);
    writer::push_name(out, "delivery_count");
    writer::push_display(out, message.delivery_count);
    writer::push_text_field(out, "lease_expire_time", &time::render(message.lease_expire_time));
    out.push('}');
}

/// Appends `{message_id, lease_generation}`; 64-bit integers are strings.
pub(crate) fn push_lease(out: &mut String, message_id: &str, lease_generation: u64) {
    out.push('{');
    writer::push_text_field(out, "message_id", message_id);
    writer::push_text_field(out, "lease_generation", &lease_generation.to_string());
    out.push('}');
}

/// The extension attribute that holds the message id in a batch.
pub const MESSAGE_ID_ATTRIBUTE: &str = "millpondmessageid";
/// The extension attribute that holds the lease generation in a batch.
pub const LEASE_GENERATION_ATTRIBUTE: &str = "millpondgeneration";
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
    vec![
        (MESSAGE_ID_ATTRIBUTE, message.message_id.into()),
        (LEASE_GENERATION_ATTRIBUTE, AttributeValue::String(message.lease_generation.to_string())),
        (DELIVERY_COUNT_ATTRIBUTE, AttributeValue::String(message.delivery_count.to_string())),
        (LEASE_EXPIRE_TIME_ATTRIBUTE, AttributeValue::String(time::render(message.lease_expire_time))),
    ]
}
