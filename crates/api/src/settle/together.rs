//! `:settle`: acks, nacks, extensions and sends in one commit.
//!
//! Without sends and without `require` stale leases are listed as by the plain calls; with either of them one stale lease
//! refuses the whole call.

use std::time::Duration;

use super::{LEASE_ID_NAMES, LeaseId, push_stale, take_lease};
use crate::event::{Event, sylphx};
use crate::input_error::{Fault, InputError};
use crate::lease::VISIBILITY_TIMEOUT;
use crate::limits::{EVENTS_PER_CALL_MAX, LEASES_PER_CALL_MAX};
use crate::name::QueueReference;
use crate::reader::{Node, Object};
use crate::send::{DELAY, TTL, push_sent};
use crate::writer;

/// Fields of the call.
pub(crate) const SETTLE_NAMES: &[&str] = &["acks", "nacks", "extends", "sends", "require"];
/// Fields of an entry of `nacks`.
pub(crate) const NACK_ENTRY_NAMES: &[&str] = &["message_id", "lease_generation", "delay"];
/// Fields of an entry of `extends`.
pub(crate) const EXTEND_ENTRY_NAMES: &[&str] = &["message_id", "lease_generation", "visibility_timeout"];
/// Fields of an entry of `sends`.
pub(crate) const SEND_ENTRY_NAMES: &[&str] = &["queue", "events", "delay", "priority", "ttl"];

/// What `:settle` asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SettleRequest {
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
    /// Where to. None is the queue of the call.
    pub queue: Option<QueueReference>,
    /// The events, in the order in which their ids are answered.
    pub events: Vec<Event>,
    /// How long they stay hidden. None is the queue's own delay.
    pub delay: Option<Duration>,
    /// Higher is handed out first.
    pub priority: i32,
    /// How long they live at most. None is the queue's retention alone.
    pub time_to_live: Option<Duration>,
}

impl SettleRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<SettleRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(SETTLE_NAMES)?;
        let mut left = LEASES_PER_CALL_MAX;
        let acks = read_entries(&mut object, "acks", &mut left, |node| {
            take_lease(&mut node.object(LEASE_ID_NAMES)?)
        })?;
        let nacks = read_entries(&mut object, "nacks", &mut left, |node| {
            let mut entry = node.object(NACK_ENTRY_NAMES)?;
            Ok((take_lease(&mut entry)?, entry.optional("delay", |node| node.duration(DELAY))?))
        })?;
        let extends = read_entries(&mut object, "extends", &mut left, |node| {
            let mut entry = node.object(EXTEND_ENTRY_NAMES)?;
            let timeout = |node: Node<'_, '_>| node.duration(VISIBILITY_TIMEOUT);
            Ok((take_lease(&mut entry)?, entry.optional("visibility_timeout", timeout)?))
        })?;
        let sends = object.optional("sends", |node| read_sends(&node))?.unwrap_or_default();
        let require = object.optional("require", |node| node.word(&[("all", ())]))?;
        if left == LEASES_PER_CALL_MAX && sends.is_empty() {
            return Err(root.refuse(Fault::new("a lease in acks, nacks or extends, or a send")));
        }
        Ok(SettleRequest { acks, nacks, extends, sends, require_all: require.is_some() })
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

fn read_sends(node: &Node<'_, '_>) -> Result<Vec<SettleSend>, InputError> {
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
            queue: entry.optional("queue", |node| QueueReference::parse(&node.path(), &node.string()?))?,
            events,
            delay: entry.optional("delay", |node| node.duration(DELAY))?,
            priority: entry.optional("priority", |node| node.signed())?.unwrap_or(0),
            time_to_live: entry.optional("ttl", |node| node.duration(TTL))?,
        });
    }
    Ok(sends)
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
