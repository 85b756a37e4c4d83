//! Triggers, deployments, what became of pushes, and what they are signed with.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::wire;

/// A trigger to make; `docs/triggers.md` has defaults and ranges.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NewTrigger {
    /// The id of a topic, or the start of such ids and a `*` behind it.
    pub topic: String,
    /// The id of the group.
    pub group: String,
    /// Where to: an `http` or `https` URL.
    pub target: String,
    /// How long a message waits whose push failed.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// For how long nothing is pushed at first.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<Duration>,
    /// After so many deliveries a message leaves the group; none is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deliveries: Option<u32>,
    /// So many messages of the group in flight at once, exactly; none is no limit of the trigger's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_concurrency: Option<u32>,
    /// Takes messages that are out of deliveries: the id or whole name of a queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter_queue: Option<String>,
    /// How long the lease of a push lasts.
    #[serde(with = "wire::duration", skip_serializing_if = "Option::is_none")]
    pub visibility_timeout: Option<Duration>,
}

impl NewTrigger {
    /// One with default policies.
    pub fn new(topic: impl Into<String>, group: impl Into<String>, target: impl Into<String>) -> Self {
        Self { topic: topic.into(), group: group.into(), target: target.into(), ..Self::default() }
    }
}

/// A trigger as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    /// `orgs/{org}/projects/{project}/envs/{env}/triggers/{trigger}`.
    pub name: String,
    /// Its id.
    pub trigger_id: String,
    /// Never used again, not even for a later trigger of the same id.
    pub uid: String,
    /// The deployment that it belongs to.
    pub deployment: Option<String>,
    /// Its deployment is the one deployed last.
    pub current: bool,
    /// The id of a topic, or the start of such ids and a `*` behind it.
    pub topic: String,
    /// The id of the group.
    pub group: String,
    /// Where to.
    pub target: String,
    /// How long a message waits whose push failed.
    #[serde(with = "wire::some_duration")]
    pub retry_after: Duration,
    /// For how long nothing is pushed at first.
    #[serde(with = "wire::some_duration")]
    pub initial_delay: Duration,
    /// After so many deliveries a message leaves the group.
    pub max_deliveries: Option<u32>,
    /// So many messages of the group in flight at once.
    pub max_concurrency: Option<u32>,
    /// The whole name of the queue that takes messages out of deliveries.
    pub dead_letter_queue: Option<String>,
    /// How long the lease of a push lasts.
    #[serde(with = "wire::some_duration")]
    pub visibility_timeout: Duration,
    /// Nothing is pushed before.
    #[serde(with = "wire::time")]
    pub starts_at: SystemTime,
    /// When it was made.
    #[serde(with = "wire::time")]
    pub create_time: SystemTime,
    /// `active`, `down` or `starting`.
    pub state: String,
    /// What is wrong with its target.
    pub trouble: Option<TriggerTrouble>,
    /// What became of its pushes since the server was started. None: the server does not push it.
    pub pushes: Option<PushCounts>,
}

/// What is wrong with a target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerTrouble {
    /// Since when.
    #[serde(with = "wire::time")]
    pub since: SystemTime,
    /// What the last try said.
    pub error: String,
    /// When it is tried again.
    #[serde(with = "wire::time")]
    pub next_try: SystemTime,
}

/// A set of triggers that are put and removed together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deployment {
    /// `orgs/{org}/projects/{project}/envs/{env}/deployments/{deployment}`.
    pub name: String,
    /// Its id.
    pub deployment_id: String,
    /// It is the one deployed last, which reads what was sent by none.
    pub current: bool,
    /// When it was last deployed.
    #[serde(with = "wire::time")]
    pub create_time: SystemTime,
    /// Its triggers, in the order in which they were given.
    pub triggers: Vec<Trigger>,
}

/// Pushes of a trigger since the server was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushCounts {
    /// Pushes that ended.
    #[serde(with = "wire::number")]
    pub total: u64,
    /// The answer was 2xx.
    #[serde(with = "wire::number")]
    pub succeeded: u64,
    /// The answer was another one.
    #[serde(with = "wire::number")]
    pub failed: u64,
    /// The connection broke before an answer.
    #[serde(with = "wire::number")]
    pub broken: u64,
    /// There was no answer while the lease lasted.
    #[serde(with = "wire::number")]
    pub gave_up: u64,
    /// There was no connection.
    #[serde(with = "wire::number")]
    pub unreachable: u64,
    /// The message cannot be written as a push.
    #[serde(with = "wire::number")]
    pub unwritable: u64,
    /// Pushes that have no answer yet.
    #[serde(with = "wire::number")]
    pub in_flight: u64,
    /// Half of the last pushes that reached their target took at most so many milliseconds.
    pub duration_p50_ms: Option<u64>,
    /// Of a hundred of them 99 did.
    pub duration_p99_ms: Option<u64>,
}

/// One push.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PushRecord {
    /// When it ended.
    #[serde(with = "wire::time")]
    pub at: SystemTime,
    /// The message.
    pub message_id: String,
    /// Deliveries of the message to the group, this one included.
    pub delivery_count: u32,
    /// The data went with it; otherwise its handler fetches the message by its id.
    pub inline: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// `broken`, `failed`, `gave_up`, `succeeded`, `unreachable` or `unwritable`.
    pub outcome: String,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong: how an answer that is not 2xx begins, or why there was none.
    pub error: Option<String>,
}

/// The pushes of one trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TriggerPushes {
    /// What became of them since the server was started. None: the server does not push the trigger.
    pub pushes: Option<PushCounts>,
    /// The last ones, newest first.
    pub last: Vec<PushRecord>,
}

/// What an environment's pushes are signed with.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SigningSecret {
    /// `whsec_` and base64, as Standard Webhooks write it.
    pub secret: String,
    /// Since when it signs.
    #[serde(with = "wire::time")]
    pub since: SystemTime,
    /// Until when the one before signs as well. None: there is none.
    #[serde(default, with = "wire::optional_time")]
    pub previous_until: Option<SystemTime>,
}

impl std::fmt::Debug for SigningSecret {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("SigningSecret").field("since", &self.since).finish_non_exhaustive()
    }
}
