//! What calls take.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use hyper::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::call::{BULK_ANSWER_MAX, Call};
use crate::event::Event;
use crate::message::Lease;
use crate::queue::QueueSpec;
use crate::topic::{GroupSpec, TopicSpec};
use crate::wire;

/// A queue to make. Its id is 1 to 63 of `a-z`, `0-9` and `-`, neither first nor last a `-`.
pub type NewQueue = New<QueueSpec>;
/// A topic to make. Its id is 1 to 255 of `A-Z`, `a-z`, `0-9`, `_` and `-`.
pub type NewTopic = New<TopicSpec>;
/// A group to make. Its id is like a topic's.
pub type NewGroup = New<GroupSpec>;

/// A change of a queue.
pub type QueueUpdate = Update<QueueSpec>;
/// A change of a topic.
pub type TopicUpdate = Update<TopicSpec>;
/// A change of a group.
pub type GroupUpdate = Update<GroupSpec>;

/// Something to make, with its policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct New<Spec> {
    /// Its id.
    pub id: String,
    /// Its policies; what is not set gets the default.
    pub spec: Spec,
    /// For people.
    pub display_name: Option<String>,
    /// For selecting.
    pub labels: BTreeMap<String, String>,
    /// For tools.
    pub annotations: BTreeMap<String, String>,
    /// Check everything and make nothing.
    pub validate_only: bool,
}

impl<Spec: Default> New<Spec> {
    /// One with default policies.
    pub fn named(id: impl Into<String>) -> Self {
        Self { id: id.into(), ..Self::default() }
    }
}

impl<Spec: Serialize> New<Spec> {
    /// The call that makes it, and its body to be.
    pub(crate) fn to_call(&self, collection: &str, id_parameter: &str) -> (Call, Value) {
        let mut meta = json!({});
        if let Some(name) = &self.display_name {
            meta["display_name"] = json!(name);
        }
        if !self.labels.is_empty() {
            meta["labels"] = json!(self.labels);
        }
        if !self.annotations.is_empty() {
            meta["annotations"] = json!(self.annotations);
        }
        let call = Call::change(Method::POST, collection)
            .query(id_parameter, &self.id)
            .query_flag("validate_only", self.validate_only);
        (call, json!({ "spec": self.spec, "meta": meta }))
    }
}

/// Which queues, topics, groups or partitions to list.
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

impl QueueQuery {
    pub(crate) fn to_call(&self, collection: &str) -> Call {
        fn given(text: &str) -> Option<&str> {
            (!text.is_empty()).then_some(text)
        }
        Call::get(collection)
            .query_option("page_size", self.page_size.map(|size| size.to_string()).as_deref())
            .query_option("page_token", given(&self.page_token))
            .query_option("filter", given(&self.filter))
            .query_option("order_by", given(&self.order_by))
    }
}

/// A change of something with policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Update<Spec> {
    /// New policies: those that are set, or that the mask names.
    pub spec: Spec,
    /// New labels, all of them.
    pub labels: Option<BTreeMap<String, String>>,
    /// New annotations, all of them.
    pub annotations: Option<BTreeMap<String, String>>,
    /// A new display name; empty for none.
    pub display_name: Option<String>,
    /// What to change, such as `spec.backoff`; a field that is named and not set gets its default. None: what is set.
    pub update_mask: Option<Vec<String>>,
    /// Only if it has this etag.
    pub etag: Option<String>,
    /// Make it if it is not there.
    pub allow_missing: bool,
    /// Check everything and change nothing.
    pub validate_only: bool,
}

impl<Spec: Serialize> Update<Spec> {
    pub(crate) fn to_call(&self, path: &str) -> Call {
        let mut body = json!({});
        let spec = json!(self.spec);
        if spec.as_object().is_some_and(|fields| !fields.is_empty()) {
            body["spec"] = spec;
        }
        for (name, value) in [
            ("labels", self.labels.as_ref().map(|labels| json!(labels))),
            ("annotations", self.annotations.as_ref().map(|annotations| json!(annotations))),
            ("display_name", self.display_name.as_ref().map(|name| json!(name))),
        ] {
            if let Some(value) = value {
                body["meta"][name] = value;
            }
        }
        let mask = self.update_mask.as_ref().map(|fields| fields.join(","));
        Call::change(Method::PATCH, path)
            .query_option("update_mask", mask.as_deref())
            .query_option("etag", self.etag.as_deref())
            .query_flag("allow_missing", self.allow_missing)
            .query_flag("validate_only", self.validate_only)
            .json(&body)
    }
}

/// How to delete a queue, a topic or a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeleteQueue {
    /// Only if it has this etag.
    pub etag: Option<String>,
    /// If it is not there, that is no error.
    pub allow_missing: bool,
    /// Also if another queue names it as its dead-letter queue; only for queues.
    pub force: bool,
    /// Check everything and delete nothing.
    pub validate_only: bool,
}

impl DeleteQueue {
    pub(crate) fn to_call(&self, path: &str) -> Call {
        Call::change(Method::DELETE, path)
            .query_option("etag", self.etag.as_deref())
            .query_flag("allow_missing", self.allow_missing)
            .query_flag("force", self.force)
            .query_flag("validate_only", self.validate_only)
            .within(BULK_ANSWER_MAX)
    }
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
    /// To which queue; none is the queue or topic that is settled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// Or to which topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// To which partition of the topic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<String>,
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
