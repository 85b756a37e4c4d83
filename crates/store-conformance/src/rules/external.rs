//! Commands that are written beside the owner: each committed one comes once, in order (design-holes B11).

use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use millpond_core::command::NewMessage;
use millpond_core::external::{ExternalCommand, ExternalId, ExternalSend};
use millpond_core::id::{MessageId, Sequence};
use millpond_core::time::Timestamp;
use millpond_store::{BesideError, ExternalPage, StoreErrorKind, StoreFactory};

use crate::rows::{ENVIRONMENT, Owner, assert_fails, delivery, insert, message, queue};
use crate::{Beside, Place};

/// How long a wake-up may take to come.
const WAKE_MAX: Duration = Duration::from_secs(20);

/// An owner of an environment in which queue 1 can be sent to, and is settled from beside.
pub(super) fn owner(factory: &dyn StoreFactory) -> Owner {
    let mut owner = Owner::open(factory);
    owner.commit(|changes| {
        let mut row = queue(1);
        row.settled_by_sql = true;
        changes.queues_put.push(row);
    });
    owner
}

/// The transactions of a place; only asked of one that has them.
pub(super) fn begin(place: &mut dyn Place) -> Box<dyn Beside> {
    place.beside(ENVIRONMENT).expect("a place that has them gives them")
}

fn sent(number: u64) -> ExternalSend {
    ExternalSend {
        queue: "queue-1".into(),
        partition: None,
        message: MessageId { sent_at: Timestamp::ZERO, sequence: Sequence(0), nonce: 0 },
        content: NewMessage {
            content: message(number).content,
            delay: (number == 2).then_some(Duration::from_millis(1_500)),
            priority: i32::try_from(number).unwrap_or(0),
            time_to_live: (number == 3).then_some(Duration::from_secs(90)),
        },
        visible_at: (number == 4).then_some(Timestamp::from_millis(4_000_000_000_123)),
        key: (number == 5).then(|| "a'\"key ü".into()),
    }
}

fn page(owner: &mut Owner, limit: usize) -> ExternalPage {
    owner.reader.external(limit).expect("the intake is read")
}

/// Messages that wait, in order.
fn waiting(owner: &mut Owner) -> Vec<MessageId> {
    let page = page(owner, 1_000);
    assert!(!page.more, "all of it fits");
    let id = |external: &millpond_core::External| match &external.command {
        ExternalCommand::Send(send) => Some(send.message),
        _ => None,
    };
    page.commands.iter().filter_map(id).collect()
}

fn ids(page: &ExternalPage) -> Vec<ExternalId> {
    page.commands.iter().map(|external| external.id).collect()
}

fn take(owner: &mut Owner, ids: &[ExternalId]) {
    owner.commit(|changes| changes.external_taken = ids.to_vec());
}

pub(super) fn a_committed_send_comes_as_it_was_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    assert_eq!(
        page(&mut owner, 9),
        ExternalPage { snapshot: page(&mut owner, 0).snapshot, ..ExternalPage::default() }
    );
    let mut beside = begin(place);
    let sends: Vec<ExternalSend> = (1..=5).map(sent).collect();
    let given: Vec<_> = sends.iter().map(|send| beside.send(send.clone()).expect("it is sent")).collect();
    assert!(given.iter().all(|id| id.sequence.is_external()), "sequences are drawn above the owner's");
    assert_eq!(waiting(&mut owner), [], "nothing is seen before it is committed");
    beside.commit().expect("it commits");
    let found = page(&mut owner, 100);
    assert_eq!(found.snapshot.0, owner.commit);
    let expected = sends.into_iter().zip(&given).map(|(send, id)| ExternalSend { message: *id, ..send });
    let expected: Vec<_> = expected.map(|send| ExternalCommand::Send(Box::new(send))).collect();
    let commands: Vec<_> = found.commands.into_iter().map(|external| external.command).collect();
    assert_eq!(commands, expected);
}

pub(super) fn a_large_message_comes_as_it_was_written(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let mut send = sent(1);
    let mut content = (*send.content.content).clone();
    content.data = (0..256 * 1024).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect::<Vec<u8>>().into();
    content.data_kind = millpond_core::row::DataKind::Binary;
    send.content.content = Arc::new(content);
    let mut beside = begin(place);
    send.message = beside.send(send.clone()).expect("it is sent");
    beside.commit().expect("it commits");
    let found = page(&mut owner, 1).commands.pop().expect("one waits").command;
    assert_eq!(found, ExternalCommand::Send(Box::new(send)));
}

