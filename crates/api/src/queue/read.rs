//! Reading a queue's body, for create and update.

use std::collections::BTreeMap;
use std::time::Duration;

use super::spec::{AtLimit, Backoff, LimitCounts, LostLease, QueueOrder, QueueSpec, Thousandths};
use crate::input_error::{Fault, InputError};
use crate::lease::VISIBILITY_TIMEOUT;
use crate::limits::{
    ANNOTATION_VALUE_BYTES_MAX, ANNOTATIONS_MAX, BACKOFF_FACTOR_THOUSANDTHS_MAX,
    BACKOFF_JITTER_THOUSANDTHS_MAX, BACKOFF_MAX, CONCURRENCY_MAX, DISPLAY_NAME_BYTES_MAX,
    FINISHED_RETENTION_MAX, LABEL_KEY_BYTES_MAX, LABEL_VALUE_BYTES_MAX, LABELS_MAX, LEASED_MAX,
    LOST_IN_A_ROW_MAX, MAX_DELIVERIES_MAX, RETENTION_MAX, RETENTION_MIN,
};
use crate::name::{Kind, QueueReference, ResourceName};
use crate::reader::Node;
use crate::send::DELAY;

/// Fields of a queue.
pub(crate) const QUEUE_NAMES: &[&str] = &["name", "uid", "meta", "spec", "status"];
/// Fields of a group.
pub(crate) const GROUP_NAMES: &[&str] = &["name", "uid", "meta", "spec", "status", "start"];
/// Fields of `meta`.
pub(crate) const META_NAMES: &[&str] =
    &["generation", "etag", "create_time", "update_time", "display_name", "labels", "annotations"];
/// Fields of a queue's `spec`.
pub(super) const SPEC_NAMES: &[&str] = &[
    "visibility_timeout",
    "max_deliveries",
    "dead_letter_queue",
    "retention",
    "at_limit",
    "backoff",
    "concurrency_max",
    "delay",
    "finished_retention",
    "fresh_first",
    "leased_max",
    "limit_counts",
    "lost_lease",
    "order",
];
/// Of them those that a group has: what concerns leases.
const GROUP_SPEC_NAMES: &[&str] = &[
    "visibility_timeout",
    "max_deliveries",
    "backoff",
    "concurrency_max",
    "fresh_first",
    "leased_max",
    "limit_counts",
    "lost_lease",
    "order",
];
/// And those of a topic: what concerns messages as they are sent.
const TOPIC_SPEC_NAMES: &[&str] = &["retention", "delay"];

/// Fields of the `spec` of this kind.
pub(crate) fn spec_names(kind: Kind) -> &'static [&'static str] {
    match kind {
        Kind::Queue => SPEC_NAMES,
        Kind::Group => GROUP_SPEC_NAMES,
        Kind::Topic | Kind::Partition => TOPIC_SPEC_NAMES,
    }
}

/// Fields of `spec.backoff`.
pub(crate) const BACKOFF_NAMES: &[&str] = &["initial", "factor", "max", "jitter_min", "jitter_max"];
/// Fields of `spec.lost_lease`.
pub(crate) const LOST_LEASE_NAMES: &[&str] = &["spends_attempt", "in_a_row_max", "backs_off"];

/// Words of `at_limit`.
pub(crate) const AT_LIMIT: [(&str, AtLimit); 2] =
    [("dead_letter_set", AtLimit::DeadLetterSet), ("drop", AtLimit::Drop)];
/// Words of `limit_counts`.
pub(crate) const LIMIT_COUNTS: [(&str, LimitCounts); 2] =
    [("deliveries", LimitCounts::Deliveries), ("failures", LimitCounts::Failures)];
/// Words of `order`.
pub(crate) const QUEUE_ORDER: [(&str, QueueOrder); 2] =
    [("sent", QueueOrder::Sent), ("visible", QueueOrder::Visible)];

/// Words of `start`.
pub(crate) const STARTS: [(&str, Start); 2] = [("earliest", Start::Earliest), ("latest", Start::Latest)];

/// Where a new group begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Start {
    /// At the oldest message that is there.
    #[default]
    Earliest,
    /// Behind all messages that are visible by now.
    Latest,
}

/// What a client gave for a queue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueBody {
    /// The name, which must be the one in the path where both are given.
    pub name: Option<ResourceName>,
    /// The state of the resource that the client has in mind.
    pub etag: Option<String>,
    /// For people.
    pub display_name: Option<String>,
    /// For selecting.
    pub labels: Option<BTreeMap<String, String>>,
    /// For tools to leave notes.
    pub annotations: Option<BTreeMap<String, String>>,
    /// Settings.
    pub spec: QueueSpec,
    /// Where it begins if it is made now; only of groups.
    pub start: Option<Start>,
}

impl QueueBody {
    /// Reads a body of this kind. No body at all gives nothing, which makes one with all defaults.
    pub fn parse(kind: Kind, body: &[u8]) -> Result<QueueBody, InputError> {
        QueueBody::read(kind, &Node::optional_root(body)?)
    }

    pub(super) fn read(kind: Kind, root: &Node<'_, '_>) -> Result<QueueBody, InputError> {
        let mut object = root.object(if kind == Kind::Group { GROUP_NAMES } else { QUEUE_NAMES })?;
        let name = |node: Node<'_, '_>| ResourceName::parse(kind, &node.path(), &node.string()?);
        let name = object.optional("name", name)?;
        let spec = object.optional("spec", |node| read_spec(kind, &node))?.unwrap_or_default();
        let start = object.optional("start", |node| node.word(&STARTS))?;
        let mut queue = QueueBody { name, spec, start, ..QueueBody::default() };
        if let Some(meta) = object.take("meta") {
            queue.read_meta(&meta)?;
        }
        Ok(queue)
    }

