//! Rows of queues, every field of every policy.

use std::time::Duration;

use millpond_core::id::{LogNumber, QueueNumber};
use millpond_core::row::{QueueRow, Role};
use millpond_core::spec::{AtLimit, AttemptLimit, Backoff, Counted, Gone, LostLease, Order, QueueSpec};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use crate::Place;
use crate::rows::{Owner, odd_queue, queue};

pub(super) fn every_field_of_a_queue_comes_back(place: &mut dyn Place) {
    let row = odd_queue(u32::MAX);
    comes_back(place, vec![row.clone(), queue(1)]);
    comes_back(place, vec![queue(u32::MAX), QueueRow { number: QueueNumber(1), name: "two".into(), ..row }]);
}

pub(super) fn every_role_comes_back(place: &mut dyn Place) {
    let (topic, log) = (QueueNumber(1), QueueNumber(2));
    let cursor = |group, log, start| Role::Cursor { group, log, start: LogNumber(start) };
    let group = QueueNumber(u32::MAX);
    let rows = [
        ("topics/t", Role::Topic),
        ("topics/t/partitions/p", Role::Partition { topic }),
        ("topics/t/groups/g", Role::Group { topic }),
        ("", cursor(group, topic, 0)),
        ("", cursor(QueueNumber(0), log, 1 << 62)),
        ("t", Role::Queue),
        ("topics/t/groups/g", Role::Group { topic: QueueNumber(u32::MAX) }),
    ];
    let mut rows: Vec<QueueRow> = (1..)
        .zip(rows)
        .map(|(number, (name, role))| QueueRow { name: name.into(), role, ..queue(number) })
        .collect();
    comes_back(place, rows.clone());
    // The same numbers in other roles.
    let roles: Vec<Role> = rows.iter().map(|row| row.role).collect();
    for (row, role) in rows.iter_mut().zip(roles.into_iter().rev()) {
        row.role = role;
    }
    comes_back(place, rows);
}

pub(super) fn any_policy_comes_back(place: &mut dyn Place) {
    let mut rows = Vec::new();
    let mut runner = TestRunner::deterministic();
    for number in 1..=Config::default().cases {
        let spec = any_spec().new_tree(&mut runner).expect("any spec can be made").current();
        rows.push(QueueRow { spec, ..queue(number) });
    }
    comes_back(place, rows);
}

/// Writes queues, opens again, and expects them; queues that were there must be among them.
fn comes_back(place: &mut dyn Place, mut rows: Vec<QueueRow>) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| changes.queues_put.clone_from(&rows));
    owner.close();
    let mut found: Vec<QueueRow> =
        Owner::open(factory.as_ref()).opened.queues.into_iter().map(|(row, _)| row).collect();
    rows.sort_by_key(|row| row.number);
    found.sort_by_key(|row| row.number);
    assert_eq!(found, rows);
}

pub(super) fn any_duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        (0..100_000_000u64).prop_map(Duration::from_millis),
        (any::<u64>(), 0..1_000_000_000u32).prop_map(|(seconds, nanos)| Duration::new(seconds, nanos)),
    ]
}

fn any_gone() -> impl Strategy<Value = Gone> {
    prop_oneof![Just(Gone::Drop), Just(Gone::DeadLetterSet)]
}

fn any_at_limit() -> impl Strategy<Value = AtLimit> {
    prop_oneof![
        Just(AtLimit::Drop),
        Just(AtLimit::DeadLetterSet),
        (any::<String>(), any_gone())
            .prop_map(|(queue, otherwise)| AtLimit::MoveTo { queue: queue.into(), otherwise }),
    ]
}

fn any_attempt_limit() -> impl Strategy<Value = AttemptLimit> {
    let counts = prop_oneof![Just(Counted::Deliveries), Just(Counted::Failures)];
    (any::<u32>(), counts).prop_map(|(max, counts)| AttemptLimit { max, counts })
}

fn any_backoff() -> impl Strategy<Value = Backoff> {
    (any_duration(), any::<u32>(), any_duration(), any::<(u32, u32)>()).prop_map(
        |(initial, factor_permille, max, jitter_permille)| Backoff {
            initial,
            factor_permille,
            max,
            jitter_permille,
        },
    )
}

fn any_lost_lease() -> impl Strategy<Value = LostLease> {
    (any::<bool>(), any::<Option<u32>>(), any::<bool>()).prop_map(
        |(backs_off, in_a_row_max, spends_attempt)| LostLease { backs_off, in_a_row_max, spends_attempt },
    )
}

fn any_spec() -> impl Strategy<Value = QueueSpec> {
    let limits =
        (any_at_limit(), proptest::option::of(any_attempt_limit()), any::<Option<u32>>(), any::<u32>());
    let times = (any_duration(), any_duration(), proptest::option::of(any_duration()), any_duration());
    let order = prop_oneof![Just(Order::Visible), Just(Order::Sent)];
    let rest = (proptest::option::of(any_backoff()), any::<bool>(), any_lost_lease(), order);
    (limits, times, rest).prop_map(|(limits, times, rest)| {
        let (at_limit, attempt_limit, concurrency_max, leased_max) = limits;
        let (delay, finished_retention, retention, visibility_timeout) = times;
        let (backoff, fresh_first, lost_lease, order) = rest;
        QueueSpec {
            at_limit,
            attempt_limit,
            backoff,
            concurrency_max,
            delay,
            finished_retention,
            fresh_first,
            leased_max,
            lost_lease,
            order,
            retention,
            visibility_timeout,
        }
    })
}
