//! What is written beside the owner is taken in, once, whoever is open or fails meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_core::Outcome;
use millpond_core::command::NewMessage;
use millpond_core::external::ExternalSend;
use millpond_core::id::{MessageId, Sequence};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_store::MemoryDisk;

use crate::failures;
use crate::support::{ENVIRONMENT, World, lease, leased};

fn message(data: &str) -> ExternalSend {
    let content =
        MessageContent { attributes: "{}".into(), data_kind: DataKind::Text, data: data.as_bytes().into() };
    ExternalSend {
        queue: "mail".into(),
        partition: None,
        message: MessageId { sent_at: Timestamp::ZERO, sequence: Sequence(0), nonce: 0 },
        content: NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None },
        visible_at: None,
        key: None,
    }
}

/// One transaction that sends these.
fn send(disk: &MemoryDisk, data: &[&str]) {
    let mut beside = disk.beside(ENVIRONMENT);
    for data in data {
        beside.send(message(data)).expect("it is sent");
    }
    beside.commit().expect("it commits");
}

/// A world whose queue may be settled from beside, and its disk.
async fn world() -> (World, MemoryDisk) {
    let disk = MemoryDisk::new();
    let world = World::over(Arc::new(disk.clone())).await;
    world.create("mail", QueueSpec::default()).await;
    let mut beside = disk.beside(ENVIRONMENT);
    beside.allow_settle("mail").expect("it is written");
    beside.commit().expect("it commits");
    until_taken(&disk).await;
    (world, disk)
}

/// Waits until nothing is left in the intake.
async fn until_taken(disk: &MemoryDisk) {
    while !disk.dump(ENVIRONMENT).external.is_empty() {
        tokio::task::yield_now().await;
    }
}

