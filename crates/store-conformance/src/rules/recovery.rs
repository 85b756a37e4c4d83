//! What an owner finds after a restart, a crash, and the restore of a copy (design-holes A3).

use millpond_core::id::{LeaseGeneration, LogNumber, QueueNumber, Sequence};
use millpond_core::row::{DeliveryState, Hold, QueueRow, ReadyKey};
use millpond_core::{DeliveryChange, LowWater, ProgressKey, RowKey, Rows, Scan, StoredOrder};
use millpond_store::{Lineage, Opened};

use crate::Place;
use crate::rows::{
    Owner, at, counters, dedup, delivery, environment, insert_copy, message, odd_delivery, odd_trigger,
    queue, run, secret, segment, trigger,
};

/// Fills an environment in three commits: queues 1 and 2, deliveries 1 to 3 of which 2 is gone but for copy 5 of its message, remembered
/// calls, a secret, and segments, runs and triggers of which some are gone.
fn fill(owner: &mut Owner) {
    owner.commit(|changes| {
        changes.queues_put = vec![queue(1), QueueRow { deleted: true, ..queue(2) }];
        changes.counters = vec![counters(1, 10), counters(2, 20)];
        changes.segments_put = vec![segment(1, 0), segment(1, 1)];
        changes.runs_put = vec![run(2, 3, 4), run(2, 9, 9)];
        changes.triggers_put = vec![trigger("b"), trigger("a"), trigger("c")];
        changes.secret = Some(secret(1));
    });
    owner.send([delivery(1), delivery(2), odd_delivery(3)]);
    let mut leased = delivery(1);
    leased.state = DeliveryState::Leased;
    leased.due_at = at(1_000);
    leased.hold = Hold::Extended;
    owner.commit(|changes| {
        changes.deliveries = vec![DeliveryChange::Update(leased), DeliveryChange::Remove(Sequence(2))];
        insert_copy(changes, 2, delivery(5));
        changes.dedup_put = vec![dedup(1, "k\u{0}", 5)];
        changes.segments_removed = vec![(QueueNumber(1), 0)];
        changes.runs_removed = vec![(QueueNumber(2), LogNumber(9))];
        changes.triggers_removed = vec!["a".into()];
        changes.triggers_put = vec![odd_trigger("c")];
        changes.secret = Some(secret(3));
    });
}

fn everything(owner: &mut Owner) -> Rows {
    let mut keys: Vec<RowKey> = (1..=5).map(|sequence| RowKey::Delivery(Sequence(sequence))).collect();
    keys.push(RowKey::Dedup(dedup(1, "k\u{0}", 0).key));
    keys.push(RowKey::Progress(ProgressKey { cursor: QueueNumber(u32::MAX), message: Sequence(2) }));
    owner.reader.read(&keys).expect("reads work")
}

fn assert_filled(owner: &mut Owner, before: &Rows) {
    let mut opened = owner.opened.clone();
    opened.queues.sort_by_key(|(row, _)| row.number);
    let expected = Opened {
        commit: millpond_core::id::CommitSequence(3),
        environment: environment(3),
        queues: vec![(queue(1), counters(1, 10)), (QueueRow { deleted: true, ..queue(2) }, counters(2, 20))],
        segments: vec![segment(1, 1)],
        runs: vec![run(2, 3, 4)],
        triggers: vec![trigger("b"), odd_trigger("c")],
        secret: secret(3),
        low_water: Vec::new(),
        lineage: Lineage::Restarted,
    };
    assert_eq!(opened, expected);
    assert_eq!(everything(owner), *before);
    assert_eq!(owner.content(1), Some(message(1).content));
    assert_eq!(owner.content(2), None);
    assert_eq!(owner.content(5), Some(message(2).content));
    assert_eq!(owner.delivery(1).map(|row| row.hold), Some(Hold::Extended));
    assert_eq!(owner.scan(&Scan::Expiry { after: None, limit: 9 }).deliveries.len(), 3);
}

pub(super) fn reopening_finds_everything(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    fill(&mut owner);
    let before = everything(&mut owner);
    owner.close();
    drop(factory);
    let mut owner = Owner::open(place.factory().as_ref());
    assert_filled(&mut owner, &before);
    owner.send([delivery(4)]);
    assert_eq!(owner.commit, 4);
}

