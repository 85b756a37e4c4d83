//! `:ack`, `:nack` and `:extend`: the calls, and the answer that lists stale leases; and `:settle`, all of them in one.
//!
//! A lease that is no longer held is not an error here: it is listed, and the others are settled.
//!
//! A call on a topic is about one of its groups, whose leases are named by their delivery as well.

mod together;

use std::time::Duration;

use crate::input_error::InputError;
use crate::lease::{VISIBILITY_TIMEOUT, push_lease, read_id};
use crate::limits::{LEASES_PER_CALL_MAX, MESSAGE_ID_BYTES_MAX};
use crate::name::Kind;
use crate::reader::{Node, Object};
use crate::send::DELAY;
use crate::writer;

pub(crate) use together::{EXTEND_ENTRY, NACK_ENTRY, SEND_ENTRY_NAMES, SETTLE};
pub use together::{SendTo, SettleRequest, SettleSend, render_settled};

/// Names of fields: on a queue, and on a topic.
pub(crate) struct Names {
    of_queue: &'static [&'static str],
    of_topic: &'static [&'static str],
}

impl Names {
    pub(crate) fn of(&self, kind: Kind) -> &'static [&'static str] {
        if kind == Kind::Topic { self.of_topic } else { self.of_queue }
    }
}

/// Fields of an ack.
pub(crate) const ACK: Names = Names { of_queue: &["leases"], of_topic: &["leases", "group"] };
/// Fields of a nack.
pub(crate) const NACK: Names =
    Names { of_queue: &["leases", "delay"], of_topic: &["leases", "delay", "group"] };
/// Fields of an extension.
pub(crate) const EXTEND: Names = Names {
    of_queue: &["leases", "visibility_timeout"],
    of_topic: &["leases", "visibility_timeout", "group"],
};
/// Fields of a lease's name.
pub(crate) const LEASE_ID: Names = Names {
    of_queue: &["message_id", "lease_generation"],
    of_topic: &["message_id", "lease_generation", "delivery"],
};

/// Names a lease: which message, and which hold on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The message. Any string of up to 128 bytes: one that names no message is stale.
    pub message_id: String,
    /// The generation that `:lease` answered.
    pub lease_generation: u64,
    /// The delivery that it answered, if the lease is a group's.
    pub delivery: Option<u64>,
}

/// What `:ack` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// The id of the group, on a topic.
    pub group: Option<String>,
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
}

/// What `:nack` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NackRequest {
    /// The id of the group, on a topic.
    pub group: Option<String>,
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
    /// How long the messages stay hidden. None is the queue's backoff; zero is at once.
    pub delay: Option<Duration>,
}

/// What `:extend` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendRequest {
    /// The id of the group, on a topic.
    pub group: Option<String>,
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
    /// How long the leases last from now. None is the queue's own timeout.
    pub visibility_timeout: Option<Duration>,
}

impl AckRequest {
    /// Reads a body of a call on a queue or a topic.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<AckRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(ACK.of(kind))?;
        Ok(AckRequest { group: read_group(kind, &mut object)?, leases: read_leases(kind, &mut object)? })
    }
}

impl NackRequest {
    /// Reads a body of a call on a queue or a topic.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<NackRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(NACK.of(kind))?;
        let delay = object.optional("delay", |node| node.duration(DELAY))?;
        let group = read_group(kind, &mut object)?;
        Ok(NackRequest { group, leases: read_leases(kind, &mut object)?, delay })
    }
}

impl ExtendRequest {
    /// Reads a body of a call on a queue or a topic.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<ExtendRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(EXTEND.of(kind))?;
        let visibility_timeout =
            object.optional("visibility_timeout", |node| node.duration(VISIBILITY_TIMEOUT))?;
        let group = read_group(kind, &mut object)?;
        Ok(ExtendRequest { group, leases: read_leases(kind, &mut object)?, visibility_timeout })
    }
}

/// The group that a call on a topic is about.
fn read_group(kind: Kind, object: &mut Object<'_, '_>) -> Result<Option<String>, InputError> {
    if kind != Kind::Topic {
        return Ok(None);
    }
    read_id(&object.require("group")?, Kind::Group).map(Some)
}

fn read_leases(kind: Kind, object: &mut Object<'_, '_>) -> Result<Vec<LeaseId>, InputError> {
    let list = object.require("leases")?;
    list.list(1..=LEASES_PER_CALL_MAX)?.map(|node| read_lease(kind, &node)).collect()
}

fn read_lease(kind: Kind, node: &Node<'_, '_>) -> Result<LeaseId, InputError> {
    take_lease(kind, &mut node.object(LEASE_ID.of(kind))?)
}

fn take_lease(kind: Kind, object: &mut Object<'_, '_>) -> Result<LeaseId, InputError> {
    let delivery = if kind == Kind::Topic { Some(object.require("delivery")?.unsigned64()?) } else { None };
    Ok(LeaseId {
        message_id: object.require("message_id")?.string_of(1..=MESSAGE_ID_BYTES_MAX)?,
        lease_generation: object.require("lease_generation")?.unsigned64()?,
        delivery,
    })
}

/// The answer of the three plain calls: the leases that were no longer held.
pub fn render_stale(leases: &[LeaseId]) -> String {
    let mut out = String::from("{");
    push_stale(&mut out, leases);
    out.push('}');
    out
}

fn push_stale(out: &mut String, leases: &[LeaseId]) {
    writer::push_name(out, "stale_leases");
    writer::push_list(out, leases, |out, lease| {
        push_lease(out, &lease.message_id, lease.lease_generation, lease.delivery);
    });
}
