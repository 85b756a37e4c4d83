//! What a queue is asked to do.
//!
//! The first four fields are those of the Sylphx documents; the others are ours. Every field is optional: in
//! a body an absent one was not given, in an answer it does not apply.

use std::time::Duration;

use serde::{Serialize, Serializer};

use super::as_string;
use crate::duration;
use crate::name::QueueReference;

/// Settings of a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueueSpec {
    /// How long a lease lasts, 1s to 12h.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub visibility_timeout: Option<Duration>,
    /// Deliveries, or failures, after which a message is dead: 1 to 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// Where dead messages go instead of the queue's own dead-letter set.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_reference")]
    pub dead_letter_queue: Option<QueueReference>,
    /// How long a message is kept from when it was sent, 60s to 14d.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub retention: Option<Duration>,
    /// What becomes of a message at its limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<AtLimit>,
    /// How long a failed message waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// Messages leased at once, exactly; beyond it they wait. For work that must not run too often at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_max: Option<u32>,
    /// Delay of messages that are sent without one, up to 12h.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub delay: Option<Duration>,
    /// How long settled messages can be looked up. Zero removes them as they are settled.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub finished_retention: Option<Duration>,
    /// Whether messages never delivered go before retried ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh_first: Option<bool>,
    /// Messages leased at once before leases answer empty. A guard on memory, far above `concurrency_max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_max: Option<u32>,
    /// What `max_deliveries` counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_counts: Option<LimitCounts>,
    /// What a lease that ran out means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_lease: Option<LostLease>,
    /// Which of two ready messages goes first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<QueueOrder>,
}

/// What a lease that ran out means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LostLease {
    /// Whether it spends an attempt like a failure does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spends_attempt: Option<bool>,
    /// Lost leases in a row that end a message even so. Zero is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_a_row_max: Option<u32>,
    /// Whether the message waits by the backoff before it is ready again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backs_off: Option<bool>,
}

/// How long a failed message waits: initial × factor^(failures − 1), at most `max`, times a random factor
/// from `jitter_min` to `jitter_max`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Backoff {
    /// The wait after the first failure.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub initial: Option<Duration>,
    /// What each further failure multiplies it by, at least 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<Thousandths>,
    /// The longest wait.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_duration")]
    pub max: Option<Duration>,
    /// The least random factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_min: Option<Thousandths>,
    /// The greatest random factor, at least `jitter_min`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max: Option<Thousandths>,
}

/// A number with three decimals, kept exactly: `1.5` is 1500. Floats would differ between machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Thousandths(pub u32);

impl Serialize for Thousandths {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 % 1_000 {
            0 => serializer.serialize_u32(self.0 / 1_000),
            _ => serializer.serialize_f64(f64::from(self.0) / 1_000.0),
        }
    }
}

/// What becomes of a message at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AtLimit {
    /// It goes to the queue's own dead-letter set, or to the dead-letter queue where one is named.
    DeadLetterSet,
    /// It is removed.
    Drop,
}

/// What `max_deliveries` counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitCounts {
    /// Leases granted.
    Deliveries,
    /// Attempts spent.
    Failures,
}

/// Which of two ready messages goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueOrder {
    /// The one sent first, so a retried message keeps its place.
    Sent,
    /// The one that became visible first.
    Visible,
}

fn as_duration<S: Serializer>(duration: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
    match duration {
        Some(duration) => serializer.serialize_str(&duration::render(*duration)),
        None => serializer.serialize_none(),
    }
}

fn as_reference<S: Serializer>(reference: &Option<QueueReference>, serializer: S) -> Result<S::Ok, S::Error> {
    match reference {
        Some(reference) => as_string(reference, serializer),
        None => serializer.serialize_none(),
    }
}
