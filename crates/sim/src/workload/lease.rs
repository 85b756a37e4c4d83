//! Takes messages to work on.

use std::time::Duration;

use millpond_core::command::{Lease, Reading, WaiterId};
use millpond_core::limits::{LEASE_MESSAGES_MAX, LEASE_MIN, WAIT_MAX};
use millpond_core::{Command, Outcome, Rejection};

use super::Scene;
use crate::auditor::{Answered, Auditor, Verdict, demand};
use crate::names::{Kind, kind_of};

pub(super) fn generate(scene: &mut Scene<'_>) -> Command {
    let queue = scene.source();
    let odd = scene.random.chance(10);
    let reading =
        if odd || kind_of(&queue) == Kind::Group { draw_reading(scene, 350) } else { Reading::default() };
    let random = &mut *scene.random;
    let max_messages = if random.chance(300) { random.count(2, 12) } else { 1 };
    let min_messages = if random.chance(300) { random.count(1, max_messages) } else { 1 };
    let wait = if random.chance(350) { random.millis(1, 15_000) } else { Duration::ZERO };
    let mut lease = Lease {
        queue,
        max_messages,
        min_messages,
        visibility_timeout: random.chance(500).then(|| random.millis(1_000, 15_000)),
        wait,
        max_wait: random.chance(400).then(|| random.millis(0, 6_000)),
        waiter: WaiterId(0),
        reading,
    };
    match random.below(100) {
        0 => lease.max_messages = random.count(0, 1) * 101,
        1 => lease.min_messages = max_messages + 1,
        2 => lease.visibility_timeout = Some(Duration::from_millis(500)),
        3 => lease.wait = Duration::from_secs(21),
        4 => lease.max_wait = Some(Duration::from_secs(21)),
        _ => {}
    }
    Command::Lease(lease)
}

/// How a group is read: pinned to a partition so often in a thousand.
pub(super) fn draw_reading(scene: &mut Scene<'_>, pinned: u64) -> Reading {
    let partition = scene.random.chance(pinned).then(|| scene.partition_id().into());
    let random = &mut *scene.random;
    let in_flight_max =
        if random.chance(10) { Some(0) } else { random.chance(120).then(|| random.count(1, 4)) };
    let unpinned = random.chance(if partition.is_some() { 500 } else { 30 });
    Reading { partition, unpinned, pushes: random.chance(400), in_flight_max, look: random.chance(60) }
}

fn is_valid(lease: &Lease) -> bool {
    lease.reading.in_flight_max != Some(0)
        && (1..=LEASE_MESSAGES_MAX).contains(&lease.max_messages)
        && (1..=lease.max_messages).contains(&lease.min_messages)
        && lease.visibility_timeout.is_none_or(|timeout| timeout >= LEASE_MIN)
        && lease.wait <= WAIT_MAX
        && lease.max_wait.is_none_or(|wait| wait <= WAIT_MAX)
}

/// Whether this can be leased from, and be read like this.
fn is_suited(lease: &Lease) -> bool {
    match kind_of(&lease.queue) {
        Kind::Group => true,
        Kind::Queue => lease.reading == Reading::default(),
        Kind::Partition | Kind::Topic => false,
    }
}

pub(super) fn predict(auditor: &mut Auditor, lease: &Lease, answered: &Answered<'_>) -> Verdict {
    let stable = auditor.name_is_stable(&lease.queue, answered.submitted.index);
    let known = auditor.queue(&lease.queue).is_some();
    match answered.outcome {
        Outcome::Leased(grants) => {
            demand!(is_valid(lease) && is_suited(lease), "{lease:?} was taken");
            demand!(known || !stable, "{} was leased from and is not there", lease.queue);
            auditor.granted(lease, grants, answered)
        }
        Outcome::Rejected(Rejection::QueueNotFound { .. }) => {
            demand!(!known || !stable, "{} was not found", lease.queue);
            Ok(())
        }
        Outcome::Rejected(Rejection::Unsuited { .. }) => {
            demand!(!is_suited(lease), "{lease:?} does not suit");
            Ok(())
        }
        Outcome::Rejected(Rejection::ConcurrencyReached { in_flight, limit }) => {
            let own = lease.reading.in_flight_max;
            let group = auditor.reader_named(&lease.queue).filter(|_| own == Some(*limit));
            let reached =
                group.is_some_and(|group| auditor.may_be_in_flight(group, *in_flight, own, *limit, answered));
            demand!(reached, "{lease:?} was refused for {in_flight} leases");
            Ok(())
        }
        Outcome::Rejected(Rejection::OutOfRange { field, .. }) => {
            demand!(!is_valid(lease), "{field} of {lease:?} was refused");
            Ok(())
        }
        Outcome::Rejected(Rejection::WaiterLimit { limit }) => {
            demand!(*limit == auditor.settings.waiters, "limit {limit} of waiting calls");
            Ok(())
        }
        _ => answered.out_of_place(),
    }
}
