//! Messages through an engine, across its end and beginning.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::outcome::Why;
use millpond_core::spec::QueueSpec;
use millpond_engine::EngineError;
use millpond_test_stores::new_store;

use crate::support::{ENVIRONMENT, World, lease, leased, send};

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_sent_leased_and_acked() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    world.send("mail", "hello").await;
    let taken = world.lease("mail", 0).await;
    assert_eq!(taken.len(), 1);
    assert_eq!(taken[0].1, "hello");
    assert!(world.ack("mail", taken[0].0.lease()).await);
    assert_eq!(world.view("mail").await.why, Why::Empty);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_lives_on_across_a_restart_and_its_contents_are_read_back() {
    let disk = Arc::new(new_store());
    let world = World::over(disk.clone()).await;
    world.create("mail", QueueSpec::default()).await;
    world.send("mail", "one").await;
    world.send("mail", "two").await;
    let taken = world.lease("mail", 0).await;
    world.engine.shut_down().await;
    assert_eq!(
        world.engine.submit(ENVIRONMENT, send("mail", "late")).await.err(),
        Some(EngineError::ShuttingDown)
    );

    let world = World::over(disk).await;
    assert_eq!(world.view("mail").await.counters.leased, 2);
    assert!(world.lease("mail", 0).await.is_empty());
    assert!(world.ack("mail", taken[0].0.lease()).await);
    world.pass(Duration::from_secs(31));
    let again = world.lease("mail", 0).await;
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].1, "two");
    assert!(again[0].0.generation > taken[1].0.generation);
    assert!(!world.ack("mail", taken[1].0.lease()).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_environment_is_refused() {
    let world = World::over(Arc::new(new_store())).await;
    let refused = world.engine.submit("orgs/o/projects/p/envs/none", send("mail", "x")).await;
    assert_eq!(refused.err(), Some(EngineError::EnvironmentNotFound("orgs/o/projects/p/envs/none".into())));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_matures_wakes_a_waiting_call() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec { delay: Duration::from_secs(5), ..QueueSpec::default() }).await;
    world.send("mail", "later").await;
    let waiting = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.submit(ENVIRONMENT, lease("mail", Duration::from_secs(20))).await }
    });
    while world.view("mail").await.waiting == 0 {
        tokio::task::yield_now().await;
    }
    world.pass(Duration::from_secs(5));
    let taken = leased(waiting.await.expect("task").expect("answer"));
    assert_eq!(taken[0].1, "later");
}
