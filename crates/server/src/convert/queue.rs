//! The queue resource: body to command, view to answer.
//!
//! Labels, annotations and the display name are one JSON text to the core, written and read here alone.

use std::collections::BTreeMap;

use millpond_api::name::{EnvironmentName, Kind, QueueReference, ResourceName, TopicReference};
use millpond_api::purge::PurgeTarget;
use millpond_api::queue::{self, Condition, ConditionStatus, Queue, QueueMeta, QueueStatus, QueueUpdate};
use millpond_core::command::{self, CreateQueue, Start};
use millpond_core::outcome::QueueView;
use millpond_core::row::QueueRow;
use millpond_core::spec::QueueSpec;
use serde_json::{Map, Value, json};

use crate::convert::{name, spec, why};
use crate::error::ApiError;

/// Persisted, as keys of the annotations' JSON.
const DISPLAY_NAME: &str = "display_name";
const LABELS: &str = "labels";
const ANNOTATIONS: &str = "annotations";
pub(crate) const NO_ANNOTATIONS: &str = "{}";

/// The command that makes the queue.
pub(crate) fn to_create(
    kind: Kind,
    queue: Box<str>,
    update: &QueueUpdate,
    home: &EnvironmentName,
    validate_only: bool,
) -> Result<CreateQueue, ApiError> {
    let (spec, annotations) = merge(kind, None, update, home)?;
    let start = start_to_core(update.body.start.unwrap_or_default());
    Ok(CreateQueue { name: queue, start, spec, annotations, validate_only })
}

/// Where a new group begins.
pub(crate) fn start_to_core(start: queue::Start) -> Start {
    match start {
        queue::Start::Earliest => Start::Earliest,
        queue::Start::Latest => Start::Latest,
    }
}

/// Policies and annotations as they will be: what a call names, laid over the queue as it is, or over the defaults.
pub(crate) fn merge(
    kind: Kind,
    current: Option<&QueueView>,
    update: &QueueUpdate,
    home: &EnvironmentName,
) -> Result<(QueueSpec, Box<str>), ApiError> {
    let default = default_of(kind);
    let (base, annotations) = match current {
        Some(view) => (&view.queue.spec, &*view.queue.annotations),
        None => (&default, NO_ANNOTATIONS),
    };
    Ok((
        spec::merge(base, &default, &update.body.spec, &update.mask, home)?,
        merge_annotations(annotations, update),
    ))
}

/// The policies of what is made without any.
fn default_of(kind: Kind) -> QueueSpec {
    match kind {
        Kind::Queue => QueueSpec::default(),
        Kind::Group | Kind::Partition | Kind::Topic => QueueSpec::topic(),
    }
}

/// Labels, annotations and display name as they will be: what is named is replaced, or removed if it is not given.
fn merge_annotations(base: &str, update: &QueueUpdate) -> Box<str> {
    let mut entries: Map<String, Value> = serde_json::from_str(base).unwrap_or_default();
    let QueueUpdate { body, mask } = update;
    let strings = |strings: &Option<BTreeMap<_, _>>| {
        strings.as_ref().filter(|strings| !strings.is_empty()).map(|strings| json!(strings))
    };
    for (named, key, value) in [
        (mask.display_name, DISPLAY_NAME, body.display_name.as_ref().map(|name| json!(name))),
        (mask.labels, LABELS, strings(&body.labels)),
        (mask.annotations, ANNOTATIONS, strings(&body.annotations)),
    ] {
        match value {
            Some(value) if named => drop(entries.insert(key.to_owned(), value)),
            None if named => drop(entries.remove(key)),
            _ => {}
        }
    }
    Value::Object(entries).to_string().into_boxed_str()
}

/// The id of a queue that a call refers to in `field`. One of another environment is refused.
pub(crate) fn queue_of(
    field: &str,
    reference: &QueueReference,
    home: &EnvironmentName,
) -> Result<Box<str>, ApiError> {
    let name = reference.resolve(home);
    if name.environment() != home {
        let detail = format!("{field} is {name}, expected a queue of {home}");
        return Err(ApiError::field(field, name.to_string(), detail));
    }
    Ok(name.queue().into())
}

