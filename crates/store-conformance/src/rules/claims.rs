//! The right to end a lease that could be settled from beside: whoever stores its key first has it (design-holes A5).

use std::time::Duration;

use millpond_core::command::LeaseRef;
use millpond_core::external::{ExternalAction, ExternalCommand, ExternalSettle};
use millpond_core::id::{LeaseGeneration, Sequence};
use millpond_core::row::{DeliveryRow, DeliveryState};
use millpond_core::{Claim, DeliveryChange, LeaseKey, RowKey};
use millpond_store::BesideError;

use crate::Place;
use crate::rows::{Owner, at, delivery, queue};
use crate::rules::external::{begin, owner};

/// Above what the rows of rules say of void leases.
const GENERATION: LeaseGeneration = LeaseGeneration(7 << 20);
/// Far beyond what any clock shows.
const FAR: i64 = 4_000_000_000_000;

fn leased(sequence: u64) -> DeliveryRow {
    DeliveryRow {
        state: DeliveryState::Leased,
        nonce: sequence,
        lease_generation: GENERATION,
        due_at: at(FAR),
        expires_at: at(FAR),
        delivery_count: 1,
        ..delivery(sequence)
    }
}

fn lease(row: &DeliveryRow) -> LeaseRef {
    LeaseRef { delivery: row.sequence, message: row.message_id(), generation: row.lease_generation }
}

fn key(row: &DeliveryRow) -> LeaseKey {
    LeaseKey { delivery: row.sequence, generation: row.lease_generation }
}

fn claim(owner: &mut Owner, row: &DeliveryRow) -> Claim {
    let rows = owner.reader.read(&[RowKey::Claim(key(row))]).expect("claims are read");
    assert_eq!(rows.snapshot.0, owner.commit);
    let [(found, claim)] = rows.claims[..] else { panic!("one answer for one key: {:?}", rows.claims) };
    assert_eq!(found, key(row));
    claim
}

fn settlements(owner: &mut Owner) -> Vec<ExternalCommand> {
    let page = owner.reader.external(100).expect("the intake is read");
    page.commands.into_iter().map(|external| external.command).collect()
}

pub(super) fn a_free_claim_is_final(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = owner(factory.as_ref());
    let row = leased(1);
    first.send([row.clone()]);
    assert_eq!(claim(&mut first, &row), Claim::Free);
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Stale));
    assert_eq!(begin(place).fail(lease(&row), None), Err(BesideError::Stale));
    assert_eq!(claim(&mut first, &row), Claim::Free, "it stays the owner's");
    drop(first);
    let mut second = Owner::open(factory.as_ref());
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Stale), "also after a crash");
    assert_eq!(claim(&mut second, &row), Claim::Free);
    assert_eq!(settlements(&mut second), []);
}

pub(super) fn a_claim_that_a_transaction_holds_is_free_when_that_rolls_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let row = leased(1);
    owner.send([row.clone(), leased(2)]);
    let mut beside = begin(place);
    beside.complete(lease(&row)).expect("it is held");
    assert_eq!(claim(&mut owner, &row), Claim::Held);
    assert_eq!(claim(&mut owner, &row), Claim::Held);
    assert_eq!(claim(&mut owner, &leased(2)), Claim::Free, "another lease is not concerned");
    beside.roll_back();
    assert_eq!(claim(&mut owner, &row), Claim::Free);
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Stale));
}

pub(super) fn a_settlement_that_is_committed_wins(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let (one, other) = (leased(1), leased(2));
    owner.send([one.clone(), other.clone()]);
    let mut beside = begin(place);
    beside.complete(lease(&one)).expect("it is held");
    beside.fail(lease(&other), Some(Duration::from_secs(3))).expect("it is held");
    assert_eq!(claim(&mut owner, &one), Claim::Held);
    beside.commit().expect("it commits");
    assert_eq!(claim(&mut owner, &one), Claim::Settled);
    assert_eq!(claim(&mut owner, &other), Claim::Settled);
    let complete = ExternalAction::Complete { output: None };
    let fail = ExternalAction::Fail { output: None, delay: Some(Duration::from_secs(3)) };
    let expected = [(lease(&one), complete), (lease(&other), fail)];
    let expected = expected.map(|(lease, action)| ExternalCommand::Settle(ExternalSettle { lease, action }));
    assert_eq!(settlements(&mut owner), expected);
    let page = owner.reader.external(9).expect("the intake is read");
    owner.commit(|changes| {
        changes.external_taken = page.commands.iter().map(|external| external.id).collect();
        changes.claims_removed = vec![key(&one), key(&other)];
        changes.deliveries =
            vec![DeliveryChange::Remove(one.sequence), DeliveryChange::Remove(other.sequence)];
    });
    assert_eq!(settlements(&mut owner), []);
}

