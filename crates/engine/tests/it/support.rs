//! An engine on a clock that the test moves.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use millpond_core::command::{
    CreateQueue, Lease, LeaseRef, NewMessage, Require, Send, Settle, SettleAction, Settlement, WaiterId,
};
use millpond_core::outcome::{Grant, QueueView};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::QueueSpec;
use millpond_core::{Command, Outcome};
use millpond_engine::clock::{Clock, Reading};
use millpond_engine::{Answer, Engine, EngineSettings};
use millpond_store::StoreFactory;

pub(crate) const ENVIRONMENT: &str = "orgs/o/projects/p/envs/e";

/// Milliseconds since it was made; both clocks show the same.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn read(&self) -> Reading {
        let millis = self.0.load(Ordering::SeqCst);
        Reading { monotonic: Duration::from_millis(millis as u64), wall_millis: 1_700_000_000_000 + millis }
    }
}

pub(crate) struct World {
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    pub(crate) async fn over(factory: Arc<dyn StoreFactory>) -> Self {
        Self::with_settings(EngineSettings::default(), factory).await
    }

    pub(crate) async fn with_settings(settings: EngineSettings, factory: Arc<dyn StoreFactory>) -> Self {
        Self::begin(settings, Arc::default(), factory).await
    }

    /// On a clock that goes on.
    pub(crate) async fn on(clock: Arc<ManualClock>, factory: Arc<dyn StoreFactory>) -> Self {
        Self::begin(EngineSettings::default(), clock, factory).await
    }

    async fn begin(
        settings: EngineSettings,
        clock: Arc<ManualClock>,
        factory: Arc<dyn StoreFactory>,
    ) -> Self {
        let engine = Engine::start_with_clock(settings, factory, clock.clone());
        engine.create_environment(ENVIRONMENT).await.expect("environment");
        Self { engine, clock }
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.clock.0.fetch_add(time.as_millis() as i64, Ordering::SeqCst);
        self.engine.nudge();
    }

    pub(crate) async fn run(&self, command: Command) -> Answer {
        self.engine.submit(ENVIRONMENT, command).await.expect("answer")
    }

    pub(crate) async fn create(&self, name: &str, spec: QueueSpec) {
        let create = CreateQueue {
            name: name.into(),
            start: Default::default(),
            spec,
            annotations: "{}".into(),
            validate_only: false,
        };
        let answer = self.run(Command::CreateQueue(create)).await;
        assert!(matches!(answer.outcome, Outcome::Queue(_)), "{answer:?}");
    }

    pub(crate) async fn send(&self, queue: &str, data: &str) {
        let answer = self.run(send(queue, data)).await;
        assert!(matches!(answer.outcome, Outcome::Sent(_)), "{answer:?}");
    }

    pub(crate) async fn view(&self, queue: &str) -> QueueView {
        match self.run(Command::GetQueue { queue: queue.into() }).await.outcome {
            Outcome::Queue(view) => *view,
            other => panic!("{other:?}"),
        }
    }

    /// Leases and takes the answer for delivered.
    pub(crate) async fn lease(&self, queue: &str, wait: u64) -> Vec<(Grant, String)> {
        let mut answer = self.run(lease(queue, Duration::from_secs(wait))).await;
        if let Some(receipt) = answer.receipt.take() {
            receipt.delivered();
        }
        leased(answer)
    }

    pub(crate) async fn ack(&self, queue: &str, lease: LeaseRef) -> bool {
        let settlement =
            Settlement { queue: queue.into(), lease, action: SettleAction::Ack, holder: Default::default() };
        let settle = Settle { settlements: vec![settlement], sends: Vec::new(), require: Require::Fresh };
        match self.run(Command::Settle(settle)).await.outcome {
            Outcome::Settled { stale, .. } => stale.is_empty(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn leased(answer: Answer) -> Vec<(Grant, String)> {
    let Outcome::Leased(grants) = answer.outcome else { panic!("{:?}", answer.outcome) };
    assert_eq!(grants.len(), answer.contents.len());
    let text = |content: &MessageContent| String::from_utf8(content.data.held().to_vec()).expect("text");
    grants.into_iter().zip(answer.contents.iter().map(|content| text(content))).collect()
}

pub(crate) fn send(queue: &str, data: &str) -> Command {
    let content =
        MessageContent { attributes: "{}".into(), data_kind: DataKind::Text, data: data.as_bytes().into() };
    let message = NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
    Command::Send(Send { queue: queue.into(), messages: vec![message], idempotency: None })
}

pub(crate) fn lease(queue: &str, wait: Duration) -> Command {
    Command::Lease(Lease {
        queue: queue.into(),
        max_messages: 10,
        min_messages: 1,
        visibility_timeout: None,
        wait,
        max_wait: None,
        waiter: WaiterId(0),
        reading: Default::default(),
    })
}