/// The same of a topic, as the core knows it.
pub(crate) fn topic_of(
    field: &str,
    reference: TopicReference,
    home: &EnvironmentName,
) -> Result<Box<str>, ApiError> {
    match reference {
        TopicReference::Id(id) => Ok(name::topic(&id)),
        TopicReference::Name(name) if name.environment() == home => Ok(name::topic(name.id())),
        TopicReference::Name(name) => {
            let detail = format!("{field} is {name}, expected a topic of {home}");
            Err(ApiError::field(field, name.to_string(), detail))
        }
    }
}

/// What a purge removes.
pub(crate) fn purge_target(target: PurgeTarget) -> command::PurgeTarget {
    match target {
        PurgeTarget::All => command::PurgeTarget::All,
        PurgeTarget::DeadLetters => command::PurgeTarget::DeadLetters,
        PurgeTarget::Waiting => command::PurgeTarget::Waiting,
    }
}

/// The path under which a client knows a field that the core refuses on creation.
pub(crate) fn path_of(field: &str) -> String {
    match field {
        "etag" | "group_id" | "idempotency-key" | "queue_id" | "topic_id" => field.to_owned(),
        "annotations" => "meta.annotations".to_owned(),
        "in_a_row_max" => "spec.lost_lease.in_a_row_max".to_owned(),
        path if path.starts_with("spec.") => path.to_owned(),
        setting => format!("spec.{setting}"),
    }
}

/// The resource, with what its kind has.
pub(crate) fn from_view(view: &QueueView, name: ResourceName) -> Queue {
    let row = &view.queue;
    let meta = meta_of(view);
    let kind = name.kind();
    let spec = spec::from_core(&row.spec, kind, name.environment());
    let counts = &view.counters;
    let of_queue = |count: u64| (kind == Kind::Queue).then_some(count);
    let is_read = matches!(kind, Kind::Group | Kind::Queue);
    let status = QueueStatus {
        observed_generation: row.generation,
        conditions: vec![ready_of(row, is_read)],
        ready_count: counts.ready,
        leased_count: is_read.then_some(counts.leased),
        delayed_count: counts.delayed,
        dead_letter_count: of_queue(counts.dead),
        finished_count: of_queue(counts.completed + counts.cancelled),
        paused: is_read.then_some(row.paused_at.is_some()),
        why: is_read.then(|| why::why_of(view)),
    };
    Queue { name, uid: row.uid.to_string(), meta, spec, status }
}

fn meta_of(view: &QueueView) -> QueueMeta {
    let row = &view.queue;
    let annotations: Value = serde_json::from_str(&row.annotations).unwrap_or_default();
    QueueMeta {
        generation: row.generation,
        etag: view.etag(),
        create_time: row.created_at.as_millis(),
        update_time: row.updated_at.as_millis(),
        display_name: annotations.get(DISPLAY_NAME).and_then(Value::as_str).map(str::to_owned),
        labels: strings_of(annotations.get(LABELS)),
        annotations: strings_of(annotations.get(ANNOTATIONS)),
    }
}

fn strings_of(value: Option<&Value>) -> BTreeMap<String, String> {
    let entries = value.and_then(Value::as_object).into_iter().flatten();
    entries.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn ready_of(row: &QueueRow, is_read: bool) -> Condition {
    let kind = "Ready".to_owned();
    match row.paused_at {
        None => Condition {
            kind,
            status: ConditionStatus::True,
            reason: "Open".to_owned(),
            message: if is_read { "takes and hands out messages" } else { "takes messages" }.to_owned(),
            last_transition_time: row.updated_at.as_millis(),
        },
        Some(since) => Condition {
            kind,
            status: ConditionStatus::False,
            reason: "Paused".to_owned(),
            message: "takes messages and hands none out".to_owned(),
            last_transition_time: since.as_millis(),
        },
    }
}