pub(super) fn a_lease_is_settled_once(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let row = leased(1);
    owner.send([row.clone()]);
    let mut beside = begin(place);
    beside.complete(lease(&row)).expect("it is held");
    assert_eq!(beside.fail(lease(&row), None), Err(BesideError::Stale), "in one transaction");
    drop(beside);
    let mut beside = begin(place);
    beside.complete(lease(&row)).expect("it is held");
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Waits), "in two at once");
    beside.commit().expect("it commits");
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Stale), "in two, one after the other");
    assert_eq!(settlements(&mut owner).len(), 1);
}

pub(super) fn only_a_lease_that_is_held_is_settled(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let held = leased(1);
    let mut void = leased(4);
    void.lease_generation = LeaseGeneration(4 << 20);
    let ready = DeliveryRow { state: DeliveryState::Ready, ..leased(2) };
    let elsewhere = DeliveryRow { queue: millpond_core::id::QueueNumber(3), ..leased(3) };
    owner.commit(|changes| changes.queues_put.push(queue(3)));
    owner.send([held.clone(), ready.clone(), elsewhere.clone(), void.clone()]);
    let complete = |place: &mut dyn Place, lease| begin(place).complete(lease);
    let wrong = LeaseRef { generation: GENERATION.next(), ..lease(&held) };
    assert_eq!(complete(place, wrong), Err(BesideError::Stale), "another generation");
    let wrong = LeaseRef { delivery: Sequence(9), ..lease(&held) };
    assert_eq!(complete(place, wrong), Err(BesideError::Stale), "no such delivery");
    assert_eq!(complete(place, lease(&ready)), Err(BesideError::Stale), "not leased");
    assert_eq!(complete(place, lease(&void)), Err(BesideError::Stale), "found in a restored copy");
    assert_eq!(complete(place, lease(&elsewhere)), Err(BesideError::NotAllowed), "its queue does not say so");
    assert_eq!(complete(place, lease(&held)), Ok(()));
}

pub(super) fn other_commands_come_as_they_were_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let row = leased(1);
    owner.send([row.clone()]);
    let mut beside = begin(place);
    let by = Duration::from_millis(90_500);
    beside.extend("queue-1", lease(&row), by).expect("it is written");
    beside.cancel("queue-1", row.message_id()).expect("it is written");
    beside.allow_settle("queue-1").expect("it is written");
    beside.commit().expect("it commits");
    let message = millpond_core::command::MessageRef { queue: "queue-1".into(), message: row.message_id() };
    let expected = [
        ExternalCommand::Extend { queue: "queue-1".into(), lease: lease(&row), by },
        ExternalCommand::Cancel(message),
        ExternalCommand::AllowSettle { queue: "queue-1".into() },
    ];
    assert_eq!(settlements(&mut owner), expected);
}

pub(super) fn a_claim_on_a_lease_that_is_not_held_keeps_nothing(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let row = leased(1);
    assert_eq!(claim(&mut owner, &row), Claim::Free, "there is no such lease");
    owner.send([row.clone()]);
    let mut beside = begin(place);
    beside.complete(lease(&row)).expect("by now there is");
    beside.roll_back();
    assert_eq!(claim(&mut owner, &row), Claim::Free);
    assert_eq!(begin(place).complete(lease(&row)), Err(BesideError::Stale));
}

pub(super) fn claims_are_answered_along_with_rows(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let (one, other) = (leased(1), leased(2));
    owner.send([one.clone(), other.clone()]);
    let keys = [RowKey::Claim(key(&other)), RowKey::Delivery(Sequence(1)), RowKey::Claim(key(&one))];
    let rows = owner.reader.read(&keys).expect("reads work");
    assert_eq!(rows.claims, [(key(&other), Claim::Free), (key(&one), Claim::Free)]);
    assert_eq!(rows.deliveries, [(Sequence(1), Some(one))]);
}
