//! Makes a queue, a topic, or a group or partition of a topic. Checks in order: name, annotations, spec, taken, dead-letter queue,
//! the topic, limit.

use std::time::Duration;

use crate::apply::Stop;
use crate::command::{CreateQueue, Start};
use crate::id::{LogNumber, QueueNumber, Sequence, Uid};
use crate::limits;
use crate::outcome::{DeadLetterProblem, Effect, Outcome, QueueView, Rejection, Why, show_duration};
use crate::row::{CountersRow, QueueRow, Role};
use crate::spec::{AtLimit, QueueSpec};
use crate::stamp::{Stamp, mix};
use crate::state::{Core, Named, QueueState};

impl Core {
    pub(super) fn create_queue(&mut self, create: &CreateQueue, stamp: &Stamp) -> Result<Outcome, Stop> {
        check_queue(&create.name, &create.annotations, &create.spec)?;
        if self.number_of(&create.name).is_some() {
            return Err(Rejection::QueueAlreadyExists { name: create.name.clone() }.into());
        }
        self.check_dead_letter_queue(&create.name, &create.spec)?;
        let role = self.role_of_new(&create.name)?;
        let number = self.environment.next_queue;
        let row = QueueRow {
            number,
            role,
            name: create.name.clone(),
            uid: draw_uid(stamp, u64::from(number.0)),
            generation: 1,
            revision: 1,
            created_at: stamp.now,
            updated_at: stamp.now,
            annotations: create.annotations.clone(),
            spec: self.policies_of(role, &create.spec),
            paused_at: None,
            purged_through: Sequence::default(),
            dead_purged_through: Sequence::default(),
            deleted: false,
            sweep_owed: false,
            settled_by_sql: false,
        };
        if create.validate_only {
            let counters = CountersRow { queue: number, ..CountersRow::default() };
            let view = QueueView { queue: row, counters, waiting: 0, why: Why::Empty };
            return Ok(Outcome::Queue(Box::new(view)));
        }
        self.environment.next_queue = number.next();
        self.insert_queue(QueueState::new(row));
        self.follow(number);
        self.touch_queue(number);
        if let (Role::Topic, Some(Named::Topic(topic))) = (role, Named::of(&create.name))
            && self.triggers.any_for_topic(topic)
        {
            self.batch.effects.push(Effect::TopicMade { topic: topic.into() });
        }
        if matches!(role, Role::Group { .. }) {
            self.begin_group(number, create.start, stamp);
        }
        self.view(number, stamp)
    }

    /// What a new name stands for, if there may be one more of its kind.
    fn role_of_new(&self, name: &str) -> Result<Role, Rejection> {
        let topic_of = |topic: &str| {
            let number = self.topics.get(topic).copied();
            number.ok_or_else(|| Rejection::QueueNotFound { name: format!("topics/{topic}").into() })
        };
        let family =
            |topic: &QueueNumber| self.queues.get(topic).and_then(QueueState::log).map(|log| &log.family);
        let (what, held, limit, role) = match Named::of(name) {
            None | Some(Named::Queue(_)) => ("queues", self.names.len(), self.settings.queues, Role::Queue),
            Some(Named::Topic(_)) => ("topics", self.topics.len(), self.settings.topics, Role::Topic),
            Some(Named::Group { topic, .. }) => {
                let topic = topic_of(topic)?;
                let held = family(&topic).map_or(0, |family| family.groups.len());
                ("groups", held, self.settings.groups, Role::Group { topic })
            }
            Some(Named::Partition { topic, .. }) => {
                let topic = topic_of(topic)?;
                let held = family(&topic).map_or(0, |family| family.partitions.len());
                ("partitions", held, self.settings.partitions, Role::Partition { topic })
            }
        };
        if held >= limit {
            return Err(Rejection::QueueLimit { what, limit });
        }
        Ok(role)
    }

    /// The policies of what is given these: a partition has those of its topic.
    pub(super) fn policies_of(&self, role: Role, given: &QueueSpec) -> QueueSpec {
        let Role::Partition { topic } = role else { return given.clone() };
        self.queues.get(&topic).map_or_else(|| given.clone(), |topic| topic.row.spec.clone())
    }

    /// A group that begins at the latest messages begins behind all that every log of its topic has; at the earliest, behind
    /// nothing, and so it does in logs that are made later.
    fn begin_group(&mut self, group: QueueNumber, start: Start, stamp: &Stamp) {
        if start == Start::Earliest {
            return;
        }
        for lane in self.lanes(group, None) {
            let last = self.log_of(lane.log).map(|(_, last)| last).unwrap_or_default();
            if last > LogNumber::default() {
                self.make_cursor(group, lane.log, last, stamp);
            }
        }
    }

    /// A dead-letter queue must exist and must not lead back.
    pub(super) fn check_dead_letter_queue(&self, name: &str, spec: &QueueSpec) -> Result<(), Rejection> {
        let AtLimit::MoveTo { queue: target, .. } = &spec.at_limit else { return Ok(()) };
        let invalid = |problem| Err(Rejection::DeadLetterQueueInvalid { name: target.clone(), problem });
        if **target == *name {
            return invalid(DeadLetterProblem::Itself);
        }
        let mut next = target;
        for _ in 0..limits::DEAD_LETTER_CHAIN_MAX {
            let Some(queue) = self.names.get(next).and_then(|number| self.queues.get(number)) else {
                let first = next == target;
                return if first { invalid(DeadLetterProblem::Missing) } else { Ok(()) };
            };
            let AtLimit::MoveTo { queue, .. } = &queue.row.spec.at_limit else { return Ok(()) };
            if **queue == *name {
                return invalid(DeadLetterProblem::Circle);
            }
            next = queue;
        }
        invalid(DeadLetterProblem::Circle)
    }
}

