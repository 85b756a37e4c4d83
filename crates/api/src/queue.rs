//! The queue resource: what clients set, and what they see. Topics, groups and partitions are resources of the same shape, with
//! fewer settings and counts; where they differ, their [`Kind`](crate::name::Kind) says how.
//!
//! Reading yields a [`QueueBody`]: only what the client gave. Defaults are the server's business, so that an
//! update can tell what was left out. Fields that only the server sets (`uid`, `status`, times, generation)
//! may stand in a body, as they do when a client sends back what it read; they are passed over.

mod list;
mod read;
mod spec;
mod status;
mod update;

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::name::ResourceName;
use crate::time;

pub use list::{LIST_PARAMETERS, ListQueuesRequest, render_queues};
pub(crate) use read::{
    AT_LIMIT, BACKOFF_NAMES, GROUP_NAMES, LIMIT_COUNTS, LOST_LEASE_NAMES, META_NAMES, QUEUE_NAMES,
    QUEUE_ORDER, STARTS, check_key, spec_names,
};
pub use read::{QueueBody, Start};
pub use spec::{AtLimit, Backoff, LimitCounts, LostLease, QueueOrder, QueueSpec, Thousandths};
pub use status::{Condition, ConditionStatus, QueueStatus, Why};
pub use update::{Naming, QueueUpdate, UpdateMask};

/// The resource as it is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Queue {
    /// `orgs/{o}/projects/{p}/envs/{e}/queues/{q}`, or that of a topic, a group or a partition.
    #[serde(serialize_with = "as_string")]
    pub name: ResourceName,
    /// Never used again, not even for a queue made later under the same name.
    pub uid: String,
    /// About the resource.
    pub meta: QueueMeta,
    /// What was asked for, defaults filled in.
    pub spec: QueueSpec,
    /// How it is going.
    pub status: QueueStatus,
}

/// About a queue as a resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct QueueMeta {
    /// Grows with each change of the spec.
    #[serde(serialize_with = "as_string")]
    pub generation: u64,
    /// Changes with each change of the resource.
    pub etag: String,
    /// When it was made, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub create_time: i64,
    /// When it was last changed, in Unix milliseconds.
    #[serde(serialize_with = "as_time")]
    pub update_time: i64,
    /// For people, shown where there is room.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// For selecting.
    pub labels: BTreeMap<String, String>,
    /// For tools to leave notes.
    pub annotations: BTreeMap<String, String>,
}

impl Queue {
    /// The resource as JSON.
    pub fn render(&self) -> String {
        serde_json::to_string(self).expect("strings, numbers and maps with string keys serialize")
    }
}

/// 64-bit integers and names are strings in JSON.
pub(crate) fn as_string<T: ToString, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&value.to_string())
}

pub(crate) fn as_time<S: Serializer>(millis: &i64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&time::render(*millis))
}
