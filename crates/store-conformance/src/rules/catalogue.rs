//! Environments of one place: names, isolation, and what closed ones wait for (design-holes B8).

use millpond_store::{Lineage, StoreErrorKind};

use crate::Place;
use crate::rows::{ENVIRONMENT, Owner, assert_fails, delivery, message};

pub(super) fn environments_do_not_see_each_other(place: &mut dyn Place) {
    let factory = place.factory();
    let mut one = Owner::open_named(factory.as_ref(), "one");
    let mut two = Owner::open_named(factory.as_ref(), "two");
    one.send([delivery(1)]);
    two.send([delivery(2)]);
    one.send([delivery(3)]);
    assert_eq!(two.delivery(1), None);
    assert_eq!(two.delivery(2), Some(delivery(2)));
    assert_eq!((one.commit, two.commit), (2, 1));
    let mut third = Owner::open_named(factory.as_ref(), "one");
    two.send([delivery(4)]);
    assert_eq!(third.content(3), Some(message(3).content));
    assert_eq!(third.content(4), None);
}

pub(super) fn an_environment_is_made_known_once(place: &mut dyn Place) {
    let factory = place.factory();
    assert!(!factory.has_environment("a").expect("the place is reachable"));
    assert!(factory.create_environment("a").expect("the place is reachable"));
    assert!(!factory.create_environment("a").expect("the place is reachable"));
    assert!(factory.has_environment("a").expect("the place is reachable"));
    assert!(!factory.has_environment("A").expect("the place is reachable"), "names are bytes");
    assert_eq!(Owner::open_named(factory.as_ref(), "a").opened.lineage, Lineage::New);
    assert!(!factory.has_environment("b").expect("the place is reachable"));
    drop(Owner::open_named(factory.as_ref(), "b"));
    assert!(factory.has_environment("b").expect("the place is reachable"), "an open makes it known");
    drop(factory);
    let factory = place.factory();
    for name in ["a", "b"] {
        assert!(factory.has_environment(name).expect("the place is reachable"));
        assert_eq!(Owner::open_named(factory.as_ref(), name).opened.lineage, Lineage::Restarted);
    }
}

pub(super) fn names_are_only_names(place: &mut dyn Place) {
    let factory = place.factory();
    let long = "n".repeat(4_096);
    let names =
        ["", "..", "../../etc/passwd", "/", "a\u{0}b", "a", "A", "a ", "ü", "u\u{308}", "' or 1=1 --", &long];
    for (count, name) in (1..).zip(names) {
        let mut owner = Owner::open_named(factory.as_ref(), name);
        assert_eq!(owner.opened.lineage, Lineage::New, "{name:?}");
        owner.send([delivery(count)]);
        owner.close();
    }
    for (count, name) in (1..).zip(names) {
        let mut owner = Owner::open_named(factory.as_ref(), name);
        assert_eq!(owner.delivery(count), Some(delivery(count)), "{name:?}");
    }
}

fn due(place: &dyn millpond_store::StoreFactory, now: i64, limit: usize) -> String {
    place.due_environments(now, limit).expect("the place is reachable").join(" ")
}

pub(super) fn due_environments_come_in_order_and_only_closed_ones(place: &mut dyn Place) {
    let factory = place.factory();
    let set = |name: &str, next_due| factory.set_next_due(name, next_due).expect("the place is reachable");
    for name in ["a", "b", "c", "d", "e"] {
        factory.create_environment(name).expect("the place is reachable");
    }
    assert_eq!(due(factory.as_ref(), i64::MAX, 9), "", "a new one waits for nothing");
    set("a", Some(30));
    set("b", Some(10));
    set("c", Some(20));
    set("d", Some(i64::MAX));
    assert_eq!(due(factory.as_ref(), 9, 9), "");
    assert_eq!(due(factory.as_ref(), 10, 9), "b");
    assert_eq!(due(factory.as_ref(), 30, 9), "b c a");
    assert_eq!(due(factory.as_ref(), 30, 2), "b c");
    assert_eq!(due(factory.as_ref(), i64::MAX, 9), "b c a d");
    set("b", None);
    set("c", Some(-5));
    assert_eq!(due(factory.as_ref(), 0, 9), "c");

    let owner = Owner::open_named(factory.as_ref(), "c");
    assert_eq!(due(factory.as_ref(), 100, 9), "a", "an open one is its owner's business");
    owner.close();
    set("c", Some(40));
    assert_eq!(due(factory.as_ref(), 39, 9), "a");
    let owner = Owner::open_named(factory.as_ref(), "a");
    set("a", None);
    owner.close();
    assert_eq!(due(factory.as_ref(), 100, 9), "c");
    assert_fails(factory.set_next_due("never made known", Some(1)), StoreErrorKind::Unavailable);
}

pub(super) fn an_environment_whose_owner_died_is_due_at_once(place: &mut dyn Place) {
    let factory = place.factory();
    let owner = Owner::open(factory.as_ref());
    assert_eq!(due(factory.as_ref(), i64::MAX, 9), "");
    drop(owner);
    assert_eq!(due(factory.as_ref(), i64::MIN, 9), ENVIRONMENT);
    let owner = Owner::open(factory.as_ref());
    factory.set_next_due(ENVIRONMENT, Some(5)).expect("the place is reachable");
    owner.close();
    assert_eq!(due(factory.as_ref(), 4, 9), "");
    drop(Owner::open(factory.as_ref()));
    drop(factory);
    assert_eq!(due(place.factory().as_ref(), i64::MIN, 9), ENVIRONMENT, "also in the next process");
}

pub(super) fn next_due_survives_a_restart(place: &mut dyn Place) {
    let factory = place.factory();
    factory.create_environment("a").expect("the place is reachable");
    factory.set_next_due("a", Some(7)).expect("the place is reachable");
    drop(factory);
    let factory = place.factory();
    assert_eq!((due(factory.as_ref(), 6, 9), due(factory.as_ref(), 7, 9)), (String::new(), "a".into()));
}
