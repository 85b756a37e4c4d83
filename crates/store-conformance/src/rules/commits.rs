//! What a commit writes is what reads find, all of it or nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use millpond_core::command::{LeaseRef, Trouble};
use millpond_core::id::{LeaseGeneration, MessageId, QueueNumber, Sequence};
use millpond_core::outcome::{QueueView, Sent, Tally, Why};
use millpond_core::remembered::Remembered;
use millpond_core::row::{DedupKey, DedupRow, DeliveryRow, DeliveryState, Hold, QueueRow, Role, SecretRow};
use millpond_core::{DeliveryChange, RowKey, Scan};
use millpond_store::StoreErrorKind;

use crate::Place;
use crate::rows::{
    Owner, assert_fails, at, call, counters, dedup, delivery, environment, insert, insert_copy, message,
    odd_delivery, odd_queue, odd_trigger, queue, run, secret, segment,
};

pub(super) fn an_empty_environment_holds_nothing(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    assert_eq!(owner.opened.commit.0, 0);
    assert_eq!(owner.opened.environment, Default::default());
    assert_eq!(owner.opened.queues, []);
    assert_eq!((&owner.opened.segments, &owner.opened.runs), (&vec![], &vec![]));
    assert_eq!((&owner.opened.triggers, &owner.opened.secret), (&vec![], &SecretRow::default()));
    assert_eq!(owner.delivery(1), None);
    assert_eq!(owner.progress(1, 1), None);
    assert_eq!(owner.content(1), None);
    assert_eq!(owner.dedup(&dedup(1, "k", 1).key), None);
    let page = owner.scan(&Scan::Expiry { after: None, limit: 10 });
    assert_eq!((page.deliveries.len(), page.end, page.snapshot.0), (0, true, 0));
}

pub(super) fn a_delivery_is_inserted_updated_and_removed(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2)]);
    assert_eq!(owner.delivery(1), Some(delivery(1)));

    let mut leased = delivery(1);
    leased.state = DeliveryState::Leased;
    leased.due_at = at(77);
    leased.delivery_count = 1;
    owner.commit(|changes| changes.deliveries.push(DeliveryChange::Update(leased.clone())));
    assert_eq!(owner.delivery(1), Some(leased));
    assert_eq!(owner.delivery(2), Some(delivery(2)));

    owner.remove([1]);
    assert_eq!(owner.delivery(1), None);
    assert_eq!(owner.delivery(2), Some(delivery(2)));
}

pub(super) fn every_field_of_a_delivery_comes_back(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let last = (1 << 40) - 1;
    let mut rows = vec![odd_delivery(1), delivery(2), odd_delivery(last)];
    let states = [
        DeliveryState::Delayed,
        DeliveryState::Ready,
        DeliveryState::Leased,
        DeliveryState::Completed,
        DeliveryState::Dead,
        DeliveryState::Cancelled,
    ];
    for (sequence, state) in (3..).zip(states) {
        let mut row = odd_delivery(sequence);
        row.state = state;
        row.dead_letter.as_mut().expect("odd ones are dead letters").reason =
            millpond_core::row::DeadReason::AttemptsSpent;
        rows.push(row);
    }
    owner.send(rows.clone());
    for row in &rows {
        assert_eq!(owner.delivery(row.sequence.0).as_ref(), Some(row));
    }
    for row in &mut rows {
        let other = if row.dead_letter.is_some() { delivery } else { odd_delivery };
        *row = other(row.sequence.0);
    }
    owner.commit(|changes| changes.deliveries.extend(rows.iter().cloned().map(DeliveryChange::Update)));
    for row in &rows {
        assert_eq!(owner.delivery(row.sequence.0).as_ref(), Some(row), "after an update of every field");
    }
}

