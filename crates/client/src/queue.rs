//! The queue resource.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::wire;

/// A queue as it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Queue {
    /// `orgs/{org}/projects/{project}/envs/{env}/queues/{queue}`.
    pub name: String,
    /// Never used again, not even for a later queue of the same name.
    pub uid: String,
    /// About the resource.
    pub meta: QueueMeta,
    /// Its policies, defaults filled in.
    pub spec: QueueSpec,
    /// How it is going.
    pub status: QueueStatus,
}

impl Queue {
    /// The last part of the name.
    pub fn id(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// About a queue as a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueMeta {
    /// Grows with each change of the spec.
    #[serde(with = "wire::number")]
    pub generation: u64,
    /// Changes with each change of the resource.
    pub etag: String,
    /// When it was made.
    #[serde(with = "wire::time")]
    pub create_time: SystemTime,
    /// When it was last changed.
    #[serde(with = "wire::time")]
    pub update_time: SystemTime,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// For selecting.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// For tools.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
}

/// Policies of a queue: what each means, and its default and range, stands in `docs/queues.md`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueSpec {
    /// How long a lease lasts.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub visibility_timeout: Option<Duration>,
    /// At this count a message is out of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// What `max_deliveries` counts: `deliveries` or `failures`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_counts: Option<String>,
    /// What a lease that ran out means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_lease: Option<LostLease>,
    /// How long a failed message waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Backoff>,
    /// What becomes of a message out of attempts: `dead_letter_set` or `drop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_limit: Option<String>,
    /// The queue that takes messages out of attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
    /// Which of two ready messages goes first: `visible` or `sent`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Never-delivered messages before retried ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fresh_first: Option<bool>,
    /// So many leased at once, exactly.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency_max: Option<u32>,
    /// Bound on leases held at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leased_max: Option<u32>,
    /// How long a message lives from its send.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// How long an acked message is kept.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub finished_retention: Option<Duration>,
    /// Delay of a send that names none.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Fields that are newer than this client.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// What a lease that ran out means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LostLease {
    /// It spends an attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spends_attempt: Option<bool>,
    /// So many in a row end a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_a_row_max: Option<u32>,
    /// The message waits as after a nack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backs_off: Option<bool>,
}

/// How long a failed message waits: `initial` × `factor`^(failures − 1), at most `max`, times a random factor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backoff {
    /// The wait after the first failure.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub initial: Option<Duration>,
    /// What each further failure multiplies it by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub factor: Option<serde_json::Number>,
    /// The longest wait.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub max: Option<Duration>,
    /// The least random factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_min: Option<serde_json::Number>,
    /// The greatest random factor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max: Option<serde_json::Number>,
}

/// How a queue is going. Counts are exact and include the caller's own writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueueStatus {
    /// The generation of the spec that is in force.
    #[serde(with = "wire::number")]
    pub observed_generation: u64,
    /// Aspects of its health.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Messages that could be handed out now.
    #[serde(with = "wire::number")]
    pub ready_count: u64,
    /// Messages being worked on.
    #[serde(with = "wire::number")]
    pub leased_count: u64,
    /// Messages hidden until a time.
    #[serde(with = "wire::number")]
    pub delayed_count: u64,
    /// Messages out of attempts.
    #[serde(with = "wire::number")]
    pub dead_letter_count: u64,
    /// Acked messages that are still kept.
    #[serde(with = "wire::number")]
    pub finished_count: u64,
    /// Whether nothing is handed out, on request.
    pub paused: bool,
    /// Why nothing is handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

impl QueueStatus {
    /// Messages that are still to be done: ready, delayed or leased.
    pub fn unfinished_count(&self) -> u64 {
        self.ready_count + self.delayed_count + self.leased_count
    }
}

/// One aspect of a queue's health.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// `Ready`, `Reconciling` or `Stalled`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// One word for programs.
    pub reason: String,
    /// One sentence for people.
    pub message: String,
    /// When the status last changed.
    #[serde(with = "wire::time")]
    pub last_transition_time: SystemTime,
}

/// Why nothing is handed out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Why {
    /// One word for programs, such as `empty` or `paused`.
    pub reason: String,
    /// One sentence for people.
    pub detail: String,
    /// Since when.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub since: Option<SystemTime>,
    /// Until when, where that is known.
    #[serde(default, with = "wire::optional_time", skip_serializing_if = "Option::is_none")]
    pub until: Option<SystemTime>,
}

/// Some queues of a longer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueuePage {
    /// Those.
    pub queues: Vec<Queue>,
    /// Asks for the next ones; empty at the end.
    #[serde(default)]
    pub next_page_token: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_keeps_fields_that_are_newer_than_the_client() {
        let text = r#"{"visibility_timeout":"1.5s","backoff":{"initial":"1s","factor":2},"keys":{"order":"strict"}}"#;
        let spec: QueueSpec = serde_json::from_str(text).expect("a spec");
        assert_eq!(spec.visibility_timeout, Some(Duration::from_millis(1_500)));
        assert_eq!(serde_json::to_string(&spec).expect("json"), text);
    }
}
