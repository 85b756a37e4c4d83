//! Ordered scans: the order, the page's edges, and the exact end.

use millpond_core::id::{QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, DueKey, ReadyKey};
use millpond_core::{DeliveryChange, Scan};

use crate::Place;
use crate::rows::{Owner, at, dedup, delivery};

fn ready(queue: u32, after: Option<ReadyKey>, limit: usize) -> Scan {
    Scan::Ready { queue: QueueNumber(queue), after, limit }
}

fn due(state: DeliveryState, after: Option<DueKey>, limit: usize) -> Scan {
    Scan::Due { queue: QueueNumber(1), state, after, limit }
}

fn sequences(rows: &[DeliveryRow]) -> Vec<u64> {
    rows.iter().map(|row| row.sequence.0).collect()
}

fn ready_row(sequence: u64, priority: i32, retried: bool, order_at: i64) -> DeliveryRow {
    DeliveryRow { priority, retried, order_at: at(order_at), ..delivery(sequence) }
}

fn due_row(sequence: u64, state: DeliveryState, due_at: i64) -> DeliveryRow {
    DeliveryRow { state, due_at: at(due_at), ..delivery(sequence) }
}

pub(super) fn ready_order_is_priority_then_class_then_time_then_sequence(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([
        ready_row(1, 0, false, 50),
        ready_row(2, 0, false, 40),
        ready_row(3, 0, true, 10),
        ready_row(4, 5, true, 90),
        ready_row(5, 5, false, 91),
        ready_row(6, -5, false, 1),
        ready_row(7, 0, false, 40),
        DeliveryRow { queue: QueueNumber(2), ..ready_row(8, 9, false, 0) },
        DeliveryRow { state: DeliveryState::Leased, ..ready_row(9, 9, false, 0) },
    ]);
    let page = owner.scan(&ready(1, None, 100));
    assert_eq!(sequences(&page.deliveries), [5, 4, 2, 7, 1, 3, 6]);
    assert!(page.end);
    assert_eq!(page.deliveries[2], ready_row(2, 0, false, 40), "rows come whole");
    assert_eq!(page.dedup, []);
    assert_eq!(sequences(&owner.scan(&ready(2, None, 100)).deliveries), [8]);
    assert_eq!(sequences(&owner.scan(&ready(3, None, 100)).deliveries), Vec::<u64>::new());
}

pub(super) fn ready_order_holds_at_the_extremes(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let mut rows = Vec::new();
    for priority in [i32::MIN, -1, 0, 1, i32::MAX] {
        for retried in [true, false] {
            for order_at in [i64::MIN, -1, 0, 1, i64::MAX] {
                for _ in 0..2 {
                    rows.push(ready_row(rows.len() as u64 + 1, priority, retried, order_at));
                }
            }
        }
    }
    let last = (1 << 40) - 1;
    rows.push(ready_row(last, i32::MIN, true, i64::MAX));
    owner.send(rows.clone());
    rows.sort_by_key(DeliveryRow::ready_key);
    let expected = sequences(&rows);
    assert_eq!(sequences(&owner.scan(&ready(1, None, 1_000)).deliveries), expected);
    for (index, row) in rows.iter().enumerate() {
        let page = owner.scan(&ready(1, Some(row.ready_key()), 1_000));
        assert_eq!(sequences(&page.deliveries), expected[index + 1..], "behind {:?}", row.ready_key());
    }
    let lowest = ReadyKey {
        priority_descending: i64::MIN,
        retried: false,
        order_at: at(i64::MIN),
        sequence: Sequence(0),
    };
    assert_eq!(sequences(&owner.scan(&ready(1, Some(lowest), 1_000)).deliveries), expected);
}

pub(super) fn due_order_is_kept_for_each_queue_and_state(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let states = [
        DeliveryState::Delayed,
        DeliveryState::Leased,
        DeliveryState::Completed,
        DeliveryState::Dead,
        DeliveryState::Cancelled,
    ];
    let mut rows = Vec::new();
    for (offset, state) in (0..).zip(states) {
        for index in 0..4 {
            let sequence = 1 + offset + 5 * index;
            rows.push(due_row(sequence, state, 100 - i64::try_from(index / 2).unwrap_or(0)));
        }
    }
    rows.push(delivery(99));
    rows.push(DeliveryRow { queue: QueueNumber(2), ..due_row(98, DeliveryState::Delayed, 0) });
    owner.send(rows);
    for (offset, state) in (0..).zip(states) {
        let page = owner.scan(&due(state, None, 100));
        assert_eq!(sequences(&page.deliveries), [11, 16, 1, 6].map(|first| first + offset), "{state:?}");
        assert!(page.end);
    }
}