pub(super) fn every_hold_comes_back_in_every_state(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let holds = [Hold::Granted, Hold::Extended, Hold::Reserved];
    let states = [DeliveryState::Leased, DeliveryState::Ready, DeliveryState::Delayed, DeliveryState::Dead];
    let pairs = states.into_iter().flat_map(|state| holds.map(|hold| (state, hold)));
    let mut rows: Vec<DeliveryRow> = (1..)
        .zip(pairs)
        .map(|(sequence, (state, hold))| DeliveryRow { state, hold, ..delivery(sequence) })
        .collect();
    // As many as are written together, and more.
    let more = (rows.len()..40).zip(holds.iter().cycle());
    let more: Vec<_> = more.map(|(at, &hold)| DeliveryRow { hold, ..delivery(1 + at as u64) }).collect();
    rows.extend(more);
    owner.send(rows.clone());
    let assert_all_there = |owner: &mut Owner, rows: &[DeliveryRow]| {
        for row in rows {
            assert_eq!(owner.delivery(row.sequence.0).as_ref(), Some(row));
        }
    };
    assert_all_there(&mut owner, &rows);
    let leased = Scan::Due { queue: QueueNumber(1), state: DeliveryState::Leased, after: None, limit: 9 };
    assert_eq!(owner.scan(&leased).deliveries, rows[..3]);
    for expires_at in [None, Some(at(7))] {
        for row in &mut rows {
            row.hold = match row.hold {
                Hold::Granted => Hold::Reserved,
                Hold::Extended => Hold::Granted,
                Hold::Reserved => Hold::Extended,
            };
            row.expires_at = expires_at.unwrap_or(row.expires_at);
        }
        owner.commit(|changes| changes.deliveries.extend(rows.iter().cloned().map(DeliveryChange::Update)));
        assert_all_there(&mut owner, &rows);
    }
    drop(owner);
    assert_all_there(&mut Owner::open(factory.as_ref()), &rows);
}

pub(super) fn queues_and_counters_come_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| {
        changes.queues_put = vec![queue(7), queue(3), queue(u32::MAX)];
        changes.counters = vec![counters(7, 100), counters(3, (1 << 62) - 100)];
    });
    owner.commit(|changes| {
        changes.queues_put = vec![queue(8)];
        changes.counters = vec![counters(7, 200)];
    });
    owner.close();
    let mut queues = Owner::open(factory.as_ref()).opened.queues;
    queues.sort_by_key(|(row, _)| row.number);
    let none = millpond_core::row::CountersRow { queue: QueueNumber(8), ..Default::default() };
    let none_last = millpond_core::row::CountersRow { queue: QueueNumber(u32::MAX), ..Default::default() };
    let expected = vec![
        (queue(3), counters(3, (1 << 62) - 100)),
        (queue(7), counters(7, 200)),
        (queue(8), none),
        (queue(u32::MAX), none_last),
    ];
    assert_eq!(queues, expected);
}

pub(super) fn removing_a_queue_removes_its_counters(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| {
        changes.queues_put = vec![queue(1), queue(2)];
        changes.counters = vec![counters(1, 10), counters(2, 20)];
    });
    owner.commit(|changes| changes.queues_removed = vec![QueueNumber(1), QueueNumber(99)]);
    owner.commit(|changes| changes.queues_put = vec![queue(1)]);
    owner.close();
    let queues = Owner::open(factory.as_ref()).opened.queues;
    let of_one = queues.iter().find(|(row, _)| row.number.0 == 1).expect("queue 1 was put again");
    assert_eq!(of_one.1, millpond_core::row::CountersRow { queue: QueueNumber(1), ..Default::default() });
    assert_eq!(queues.len(), 2);
}

pub(super) fn a_remembered_send_is_written_over_and_forgotten(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let first = dedup(1, "k", 5);
    owner.commit(|changes| changes.dedup_put = vec![first.clone(), dedup(2, "k", 6)]);
    assert_eq!(owner.dedup(&first.key), Some(first.clone()));
    let second = DedupRow { digest: 0, expires_at: at(i64::MAX), ..first.clone() };
    owner.commit(|changes| changes.dedup_put = vec![second.clone()]);
    assert_eq!(owner.dedup(&first.key), Some(second));
    let missing = DedupKey { queue: Some(QueueNumber(1)), key: "never".into() };
    owner.commit(|changes| changes.dedup_removed = vec![first.key.clone(), missing]);
    assert_eq!(owner.dedup(&first.key), None);
    let other = dedup(2, "k", 6);
    assert_eq!(owner.dedup(&other.key), Some(other));
}