pub(super) fn dropping_a_store_loses_nothing(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    fill(&mut owner);
    let before = everything(&mut owner);
    drop(owner);
    drop(factory);
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    assert_filled(&mut owner, &before);
    drop(owner);
    assert_filled(&mut Owner::open(factory.as_ref()), &before);
}

pub(super) fn a_first_open_is_new_and_a_second_a_restart(place: &mut dyn Place) {
    let factory = place.factory();
    let owner = Owner::open(factory.as_ref());
    assert_eq!(owner.opened.lineage, Lineage::New);
    owner.close();
    let mut owner = Owner::open(factory.as_ref());
    assert_eq!(owner.opened.lineage, Lineage::Restarted, "after a clean close");
    owner.send([delivery(1)]);
    drop(owner);
    assert_eq!(Owner::open(factory.as_ref()).opened.lineage, Lineage::Restarted, "after a crash");
    drop(factory);
    let factory = place.factory();
    assert_eq!(Owner::open(factory.as_ref()).opened.lineage, Lineage::Restarted, "in a new process");
}

pub(super) fn an_older_copy_is_a_restore(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(1)]);
    owner.close();
    drop(factory);
    place.back_up();
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(2)]);
    owner.close();
    drop(factory);
    place.restore();
    let mut owner = Owner::open(place.factory().as_ref());
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restored, 1));
    assert_eq!(owner.delivery(1), Some(delivery(1)));
    assert_eq!(owner.delivery(2), None);
    owner.send([delivery(3)]);
}

pub(super) fn a_restore_is_not_forgotten_by_an_owner_that_never_commits(place: &mut dyn Place) {
    an_older_copy_is_a_restore(place);
    place.restore();
    assert_eq!(Owner::open(place.factory().as_ref()).opened.lineage, Lineage::Restored);
    let owner = Owner::open(place.factory().as_ref());
    let marked = owner.opened.environment.leases_void_below == LeaseGeneration::HIGHEST;
    assert!(owner.opened.lineage == Lineage::Restored || marked, "leases found would live on");
}

pub(super) fn a_copy_put_back_at_once_still_works(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(1)]);
    owner.close();
    drop(factory);
    place.back_up();
    place.restore();
    let mut owner = Owner::open(place.factory().as_ref());
    assert_ne!(owner.opened.lineage, Lineage::New, "restart or restore: both are true of it");
    assert_eq!(owner.delivery(1), Some(delivery(1)));
    owner.send([delivery(2)]);
}

pub(super) fn a_restored_environment_restarts_afterwards(place: &mut dyn Place) {
    an_older_copy_is_a_restore(place);
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    assert_eq!((owner.opened.lineage, owner.opened.commit.0), (Lineage::Restarted, 2));
    owner.send([delivery(4)]);
    owner.close();
    drop(factory);
    place.restore();
    let owner = Owner::open(place.factory().as_ref());
    assert_eq!(
        (owner.opened.lineage, owner.opened.commit.0),
        (Lineage::Restored, 1),
        "the same copy once more"
    );
}

pub(super) fn low_water_marks_are_the_last_that_were_written_or_none(place: &mut dyn Place) {
    let mark = |order, base: u64| {
        let sequence = Sequence(base);
        let order_at = at(-1_000 + i64::try_from(base).unwrap_or(0));
        LowWater {
            order,
            after: ReadyKey { priority_descending: -7, retried: base == 1, order_at, sequence },
        }
    };
    let leased = |queue| StoredOrder::Due(QueueNumber(queue), DeliveryState::Leased);
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    assert_eq!(owner.opened.low_water, []);
    owner.commit(|changes| {
        changes.queues_put = vec![queue(1), queue(2)];
        changes.low_water = vec![
            mark(StoredOrder::DedupExpiry, 1),
            mark(leased(2), 2),
            mark(leased(1), 3),
            mark(StoredOrder::Ready(QueueNumber(1)), 4),
            mark(StoredOrder::Expiry, 5),
        ];
    });
    owner.commit(|changes| {
        changes.low_water = vec![mark(leased(1), 1), mark(leased(2), 6)];
        changes.queues_removed = vec![QueueNumber(2)];
    });
    drop(owner);
    let found = Owner::open(factory.as_ref()).opened.low_water;
    let expected = [
        mark(StoredOrder::Ready(QueueNumber(1)), 4),
        mark(leased(1), 1),
        mark(StoredOrder::Expiry, 5),
        mark(StoredOrder::DedupExpiry, 1),
    ];
    assert!(found.is_empty() || found == expected, "{found:?}");
}
