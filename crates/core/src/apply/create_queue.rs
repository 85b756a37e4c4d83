//! Makes a queue. Checks in order: name, annotations, spec, taken, dead-letter queue, limit.

use std::time::Duration;

use crate::apply::Stop;
use crate::command::CreateQueue;
use crate::id::{Sequence, Uid};
use crate::limits;
use crate::outcome::{DeadLetterProblem, Outcome, QueueView, Rejection, Why, show_duration};
use crate::row::{CountersRow, QueueRow};
use crate::spec::{AtLimit, QueueSpec};
use crate::stamp::{Stamp, mix};
use crate::state::{Core, QueueState};

impl Core {
    pub(super) fn create_queue(&mut self, create: &CreateQueue, stamp: &Stamp) -> Result<Outcome, Stop> {
        check_queue(&create.name, &create.annotations, &create.spec)?;
        if self.names.contains_key(&create.name) {
            return Err(Rejection::QueueAlreadyExists { name: create.name.clone() }.into());
        }
        self.check_dead_letter_queue(&create.name, &create.spec)?;
        if self.names.len() >= self.settings.queues {
            return Err(Rejection::QueueLimit { limit: self.settings.queues }.into());
        }
        let number = self.environment.next_queue;
        let row = QueueRow {
            number,
            name: create.name.clone(),
            uid: draw_uid(stamp, u64::from(number.0)),
            generation: 1,
            revision: 1,
            created_at: stamp.now,
            updated_at: stamp.now,
            annotations: create.annotations.clone(),
            spec: create.spec.clone(),
            paused_at: None,
            purged_through: Sequence::default(),
            dead_purged_through: Sequence::default(),
            deleted: false,
            sweep_owed: false,
        };
        if create.validate_only {
            let counters = CountersRow { queue: number, ..CountersRow::default() };
            let view = QueueView { queue: row, counters, waiting: 0, why: Why::Empty };
            return Ok(Outcome::Queue(Box::new(view)));
        }
        self.environment.next_queue = number.next();
        self.names.insert(row.name.clone(), number);
        self.queues.insert(number, QueueState::new(row));
        self.touch_queue(number);
        self.view(number, stamp)
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
            let Some(queue) = self.queue_named(next) else {
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
fn draw_uid(stamp: &Stamp, salt: u64) -> Uid {
    let time = u128::from(stamp.now.as_millis().unsigned_abs()) & ((1 << 48) - 1);
    let high = mix(stamp.entropy ^ mix(salt));
    let low = mix(high);
    Uid((time << 80) | (u128::from(high & 0xffff) << 64) | u128::from(low))
}

/// Whether name, annotations and spec are such as a queue may have.
pub(super) fn check_queue(name: &str, annotations: &str, spec: &QueueSpec) -> Result<(), Rejection> {
    check_name(name)?;
    check_range("annotations", annotations.len(), 0, limits::ANNOTATIONS_BYTES_MAX)?;
    check_spec(spec)
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