pub(super) fn a_remembered_call_comes_back_whatever_its_answer(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let rows: Vec<DedupRow> = (0..)
        .zip(every_answer())
        .map(|(number, answer)| call(&format!("key-{number}"), answer, number))
        .collect();
    owner.commit(|changes| changes.dedup_put = rows.clone());
    for row in &rows {
        assert_eq!(owner.dedup(&row.key).as_ref(), Some(row));
    }
    // The same key of a queue is another one, and so is that of queue 0.
    let first = &rows[0];
    for queue in [0, 1, u32::MAX] {
        let of_queue = dedup(queue, &first.key.key, 1);
        assert_eq!(owner.dedup(&of_queue.key), None);
        owner.commit(|changes| changes.dedup_put = vec![of_queue.clone()]);
        assert_eq!(owner.dedup(&of_queue.key), Some(of_queue));
    }
    assert_eq!(owner.dedup(&first.key).as_ref(), Some(first));
    let page = owner.scan(&Scan::DedupExpiry { from: at(i64::MIN), limit: 1_000 });
    let mut calls: Vec<DedupRow> = page.dedup.into_iter().filter(|row| row.key.queue.is_none()).collect();
    calls.sort_by_key(|row| row.expires_at);
    assert_eq!(calls, rows);
    owner.commit(|changes| changes.dedup_removed = rows.iter().map(|row| row.key.clone()).collect());
    assert!(rows.iter().all(|row| owner.dedup(&row.key).is_none()));
    assert!(owner.dedup(&dedup(0, &first.key.key, 1).key).is_some());
}

/// Answers of every kind, with values at their edges.
fn every_answer() -> Vec<Remembered> {
    let id =
        |sequence| MessageId { sent_at: at(1 << 43), sequence: Sequence(sequence), nonce: (1 << 36) - 1 };
    let sent = Sent { ids: vec![id(1), id((1 << 48) - 1)], repeated: false };
    let stale = vec![
        LeaseRef { delivery: Sequence(0), message: id(0), generation: LeaseGeneration(u64::MAX) },
        LeaseRef { delivery: Sequence((1 << 48) - 1), message: id(7), generation: LeaseGeneration(0) },
    ];
    let whys = [
        Why::Paused { since: at(i64::MIN) },
        Why::ConcurrencyFull { limit: u32::MAX, until: Some(at(i64::MAX)) },
        Why::ConcurrencyFull { limit: 0, until: None },
        Why::LeasedLimit { limit: 1 },
        Why::TargetDown {
            trigger: "t".into(),
            trouble: Trouble { since: at(i64::MIN), error: "a'b\"\u{0}ü".into(), next_try: at(i64::MAX) },
        },
        Why::TriggerStarts { trigger: "".into(), at: at(-1) },
        Why::NoDeployment { deployment: "d\"".into() },
        Why::NoConsumer { since: None },
        Why::NoConsumer { since: Some(at(0)) },
        Why::Delivering,
        Why::AllDelayed { until: None },
        Why::AllDelayed { until: Some(at(-1)) },
        Why::HeldByTransactions { since: at(3) },
        Why::AllLeased { until: None },
        Why::AllLeased { until: Some(at(1)) },
        Why::AllDead,
        Why::Empty,
    ];
    let counters = counters(7, (1 << 62) - 100);
    let view = |why| QueueView { queue: odd_queue(7), counters, waiting: u64::MAX, why };
    let mut answers: Vec<Remembered> =
        whys.into_iter().map(|why| Remembered::Queue(Box::new(view(why)))).collect();
    let topic = QueueNumber(u32::MAX);
    for role in [Role::Queue, Role::Topic, Role::Partition { topic }, Role::Group { topic }] {
        let queue = QueueRow { role, name: "topics/t/groups/g".into(), ..queue(7) };
        answers.push(Remembered::Queue(Box::new(QueueView { queue, ..view(Why::Empty) })));
    }
    answers.extend([
        Remembered::Done,
        Remembered::MessageDeleted,
        Remembered::Tallied(Tally { done: u64::MAX, skipped: 0 }),
        Remembered::Purged(0),
        Remembered::Purged(u64::MAX),
        Remembered::QueueDeleted(true),
        Remembered::QueueDeleted(false),
        Remembered::Settled { stale: Vec::new(), sent: Vec::new() },
        Remembered::Settled { stale, sent: vec![sent, Sent { ids: Vec::new(), repeated: true }] },
    ]);
    answers
}

