//! Environments that open and close by themselves.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_core::Command;
use millpond_core::command::{NewMessage, Send};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_engine::{EngineSettings, SurveyPage};
use millpond_test_stores::new_store;

use crate::support::{ENVIRONMENT, World};

/// Enough for threads that have nothing else to do.
const A_MOMENT: Duration = Duration::from_millis(200);
/// Enough for a machine that is busy.
const SOON: Duration = Duration::from_secs(30);

impl World {
    /// Waits for so many environments to be open, at most so long.
    async fn are_open(&self, environments: u64, most: Duration) -> bool {
        let begun = Instant::now();
        while self.engine.stats().environments_open != environments {
            if begun.elapsed() > most {
                return false;
            }
            self.engine.nudge();
            tokio::task::yield_now().await;
        }
        true
    }

    /// Lets the environment become idle and be closed.
    async fn close(&self) {
        // A sweep that was still owed when the minute was over is work, and another minute begins.
        let mut minutes = 0;
        while !self.are_open(0, A_MOMENT).await {
            assert!(minutes < 30, "it is never idle");
            minutes += 1;
            self.pass(Duration::from_secs(61));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_environment_is_closed_and_opened_again_when_something_in_it_is_due() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    let content =
        MessageContent { attributes: "{}".into(), data_kind: DataKind::None, data: Vec::new().into() };
    let delay = Some(Duration::from_secs(3_600));
    let message = NewMessage { content: Arc::new(content), delay, priority: 0, time_to_live: None };
    world.run(Command::Send(Send { queue: "mail".into(), messages: vec![message], idempotency: None })).await;
    world.close().await;
    world.pass(Duration::from_secs(3_600));
    assert!(world.are_open(1, SOON).await, "what is due does not open it");
    // It is open before the page with what is due has been read.
    while world.view("mail").await.counters.ready != 1 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn environments_know_nothing_of_each_other() {
    let world = World::over(Arc::new(new_store())).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn queues_are_looked_at_page_by_page_in_the_order_of_their_names() {
    let world = World::over(Arc::new(new_store())).await;
    for name in ["c", "a", "d", "b"] {
        world.create(name, QueueSpec::default()).await;
    }
    world.send("b", "hello").await;
    let look = async |after: Option<&str>, most| {
        let page = SurveyPage { after: after.map(Into::into), most, read_heads: true };
        let survey = world.engine.survey(ENVIRONMENT, page).await.expect("it is open");
        survey.queues.iter().map(|queue| (queue.name.to_string(), queue.counters.ready)).collect::<Vec<_>>()
    };
    let named = |name: &str, ready| (name.to_owned(), ready);
    assert_eq!(look(None, 2).await, [named("a", 0), named("b", 1)]);
    assert_eq!(look(Some("b"), 2).await, [named("c", 0), named("d", 0)]);
    assert_eq!(look(Some("bb"), 1).await, [named("c", 0)]);
    assert_eq!(look(Some("d"), 2).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_look_opens_nothing_and_closed_environments_are_remembered_while_there_is_room() {
    for (queues, remembered) in [(&["a", "b"][..], true), (&["a", "b", "c"], false)] {
        let settings = EngineSettings { closed_entries: 3, ..EngineSettings::default() };
        let world = World::with_settings(settings, Arc::new(new_store())).await;
        for name in queues {
            world.create(name, QueueSpec::default()).await;
        }
        world.send("a", "hello").await;
        assert_eq!(world.engine.closed_survey(ENVIRONMENT), None, "it is open");
        world.close().await;
        let page = SurveyPage { after: None, most: 10, read_heads: true };
        assert_eq!(world.engine.survey(ENVIRONMENT, page).await, None);
        assert_eq!(world.engine.stats().environments_open, 0);
        let known = world.engine.closed_survey(ENVIRONMENT);
        assert_eq!(known.is_some(), remembered);
        assert_eq!(world.engine.environments_remembered().len(), usize::from(remembered));
        if let Some(known) = known {
            assert_eq!((known.len(), known[0].counters.ready), (2, 1));
        }
        world.view("a").await;
        assert_eq!(world.engine.closed_survey(ENVIRONMENT), None, "it is open again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn watching_does_not_keep_an_environment_open() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    let mut looks = 0;
    while !world.are_open(0, A_MOMENT).await {
        assert!(looks < 120, "it is never idle");
        looks += 1;
        world.pass(Duration::from_secs(15));
        let page = SurveyPage { after: None, most: 10, read_heads: true };
        world.engine.survey(ENVIRONMENT, page).await;
    }
}
