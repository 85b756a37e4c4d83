//! Policies of a queue: what a client asks for, filled up with defaults, and what is shown.

use std::time::Duration;

use millpond_api::name::{EnvironmentName, QueueReference};
use millpond_api::queue as wire;
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec};

use crate::error::ApiError;

/// A backoff of which only some is given: 1 s, doubled, at most an hour, no jitter.
const BACKOFF_DEFAULT: Backoff = Backoff {
    initial: Duration::from_secs(1),
    factor_permille: 2_000,
    max: Duration::from_secs(3_600),
    jitter_permille: (1_000, 1_000),
};

/// The whole spec. Where a name of another environment stands, it is refused.
pub(crate) fn to_core(spec: wire::QueueSpec, home: &EnvironmentName) -> Result<QueueSpec, ApiError> {
    let default = QueueSpec::default();
    let lost_lease = spec.lost_lease.unwrap_or_default();
    let attempts = default.attempt_limit.unwrap_or(AttemptLimit { max: 1, counts: Counted::Deliveries });
    Ok(QueueSpec {
        at_limit: at_limit_to_core(spec.at_limit, spec.dead_letter_queue, home)?,
        attempt_limit: Some(AttemptLimit {
            max: spec.max_deliveries.unwrap_or(attempts.max),
            counts: spec.limit_counts.map_or(attempts.counts, |counts| match counts {
                wire::LimitCounts::Deliveries => Counted::Deliveries,
                wire::LimitCounts::Failures => Counted::Failures,
            }),
        }),
        backoff: spec.backoff.map(backoff_to_core).or(default.backoff),
        concurrency_max: spec.concurrency_max.or(default.concurrency_max),
        delay: spec.delay.unwrap_or(default.delay),
        finished_retention: spec.finished_retention.unwrap_or(default.finished_retention),
        fresh_first: spec.fresh_first.unwrap_or(default.fresh_first),
        leased_max: spec.leased_max.unwrap_or(default.leased_max),
        lost_lease: LostLease {
            backs_off: lost_lease.backs_off.unwrap_or(default.lost_lease.backs_off),
            in_a_row_max: match lost_lease.in_a_row_max {
                None => default.lost_lease.in_a_row_max,
                Some(0) => None,
                Some(most) => Some(most),
            },
            spends_attempt: lost_lease.spends_attempt.unwrap_or(default.lost_lease.spends_attempt),
        },
        order: spec.order.map_or(default.order, |order| match order {
            wire::QueueOrder::Sent => Order::Sent,
            wire::QueueOrder::Visible => Order::Visible,
        }),
        retention: spec.retention.or(default.retention),
        visibility_timeout: spec.visibility_timeout.unwrap_or(default.visibility_timeout),
    })
}

/// With a dead-letter queue, `at_limit` says what happens once that is gone.
fn at_limit_to_core(
    at_limit: Option<wire::AtLimit>,
    dead_letter_queue: Option<QueueReference>,
    home: &EnvironmentName,
) -> Result<AtLimit, ApiError> {
    let Some(reference) = dead_letter_queue else {
        return Ok(match at_limit {
            Some(wire::AtLimit::Drop) => AtLimit::Drop,
            Some(wire::AtLimit::DeadLetterSet) => AtLimit::DeadLetterSet,
            None => QueueSpec::default().at_limit,
        });
    };
    let name = reference.resolve(home);
    if name.environment() != home {
        let field = "spec.dead_letter_queue";
        let detail = format!("{field} is {name}, expected a queue of {home}");
        return Err(ApiError::field(field, name.to_string(), detail));
    }
    let otherwise = match at_limit {
        Some(wire::AtLimit::Drop) => Gone::Drop,
        Some(wire::AtLimit::DeadLetterSet) | None => Gone::DeadLetterSet,
    };
    Ok(AtLimit::MoveTo { queue: name.queue().into(), otherwise })
}

/// A bound that is not given gives way to one that is.
fn backoff_to_core(backoff: wire::Backoff) -> Backoff {
    let (low, high) = BACKOFF_DEFAULT.jitter_permille;
    let initial = backoff.initial;
    let max = backoff.max.unwrap_or(BACKOFF_DEFAULT.max.max(initial.unwrap_or_default()));
    let jitter_min = backoff.jitter_min.map(|jitter| jitter.0);
    let jitter_max = backoff.jitter_max.map_or(high.max(jitter_min.unwrap_or(0)), |jitter| jitter.0);
    Backoff {
        initial: initial.unwrap_or(BACKOFF_DEFAULT.initial.min(max)),
        factor_permille: backoff.factor.map_or(BACKOFF_DEFAULT.factor_permille, |factor| factor.0),
        max,
        jitter_permille: (jitter_min.unwrap_or(low.min(jitter_max)), jitter_max),
    }
}