pub(super) fn keys_of_remembered_sends_are_compared_by_bytes(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let longest = "ü".repeat(127) + "x";
    let keys =
        ["a", "A", "a ", "a\u{0}", "a\u{0}b", "\u{0}", " ", "é", "e\u{301}", "1", "01", "1.0", "%", &longest];
    let rows: Vec<DedupRow> = (0..).zip(keys).map(|(expires_at, key)| dedup(1, key, expires_at)).collect();
    owner.commit(|changes| changes.dedup_put = rows.clone());
    for row in &rows {
        assert_eq!(owner.dedup(&row.key).as_ref(), Some(row), "key {:?}", row.key.key);
    }
    owner.commit(|changes| {
        changes.dedup_removed = rows.iter().step_by(2).map(|row| row.key.clone()).collect()
    });
    for (index, row) in rows.iter().enumerate() {
        assert_eq!(owner.dedup(&row.key).is_some(), index % 2 == 1, "key {:?}", row.key.key);
    }
}

pub(super) fn a_commit_that_does_not_fit_changes_nothing(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(1), delivery(2)]);
    let misfits = [
        DeliveryChange::Insert(delivery(1)),
        DeliveryChange::Update(delivery(50)),
        DeliveryChange::Remove(Sequence(50)),
    ];
    for misfit in misfits {
        let result = owner.try_commit(|changes| {
            insert(changes, delivery(3));
            let mut changed = delivery(2);
            changed.failure_count = 1;
            changes.deliveries.push(DeliveryChange::Update(changed));
            changes.queues_put.push(queue(1));
            changes.counters.push(counters(1, 5));
            changes.dedup_put.push(dedup(1, "k", 5));
            changes.segments_put.push(segment(1, 0));
            changes.runs_put.push(run(1, 2, 3));
            changes.triggers_put.push(odd_trigger("t"));
            changes.secret = Some(secret(1));
            insert_copy(changes, 2, delivery(4));
            if let DeliveryChange::Insert(row) = &misfit {
                changes.messages.push(message(row.sequence.0));
            }
            changes.deliveries.push(misfit.clone());
        });
        assert_fails(result, StoreErrorKind::Corrupt);
        assert_eq!(owner.delivery(2), Some(delivery(2)), "{misfit:?}");
        assert_eq!(owner.delivery(3), None, "{misfit:?}");
        assert_eq!((owner.content(3), owner.content(4)), (None, None), "{misfit:?}");
        assert_eq!(owner.dedup(&dedup(1, "k", 5).key), None, "{misfit:?}");
    }
    owner.send([delivery(3)]);
    owner.close();
    let opened = Owner::open(factory.as_ref()).opened;
    assert_eq!((opened.queues, opened.commit.0, opened.environment), (vec![], 2, environment(2)));
    assert_eq!((opened.segments, opened.runs), (vec![], vec![]));
    assert_eq!((opened.triggers, opened.secret), (vec![], SecretRow::default()));
}

