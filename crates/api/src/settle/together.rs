//! `:settle`: acks, nacks, extensions and sends in one commit.
//!
//! Without sends and without `require` stale leases are listed as by the plain calls; with either of them one stale lease
//! refuses the whole call.

use std::time::Duration;

use super::{LeaseId, Names, push_stale, read_group, read_lease, take_lease};
use crate::event::{Event, sylphx};
use crate::input_error::{Fault, InputError};
use crate::lease::{VISIBILITY_TIMEOUT, read_id};
use crate::limits::{EVENTS_PER_CALL_MAX, LEASES_PER_CALL_MAX};
use crate::name::{Kind, QueueReference, TopicReference};
use crate::reader::{Node, Object};
use crate::send::{DELAY, TTL, push_sent};
use crate::writer;

/// Fields of the call.
pub(crate) const SETTLE: Names = Names {
    of_queue: &["acks", "nacks", "extends", "sends", "require"],
    of_topic: &["acks", "nacks", "extends", "sends", "require", "group"],
};
/// Fields of an entry of `nacks`.
pub(crate) const NACK_ENTRY: Names = Names {
    of_queue: &["message_id", "lease_generation", "delay"],
    of_topic: &["message_id", "lease_generation", "delivery", "delay"],
};
/// Fields of an entry of `extends`.
pub(crate) const EXTEND_ENTRY: Names = Names {
    of_queue: &["message_id", "lease_generation", "visibility_timeout"],
    of_topic: &["message_id", "lease_generation", "delivery", "visibility_timeout"],
};
/// Fields of an entry of `sends`.
pub(crate) const SEND_ENTRY_NAMES: &[&str] =
    &["queue", "topic", "partition", "events", "delay", "priority", "ttl"];

/// What `:settle` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleRequest {
    /// The id of the group, on a topic.
    pub group: Option<String>,
    /// Leases whose work is done.
    pub acks: Vec<LeaseId>,
    /// Leases whose work failed, and how long their messages stay hidden. None is the queue's backoff.
    pub nacks: Vec<(LeaseId, Option<Duration>)>,
    /// Leases that go on, and how long from now. None is the queue's own timeout.
    pub extends: Vec<(LeaseId, Option<Duration>)>,
    /// What is sent in the same commit.
    pub sends: Vec<SettleSend>,
    /// Whether one stale lease refuses all, also without sends.
    pub require_all: bool,
}

/// One send of a settle call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleSend {
    /// Where to.
    pub to: SendTo,
    /// The events, in the order in which their ids are answered.
    pub events: Vec<Event>,
    /// How long they stay hidden. None is the queue's own delay.
    pub delay: Option<Duration>,
    /// Higher is handed out first.
    pub priority: i32,
    /// How long they live at most. None is the queue's retention alone.
    pub time_to_live: Option<Duration>,
}

/// Where a send of a settle call goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendTo {
    /// To the queue or topic of the call.
    Own,
    /// To a queue.
    Queue(QueueReference),
    /// To a topic; none is the topic of the call.
    Topic {
        /// Which.
        topic: Option<TopicReference>,
        /// The id of a partition of it, made by the call if there is none.
        partition: Option<String>,
    },
}

impl SettleRequest {
    /// Reads a body of a call on a queue or a topic.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<SettleRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(SETTLE.of(kind))?;
        let mut left = LEASES_PER_CALL_MAX;
        let acks = read_entries(&mut object, "acks", &mut left, |node| read_lease(kind, node))?;
        let nacks = read_entries(&mut object, "nacks", &mut left, |node| {
            let mut entry = node.object(NACK_ENTRY.of(kind))?;
            Ok((take_lease(kind, &mut entry)?, entry.optional("delay", |node| node.duration(DELAY))?))
        })?;
        let extends = read_entries(&mut object, "extends", &mut left, |node| {
            let mut entry = node.object(EXTEND_ENTRY.of(kind))?;
            let timeout = |node: Node<'_, '_>| node.duration(VISIBILITY_TIMEOUT);
            Ok((take_lease(kind, &mut entry)?, entry.optional("visibility_timeout", timeout)?))
        })?;
        let group = read_group(kind, &mut object)?;
        let sends = object.optional("sends", |node| read_sends(kind, &node))?.unwrap_or_default();
        let require = object.optional("require", |node| node.word(&[("all", ())]))?;
        if left == LEASES_PER_CALL_MAX && sends.is_empty() {
            return Err(root.refuse(Fault::new("a lease in acks, nacks or extends, or a send")));
        }
        Ok(SettleRequest { group, acks, nacks, extends, sends, require_all: require.is_some() })
    }

    /// The leases in the order in which stale ones are answered: acks, nacks, extensions.
    pub fn leases(&self) -> impl Iterator<Item = &LeaseId> {
        let others = self.nacks.iter().chain(&self.extends).map(|(lease, _)| lease);
        self.acks.iter().chain(others)
    }
}

