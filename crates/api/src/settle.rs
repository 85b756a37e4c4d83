//! `:ack`, `:nack` and `:extend`: the calls, and the answer that lists stale leases.
//!
//! A lease that is no longer held is not an error here: it is listed, and the others are settled.

use std::time::Duration;

use crate::input_error::InputError;
use crate::lease::{VISIBILITY_TIMEOUT, push_lease};
use crate::limits::{LEASES_PER_CALL_MAX, MESSAGE_ID_BYTES_MAX};
use crate::reader::{Node, Object};
use crate::send::DELAY;
use crate::writer;

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
        let mut object = root.object(&["leases"])?;
        Ok(AckRequest { leases: read_leases(&mut object)? })
    }
}

impl NackRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<NackRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(&["leases", "delay"])?;
        let delay = object.optional("delay", |node| node.duration(DELAY))?;
        Ok(NackRequest { leases: read_leases(&mut object)?, delay })
    }
}

impl ExtendRequest {
    /// Reads a body.
    pub fn parse(body: &[u8]) -> Result<ExtendRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(&["leases", "visibility_timeout"])?;
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
    let mut object = node.object(&["message_id", "lease_generation"])?;
    Ok(LeaseId {
        message_id: object.require("message_id")?.string_of(1..=MESSAGE_ID_BYTES_MAX)?,
        lease_generation: object.require("lease_generation")?.unsigned64()?,
    })
}

/// The answer of all three calls: the leases that were no longer held.
pub fn render_stale(leases: &[LeaseId]) -> String {
    let mut out = String::from(r#"{"stale_leases":"#);
    writer::push_list(&mut out, leases, |out, lease| {
        push_lease(out, &lease.message_id, lease.lease_generation)
    });
    out.push('}');
    out
}
