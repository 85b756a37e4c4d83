//! One owner, commits in order, and certainty after an unknown outcome (design-holes A4).

use millpond_core::RowKey;
use millpond_core::Scan;
use millpond_core::id::{CommitSequence, Sequence};
use millpond_store::{Resolution, StoreErrorKind};

use crate::Place;
use crate::rows::{Owner, assert_fails, delivery, environment, insert};

pub(super) fn a_second_open_fences_the_first(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = Owner::open(factory.as_ref());
    first.send([delivery(1)]);
    let mut second = Owner::open(factory.as_ref());
    assert_eq!(second.opened.commit.0, 1);
    assert_fails(first.try_commit(|changes| insert(changes, delivery(2))), StoreErrorKind::Fenced);
    assert_eq!(second.delivery(2), None, "nothing of a fenced commit is there");
    second.send([delivery(3)]);
    assert_fails(first.try_commit(|_| ()), StoreErrorKind::Fenced);
    first.commit += 1;
    assert_fails(first.try_commit(|_| ()), StoreErrorKind::Fenced);
    second.send([delivery(4)]);
    assert_eq!(second.delivery(3), Some(delivery(3)));
}

pub(super) fn a_wrong_commit_number_is_fenced(place: &mut dyn Place) {
    let mut owner = Owner::open(place.factory().as_ref());
    owner.send([delivery(1)]);
    owner.send([delivery(2)]);
    for wrong in [0, 1, 2, 4, 1 << 40] {
        let result = owner.try_commit(|changes| {
            changes.commit = CommitSequence(wrong);
            insert(changes, delivery(9));
        });
        assert_fails(result, StoreErrorKind::Fenced);
        assert_eq!(owner.delivery(9), None, "nothing of a fenced commit is there");
    }
    owner.send([delivery(3)]);
}

pub(super) fn snapshots_name_the_last_commit(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    for n in 1..=5 {
        owner.send([delivery(n)]);
        let rows = owner.reader.read(&[RowKey::Delivery(Sequence(n))]).expect("reads work");
        assert_eq!(rows.snapshot.0, n);
        assert_eq!(
            owner.reader.read(&[]).expect("reads work").snapshot.0,
            n,
            "also when nothing is asked for"
        );
        assert_eq!(owner.scan(&Scan::Expiry { after: None, limit: 1 }).snapshot.0, n);
        let page = owner.scan(&Scan::DedupExpiry { from: Default::default(), limit: 1 });
        assert_eq!(page.snapshot.0, n);
    }
    assert_fails(owner.try_commit(|changes| changes.commit = CommitSequence(9)), StoreErrorKind::Fenced);
    assert_eq!(
        owner.reader.read(&[]).expect("reads work").snapshot.0,
        5,
        "a commit that failed does not count"
    );
    owner.commit(|_| ());
    assert_eq!(owner.reader.read(&[]).expect("reads work").snapshot.0, 6, "an empty commit counts");
}

pub(super) fn a_commit_that_happened_resolves_as_happened(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(1)]);
    owner.send([delivery(2)]);
    for _ in 0..2 {
        assert_eq!(owner.store.resolve(CommitSequence(2)).expect("resolve works"), Resolution::Happened);
    }
    assert_eq!(owner.delivery(2), Some(delivery(2)));
    owner.send([delivery(3)]);
    owner.close();
    assert_eq!(Owner::open(factory.as_ref()).opened.commit.0, 3);
}

pub(super) fn a_commit_that_did_not_happen_is_lost_for_ever(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.send([delivery(1)]);
    assert_eq!(owner.store.resolve(CommitSequence(2)).expect("resolve works"), Resolution::Lost);
    assert_fails(owner.try_commit(|changes| insert(changes, delivery(2))), StoreErrorKind::Fenced);
    assert_eq!(owner.delivery(2), None);
    drop(owner);
    let mut next = Owner::open(factory.as_ref());
    assert_eq!(next.opened.commit.0, 2, "the number is spent");
    assert_eq!(next.opened.environment, environment(1), "but nothing was written under it");
    next.send([delivery(2)]);
    assert_eq!(next.commit, 3);
}

pub(super) fn a_deposed_owner_resolves_nothing(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = Owner::open(factory.as_ref());
    first.send([delivery(1)]);
    let mut second = Owner::open(factory.as_ref());
    assert_fails(first.store.resolve(CommitSequence(2)), StoreErrorKind::Fenced);
    second.send([delivery(2)]);
    assert_fails(first.store.resolve(CommitSequence(2)), StoreErrorKind::Fenced);
    assert_eq!(second.opened.commit.0, 1);
    second.send([delivery(3)]);
}
