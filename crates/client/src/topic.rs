//! Topics, groups and partitions as resources.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::queue::{Backoff, Condition, LostLease, QueueMeta, Why};
use crate::wire;

/// A topic as it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Topic {
    /// `orgs/{org}/projects/{project}/envs/{env}/topics/{topic}`.
    pub name: String,
    /// Never used again, not even for a later topic of the same name.
    pub uid: String,
    /// About the resource.
    pub meta: QueueMeta,
    /// Its policies, defaults filled in.
    pub spec: TopicSpec,
    /// How it is going.
    pub status: TopicStatus,
}

/// A partition of a topic: a topic of its own, with the policies of the one that it belongs to.
pub type Partition = Topic;

impl Topic {
    /// The last part of the name.
    pub fn id(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// Policies of a topic; `docs/topics.md` has defaults and ranges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TopicSpec {
    /// How long a message lives from its send.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub retention: Option<Duration>,
    /// Delay of a send that names none.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// Fields that are newer than this client.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// How a topic is going. Counts are exact, over all its partitions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicStatus {
    /// The generation of the spec that is in force.
    #[serde(with = "wire::number")]
    pub observed_generation: u64,
    /// Aspects of its health.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Messages that are visible.
    #[serde(with = "wire::number")]
    pub ready_count: u64,
    /// Messages hidden until a time.
    #[serde(with = "wire::number")]
    pub delayed_count: u64,
}

/// A group of a topic as it is answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// `orgs/{org}/projects/{project}/envs/{env}/topics/{topic}/groups/{group}`.
    pub name: String,
    /// Never used again, not even for a later group of the same name.
    pub uid: String,
    /// About the resource.
    pub meta: QueueMeta,
    /// Its policies, defaults filled in.
    pub spec: GroupSpec,
    /// How it is going.
    pub status: GroupStatus,
}

impl Group {
    /// The last part of the name.
    pub fn id(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

/// Policies of a group; `docs/topics.md` has defaults and ranges.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupSpec {
    /// How long a lease lasts.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub visibility_timeout: Option<Duration>,
    /// At this count a message is out of attempts and leaves the group; none is no limit.
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
    /// Fields that are newer than this client.
    #[serde(flatten)]
    pub others: BTreeMap<String, Value>,
}

/// How a group is going. Counts are exact and include the caller's own writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GroupStatus {
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
    /// Messages that failed and wait for their next try.
    #[serde(with = "wire::number")]
    pub delayed_count: u64,
    /// Whether nothing is handed out, on request.
    pub paused: bool,
    /// Why nothing is handed out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<Why>,
}

impl GroupStatus {
    /// Messages that are still to be done: ready, delayed or leased.
    pub fn unfinished_count(&self) -> u64 {
        self.ready_count + self.delayed_count + self.leased_count
    }
}

/// Some topics of a longer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TopicPage {
    /// Those.
    pub topics: Vec<Topic>,
    /// Asks for the next ones; empty at the end.
    #[serde(default)]
    pub next_page_token: String,
}

/// Some groups of a longer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GroupPage {
    /// Those.
    pub groups: Vec<Group>,
    /// Asks for the next ones; empty at the end.
    #[serde(default)]
    pub next_page_token: String,
}

/// Some partitions of a longer list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PartitionPage {
    /// Those.
    pub partitions: Vec<Partition>,
    /// Asks for the next ones; empty at the end.
    #[serde(default)]
    pub next_page_token: String,
}