/// Reads a list of leases, of which there may be `left` more in this call.
fn read_entries<T>(
    object: &mut Object<'_, '_>,
    name: &'static str,
    left: &mut usize,
    read: impl Fn(&Node<'_, '_>) -> Result<T, InputError>,
) -> Result<Vec<T>, InputError> {
    let Some(list) = object.take(name) else { return Ok(Vec::new()) };
    let entries = list.list(0..=LEASES_PER_CALL_MAX)?;
    let entries = entries.map(|node| read(&node)).collect::<Result<Vec<_>, _>>()?;
    *left = left.checked_sub(entries.len()).ok_or_else(|| {
        let expected = format!("at most {LEASES_PER_CALL_MAX} leases in acks, nacks and extends together");
        Fault::beyond(LEASES_PER_CALL_MAX, expected).at(name, &format!("an array of {}", entries.len()))
    })?;
    Ok(entries)
}

fn read_sends(kind: Kind, node: &Node<'_, '_>) -> Result<Vec<SettleSend>, InputError> {
    let mut left = EVENTS_PER_CALL_MAX;
    let mut sends = Vec::new();
    for node in node.list(0..=EVENTS_PER_CALL_MAX)? {
        let mut entry = node.object(SEND_ENTRY_NAMES)?;
        let list = entry.require("events")?;
        let events = list.list(1..=EVENTS_PER_CALL_MAX)?.map(|node| sylphx::parse_node(&node));
        let events = events.collect::<Result<Vec<_>, _>>()?;
        left = left.checked_sub(events.len()).ok_or_else(|| {
            let expected = format!("at most {EVENTS_PER_CALL_MAX} events in all sends together");
            Fault::beyond(EVENTS_PER_CALL_MAX, expected)
                .at(list.path(), &format!("an array of {}", events.len()))
        })?;
        sends.push(SettleSend {
            to: read_to(kind, &mut entry)?,
            events,
            delay: entry.optional("delay", |node| node.duration(DELAY))?,
            priority: entry.optional("priority", |node| node.signed())?.unwrap_or(0),
            time_to_live: entry.optional("ttl", |node| node.duration(TTL))?,
        });
    }
    Ok(sends)
}

fn read_to(kind: Kind, entry: &mut Object<'_, '_>) -> Result<SendTo, InputError> {
    let queue = entry.optional("queue", |node| QueueReference::parse(&node.path(), &node.string()?))?;
    let topic = |node: Node<'_, '_>| {
        if queue.is_some() {
            return Err(node.refuse(Fault::new("one of queue and topic")));
        }
        TopicReference::parse(&node.path(), &node.string()?)
    };
    let topic = entry.optional("topic", topic)?;
    let of_topic = topic.is_some() || kind == Kind::Topic && queue.is_none();
    let partition = entry.optional("partition", |node| {
        if of_topic {
            read_id(&node, Kind::Partition)
        } else {
            Err(node.refuse(Fault::new("a topic beside")))
        }
    })?;
    Ok(match queue {
        Some(queue) => SendTo::Queue(queue),
        None if topic.is_none() && partition.is_none() => SendTo::Own,
        None => SendTo::Topic { topic, partition },
    })
}

/// The answer: the leases that were no longer held, and the message ids of each send.
pub fn render_settled(stale: &[LeaseId], sends: &[Vec<String>]) -> String {
    let mut out = String::from("{");
    push_stale(&mut out, stale);
    writer::push_name(&mut out, "sends");
    writer::push_list(&mut out, sends, |out, ids| push_sent(out, ids));
    out.push('}');
    out
}