/// A uid in the shape of a ULID: 48 bits of time, 80 random ones.
pub(super) fn draw_uid(stamp: &Stamp, salt: u64) -> Uid {
    let time = u128::from(stamp.now.as_millis().unsigned_abs()) & ((1 << 48) - 1);
    let high = mix(stamp.entropy ^ mix(salt));
    let low = mix(high);
    Uid((time << 80) | (u128::from(high & 0xffff) << 64) | u128::from(low))
}

/// Whether name, annotations and spec are such as a queue may have.
pub(super) fn check_queue(name: &str, annotations: &str, spec: &QueueSpec) -> Result<(), Rejection> {
    match Named::of(name) {
        None | Some(Named::Queue(_)) => check_name(name)?,
        Some(Named::Topic(topic)) => check_topic_id("topic_id", topic)?,
        Some(Named::Group { topic, id }) => {
            check_topic_id("topic_id", topic)?;
            check_topic_id("group_id", id)?;
        }
        Some(Named::Partition { topic, id }) => {
            check_topic_id("topic_id", topic)?;
            check_topic_id("partition_id", id)?;
        }
    }
    check_range("annotations", annotations.len(), 0, limits::ANNOTATIONS_BYTES_MAX)?;
    if !matches!(Named::of(name), None | Some(Named::Queue(_))) {
        check_topic_spec(spec)?;
    }
    check_spec(spec)
}

/// Whether something is the id of a topic, a group or a partition.
pub(super) fn check_topic_id(field: &'static str, id: &str) -> Result<(), Rejection> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if (1..=limits::TOPIC_NAME_BYTES_MAX).contains(&id.len()) && id.bytes().all(allowed) {
        return Ok(());
    }
    Err(Rejection::out_of_range(field, id, "1 to 255 of A-Z, a-z, 0-9, _ and -"))
}

/// What topics and groups do not have yet.
fn check_topic_spec(spec: &QueueSpec) -> Result<(), Rejection> {
    if spec.at_limit != AtLimit::Drop {
        let limit = "drop: a group has no dead letters, a message out of attempts leaves it";
        return Err(Rejection::out_of_range("at_limit", "another", limit));
    }
    if !spec.finished_retention.is_zero() {
        let limit = "0s: what a group has settled stays in its topic";
        return Err(Rejection::out_of_range(
            "finished_retention",
            show_duration(spec.finished_retention),
            limit,
        ));
    }
    if spec.retention.is_none() {
        return Err(Rejection::out_of_range(
            "retention",
            "none",
            "a retention: messages of a topic leave by it",
        ));
    }
    Ok(())
}

fn check_name(name: &str) -> Result<(), Rejection> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let good = (1..=limits::NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good {
        return Ok(());
    }
    let limit = "1 to 63 of a-z, 0-9 and -, neither first nor last a -";
    Err(Rejection::out_of_range("queue_id", name, limit))
}

/// Whether a number lies in a range, both ends included.
pub(super) fn check_range<T: PartialOrd + ToString>(
    field: &'static str,
    value: T,
    low: T,
    high: T,
) -> Result<(), Rejection> {
    if value >= low && value <= high {
        return Ok(());
    }
    let limit = format!("{} to {}", low.to_string(), high.to_string());
    Err(Rejection::out_of_range(field, value, limit))
}

/// Whether a duration lies in a range, both ends included.
pub(super) fn check_duration(
    field: &'static str,
    value: Duration,
    low: Duration,
    high: Duration,
) -> Result<(), Rejection> {
    if value >= low && value <= high {
        return Ok(());
    }
    let limit = format!("{} to {}", show_duration(low), show_duration(high));
    Err(Rejection::out_of_range(field, show_duration(value), limit))
}

fn check_spec(spec: &QueueSpec) -> Result<(), Rejection> {
    check_duration("visibility_timeout", spec.visibility_timeout, limits::LEASE_MIN, limits::LEASE_MAX)?;
    if let Some(limit) = spec.attempt_limit {
        check_range("max_deliveries", limit.max, 1, limits::ATTEMPTS_MAX)?;
    }
    if let Some(most) = spec.lost_lease.in_a_row_max {
        check_range("in_a_row_max", most, 1, limits::ATTEMPTS_MAX)?;
    }
    if let Some(retention) = spec.retention {
        check_duration("retention", retention, limits::RETENTION_MIN, limits::RETENTION_MAX)?;
    }
    check_duration("finished_retention", spec.finished_retention, Duration::ZERO, limits::RETENTION_MAX)?;
    check_duration("delay", spec.delay, Duration::ZERO, limits::DELAY_MAX)?;
    if spec.retention.is_some_and(|retention| spec.delay >= retention) {
        return Err(Rejection::out_of_range("delay", show_duration(spec.delay), "below the retention"));
    }
    check_range("leased_max", spec.leased_max, 1, limits::LEASED_MAX)?;
    if let Some(most) = spec.concurrency_max {
        check_range("concurrency_max", most, 1, limits::LEASED_MAX)?;
    }
    if let Some(backoff) = spec.backoff {
        check_duration("backoff.initial", backoff.initial, Duration::ZERO, limits::BACKOFF_MAX)?;
        check_duration("backoff.max", backoff.max, backoff.initial, limits::BACKOFF_MAX)?;
        check_range("backoff.factor", backoff.factor_permille, 1_000, 100_000)?;
        check_range("backoff.jitter_max", backoff.jitter_permille.1, 1, 10_000)?;
        check_range("backoff.jitter_min", backoff.jitter_permille.0, 0, backoff.jitter_permille.1)?;
    }
    Ok(())
}
