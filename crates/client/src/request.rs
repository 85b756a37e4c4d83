//! What calls take.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::message::Lease;
use crate::queue::QueueSpec;
use crate::wire;

/// A queue to make.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewQueue {
    /// Its id: 1 to 63 of `a-z`, `0-9` and `-`, neither first nor last a `-`.
    pub id: String,
    /// Its policies; what is not set gets the default.
    pub spec: QueueSpec,
    /// For people.
    pub display_name: Option<String>,
    /// For selecting.
    pub labels: BTreeMap<String, String>,
    /// For tools.
    pub annotations: BTreeMap<String, String>,
    /// Check everything and make nothing.
    pub validate_only: bool,
}

impl NewQueue {
    /// A queue with default policies.
    pub fn named(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

/// Which queues to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueQuery {
    /// At most so many, up to 1,000; none is 50.
    pub page_size: Option<u32>,
    /// `next_page_token` of the page before; empty for the first.
    pub page_token: String,
    /// AIP-160, such as `labels.team = "mail" AND paused = true`; empty for all.
    pub filter: String,
    /// `name` or `name desc`.
    pub order_by: String,
}

/// A change of a queue.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueueUpdate {
    /// New policies: those that are set, or that the mask names.
    pub spec: QueueSpec,
    /// New labels, all of them.
    pub labels: Option<BTreeMap<String, String>>,
    /// New annotations, all of them.
    pub annotations: Option<BTreeMap<String, String>>,
    /// A new display name; empty for none.
    pub display_name: Option<String>,
    /// What to change, such as `spec.backoff`; a field that is named and not set gets its default. None: what is set.
    pub update_mask: Option<Vec<String>>,
    /// Only if the queue has this etag.
    pub etag: Option<String>,
    /// Make the queue if there is none.
    pub allow_missing: bool,
    /// Check everything and change nothing.
    pub validate_only: bool,
}

/// How to delete a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteQueue {
    /// Only if the queue has this etag.
    pub etag: Option<String>,
    /// A missing queue is no error.
    pub allow_missing: bool,
    /// Also if another queue names it as its dead-letter queue.
    pub force: bool,
    /// Check everything and delete nothing.
    pub validate_only: bool,
}

/// Options of a send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendOptions {
    /// How long the messages stay hidden; none is the queue's delay.
    pub delay: Option<Duration>,
    /// Higher is handed out first; none is 0.
    pub priority: Option<i32>,
    /// The messages live at most so long; none is the queue's retention.
    pub ttl: Option<Duration>,
    /// The same key again gets the first answer for 24 hours. None: a new one for each send.
    pub idempotency_key: Option<String>,
}

/// Options of a lease call. The default takes one message, if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseOptions {
    /// At most so many, 1 to 100.
    pub max_messages: u32,
    /// Wait for so many.
    pub min_messages: u32,
    /// How long the leases last; none is the queue's timeout.
    pub visibility_timeout: Option<Duration>,
    /// How long to wait for a message, up to 20 s.
    pub wait: Duration,
    /// Once something is there, how long to wait for `min_messages`; none is `wait`.
    pub max_wait: Option<Duration>,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self {
            max_messages: 1,
            min_messages: 1,
            visibility_timeout: None,
            wait: Duration::ZERO,
            max_wait: None,
        }
    }
}

/// What is settled and sent in one commit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Settle {
    /// Done.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub acks: Vec<Lease>,
    /// Failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nacks: Vec<SettleNack>,
    /// To last longer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extends: Vec<SettleExtend>,
    /// To be sent.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SettleSend>,
    /// One stale lease refuses everything (`lease_stale`). Always so if there are sends.
    #[serde(rename = "require", serialize_with = "require_all", skip_serializing_if = "std::ops::Not::not")]
    pub require_all: bool,
}

fn require_all<S: serde::Serializer>(_: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str("all")
}

/// A lease whose message is to come back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettleNack {
    /// Which.
    #[serde(flatten)]
    pub lease: Lease,
    /// After so long; none is the queue's backoff.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
}

/// A lease that is to last longer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SettleExtend {
    /// Which.
    #[serde(flatten)]
    pub lease: Lease,
    /// So long from now; none is the queue's timeout.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub visibility_timeout: Option<Duration>,
}

/// A send within a settle.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SettleSend {
    /// To which queue; none is the one that is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// What.
    pub events: Vec<Event>,
    /// How long the messages stay hidden; none is the queue's delay.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Higher is handed out first; none is 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// The messages live at most so long; none is the queue's retention.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Duration>,
}

/// The answer to a settle.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Settled {
    /// Leases that were not held any more, to which nothing was done.
    #[serde(default)]
    pub stale_leases: Vec<Lease>,
    /// The ids of what was sent, send by send.
    #[serde(default)]
    pub sends: Vec<SentIds>,
}

/// The ids of one send, in the order of its events.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SentIds {
    /// Those.
    pub message_ids: Vec<String>,
}

/// Which dead letters to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterQuery {
    /// At most so many, up to 100; none is 50.
    pub page_size: Option<u32>,
    /// `next_page_token` of the page before; empty for the first.
    pub page_token: String,
    /// Dead since then, inclusive.
    pub start_time: Option<SystemTime>,
    /// Dead before then.
    pub end_time: Option<SystemTime>,
}

/// Which dead letters to bring back or move; the default is all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Selection {
    /// Dead since then, inclusive.
    #[serde(with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<SystemTime>,
    /// Dead before then.
    #[serde(with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub end_time: Option<SystemTime>,
    /// Only these, 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message_ids: Option<Vec<String>>,
}

/// What a redrive did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Redriven {
    /// Messages that were moved.
    #[serde(with = "wire::number")]
    pub redriven_count: u64,
    /// Messages that have no home, or whose home is gone.
    #[serde(with = "wire::number")]
    pub skipped_count: u64,
}

/// What a purge removes. What is leased stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PurgeTarget {
    /// What is waiting, and the dead letters.
    All,
    /// The dead letters.
    DeadLetters,
    /// What is ready or delayed.
    #[default]
    Waiting,
}