pub(super) fn due_and_expiry_orders_hold_at_the_extremes(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let times = [i64::MAX, i64::MAX - 1, 1, 0, -1, i64::MIN + 1, i64::MIN];
    let rows: Vec<DeliveryRow> = (1..)
        .zip(times.into_iter().flat_map(|time| [time, time]))
        .map(|(sequence, time)| DeliveryRow {
            expires_at: at(time),
            ..due_row(sequence, DeliveryState::Leased, time)
        })
        .collect();
    owner.send(rows.clone());
    let expected = [13, 14, 11, 12, 9, 10, 7, 8, 5, 6, 3, 4, 1, 2];
    let leased = DeliveryState::Leased;
    for (index, &sequence) in expected.iter().enumerate() {
        let row = rows.iter().find(|row| row.sequence.0 == sequence).expect("it was sent");
        let page = owner.scan(&due(leased, Some(row.due_key()), 100));
        assert_eq!(sequences(&page.deliveries), expected[index + 1..], "due behind {:?}", row.due_key());
        let page = owner.scan(&Scan::Expiry { after: Some(row.expiry_key()), limit: 100 });
        assert_eq!(
            sequences(&page.deliveries),
            expected[index + 1..],
            "expiry behind {:?}",
            row.expiry_key()
        );
    }
    assert_eq!(sequences(&owner.scan(&due(leased, None, 100)).deliveries), expected);
    assert_eq!(sequences(&owner.scan(&Scan::Expiry { after: None, limit: 100 }).deliveries), expected);
}

pub(super) fn expiry_order_spans_queues_and_states(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let row = |sequence: u64, queue: u32, state, expires_at| DeliveryRow {
        queue: QueueNumber(queue),
        expires_at: at(expires_at),
        ..due_row(sequence, state, 0)
    };
    owner.send([
        row(1, 2, DeliveryState::Ready, 30),
        row(2, 1, DeliveryState::Leased, 10),
        row(3, 1, DeliveryState::Dead, 20),
        row(4, 3, DeliveryState::Delayed, 20),
    ]);
    let page = owner.scan(&Scan::Expiry { after: None, limit: 3 });
    assert_eq!(sequences(&page.deliveries), [2, 3, 4]);
    assert!(!page.end);
}

pub(super) fn remembered_sends_are_scanned_from_a_time_on(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let rows = [dedup(2, "z", 10), dedup(1, "y", 20), dedup(1, "x", -5), dedup(1, "w", i64::MAX)];
    owner.commit(|changes| changes.dedup_put = rows.to_vec());
    let mut scan = |from: i64, limit: usize| {
        let page = owner.scan(&Scan::DedupExpiry { from: at(from), limit });
        assert_eq!(page.deliveries, []);
        let keys: Vec<String> = page.dedup.iter().map(|row| row.key.key.to_string()).collect();
        (keys.join(" "), page.end)
    };
    assert_eq!(scan(i64::MIN, 9), ("x z y w".into(), true));
    assert_eq!(scan(-5, 2), ("x z".into(), false));
    assert_eq!(scan(-4, 9), ("z y w".into(), true));
    assert_eq!(scan(10, 3), ("z y w".into(), true));
    assert_eq!(scan(10, 2), ("z y".into(), false));
    assert_eq!(scan(21, 9), ("w".into(), true));
    let moved = dedup(2, "z", 15);
    owner.commit(|changes| {
        changes.dedup_put = vec![moved.clone()];
        changes.dedup_removed = vec![dedup(1, "x", 0).key];
    });
    let page = owner.scan(&Scan::DedupExpiry { from: at(-5), limit: 1 });
    assert_eq!((page.dedup, page.end), (vec![moved], false));
}

pub(super) fn nothing_of_a_time_lies_behind_its_last_sequence(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let rows = [ready_row(1, 0, false, 10), ready_row(2, 0, false, 10), ready_row(3, 0, false, 11)];
    owner.send(rows.clone());
    let last = ReadyKey { sequence: Sequence::LAST, ..rows[0].ready_key() };
    assert_eq!(sequences(&owner.scan(&ready(1, Some(last), 9)).deliveries), [3]);
}