/// The spec as it is answered: everything that applies.
pub(crate) fn from_core(spec: &QueueSpec, home: &EnvironmentName) -> wire::QueueSpec {
    let (at_limit, dead_letter_queue) = match &spec.at_limit {
        AtLimit::Drop => (wire::AtLimit::Drop, None),
        AtLimit::DeadLetterSet => (wire::AtLimit::DeadLetterSet, None),
        AtLimit::MoveTo { queue, otherwise } => {
            let at_limit = match otherwise {
                Gone::Drop => wire::AtLimit::Drop,
                Gone::DeadLetterSet => wire::AtLimit::DeadLetterSet,
            };
            (at_limit, Some(QueueReference::Id(queue.to_string()).resolve(home)))
        }
    };
    wire::QueueSpec {
        visibility_timeout: Some(spec.visibility_timeout),
        max_deliveries: spec.attempt_limit.map(|limit| limit.max),
        dead_letter_queue: dead_letter_queue.map(QueueReference::Name),
        retention: spec.retention,
        at_limit: Some(at_limit),
        backoff: spec.backoff.map(backoff_from_core),
        concurrency_max: spec.concurrency_max,
        delay: Some(spec.delay),
        finished_retention: Some(spec.finished_retention),
        fresh_first: Some(spec.fresh_first),
        leased_max: Some(spec.leased_max),
        limit_counts: spec.attempt_limit.map(|limit| match limit.counts {
            Counted::Deliveries => wire::LimitCounts::Deliveries,
            Counted::Failures => wire::LimitCounts::Failures,
        }),
        lost_lease: Some(wire::LostLease {
            spends_attempt: Some(spec.lost_lease.spends_attempt),
            in_a_row_max: Some(spec.lost_lease.in_a_row_max.unwrap_or(0)),
            backs_off: Some(spec.lost_lease.backs_off),
        }),
        order: Some(match spec.order {
            Order::Sent => wire::QueueOrder::Sent,
            Order::Visible => wire::QueueOrder::Visible,
        }),
    }
}

fn backoff_from_core(backoff: Backoff) -> wire::Backoff {
    wire::Backoff {
        initial: Some(backoff.initial),
        factor: Some(wire::Thousandths(backoff.factor_permille)),
        max: Some(backoff.max),
        jitter_min: Some(wire::Thousandths(backoff.jitter_permille.0)),
        jitter_max: Some(wire::Thousandths(backoff.jitter_permille.1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home() -> EnvironmentName {
        EnvironmentName::new("acme", "shop", "prod").expect("valid")
    }

    #[test]
    fn nothing_given_is_the_default_spec() {
        assert_eq!(to_core(wire::QueueSpec::default(), &home()).ok(), Some(QueueSpec::default()));
    }

    #[test]
    fn what_is_answered_means_the_same_when_it_is_sent_back() {
        let spec = QueueSpec {
            at_limit: AtLimit::MoveTo { queue: "dead".into(), otherwise: Gone::Drop },
            attempt_limit: Some(AttemptLimit { max: 7, counts: Counted::Failures }),
            backoff: Some(Backoff { jitter_permille: (500, 1_500), ..BACKOFF_DEFAULT }),
            concurrency_max: Some(3),
            delay: Duration::from_secs(5),
            finished_retention: Duration::from_secs(60),
            fresh_first: true,
            leased_max: 10,
            lost_lease: LostLease { backs_off: true, in_a_row_max: Some(2), spends_attempt: false },
            order: Order::Sent,
            retention: Some(Duration::from_secs(3_600)),
            visibility_timeout: Duration::from_secs(1),
        };
        for spec in [spec, QueueSpec::default()] {
            assert_eq!(to_core(from_core(&spec, &home()), &home()).ok(), Some(spec));
        }
    }

    #[test]
    fn a_part_of_a_backoff_never_contradicts_the_defaults_of_the_rest() {
        let hours = |hours: u64| Some(Duration::from_secs(hours * 3_600));
        let long = backoff_to_core(wire::Backoff { initial: hours(2), ..wire::Backoff::default() });
        assert_eq!(Some(long.max), hours(2));
        let short = backoff_to_core(wire::Backoff {
            max: Some(Duration::from_millis(1)),
            ..wire::Backoff::default()
        });
        assert_eq!(short.initial, Duration::from_millis(1));
        let wide = backoff_to_core(wire::Backoff {
            jitter_min: Some(wire::Thousandths(2_000)),
            ..wire::Backoff::default()
        });
        assert_eq!(wide.jitter_permille, (2_000, 2_000));
    }

    #[test]
    fn a_dead_letter_queue_of_another_environment_is_refused() {
        let other = "orgs/acme/projects/shop/envs/test/queues/dead";
        let reference = QueueReference::parse("q", other).expect("valid");
        let spec = wire::QueueSpec { dead_letter_queue: Some(reference), ..wire::QueueSpec::default() };
        assert!(to_core(spec, &home()).is_err());
    }
}
