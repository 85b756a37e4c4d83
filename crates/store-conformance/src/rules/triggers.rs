//! Triggers, and what their pushes are signed with.

use millpond_core::id::Uid;
use millpond_core::row::{SecretRow, TriggerRow};
use millpond_core::spec::TriggerSpec;
use millpond_store::StoreFactory;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use super::specs::any_duration;
use crate::Place;
use crate::rows::{Owner, at, delivery, odd_trigger, secret, trigger};

/// What an owner finds that opens after this one.
fn reopened(owner: Owner, factory: &dyn StoreFactory) -> (Owner, Vec<TriggerRow>, SecretRow) {
    owner.close();
    let owner = Owner::open(factory);
    let (triggers, secret) = (owner.opened.triggers.clone(), owner.opened.secret.clone());
    (owner, triggers, secret)
}

/// Equality of all of a secret, with words for what `Debug` does not show.
#[track_caller]
fn assert_secret(found: &SecretRow, expected: &SecretRow) {
    assert_eq!(found.current, expected.current);
    assert_eq!(found.previous, expected.previous);
    assert_eq!(found.since, expected.since);
}

pub(super) fn triggers_come_back_in_the_order_of_their_ids(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let longest = "ü".repeat(127) + "x";
    let ids = ["b", "a", "B", "a ", "a\u{0}", "a\u{0}b", "", "é", "e\u{301}", "10", "9", "_", "-", &longest];
    let mut rows: Vec<TriggerRow> =
        (1..).zip(ids).map(|(number, id)| TriggerRow { number, ..trigger(id) }).collect();
    rows.extend([odd_trigger("odd"), odd_trigger("odd\u{0}")]);
    owner.commit(|changes| {
        changes.triggers_put.clone_from(&rows);
        changes.secret = Some(secret(5));
    });
    rows.sort_by(|a, b| a.id.cmp(&b.id));
    let (owner, found, found_secret) = reopened(owner, factory.as_ref());
    assert_eq!(found, rows, "after a clean close");
    assert_secret(&found_secret, &secret(5));
    drop((owner, factory));
    let opened = Owner::open(place.factory().as_ref()).opened;
    assert_eq!(opened.triggers, rows, "after a crash");
    assert_secret(&opened.secret, &secret(5));
}

pub(super) fn triggers_are_removed_then_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    owner.commit(|changes| changes.triggers_put = ["a", "b", "c", "d"].map(trigger).to_vec());
    owner.commit(|changes| {
        changes.triggers_put = vec![odd_trigger("b"), odd_trigger("c"), trigger("e")];
        changes.triggers_removed = ["a", "c", "never"].map(Into::into).to_vec();
    });
    let (mut owner, found, _) = reopened(owner, factory.as_ref());
    assert_eq!(found, [odd_trigger("b"), odd_trigger("c"), trigger("d"), trigger("e")]);
    owner.commit(|changes| {
        changes.triggers_put = vec![trigger("b"), trigger("a")];
        changes.triggers_removed = ["c", "C", "d\u{0}"].map(Into::into).to_vec();
    });
    drop(owner);
    let mut owner = Owner::open(factory.as_ref());
    assert_eq!(owner.opened.triggers, ["a", "b", "d", "e"].map(trigger));
    owner.commit(|changes| changes.triggers_removed = ["a", "b", "d", "e"].map(Into::into).to_vec());
    let (_, found, _) = reopened(owner, factory.as_ref());
    assert_eq!(found, []);
}

pub(super) fn any_trigger_comes_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    let mut runner = TestRunner::deterministic();
    let rows: Vec<TriggerRow> = (0..Config::default().cases)
        .map(|number| {
            let row = any_trigger().new_tree(&mut runner).expect("any trigger can be made").current();
            TriggerRow { id: format!("{number:05}").into(), ..row }
        })
        .collect();
    owner.commit(|changes| changes.triggers_put.clone_from(&rows));
    let (_, found, _) = reopened(owner, factory.as_ref());
    assert_eq!(found, rows);
}

pub(super) fn a_secret_is_the_last_that_was_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = Owner::open(factory.as_ref());
    assert_secret(&owner.opened.secret, &SecretRow::default());
    let alone = SecretRow { current: "first".into(), previous: None, since: at(i64::MIN) };
    owner.commit(|changes| changes.secret = Some(alone.clone()));
    // A commit that says nothing of it leaves it.
    owner.send([delivery(1)]);
    let (mut owner, _, found) = reopened(owner, factory.as_ref());
    assert_secret(&found, &alone);
    owner.commit(|changes| changes.secret = Some(secret(1)));
    owner.commit(|changes| changes.secret = Some(secret(2)));
    drop(owner);
    let mut owner = Owner::open(factory.as_ref());
    assert_secret(&owner.opened.secret, &secret(2));
    let mut empty_before = secret(3);
    empty_before.previous = Some(("".into(), at(-1)));
    for row in [alone, empty_before, SecretRow::default()] {
        owner.commit(|changes| changes.secret = Some(row.clone()));
        let found;
        (owner, _, found) = reopened(owner, factory.as_ref());
        assert_secret(&found, &row);
    }
}

fn any_trigger() -> impl Strategy<Value = TriggerRow> {
    let name = || any::<String>().prop_map(String::into_boxed_str);
    let identity = (any::<u64>(), any::<u128>(), any::<i64>());
    let names = (proptest::option::of(name()), name(), name(), name());
    let times = (any_duration(), any_duration(), any_duration());
    let limits = (any::<Option<u32>>(), any::<Option<u32>>(), proptest::option::of(name()));
    (identity, names, times, limits).prop_map(|(identity, names, times, limits)| {
        let ((number, uid, created_at), (deployment, topic, group, target)) = (identity, names);
        let (retry_after, initial_delay, lease) = times;
        let (max_deliveries, max_concurrency, dead_letter_queue) = limits;
        TriggerRow {
            id: "".into(),
            number,
            uid: Uid(uid),
            created_at: at(created_at),
            deployment,
            topic,
            group,
            target,
            spec: TriggerSpec {
                retry_after,
                initial_delay,
                max_deliveries,
                max_concurrency,
                dead_letter_queue,
                lease,
            },
        }
    })
}