pub(super) fn a_commit_of_thousands_of_rows_is_whole(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send((1..=3_000).map(delivery));
    let is_removed = |sequence: u64| sequence.is_multiple_of(3) || (1_000..1_500).contains(&sequence);
    owner.commit(|changes| {
        for sequence in 1..=3_000 {
            if is_removed(sequence) {
                changes.deliveries.push(DeliveryChange::Remove(Sequence(sequence)));
            } else {
                let mut row = delivery(sequence);
                row.state = DeliveryState::Leased;
                changes.deliveries.push(DeliveryChange::Update(row));
            }
        }
        for sequence in 3_001..=6_000 {
            insert(changes, delivery(sequence));
        }
    });
    let keys: Vec<RowKey> = (1..=6_000).map(|sequence| RowKey::Delivery(Sequence(sequence))).collect();
    let rows = owner.reader.read(&keys).expect("reads work");
    assert_eq!(rows.deliveries.len(), 6_000);
    for (sequence, row) in rows.deliveries {
        let state = match sequence.0 {
            3_001.. => Some(DeliveryState::Ready),
            sequence if is_removed(sequence) => None,
            _ => Some(DeliveryState::Leased),
        };
        assert_eq!(row.map(|row| row.state), state, "delivery {sequence}");
        assert_eq!(owner.content(sequence.0).is_some(), state.is_some(), "message {sequence}");
    }
}

pub(super) fn answers_come_in_the_order_asked_for(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(5), delivery(1), delivery(3)]);
    owner.commit(|changes| changes.dedup_put = vec![dedup(1, "b", 1), dedup(1, "a", 2)]);
    let key = |key: &str| DedupKey { queue: Some(QueueNumber(1)), key: key.into() };
    let wanted = [3, 9, 1, 3, 5].map(Sequence);
    let mut keys: Vec<RowKey> = wanted.iter().map(|&sequence| RowKey::Delivery(sequence)).collect();
    keys.insert(2, RowKey::Dedup(key("b")));
    keys.insert(4, RowKey::Dedup(key("none")));
    keys.push(RowKey::Dedup(key("a")));
    let rows = owner.reader.read(&keys).expect("reads work");
    let found: Vec<(Sequence, bool)> =
        rows.deliveries.iter().map(|(key, row)| (*key, row.is_some())).collect();
    assert_eq!(found, wanted.map(|sequence| (sequence, sequence.0 != 9)));
    let found: Vec<(&str, bool)> = rows.dedup.iter().map(|(key, row)| (&*key.key, row.is_some())).collect();
    assert_eq!(found, [("b", true), ("none", false), ("a", true)]);
    let contents = owner.reader.contents(&wanted).expect("reads work");
    let expected = wanted.map(|sequence| (sequence.0 != 9).then(|| message(sequence.0).content));
    assert_eq!(contents, expected);
}

pub(super) fn readers_see_whole_commits_while_others_are_made(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2)]);
    let mut reader = owner.store.reader().expect("an open store gives readers");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut last = 0;
            while !done.load(Ordering::Relaxed) {
                let keys = [1, 2].map(|sequence| RowKey::Delivery(Sequence(sequence)));
                let rows = reader.read(&keys).expect("reads work");
                let count =
                    |index: usize| rows.deliveries[index].1.as_ref().expect("it stays").delivery_count;
                assert_eq!(count(0), count(1), "half a commit was seen");
                assert_eq!(u64::from(count(0)) + 1, rows.snapshot.0, "the snapshot is not the commit seen");
                assert!(rows.snapshot.0 >= last, "a later read saw an earlier commit");
                last = rows.snapshot.0;
                let page = reader.scan(&Scan::Expiry { after: None, limit: 5 }).expect("scans work");
                for row in &page.deliveries {
                    assert_eq!(
                        u64::from(row.delivery_count) + 1,
                        page.snapshot.0,
                        "a scan's snapshot is wrong"
                    );
                }
            }
        });
        for count in 1..=200 {
            owner.commit(|changes| {
                for sequence in [1, 2] {
                    let mut row = delivery(sequence);
                    row.delivery_count = count;
                    changes.deliveries.push(DeliveryChange::Update(row));
                }
            });
        }
        done.store(true, Ordering::Relaxed);
    });
}
