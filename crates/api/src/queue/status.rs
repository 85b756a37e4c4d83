//! How a queue is going, as the server sees it. Never read from a client.

use serde::{Serialize, Serializer};

use super::{as_string, as_time};
use crate::time;

/// State and counts of a queue. The counts are exact and include the caller's own writes. What a topic, a group or a partition does
/// not have is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueStatus {
    /// The generation of the spec that is in force.
    #[serde(serialize_with = "as_string")]
    pub observed_generation: u64,
    /// Conditions, by type.
    pub conditions: Vec<Condition>,
    /// Messages that could be leased now; of a topic or partition, those that are visible.
    #[serde(serialize_with = "as_string")]
    pub ready_count: u64,
    /// Messages under a lease.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_count")]
    pub leased_count: Option<u64>,
    /// Messages hidden until a time.
    #[serde(serialize_with = "as_string")]
    pub delayed_count: u64,
    /// Messages out of attempts.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_count")]
    pub dead_letter_count: Option<u64>,
    /// Settled messages that are still kept.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_count")]
    pub finished_count: Option<u64>,
    /// Whether leases are held back on request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Why nothing is being handed out, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

/// One aspect of a queue's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Condition {
    /// `Ready`, `Reconciling` or `Stalled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it holds.
    pub status: ConditionStatus,
    /// One word for programs.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// When the status last changed, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub last_transition_time: i64,
}

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ConditionStatus {
    /// It does not.
    False,
    /// It does.
    True,
    /// Nobody has looked yet.
    Unknown,
}

/// Why nothing is being handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Why {
    /// One word for programs, such as `empty`, `paused`, `all_delayed`, `leased_limit`.
    pub reason: String,
    /// One sentence for people.
    pub detail: String,
    /// Since when, in Unix milliseconds.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_time")]
    pub since: Option<i64>,
    /// Until when, in Unix milliseconds, where that is known.
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "as_optional_time")]
    pub until: Option<i64>,
}

fn as_optional_count<S: Serializer>(count: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match count {
        Some(count) => as_string(count, serializer),
        None => serializer.serialize_none(),
    }
}

fn as_optional_time<S: Serializer>(millis: &Option<i64>, serializer: S) -> Result<S::Ok, S::Error> {
    match millis {
        Some(millis) => serializer.serialize_str(&time::render(*millis)),
        None => serializer.serialize_none(),
    }
}