pub(super) fn pages_behind_a_key_join_without_gap_or_repeat(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let rows = (1..=100).map(|n| {
        let state = if n % 2 == 0 { DeliveryState::Ready } else { DeliveryState::Delayed };
        let row = ready_row(
            n,
            i32::try_from(n % 3).unwrap_or(0) - 1,
            n % 5 == 0,
            -i64::try_from(n % 4).unwrap_or(0),
        );
        DeliveryRow { state, due_at: at(-i64::try_from(n % 7).unwrap_or(0)), ..row }
    });
    owner.send(rows);
    for limit in [1, 3, 7, 49, 50, 51] {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = owner.scan(&ready(1, after, limit));
            assert!(page.deliveries.len() <= limit);
            after = page.deliveries.last().map(DeliveryRow::ready_key).or(after);
            found.extend(page.deliveries);
            if page.end {
                break;
            }
        }
        assert_eq!(found, owner.scan(&ready(1, None, 1_000)).deliveries, "ready, pages of {limit}");
        assert!(found.is_sorted_by_key(DeliveryRow::ready_key) && found.len() == 50);

        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = owner.scan(&due(DeliveryState::Delayed, after, limit));
            after = page.deliveries.last().map(DeliveryRow::due_key).or(after);
            found.extend(page.deliveries);
            if page.end {
                break;
            }
        }
        assert!(found.is_sorted_by_key(DeliveryRow::due_key) && found.len() == 50, "due, pages of {limit}");
    }
}

pub(super) fn pages_are_right_with_removals_in_front(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send((1..=2_000).map(delivery));
    for chunk in 0..19 {
        owner.remove((chunk * 100 + 1)..=(chunk * 100 + 100));
        let page = owner.scan(&ready(1, None, 3));
        let first = chunk * 100 + 101;
        assert_eq!(sequences(&page.deliveries), [first, first + 1, first + 2]);
        let page = owner.scan(&Scan::Expiry { after: None, limit: 2 });
        assert_eq!(sequences(&page.deliveries), [first, first + 1]);
    }
    let removed = delivery(5).ready_key();
    assert_eq!(
        sequences(&owner.scan(&ready(1, Some(removed), 1)).deliveries),
        [1_901],
        "behind a key that is gone"
    );
    owner.remove(1_901..=2_000);
    let page = owner.scan(&ready(1, None, 3));
    assert_eq!((page.deliveries.len(), page.end), (0, true));
}

pub(super) fn the_end_is_exact(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send((1..=4).map(delivery));
    owner.send((5..=8).map(|sequence| due_row(sequence, DeliveryState::Leased, 0)));
    for (limit, end) in [(0, false), (3, false), (4, true), (5, true), (usize::MAX, true)] {
        assert_eq!(owner.scan(&ready(1, None, limit)).end, end, "ready, limit {limit}");
        assert_eq!(owner.scan(&due(DeliveryState::Leased, None, limit)).end, end, "due, limit {limit}");
        assert_eq!(owner.scan(&Scan::Expiry { after: None, limit: limit.saturating_add(4) }).end, end);
    }
    assert!(owner.scan(&ready(2, None, 0)).end, "nothing lies behind an empty page of nothing");
}

pub(super) fn a_row_is_in_the_order_of_its_present_state_only(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2)]);
    let steps = [
        due_row(1, DeliveryState::Leased, 10),
        due_row(1, DeliveryState::Leased, 20),
        due_row(1, DeliveryState::Delayed, 15),
        ready_row(1, 3, true, 15),
        ready_row(1, 3, false, 16),
        due_row(1, DeliveryState::Dead, 30),
        DeliveryRow { queue: QueueNumber(2), ..delivery(1) },
        DeliveryRow { expires_at: at(99), ..delivery(1) },
    ];
    let states = [DeliveryState::Delayed, DeliveryState::Leased, DeliveryState::Dead];
    for row in steps {
        owner.commit(|changes| changes.deliveries.push(DeliveryChange::Update(row.clone())));
        for queue in [1, 2] {
            let found = owner.scan(&ready(queue, None, 9)).deliveries;
            let expected = row.state == DeliveryState::Ready && row.queue.0 == queue;
            assert_eq!(found.contains(&row), expected, "ready in queue {queue}: {row:?}");
            let others = usize::from(queue == 1);
            assert_eq!(found.len(), others + usize::from(expected), "ready in queue {queue}: {row:?}");
        }
        for state in states {
            let found = owner.scan(&due(state, None, 9)).deliveries;
            let expected = if row.state == state { vec![row.clone()] } else { vec![] };
            assert_eq!(found, expected, "{state:?}");
        }
        let found = owner.scan(&Scan::Expiry { after: None, limit: 9 }).deliveries;
        assert_eq!((found.len(), found.contains(&row)), (2, true), "expiry: {row:?}");
    }
}
