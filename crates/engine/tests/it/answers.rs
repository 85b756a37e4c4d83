//! Answers that nobody takes, and callers that leave.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::spec::QueueSpec;
use millpond_engine::EngineSettings;
use millpond_test_stores::new_store;

use crate::support::{ENVIRONMENT, World, lease, leased, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_whose_answer_was_not_delivered_goes_back_uncounted() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    world.send("mail", "hello").await;
    let answer = world.run(lease("mail", Duration::ZERO)).await;
    drop(answer);
    let taken = world.lease("mail", 20).await;
    assert_eq!(taken[0].0.delivery_count, 1);
    let counters = world.view("mail").await.counters;
    assert_eq!((counters.total_delivered, counters.total_undone), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_spends_nothing() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    for _ in 0..50 {
        let engine = world.engine.clone();
        let waiting = tokio::spawn(async move {
            engine.submit(ENVIRONMENT, lease("mail", Duration::from_secs(20))).await.map(drop)
        });
        while world.view("mail").await.waiting == 0 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.is_err());
        while world.view("mail").await.waiting > 0 {
            tokio::task::yield_now().await;
        }
    }
    world.send("mail", "hello").await;
    assert_eq!(world.lease("mail", 0).await[0].0.delivery_count, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_leaves_takes_no_room_and_holds_no_end_up() {
    let settings = EngineSettings { mailbox_commands: 4, ..EngineSettings::default() };
    let world = World::with_settings(settings, Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    for _ in 0..10 {
        let engine = world.engine.clone();
        let waiting = tokio::spawn(async move {
            engine.submit(ENVIRONMENT, lease("mail", Duration::from_secs(20))).await.map(drop)
        });
        while world.view("mail").await.waiting == 0 {
            tokio::task::yield_now().await;
        }
        waiting.abort();
        assert!(waiting.await.is_err());
        while world.view("mail").await.waiting > 0 {
            tokio::task::yield_now().await;
        }
    }
    world.engine.shut_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn going_down_answers_waiting_calls_with_nothing() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    let engine = world.engine.clone();
    let waiting =
        tokio::spawn(async move { engine.submit(ENVIRONMENT, lease("mail", Duration::from_secs(20))).await });
    while world.view("mail").await.waiting == 0 {
        tokio::task::yield_now().await;
    }
    world.engine.shut_down().await;
    let answer = waiting.await.expect("task").expect("answer");
    assert!(matches!(answer.outcome, millpond_core::Outcome::Leased(grants) if grants.is_empty()));
}

/// Whoever brings a command while a turn ends must not be left: a stall here ends by the runner's limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_command_is_forgotten_between_two_turns() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    let callers: Vec<_> = (0..8)
        .map(|_| {
            let engine = world.engine.clone();
            tokio::spawn(async move {
                for turn in 0..5_000 {
                    let command =
                        if turn % 50 == 0 { send("mail", "x") } else { lease("mail", Duration::ZERO) };
                    engine.submit(ENVIRONMENT, command).await.map(drop).expect("answer");
                }
            })
        })
        .collect();
    for caller in callers {
        caller.await.expect("task");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_into_an_answer_stays_in_the_queue_uncounted() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    for _ in 0..5 {
        world.send("mail", &"x".repeat(1_000)).await;
    }
    let mut answer = world.run(lease("mail", Duration::ZERO)).await;
    answer.keep_bytes(2_500);
    answer.receipt.take().expect("grants").delivered();
    assert_eq!(leased(answer).len(), 2);
    let rest = world.lease("mail", 20).await;
    assert_eq!(rest.iter().map(|(grant, _)| grant.delivery_count).collect::<Vec<_>>(), [1, 1, 1]);
    let mut answer = world.run(send("mail", &"x".repeat(5_000))).await;
    answer.keep_bytes(1);
    let mut answer = world.run(lease("mail", Duration::ZERO)).await;
    answer.keep_bytes(1);
    assert_eq!(leased(answer).len(), 1, "one message at least, however large");
}
