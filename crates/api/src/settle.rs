//! `:ack`, `:nack` and `:extend`: the calls, and the answer that lists stale leases; and `:settle`, all of them in one.
//!
//! A lease that is no longer held is not an error here: it is listed, and the others are settled.

mod together;

use std::time::Duration;

use crate::input_error::InputError;
use crate::lease::{VISIBILITY_TIMEOUT, push_lease};
use crate::limits::{LEASES_PER_CALL_MAX, MESSAGE_ID_BYTES_MAX};
use crate::reader::{Node, Object};
use crate::send::DELAY;
use crate::writer;

pub(crate) use together::{EXTEND_ENTRY_NAMES, NACK_ENTRY_NAMES, SEND_ENTRY_NAMES, SETTLE_NAMES};
pub use together::{SettleRequest, SettleSend, render_settled};

/// Fields of an ack.
pub(crate) const ACK_NAMES: &[&str] = &["leases"];
/// Fields of a nack.
pub(crate) const NACK_NAMES: &[&str] = &["leases", "delay"];
/// Fields of an extension.
pub(crate) const EXTEND_NAMES: &[&str] = &["leases", "visibility_timeout"];
/// Fields of a lease's name.
pub(crate) const LEASE_ID_NAMES: &[&str] = &["message_id", "lease_generation"];

/// Names a lease: which message, and which hold on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId {
    /// The message. Any string of up to 128 bytes: one that names no message is stale.
    pub message_id: String,
    /// The generation that `:lease` answered.
    pub lease_generation: u64,
}

/// What `:ack` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckRequest {
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
}

/// What `:nack` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NackRequest {
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
    /// How long the messages stay hidden. None is the queue's backoff; zero is at once.
    pub delay: Option<Duration>,
}

/// What `:extend` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExtendRequest {
    /// The leases, in the order in which stale ones are answered.
    pub leases: Vec<LeaseId>,
    /// How long the leases last from now. None is the queue's own timeout.
    pub visibility_timeout: Option<Duration>,
}

impl AckRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<AckRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(ACK_NAMES)?;
        Ok(AckRequest { leases: read_leases(&mut object)? })
    }
}

impl NackRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<NackRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(NACK_NAMES)?;
        let delay = object.optional("delay", |node| node.duration(DELAY))?;
        Ok(NackRequest { leases: read_leases(&mut object)?, delay })
    }
}

impl ExtendRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<ExtendRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(EXTEND_NAMES)?;
        let visibility_timeout =
            object.optional("visibility_timeout", |node| node.duration(VISIBILITY_TIMEOUT))?;
        Ok(ExtendRequest { leases: read_leases(&mut object)?, visibility_timeout })
    }
}

fn read_leases(object: &mut Object<'_, '_>) -> Result<Vec<LeaseId>, InputError> {
    let list = object.require("leases")?;
    list.list(1..=LEASES_PER_CALL_MAX)?.map(|node| read_lease(&node)).collect()
}

fn read_lease(node: &Node<'_, '_>) -> Result<LeaseId, InputError> {
    take_lease(&mut node.object(LEASE_ID_NAMES)?)
}

fn take_lease(object: &mut Object<'_, '_>) -> Result<LeaseId, InputError> {
    Ok(LeaseId {
        message_id: object.require("message_id")?.string_of(1..=MESSAGE_ID_BYTES_MAX)?,
        lease_generation: object.require("lease_generation")?.unsigned64()?,
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
    writer::push_list(out, leases, |out, lease| push_lease(out, &lease.message_id, lease.lease_generation));
}
