//! Messages as resources: one looked up, or many in a peek or on a page of dead letters. Nothing is leased or counted.

use crate::event::{Event, sylphx};
use crate::input_error::InputError;
use crate::lease::read_id;
use crate::limits::{PEEK_MESSAGES_DEFAULT, PEEK_MESSAGES_MAX};
use crate::name::{Kind, ResourceName};
use crate::reader::Node;
use crate::{time, writer};

/// Fields of a peek.
pub(crate) const PEEK_NAMES: &[&str] = &["max_messages", "state"];
/// States that a peek can look into, with their words.
pub(crate) const PEEK_STATES: [(&str, MessageState); 5] = [
    ("completed", MessageState::Completed),
    ("dead", MessageState::Dead),
    ("delayed", MessageState::Delayed),
    ("leased", MessageState::Leased),
    ("ready", MessageState::Ready),
];

/// Fields of a peek into a topic.
pub(crate) const TOPIC_PEEK_NAMES: &[&str] = &["max_messages", "state", "partition"];
/// States of a topic's messages.
pub(crate) const TOPIC_PEEK_STATES: [(&str, MessageState); 2] =
    [("delayed", MessageState::Delayed), ("ready", MessageState::Ready)];

/// Where a message is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageState {
    /// Ended before it was done.
    Cancelled,
    /// Done, and kept for a while.
    Completed,
    /// Out of attempts, in the queue's dead-letter set.
    Dead,
    /// Waits for its time.
    Delayed,
    /// Held by a consumer.
    Leased,
    /// Could be leased.
    Ready,
}

impl MessageState {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Cancelled => "cancelled",
            MessageState::Completed => "completed",
            MessageState::Dead => "dead",
            MessageState::Delayed => "delayed",
            MessageState::Leased => "leased",
            MessageState::Ready => "ready",
        }
    }
}

/// What `:peek` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeekRequest {
    /// At most this many messages.
    pub max_messages: u32,
    /// Which ones.
    pub state: MessageState,
    /// Of the partition with this id; none: those of a topic that were sent to no partition.
    pub partition: Option<String>,
}

impl PeekRequest {
    /// Reads a body of a call on a queue or a topic. No body at all looks at the first ten that are ready.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<PeekRequest, InputError> {
        let root = Node::optional_root(body)?;
        let of_topic = kind == Kind::Topic;
        let mut object = root.object(if of_topic { TOPIC_PEEK_NAMES } else { PEEK_NAMES })?;
        let max_messages = object.optional("max_messages", |node| node.integer(1..=PEEK_MESSAGES_MAX))?;
        let states = if of_topic { &TOPIC_PEEK_STATES[..] } else { &PEEK_STATES };
        let state = object.optional("state", |node| node.word(states))?;
        Ok(PeekRequest {
            max_messages: max_messages.unwrap_or(PEEK_MESSAGES_DEFAULT),
            state: state.unwrap_or(MessageState::Ready),
            partition: object.optional("partition", |node| read_id(&node, Kind::Partition))?,
        })
    }
}

/// A message as it is answered. Times are Unix milliseconds.
#[derive(Clone, Debug)]
pub struct Message {
    /// The id that `:send` answered.
    pub message_id: String,
    /// The queue or topic that holds it. A topic's has neither priority nor counts, which are its groups'.
    pub home: ResourceName,
    /// Where it is on its way.
    pub state: MessageState,
    /// What was sent, without data if that is elsewhere.
    pub event: Event,
    /// Where the data is, if it is too large to be in here.
    pub data_url: Option<String>,
    /// Higher is handed out first.
    pub priority: i32,
    /// Leases granted.
    pub delivery_count: u32,
    /// Attempts spent.
    pub failure_count: u32,
    /// Leases that ran out in a row.
    pub lost_lease_count: u32,
    /// When it was sent.
    pub send_time: i64,
    /// From when on it can be leased, while it waits.
    pub visible_time: Option<i64>,
    /// When its lease ends, while it is leased.
    pub lease_expire_time: Option<i64>,
    /// When it is removed, unless it is leased then.
    pub expire_time: i64,
    /// Set once it was out of attempts, here or in the queue that it came from.
    pub dead_letter: Option<MessageDeath>,
    /// When it was done.
    pub finish_time: Option<i64>,
    /// Bytes of attributes and data.
    pub size_bytes: u64,
}

/// How a message came to be a dead letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageDeath {
    /// When, in Unix milliseconds.
    pub time: i64,
    /// One word for why.
    pub reason: &'static str,
    /// In which queue or group: its whole name.
    pub queue: String,
}

impl Message {
    /// The resource as JSON.
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.render_into(&mut out);
        out
    }

    fn render_into(&self, out: &mut String) {
        out.push('{');
        writer::push_text_field(out, "message_id", &self.message_id);
        writer::push_text_field(out, self.home.kind().noun(), &self.home.to_string());
        writer::push_text_field(out, "state", self.state.as_str());
        writer::push_name(out, "event");
        sylphx::render_with_data_url_into(out, &self.event, self.data_url.as_deref());
        if self.home.kind() == Kind::Queue {
            self.render_counts(out);
        }
        let death = self.dead_letter.as_ref();
        for (name, millis) in [
            ("send_time", Some(self.send_time)),
            ("visible_time", self.visible_time),
            ("lease_expire_time", self.lease_expire_time),
            ("expire_time", Some(self.expire_time)),
            ("dead_letter_time", death.map(|death| death.time)),
            ("finish_time", self.finish_time),
        ] {
            if let Some(millis) = millis {
                writer::push_text_field(out, name, &time::render(millis));
            }
        }
        if let Some(death) = death {
            writer::push_text_field(out, "dead_letter_reason", death.reason);
            writer::push_text_field(out, "dead_letter_queue", &death.queue);
        }
        writer::push_text_field(out, "size_bytes", &self.size_bytes.to_string());
        out.push('}');
    }

    fn render_counts(&self, out: &mut String) {
        writer::push_name(out, "priority");
        writer::push_display(out, self.priority);
        for (name, count) in [
            ("delivery_count", self.delivery_count),
            ("failure_count", self.failure_count),
            ("lost_lease_count", self.lost_lease_count),
        ] {
            writer::push_name(out, name);
            writer::push_display(out, count);
        }
    }
}

/// The answer of `:peek`.
pub fn render_messages(messages: &[Message]) -> String {
    let mut out = String::from("{");
    push_messages(&mut out, messages);
    out.push('}');
    out
}

/// Appends `"messages":[…]` to an object.
pub(crate) fn push_messages(out: &mut String, messages: &[Message]) {
    writer::push_name(out, "messages");
    writer::push_list(out, messages, |out, message| message.render_into(out));
}