pub(super) fn what_is_rolled_back_never_comes(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let mut undone = begin(place);
    undone.send(sent(1)).expect("it is sent");
    let mut dropped = begin(place);
    dropped.send(sent(2)).expect("it is sent");
    let mut kept = begin(place);
    let id = kept.send(sent(3)).expect("it is sent");
    undone.roll_back();
    kept.commit().expect("it commits");
    drop(dropped);
    assert_eq!(waiting(&mut owner), [id]);
}

pub(super) fn overlapping_transactions_are_all_seen(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let (mut early, mut late) = (begin(place), begin(place));
    let first = early.send(sent(1)).expect("it is sent");
    let second = late.send(sent(2)).expect("it is sent");
    let third = early.send(sent(3)).expect("it is sent");
    late.commit().expect("it commits");
    let found = page(&mut owner, 9);
    assert_eq!(waiting(&mut owner), [second]);
    take(&mut owner, &ids(&found));
    assert_eq!(waiting(&mut owner), []);
    early.commit().expect("it commits");
    assert_eq!(waiting(&mut owner), [first, third], "it committed behind one with a higher number");
}

pub(super) fn transactions_come_in_order_each_as_a_whole(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let mut expected = Vec::new();
    for number in 0..5 {
        let mut beside = begin(place);
        for part in 1..=3 {
            expected.push(beside.send(sent(number * 10 + part)).expect("it is sent"));
        }
        beside.commit().expect("it commits");
    }
    assert_eq!(waiting(&mut owner), expected);
}

pub(super) fn pages_of_the_intake_are_its_front(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    for number in 1..=7 {
        let mut beside = begin(place);
        beside.send(sent(number)).expect("it is sent");
        beside.commit().expect("it commits");
    }
    let all = ids(&page(&mut owner, 100));
    let mut seen = Vec::new();
    for more in [true, true, false] {
        let found = page(&mut owner, 3);
        assert_eq!(found.more, more);
        seen.extend(ids(&found));
        take(&mut owner, &ids(&found));
    }
    assert_eq!(seen, all);
    assert_eq!(page(&mut owner, 3).commands, []);
    let mut beside = begin(place);
    for number in 1..=3 {
        beside.send(sent(number)).expect("it is sent");
    }
    beside.commit().expect("it commits");
    assert!(!page(&mut owner, 3).more, "a page that holds all of it is the last");
}

pub(super) fn a_page_has_all_of_each_transaction(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let (mut one, mut other) = (begin(place), begin(place));
    // Sent by turns: a page of any length has a part of both.
    for number in 1..=5 {
        one.send(sent(number)).expect("it is sent");
        other.send(sent(number)).expect("it is sent");
    }
    one.commit().expect("it commits");
    other.commit().expect("it commits");
    let mut after = begin(place);
    after.send(sent(6)).expect("it is sent");
    after.commit().expect("it commits");
    let all = ids(&page(&mut owner, 100));
    let mut seen = Vec::new();
    while seen.len() < all.len() {
        let found = page(&mut owner, 2);
        let parts = found.commands.iter().filter(|external| match &external.command {
            ExternalCommand::Send(send) => send.content.priority <= 5,
            _ => false,
        });
        assert!(parts.count().is_multiple_of(5), "{found:?}");
        seen.extend(ids(&found));
        take(&mut owner, &ids(&found));
    }
    assert_eq!(seen, all);
}

pub(super) fn what_was_taken_does_not_come_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = owner(factory.as_ref());
    let mut beside = begin(place);
    let ids_sent: Vec<_> = (1..=3).map(|number| beside.send(sent(number)).expect("it is sent")).collect();
    beside.commit().expect("it commits");
    let found = ids(&page(&mut first, 9));
    take(&mut first, &[found[1]]);
    assert_eq!(waiting(&mut first), [ids_sent[0], ids_sent[2]]);
    first.close();
    drop(factory);
    let factory = place.factory();
    let mut second = Owner::open(factory.as_ref());
    assert_eq!(waiting(&mut second), [ids_sent[0], ids_sent[2]], "in a new process");
    take(&mut second, &[found[2], found[0]]);
    drop(second);
    assert_eq!(waiting(&mut Owner::open(factory.as_ref())), []);
}

