//! Policies of a queue: what a client asks for, laid over what there is, and what is shown.

use std::time::Duration;

use millpond_api::name::{EnvironmentName, Kind, QueueReference};
use millpond_api::queue::{self as wire, Naming, UpdateMask};
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec};

use crate::convert::queue::queue_of;
use crate::error::ApiError;

/// A backoff of which only some is given: 1 s, doubled, at most an hour, no jitter.
const BACKOFF_DEFAULT: Backoff = Backoff {
    initial: Duration::from_secs(1),
    factor_permille: 2_000,
    max: Duration::from_secs(3_600),
    jitter_permille: (1_000, 1_000),
};

/// The spec that a call makes of `base`: what its mask leaves out stays, what it names is taken from the body or else has its
/// default. Where a name of another environment stands, it is refused.
pub(crate) fn merge(
    base: &QueueSpec,
    default: &QueueSpec,
    given: &wire::QueueSpec,
    mask: &UpdateMask,
    home: &EnvironmentName,
) -> Result<QueueSpec, ApiError> {
    let named = Named { mask };
    Ok(QueueSpec {
        at_limit: merge_at_limit(
            &base.at_limit,
            &default.at_limit,
            given.at_limit,
            given.dead_letter_queue.as_ref(),
            &named,
            home,
        )?,
        attempt_limit: merge_attempt_limit(base.attempt_limit, default.attempt_limit, given, &named),
        backoff: merge_backoff(base.backoff, given.backoff.as_ref(), mask.of("backoff")),
        concurrency_max: named.or(
            "concurrency_max",
            given.concurrency_max.map(Some),
            base.concurrency_max,
            None,
        ),
        delay: named.or("delay", given.delay, base.delay, default.delay),
        finished_retention: named.or(
            "finished_retention",
            given.finished_retention,
            base.finished_retention,
            default.finished_retention,
        ),
        fresh_first: named.or("fresh_first", given.fresh_first, base.fresh_first, default.fresh_first),
        leased_max: named.or("leased_max", given.leased_max, base.leased_max, default.leased_max),
        lost_lease: merge_lost_lease(
            base.lost_lease,
            default.lost_lease,
            given.lost_lease.as_ref(),
            mask.of("lost_lease"),
        ),
        order: named.or("order", given.order.map(order_to_core), base.order, default.order),
        retention: named.or("retention", given.retention.map(Some), base.retention, default.retention),
        visibility_timeout: named.or(
            "visibility_timeout",
            given.visibility_timeout,
            base.visibility_timeout,
            default.visibility_timeout,
        ),
    })
}

/// Chooses between what is given, what there is, and the default.
struct Named<'m> {
    mask: &'m UpdateMask,
}

impl Named<'_> {
    fn or<T>(&self, field: &str, given: Option<T>, base: T, default: T) -> T {
        match self.mask.of(field) {
            Naming::Kept => base,
            Naming::Parts => given.unwrap_or(base),
            Naming::Whole => given.unwrap_or(default),
        }
    }

    fn any(&self, fields: [&str; 2]) -> bool {
        fields.iter().any(|field| self.mask.of(field) != Naming::Kept)
    }
}

fn order_to_core(order: wire::QueueOrder) -> Order {
    match order {
        wire::QueueOrder::Sent => Order::Sent,
        wire::QueueOrder::Visible => Order::Visible,
    }
}

/// Two fields of the wire are one policy. A queue without a limit, which only other surfaces make, keeps none unless one of
/// the two is named. A group has none unless it is given one, so that what it counts is lost with it.
fn merge_attempt_limit(
    base: Option<AttemptLimit>,
    default: Option<AttemptLimit>,
    given: &wire::QueueSpec,
    named: &Named<'_>,
) -> Option<AttemptLimit> {
    if !named.any(["max_deliveries", "limit_counts"]) {
        return base;
    }
    let own = base.or(default);
    let max = |limit: Option<AttemptLimit>| limit.map(|limit| limit.max);
    let counted = |limit: Option<AttemptLimit>| limit.map_or(Counted::Deliveries, |limit| limit.counts);
    let counts = given.limit_counts.map(|counts| match counts {
        wire::LimitCounts::Deliveries => Counted::Deliveries,
        wire::LimitCounts::Failures => Counted::Failures,
    });
    let counts = named.or("limit_counts", counts, counted(own), counted(default));
    let max = named.or("max_deliveries", given.max_deliveries.map(Some), max(own), max(default));
    max.map(|max| AttemptLimit { max, counts })
}

/// What is changed of a lost lease's meaning; parts that are not given stay, or have their defaults if it is replaced.
fn merge_lost_lease(
    base: LostLease,
    default: LostLease,
    given: Option<&wire::LostLease>,
    naming: Naming,
) -> LostLease {
    let start = match naming {
        Naming::Kept => return base,
        Naming::Parts => base,
        Naming::Whole => default,
    };
    let nothing = wire::LostLease::default();
    let given = given.unwrap_or(&nothing);
    LostLease {
        backs_off: given.backs_off.unwrap_or(start.backs_off),
        in_a_row_max: match given.in_a_row_max {
            None => start.in_a_row_max,
            Some(0) => None,
            Some(most) => Some(most),
        },
        spends_attempt: given.spends_attempt.unwrap_or(start.spends_attempt),
    }
}

