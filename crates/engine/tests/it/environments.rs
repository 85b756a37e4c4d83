//! Environments that open and close by themselves.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::Command;
use millpond_core::command::{NewMessage, Send};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_store::MemoryDisk;

use crate::support::{ENVIRONMENT, World};

impl World {
    /// Waits a while for so many environments to be open.
    async fn are_open(&self, environments: u64) -> bool {
        for _ in 0..20_000 {
            if self.engine.stats().environments_open == environments {
                return true;
            }
            self.engine.nudge();
            tokio::task::yield_now().await;
        }
        false
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_environment_is_closed_and_opened_again_when_something_in_it_is_due() {
    let world = World::over(Arc::new(MemoryDisk::new())).await;
    world.create("mail", QueueSpec::default()).await;
    let content =
        MessageContent { attributes: "{}".into(), data_kind: DataKind::None, data: Vec::new().into() };
    let delay = Some(Duration::from_secs(3_600));
    let message = NewMessage { content: Arc::new(content), delay, priority: 0, time_to_live: None };
    world.run(Command::Send(Send { queue: "mail".into(), messages: vec![message], idempotency: None })).await;
    // A sweep that was still owed when the minute was over is work, and another minute begins.
    let mut minutes = 0;
    while !world.are_open(0).await {
        assert!(minutes < 30, "it is never idle");
        minutes += 1;
        world.pass(Duration::from_secs(61));
    }
    world.pass(Duration::from_secs(3_600));
    assert!(world.are_open(1).await, "what is due does not open it");
    // It is open before the page with what is due has been read.
    while world.view("mail").await.counters.ready != 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn environments_know_nothing_of_each_other() {
    let world = World::over(Arc::new(MemoryDisk::new())).await;
    let other = "orgs/o/projects/p/envs/other";
    assert_eq!(world.engine.create_environment(other).await, Ok(true));
    assert_eq!(world.engine.create_environment(other).await, Ok(false));
    world.create("mail", QueueSpec::default()).await;
    let look = || Command::GetQueue { queue: "mail".into() };
    let there = world.engine.submit(ENVIRONMENT, look()).await.expect("answer");
    assert!(matches!(there.outcome, millpond_core::Outcome::Queue(_)));
    let not_there = world.engine.submit(other, look()).await.expect("answer");
    assert!(matches!(not_there.outcome, millpond_core::Outcome::Rejected(_)));
}
