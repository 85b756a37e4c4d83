//! Segments of logs, runs of cursors, and groups' progress with messages.

use millpond_core::id::{LogNumber, QueueNumber, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState, RunRow, SegmentRow};
use millpond_core::{DeliveryChange, ProgressKey, RowKey, Scan};
use millpond_store::StoreFactory;

use crate::Place;
use crate::rows::{Owner, at, counters, delivery, message, progress, queue, run, segment};

/// What an owner finds that opens after this one.
fn reopened(owner: Owner, factory: &dyn StoreFactory) -> (Owner, Vec<SegmentRow>, Vec<RunRow>) {
    owner.close();
    let owner = Owner::open(factory);
    let (segments, runs) = (owner.opened.segments.clone(), owner.opened.runs.clone());
    (owner, segments, runs)
}

pub(super) fn segments_and_runs_come_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let full = SegmentRow { live: [u64::MAX; SegmentRow::WORDS], ..segment(7, 1 << 53) };
    let mut one_bit = SegmentRow { live: [0; SegmentRow::WORDS], ..segment(u32::MAX, 0) };
    one_bit.live[9] = 1 << 40;
    owner.commit(|changes| {
        changes.segments_put = vec![one_bit.clone(), full.clone(), segment(7, 0), segment(3, 300)];
        changes.runs_put = vec![run(9, 1 << 62, (1 << 62) + 1), run(9, 1, 1), run(u32::MAX, 2, 3)];
    });
    owner.commit(|changes| {
        changes.segments_put = vec![segment(7, 255), segment(7, 256)];
        changes.runs_put = vec![run(9, 256, 300), run(3, 5, 1 << 62)];
    });
    let segments = vec![segment(3, 300), segment(7, 0), segment(7, 255), segment(7, 256), full, one_bit];
    let runs = vec![
        run(3, 5, 1 << 62),
        run(9, 1, 1),
        run(9, 256, 300),
        run(9, 1 << 62, (1 << 62) + 1),
        run(u32::MAX, 2, 3),
    ];
    let (owner, found, found_runs) = reopened(owner, factory.as_ref());
    assert_eq!((&found, &found_runs), (&segments, &runs), "after a clean close, in the order of their keys");
    drop((owner, factory));
    let opened = Owner::open(place.factory().as_ref()).opened;
    assert_eq!((opened.segments, opened.runs), (segments, runs), "after a crash");
}

pub(super) fn segments_are_cleared_then_removed_then_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| {
        changes.segments_put = (0..4).flat_map(|index| [segment(1, index), segment(2, index)]).collect();
    });
    let mut changed = segment(1, 2);
    changed.live[5] ^= 1;
    owner.commit(|changes| {
        changes.segments_cleared = vec![QueueNumber(1), QueueNumber(99)];
        changes.segments_removed =
            vec![(QueueNumber(1), 2), (QueueNumber(2), 0), (QueueNumber(2), 3), (QueueNumber(99), 0)];
        changes.segments_put = vec![changed.clone(), segment(2, 3), segment(1, 8)];
    });
    let (mut owner, found, _) = reopened(owner, factory.as_ref());
    assert_eq!(found, [changed, segment(1, 8), segment(2, 1), segment(2, 2), segment(2, 3)]);

    let mut changed = segment(2, 2);
    changed.live[0] = 0;
    owner.commit(|changes| changes.segments_put = vec![changed.clone()]);
    owner.commit(|changes| changes.segments_removed = vec![(QueueNumber(1), 2), (QueueNumber(1), 2_000)]);
    let (_, found, _) = reopened(owner, factory.as_ref());
    assert_eq!(found, [segment(1, 8), segment(2, 1), changed, segment(2, 3)]);
}

pub(super) fn runs_are_removed_then_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| changes.runs_put = vec![run(1, 1, 2), run(1, 5, 6), run(2, 1, 9), run(2, 20, 20)]);
    owner.commit(|changes| {
        let removed = [(1, 1), (1, 5), (2, 20), (2, 5), (99, 1)];
        changes.runs_removed =
            removed.map(|(cursor, first)| (QueueNumber(cursor), LogNumber(first))).to_vec();
        changes.runs_put = vec![run(1, 1, 6), run(2, 1, 10)];
    });
    let (_, _, found) = reopened(owner, factory.as_ref());
    assert_eq!(found, [run(1, 1, 6), run(2, 1, 10)]);
}

pub(super) fn removing_a_queue_removes_its_segments_and_runs(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| {
        changes.queues_put = (1..=4).map(queue).collect();
        changes.counters = (1..=4).map(|number| counters(number, 10)).collect();
        changes.segments_put = vec![segment(1, 0), segment(1, 1), segment(3, 0)];
        changes.runs_put = vec![run(2, 1, 1), run(2, 3, 4), run(4, 1, 1)];
    });
    owner.commit(|changes| {
        changes.queues_removed = vec![QueueNumber(1), QueueNumber(2)];
        // What the same commit writes leaves too.
        changes.segments_put = vec![segment(1, 2)];
        changes.runs_put = vec![run(2, 6, 6)];
    });
    let (mut owner, segments, runs) = reopened(owner, factory.as_ref());
    assert_eq!((segments, runs), (vec![segment(3, 0)], vec![run(4, 1, 1)]));
    let numbers: Vec<u32> = owner.opened.queues.iter().map(|(row, _)| row.number.0).collect();
    assert_eq!(numbers, [3, 4]);
    owner.commit(|changes| changes.queues_removed = vec![QueueNumber(3), QueueNumber(4), QueueNumber(9)]);
    let (_, segments, runs) = reopened(owner, factory.as_ref());
    assert_eq!((segments, runs), (vec![], vec![]));
}