pub(super) fn taking_what_is_not_there_is_corrupt(place: &mut dyn Place) {
    let factory = place.factory();
    let mut owner = owner(factory.as_ref());
    let mut beside = begin(place);
    beside.send(sent(1)).expect("it is sent");
    beside.commit().expect("it commits");
    let one = ids(&page(&mut owner, 9))[0];
    let unknown = ExternalId(one.0 + 1_000);
    for taken in [vec![unknown], vec![one, unknown], vec![one, one]] {
        let result = owner.try_commit(|changes| {
            changes.external_taken = taken;
            insert(changes, delivery(7));
        });
        assert_fails(result, StoreErrorKind::Corrupt);
        assert_eq!(owner.delivery(7), None, "nothing of it is there");
    }
    assert_eq!(ids(&page(&mut owner, 9)), [one], "it was not taken");
    take(&mut owner, &[one]);
    assert_fails(owner.try_commit(|changes| changes.external_taken = vec![one]), StoreErrorKind::Corrupt);
}

pub(super) fn a_deposed_owner_takes_nothing(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = owner(factory.as_ref());
    let mut beside = begin(place);
    let id = beside.send(sent(1)).expect("it is sent");
    beside.commit().expect("it commits");
    let found = ids(&page(&mut first, 9));
    let mut second = Owner::open(factory.as_ref());
    let result = first.try_commit(|changes| changes.external_taken = found.clone());
    assert_fails(result, StoreErrorKind::Fenced);
    assert_eq!(waiting(&mut second), [id]);
    take(&mut second, &found);
    assert_eq!(waiting(&mut second), []);
}

pub(super) fn environments_have_intakes_of_their_own(place: &mut dyn Place) {
    let factory = place.factory();
    let mut own = owner(factory.as_ref());
    let mut other = Owner::open_named(factory.as_ref(), "orgs/o/projects/p/envs/other");
    let mut beside = begin(place);
    let id = beside.send(sent(1)).expect("it is sent");
    beside.commit().expect("it commits");
    assert_eq!(waiting(&mut own), [id]);
    assert_eq!(waiting(&mut other), []);
}

pub(super) fn nothing_is_sent_to_a_queue_that_is_not(place: &mut dyn Place) {
    let factory = place.factory();
    let owner = owner(factory.as_ref());
    let mut beside = begin(place);
    let missing = ExternalSend { queue: "missing".into(), ..sent(1) };
    assert_eq!(beside.send(missing), Err(BesideError::NoQueue));
    drop(owner);
}

pub(super) fn a_restored_copy_brings_its_intake_back(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = owner(factory.as_ref());
    let mut beside = begin(place);
    let id = beside.send(sent(1)).expect("it is sent");
    beside.commit().expect("it commits");
    first.close();
    drop(factory);
    place.back_up();
    let factory = place.factory();
    first = Owner::open(factory.as_ref());
    let found = ids(&page(&mut first, 9));
    take(&mut first, &found);
    first.close();
    drop(factory);
    place.restore();
    let factory = place.factory();
    let mut second = Owner::open(factory.as_ref());
    assert_eq!(waiting(&mut second), [id]);
    let found = ids(&page(&mut second, 9));
    take(&mut second, &found);
}

pub(super) fn whoever_watches_is_woken(place: &mut dyn Place) {
    let factory = place.factory();
    let mut first = owner(factory.as_ref());
    let mut beside = begin(place);
    beside.send(sent(1)).expect("it is sent");
    beside.commit().expect("it commits");
    let (sender, woken) = mpsc::channel();
    factory.watch(Arc::new(move |environment: &str| drop(sender.send(environment.to_owned()))));
    assert_eq!(woken.recv_timeout(WAKE_MAX).as_deref(), Ok(ENVIRONMENT), "of what waits already");
    let found = ids(&page(&mut first, 9));
    take(&mut first, &found);
    for open in [true, false] {
        if !open {
            first.store.close().expect("it closes");
            first = Owner::open(factory.as_ref());
            let found = ids(&page(&mut first, 9));
            take(&mut first, &found);
        }
        while woken.try_recv().is_ok() {}
        let mut beside = begin(place);
        let id = beside.send(sent(2)).expect("it is sent");
        beside.commit().expect("it commits");
        assert_eq!(woken.recv_timeout(WAKE_MAX).as_deref(), Ok(ENVIRONMENT));
        assert_eq!(waiting(&mut first).last(), Some(&id), "what woke can be read");
    }
}
