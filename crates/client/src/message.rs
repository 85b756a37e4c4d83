//! Messages as they are answered.

use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::wire;

/// One hold on one message. Whoever settles a message names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lease {
    /// Which message.
    pub message_id: String,
    /// Which hold on it; rises with each, is never used again.
    #[serde(with = "wire::number")]
    pub lease_generation: u64,
    /// Which delivery of it, if it was leased by a group.
    #[serde(default, with = "wire::optional_number", skip_serializing_if = "Option::is_none")]
    pub delivery: Option<u64>,
}

/// A message that was handed out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LeasedMessage {
    /// The id that its send answered.
    pub message_id: String,
    /// What was sent.
    pub event: Event,
    /// Names this lease.
    pub lease: Lease,
    /// How often it was handed out, this time included.
    pub delivery_count: u64,
    /// When the lease runs out, by the server's clock.
    #[serde(with = "wire::time")]
    pub lease_expire_time: SystemTime,
}

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageState {
    /// Ended before it was done.
    Cancelled,
    /// Acked, and kept for a while.
    Completed,
    /// Out of attempts.
    Dead,
    /// Hidden until its time.
    Delayed,
    /// Being worked on.
    Leased,
    /// Could be handed out.
    Ready,
    /// A state that is newer than this client.
    #[serde(other)]
    Unknown,
}

impl MessageState {
    /// The state as it stands in calls.
    pub fn as_str(self) -> &'static str {
        match self {
            MessageState::Cancelled => "cancelled",
            MessageState::Completed => "completed",
            MessageState::Dead => "dead",
            MessageState::Delayed => "delayed",
            MessageState::Leased => "leased",
            MessageState::Ready => "ready",
            MessageState::Unknown => "unknown",
        }
    }
}

/// A message that was looked at. Looking changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Message {
    /// The id that its send answered.
    pub message_id: String,
    /// The queue that it is in; empty if it is in a topic.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub queue: String,
    /// The topic that it is in. Such a message has no priority, and what counts is its groups'.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Where it stands.
    pub state: MessageState,
    /// What was sent.
    pub event: Event,
    /// Higher is handed out first.
    #[serde(default)]
    pub priority: i32,
    /// Leases granted.
    #[serde(default)]
    pub delivery_count: u64,
    /// Attempts spent.
    #[serde(default)]
    pub failure_count: u64,
    /// Leases that ran out, in a row.
    #[serde(default)]
    pub lost_lease_count: u64,
    /// When it was sent.
    #[serde(with = "wire::time")]
    pub send_time: SystemTime,
    /// When it becomes ready, if it is delayed.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub visible_time: Option<SystemTime>,
    /// When its lease runs out, if it is leased.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub lease_expire_time: Option<SystemTime>,
    /// When its life ends.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub expire_time: Option<SystemTime>,
    /// When it ran out of attempts.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub dead_letter_time: Option<SystemTime>,
    /// Why it ran out of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_reason: Option<String>,
    /// The queue in which it ran out of attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
    /// When it was acked.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<SystemTime>,
    /// Bytes of attributes and data.
    #[serde(default, with = "wire::optional_number", skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Some messages of a longer list.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MessagePage {
    /// Those.
    pub messages: Vec<Message>,
    /// Asks for the next ones; empty at the end.
    #[serde(default)]
    pub next_page_token: String,
}

/// The data of a message, or a part of it.
#[derive(Clone, Debug)]
pub struct MessageData {
    /// The media type that it was sent with.
    pub content_type: Option<String>,
    /// The bytes.
    pub bytes: Bytes,
}