    fn read_meta(&mut self, node: &Node<'_, '_>) -> Result<(), InputError> {
        let mut object = node.object(META_NAMES)?;
        self.etag = object.optional("etag", |node| node.string_of(1..=LABEL_VALUE_BYTES_MAX))?;
        self.display_name =
            object.optional("display_name", |node| node.string_of(0..=DISPLAY_NAME_BYTES_MAX))?;
        self.labels =
            object.optional("labels", |node| read_strings(&node, LABELS_MAX, LABEL_VALUE_BYTES_MAX))?;
        self.annotations = object.optional("annotations", |node| {
            read_strings(&node, ANNOTATIONS_MAX, ANNOTATION_VALUE_BYTES_MAX)
        })?;
        Ok(())
    }
}

fn read_strings(
    node: &Node<'_, '_>,
    entries_max: usize,
    value_bytes_max: usize,
) -> Result<BTreeMap<String, String>, InputError> {
    let object = node.map(entries_max)?;
    let entries = object.rest().map(|(key, value)| {
        check_key(key).map_err(|fault| value.refuse(fault))?;
        Ok((key.to_owned(), value.string_of(0..=value_bytes_max)?))
    });
    entries.collect()
}

/// Checks the key of a label or an annotation.
pub(crate) fn check_key(key: &str) -> Result<(), Fault> {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
    if (1..=LABEL_KEY_BYTES_MAX).contains(&key.len()) && key.bytes().all(legal) {
        return Ok(());
    }
    let expected = format!("a key of 1 to {LABEL_KEY_BYTES_MAX} letters, digits, '-', '_', '.', '/'");
    Err(Fault::beyond(LABEL_KEY_BYTES_MAX, expected))
}

fn read_spec(kind: Kind, node: &Node<'_, '_>) -> Result<QueueSpec, InputError> {
    let mut object = node.object(spec_names(kind))?;
    Ok(QueueSpec {
        visibility_timeout: object
            .optional("visibility_timeout", |node| node.duration(VISIBILITY_TIMEOUT))?,
        max_deliveries: object.optional("max_deliveries", |node| node.integer(1..=MAX_DELIVERIES_MAX))?,
        dead_letter_queue: object
            .optional("dead_letter_queue", |node| QueueReference::parse(&node.path(), &node.string()?))?,
        retention: object.optional("retention", |node| node.duration(RETENTION_MIN..=RETENTION_MAX))?,
        at_limit: object.optional("at_limit", |node| node.word(&AT_LIMIT))?,
        backoff: object.optional("backoff", |node| read_backoff(&node))?,
        concurrency_max: object.optional("concurrency_max", |node| node.integer(1..=CONCURRENCY_MAX))?,
        delay: object.optional("delay", |node| node.duration(DELAY))?,
        finished_retention: object
            .optional("finished_retention", |node| node.duration(Duration::ZERO..=FINISHED_RETENTION_MAX))?,
        fresh_first: object.optional("fresh_first", |node| node.boolean())?,
        leased_max: object.optional("leased_max", |node| node.integer(1..=LEASED_MAX))?,
        limit_counts: object.optional("limit_counts", |node| node.word(&LIMIT_COUNTS))?,
        lost_lease: object.optional("lost_lease", |node| read_lost_lease(&node))?,
        order: object.optional("order", |node| node.word(&QUEUE_ORDER))?,
    })
}

fn read_lost_lease(node: &Node<'_, '_>) -> Result<LostLease, InputError> {
    let mut object = node.object(LOST_LEASE_NAMES)?;
    Ok(LostLease {
        spends_attempt: object.optional("spends_attempt", |node| node.boolean())?,
        in_a_row_max: object.optional("in_a_row_max", |node| node.integer(0..=LOST_IN_A_ROW_MAX))?,
        backs_off: object.optional("backs_off", |node| node.boolean())?,
    })
}

fn read_backoff(node: &Node<'_, '_>) -> Result<Backoff, InputError> {
    let mut object = node.object(BACKOFF_NAMES)?;
    let wait = |node: Node<'_, '_>| node.duration(Duration::ZERO..=BACKOFF_MAX);
    let jitter = |node: Node<'_, '_>| node.thousandths(0..=BACKOFF_JITTER_THOUSANDTHS_MAX).map(Thousandths);
    let initial = object.optional("initial", wait)?;
    let factor =
        |node: Node<'_, '_>| node.thousandths(1_000..=BACKOFF_FACTOR_THOUSANDTHS_MAX).map(Thousandths);
    let factor = object.optional("factor", factor)?;
    let max = object.optional("max", |node| {
        let max = wait(node)?;
        at_least(&node, max, initial, "initial")
    })?;
    let jitter_min = object.optional("jitter_min", jitter)?;
    let jitter_max = object.optional("jitter_max", |node| {
        let jitter_max = jitter(node)?;
        at_least(&node, jitter_max, jitter_min, "jitter_min")
    })?;
    Ok(Backoff { initial, factor, max, jitter_min, jitter_max })
}

/// Two ends of a range in one body must be in order. Against a default the server checks.
fn at_least<T: PartialOrd>(
    node: &Node<'_, '_>,
    value: T,
    least: Option<T>,
    least_name: &str,
) -> Result<T, InputError> {
    match least {
        Some(least) if value < least => Err(node.refuse(Fault::new(format!("at least {least_name}")))),
        _ => Ok(value),
    }
}