/// Takes so many messages, waiting for them.
async fn take(world: &World, count: usize) -> Vec<String> {
    let mut taken = Vec::new();
    while taken.len() < count {
        let mut answer = world.run(lease("mail", Duration::from_secs(20))).await;
        answer.receipt.take().into_iter().for_each(|receipt| receipt.delivered());
        let found = leased(answer);
        assert!(!found.is_empty(), "{} of {count} came", taken.len());
        for (grant, data) in found {
            assert!(world.ack("mail", grant.lease()).await);
            taken.push(data);
        }
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn a_committed_send_reaches_a_call_that_waits() {
    let (world, disk) = world().await;
    let waiting = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.submit(ENVIRONMENT, lease("mail", Duration::from_secs(20))).await }
    });
    send(&disk, &["hello"]);
    let answer = waiting.await.expect("task").expect("answer");
    assert_eq!(leased(answer).pop().expect("one").1, "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_committed_while_nobody_owned_it_is_taken_without_a_call() {
    let (world, disk) = world().await;
    world.engine.shut_down().await;
    send(&disk, &["one", "two"]);
    let world = World::over(Arc::new(disk.clone())).await;
    until_taken(&disk).await;
    assert_eq!(take(&world, 2).await, ["one", "two"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_environment_that_was_closed_is_opened_again() {
    let (world, disk) = world().await;
    while !world.engine.environments_open().is_empty() {
        world.pass(Duration::from_secs(3600));
        tokio::task::yield_now().await;
    }
    send(&disk, &["hello"]);
    until_taken(&disk).await;
    assert_eq!(take(&world, 1).await, ["hello"]);
}

/// Many commit while pages are read: a wake-up that were lost would leave a tail behind.
#[tokio::test(flavor = "multi_thread")]
async fn no_tail_is_left_of_many_transactions() {
    const THREADS: usize = 8;
    const EACH: usize = 250;
    let (world, disk) = world().await;
    let writers: Vec<_> = (0..THREADS)
        .map(|thread| {
            let disk = disk.clone();
            std::thread::spawn(move || {
                for number in 0..EACH {
                    send(&disk, &[&format!("{thread} {number} a"), &format!("{thread} {number} b")]);
                }
            })
        })
        .collect();
    let taken = take(&world, THREADS * EACH * 2).await;
    writers.into_iter().for_each(|writer| writer.join().expect("it sends"));
    until_taken(&disk).await;
    let mut by_thread: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for data in &taken {
        let (thread, rest) = data.split_once(' ').expect("two words");
        by_thread.entry(thread).or_default().push(rest);
    }
    let expected: Vec<_> =
        (0..EACH).flat_map(|number| [format!("{number} a"), format!("{number} b")]).collect();
    assert_eq!(by_thread.len(), THREADS);
    for (thread, found) in by_thread {
        assert_eq!(found, expected, "of thread {thread}");
    }
    assert_eq!(world.view("mail").await.counters.messages(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_while_it_is_taken_in_neither_lose_nor_repeat_it() {
    let (world, faults, disk) = failures::world_in_memory().await;
    let mut sent = Vec::new();
    for round in 0..40 {
        match round % 5 {
            0 => faults.unknown_happened.store(1, Ordering::SeqCst),
            1 => faults.unknown_lost.store(1, Ordering::SeqCst),
            2 => faults.full.store(1, Ordering::SeqCst),
            3 => faults.unreadable_intake.store(1, Ordering::SeqCst),
            _ => {
                faults.full.store(1, Ordering::SeqCst);
                faults.unopenable.store(1, Ordering::SeqCst);
            }
        }
        let data = [format!("{round} a"), format!("{round} b")];
        send(&disk, &[&data[0], &data[1]]);
        sent.extend(data);
        let mut turns = 0u32;
        while !disk.dump(ENVIRONMENT).external.is_empty() {
            turns += 1;
            // A store that could not be opened is tried again in time.
            if turns.is_multiple_of(5_000) {
                world.pass(Duration::from_millis(20));
            }
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(take(&world, sent.len()).await, sent);
    assert_eq!(world.view("mail").await.counters.messages(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_an_open_transaction_settles_goes_to_nobody_else() {
    let (world, disk) = world().await;
    world.send("mail", "hello").await;
    let (grant, _) = world.lease("mail", 0).await.pop().expect("one");
    let mut beside = disk.beside(ENVIRONMENT);
    beside.complete(grant.lease(), None).expect("it is held");
    for _ in 0..40 {
        world.pass(Duration::from_secs(3));
        assert!(world.lease("mail", 0).await.is_empty(), "it is being settled");
    }
    assert_eq!(world.view("mail").await.counters.leased, 1);
    beside.commit().expect("it commits");
    until_taken(&disk).await;
    assert_eq!(world.view("mail").await.counters.messages(), 0);
    assert_eq!(disk.dump(ENVIRONMENT).claims, [], "nothing is left of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_whose_transaction_rolled_back_ends() {
    let (world, disk) = world().await;
    world.send("mail", "hello").await;
    let (grant, _) = world.lease("mail", 0).await.pop().expect("one");
    let mut beside = disk.beside(ENVIRONMENT);
    beside.complete(grant.lease(), None).expect("it is held");
    world.pass(Duration::from_secs(31));
    assert!(world.lease("mail", 0).await.is_empty(), "it is being settled");
    beside.roll_back();
    let again = loop {
        world.pass(Duration::from_secs(1));
        if let Some(again) = world.lease("mail", 0).await.pop() {
            break again;
        }
    };
    assert!(again.0.generation > grant.generation);
    assert!(disk.beside(ENVIRONMENT).complete(grant.lease(), None).is_err(), "it is not held any more");
    assert!(world.ack("mail", again.0.lease()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_settlement_from_before_an_opening_counts_before_leases_end() {
    let (world, disk) = world().await;
    world.send("mail", "one").await;
    world.send("mail", "two").await;
    let taken = world.lease("mail", 0).await;
    world.engine.shut_down().await;
    let mut beside = disk.beside(ENVIRONMENT);
    beside.complete(taken[0].0.lease(), None).expect("it is held");
    beside.extend("mail", taken[1].0.lease(), Duration::from_secs(3600)).expect("it is written");
    beside.commit().expect("it commits");
    let world = World::over(Arc::new(disk.clone())).await;
    until_taken(&disk).await;
    world.pass(Duration::from_secs(100));
    assert!(world.lease("mail", 0).await.is_empty());
    let counters = world.view("mail").await.counters;
    assert_eq!((counters.leased, counters.messages()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_cannot_be_sent_is_found_by_its_id() {
    let (world, disk) = world().await;
    let mut beside = disk.beside(ENVIRONMENT);
    let mut sent = [message("one"), message("two")];
    sent.iter_mut().for_each(|send| send.key = Some("k".into()));
    let ids = sent.map(|send| beside.send(send).expect("it is sent"));
    beside.commit().expect("it commits");
    until_taken(&disk).await;
    let wanted = millpond_core::command::MessageRef { queue: "mail".into(), message: ids[1] };
    let Outcome::Message(row) = world.run(millpond_core::Command::GetMessage(wanted)).await.outcome else {
        panic!("it is not found");
    };
    let reason = row.dead_letter.expect("a reason").reason;
    assert_eq!(reason, millpond_core::row::DeadReason::Deduplicated);
    assert_eq!(take(&world, 1).await, ["one"]);
}