pub(super) fn progress_is_read_by_cursor_and_message(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    // Messages 1 and 2 are in queue 1 themselves, whose number is asked for like a cursor's.
    owner.send([delivery(1), delivery(2)]);
    assert_eq!((owner.progress(1, 1), owner.progress(5, 1)), (None, None));
    owner.send([progress(10, 5, 1), progress(11, 6, 1), progress(12, 5, 2)]);
    assert_eq!(owner.progress(5, 1), Some(progress(10, 5, 1)));
    assert_eq!(owner.progress(6, 1), Some(progress(11, 6, 1)));
    assert_eq!(owner.progress(5, 2), Some(progress(12, 5, 2)));
    assert_eq!((owner.progress(6, 2), owner.progress(1, 1), owner.progress(5, 10)), (None, None, None));
    assert_eq!(owner.delivery(10), Some(progress(10, 5, 1)));

    let leased = DeliveryRow { state: DeliveryState::Leased, due_at: at(99), ..progress(10, 5, 1) };
    let moved = DeliveryRow { expires_at: at(7), ..progress(11, 7, 2) };
    owner.commit(|changes| {
        changes.deliveries =
            vec![DeliveryChange::Update(leased.clone()), DeliveryChange::Update(moved.clone())];
    });
    assert_eq!(owner.progress(5, 1), Some(leased));
    assert_eq!((owner.progress(6, 1), owner.progress(7, 2)), (None, Some(moved)));

    owner.remove([10]);
    assert_eq!(owner.progress(5, 1), None);
    assert_eq!(owner.progress(5, 2), Some(progress(12, 5, 2)));
}

pub(super) fn progress_may_be_replaced_in_one_commit(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), progress(10, 5, 1)]);
    let (insert, remove) =
        (|row| DeliveryChange::Insert(row), |sequence| DeliveryChange::Remove(Sequence(sequence)));
    owner.commit(|changes| changes.deliveries = vec![remove(10), insert(progress(11, 5, 1))]);
    assert_eq!(owner.progress(5, 1), Some(progress(11, 5, 1)));
    owner.commit(|changes| changes.deliveries = vec![insert(progress(9, 5, 1)), remove(11)]);
    assert_eq!(owner.progress(5, 1), Some(progress(9, 5, 1)));
    owner.remove([9]);
    assert_eq!(owner.progress(5, 1), None);
}

pub(super) fn progress_answers_come_in_the_order_asked_for(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2), progress(10, 5, 1), progress(11, 5, 2)]);
    owner.send([progress(12, u32::MAX, 1)]);
    let key = |(cursor, message)| ProgressKey { cursor: QueueNumber(cursor), message: Sequence(message) };
    let wanted = [(5, 2), (5, 3), (u32::MAX, 1), (5, 1), (5, 2)].map(key);
    let mut keys: Vec<RowKey> = wanted.map(RowKey::Progress).to_vec();
    keys.insert(1, RowKey::Delivery(Sequence(2)));
    let rows = owner.reader.read(&keys).expect("reads work");
    assert_eq!(rows.snapshot.0, 2);
    assert_eq!(rows.deliveries, [(Sequence(2), Some(delivery(2)))]);
    let found: Vec<_> =
        rows.progress.iter().map(|(key, row)| (*key, row.as_ref().map(|row| row.sequence.0))).collect();
    let expected = [Some(11), None, Some(12), Some(10), Some(11)];
    assert_eq!(found, wanted.into_iter().zip(expected).collect::<Vec<_>>());
}

pub(super) fn progress_is_in_the_orders_like_any_delivery(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    let leased =
        |row: DeliveryRow, due_at| DeliveryRow { state: DeliveryState::Leased, due_at: at(due_at), ..row };
    // In queue 5 the deliveries of two messages lie among a cursor's: a store tells them apart by the message alone.
    let rows = [
        DeliveryRow { queue: QueueNumber(5), ..delivery(1) },
        leased(DeliveryRow { queue: QueueNumber(5), ..delivery(2) }, 15),
        progress(3, 5, 1),
        DeliveryRow { priority: 1, ..progress(4, 5, 2) },
        leased(progress(5, 5, 8), 20),
        leased(progress(6, 5, 9), 10),
    ];
    owner.send(rows.clone());
    let queue = QueueNumber(5);
    let ready = Scan::Ready { queue, after: None, limit: 9 };
    let due = Scan::Due { queue, state: DeliveryState::Leased, after: None, limit: 9 };
    let expiry = Scan::Expiry { after: None, limit: 9 };
    let picked = |indexes: &[usize]| indexes.iter().map(|&index| rows[index].clone()).collect::<Vec<_>>();
    assert_eq!(owner.scan(&ready).deliveries, picked(&[3, 0, 2]));
    assert_eq!(owner.scan(&due).deliveries, picked(&[5, 1, 4]));
    assert_eq!(owner.scan(&expiry).deliveries, rows);
    owner.remove([3, 6]);
    assert_eq!(owner.scan(&ready).deliveries, picked(&[3, 0]));
    assert_eq!(owner.scan(&due).deliveries, picked(&[1, 4]));
    assert_eq!(owner.scan(&expiry).deliveries, picked(&[0, 1, 3, 4]));
}

pub(super) fn removing_progress_leaves_the_message(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1), delivery(2), progress(3, 5, 1), progress(4, 5, 2)]);
    assert_eq!(owner.content(3), None, "it has no message of its own");
    owner.remove([3]);
    assert_eq!(owner.content(1), Some(message(1).content));
    assert_eq!(owner.delivery(1), Some(delivery(1)));
    // The message may leave before what groups did with it.
    owner.remove([2]);
    assert_eq!(owner.content(2), None);
    assert_eq!(owner.progress(5, 2), Some(progress(4, 5, 2)));
}