/// Two fields of the wire are one policy: with a dead-letter queue, `at_limit` says what happens once that is gone.
fn merge_at_limit(
    base: &AtLimit,
    default: &AtLimit,
    at_limit: Option<wire::AtLimit>,
    dead_letter_queue: Option<&QueueReference>,
    named: &Named<'_>,
    home: &EnvironmentName,
) -> Result<AtLimit, ApiError> {
    let (own_limit, own_queue) = at_limit_from_core(base);
    let given = dead_letter_queue.map(|reference| queue_of("spec.dead_letter_queue", reference, home));
    let queue = named.or("dead_letter_queue", given.transpose()?.map(Some), own_queue, None);
    let at_limit = named.or("at_limit", at_limit, own_limit, at_limit_from_core(default).0);
    Ok(match (queue, at_limit) {
        (None, wire::AtLimit::Drop) => AtLimit::Drop,
        (None, wire::AtLimit::DeadLetterSet) => AtLimit::DeadLetterSet,
        (Some(queue), wire::AtLimit::Drop) => AtLimit::MoveTo { queue, otherwise: Gone::Drop },
        (Some(queue), wire::AtLimit::DeadLetterSet) => {
            AtLimit::MoveTo { queue, otherwise: Gone::DeadLetterSet }
        }
    })
}

fn at_limit_from_core(at_limit: &AtLimit) -> (wire::AtLimit, Option<Box<str>>) {
    match at_limit {
        AtLimit::Drop => (wire::AtLimit::Drop, None),
        AtLimit::DeadLetterSet => (wire::AtLimit::DeadLetterSet, None),
        AtLimit::MoveTo { queue, otherwise: Gone::Drop } => (wire::AtLimit::Drop, Some(queue.clone())),
        AtLimit::MoveTo { queue, otherwise: Gone::DeadLetterSet } => {
            (wire::AtLimit::DeadLetterSet, Some(queue.clone()))
        }
    }
}

/// Parts of a backoff that there is stay as they are, and the core refuses what does not go together. A backoff that is
/// made has defaults that give way.
fn merge_backoff(base: Option<Backoff>, given: Option<&wire::Backoff>, naming: Naming) -> Option<Backoff> {
    match (naming, base, given) {
        (Naming::Kept, base, _) => base,
        (_, _, None) => None,
        (Naming::Parts, Some(base), Some(given)) => Some(Backoff {
            initial: given.initial.unwrap_or(base.initial),
            factor_permille: given.factor.map_or(base.factor_permille, |factor| factor.0),
            max: given.max.unwrap_or(base.max),
            jitter_permille: (
                given.jitter_min.map_or(base.jitter_permille.0, |jitter| jitter.0),
                given.jitter_max.map_or(base.jitter_permille.1, |jitter| jitter.0),
            ),
        }),
        (_, _, Some(given)) => Some(backoff_to_core(given)),
    }
}

/// A bound that is not given gives way to one that is.
fn backoff_to_core(backoff: &wire::Backoff) -> Backoff {
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

/// The spec as it is answered: everything that applies to this kind.
pub(crate) fn from_core(spec: &QueueSpec, kind: Kind, home: &EnvironmentName) -> wire::QueueSpec {
    match kind {
        Kind::Group => of_leases(spec),
        Kind::Partition | Kind::Topic => of_sends(spec),
        Kind::Queue => {
            let (at_limit, dead_letter_queue) = at_limit_from_core(&spec.at_limit);
            let dead_letter_queue =
                dead_letter_queue.map(|queue| QueueReference::Id(queue.into()).resolve(home));
            wire::QueueSpec {
                dead_letter_queue: dead_letter_queue.map(QueueReference::Name),
                retention: spec.retention,
                at_limit: Some(at_limit),
                delay: Some(spec.delay),
                finished_retention: Some(spec.finished_retention),
                ..of_leases(spec)
            }
        }
    }
}

/// What concerns messages as they are sent.
fn of_sends(spec: &QueueSpec) -> wire::QueueSpec {
    wire::QueueSpec { retention: spec.retention, delay: Some(spec.delay), ..wire::QueueSpec::default() }
}

/// What concerns leases and their ends.
fn of_leases(spec: &QueueSpec) -> wire::QueueSpec {
    wire::QueueSpec {
        visibility_timeout: Some(spec.visibility_timeout),
        max_deliveries: spec.attempt_limit.map(|limit| limit.max),
        backoff: spec.backoff.map(backoff_from_core),
        concurrency_max: spec.concurrency_max,
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
        ..wire::QueueSpec::default()
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
mod tests;
