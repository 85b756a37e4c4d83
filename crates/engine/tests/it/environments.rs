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
    async fn until_open(&self, environments: u64) {
        while self.engine.stats().environments_open != environments {
            self.engine.nudge();
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_environment_is_closed_and_opened_again_when_something_in_it_is_due() {
    let world = World::over(Arc::new(MemoryDisk::new())).await;
    world.create("mail", QueueSpec::default()).await;
    let content = MessageContent { attributes: "{}".into(), data_kind: DataKind::None, data: Box::default() };
    let delay = Some(Duration::from_secs(3_600));
    let message = NewMessage { content: Arc::new(content), delay, priority: 0, time_to_live: None };
    world.run(Command::Send(Send { queue: "mail".into(), messages: vec![message], idempotency: None })).await;
    world.pass(Duration::from_secs(61));
    world.until_open(0).await;
    world.pass(Duration::from_secs(3_600));
    world.until_open(1).await;
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
