//! The deliverer over a real engine, against a target that the test holds: what is pushed, and what each reply does to a message.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{
    CreateQueue, Holder, LeaseMessage, LeaseRef, NewMessage, NewTrigger, PutTriggers, Reading, Require, Send,
    Settle, SettleAction, Settlement, Start, TriggersOf,
};
use millpond_core::id::{LeaseGeneration, MessageId, Sequence, Uid};
use millpond_core::outcome::{QueueView, Why};
use millpond_core::row::{DataKind, MessageContent};
use millpond_core::spec::{QueueSpec, TriggerSpec};
use millpond_core::{Command, Outcome};
use millpond_engine::{Engine, EngineSettings};
use millpond_push::record::{Ended, Statistics};
use millpond_push::{PushSettings, Pusher};
use millpond_test_stores::{TestStore, new_store};
use tokio::sync::{mpsc, oneshot};

use crate::target::{Listener, OK, Received};

const ENVIRONMENT: &str = "orgs/o/projects/p/envs/e";
const FAILED: &str = "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\n\r\noops";

struct World {
    disk: Arc<TestStore>,
    engine: Engine,
    pusher: Pusher,
    target: Target,
}

/// Takes pushes on any number of connections.
struct Target {
    url: String,
    address: String,
    pushes: mpsc::UnboundedReceiver<Pushed>,
    accepting: tokio::task::JoinHandle<()>,
}

/// A push that waits for its reply.
struct Pushed {
    received: Received,
    reply: oneshot::Sender<&'static str>,
}

impl Target {
    async fn bind() -> Self {
        Self::at("127.0.0.1:0").await
    }

    async fn at(address: &str) -> Self {
        let listener = Listener::bind_to(address).await;
        let (url, address) = (listener.url(), listener.address().to_string());
        let (sender, pushes) = mpsc::unbounded_channel();
        let accepting = tokio::spawn(async move {
            loop {
                let mut connection = listener.accept().await;
                let sender = sender.clone();
                tokio::spawn(async move {
                    while let Some(received) = connection.request_if_any().await {
                        let (reply, replied) = oneshot::channel();
                        if sender.send(Pushed { received, reply }).is_err() {
                            return;
                        }
                        let Ok(reply) = connection.or_closed(replied).await else { return };
                        connection.send(reply).await;
                    }
                });
            }
        });
        Self { url, address, pushes, accepting }
    }

    /// From now on nobody listens.
    async fn close(self) -> String {
        self.accepting.abort();
        let _ = self.accepting.await;
        self.address
    }
}

impl Pushed {
    fn reply(self, reply: &'static str) {
        self.reply.send(reply).expect("the caller is still there");
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.received.header(name)
    }

    fn body(&self) -> &str {
        std::str::from_utf8(&self.received.body).expect("text")
    }
}

impl World {
    async fn new() -> Self {
        let disk = Arc::new(new_store());
        let (engine, pusher) = start(&disk);
        engine.create_environment(ENVIRONMENT).await.expect("it can be made");
        Self { disk, engine, pusher, target: Target::bind().await }
    }

    /// As after a crash or a stop: everything that is not stored is gone.
    async fn restart(&mut self) {
        self.pusher.stop(Duration::ZERO).await;
        self.engine.shut_down().await;
        (self.engine, self.pusher) = start(&self.disk);
    }

    async fn ask(&self, command: Command) -> Outcome {
        self.engine.submit(ENVIRONMENT, command).await.expect("the engine answers").outcome
    }

    async fn make(&self, name: &str) {
        let create = CreateQueue {
            name: name.into(),
            start: Start::Earliest,
            spec: QueueSpec::topic(),
            annotations: "{}".into(),
            validate_only: false,
        };
        let made = self.ask(Command::CreateQueue(create)).await;
        assert!(matches!(made, Outcome::Queue(_)), "{made:?}");
    }

    async fn put(&self, deployment: Option<&str>, topic: &str, spec: TriggerSpec) -> Uid {
        let id = deployment.map_or("x".to_owned(), |deployment| format!("{deployment}-1"));
        let trigger = NewTrigger {
            id: id.into(),
            topic: topic.into(),
            group: "g".into(),
            target: self.target.url.as_str().into(),
            spec,
        };
        let deployment = deployment.map(Into::into);
        let put = PutTriggers { deployment, triggers: vec![trigger], validate_only: false };
        match self.ask(Command::PutTriggers(put)).await {
            Outcome::Triggers(views) => views[0].trigger.uid,
            other => panic!("{other:?}"),
        }
    }

    async fn send(&self, queue: &str, data: &str) -> MessageId {
        let content = MessageContent {
            attributes:
                r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","datacontenttype":"text/plain"}"#
                    .into(),
            data_kind: if data.is_empty() { DataKind::None } else { DataKind::Text },
            data: data.as_bytes().into(),
        };
        let message = NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
        let send = Send { queue: queue.into(), messages: vec![message], idempotency: None };
        match self.ask(Command::Send(send)).await {
            Outcome::Sent(sent) => sent.ids[0],
            other => panic!("{other:?}"),
        }
    }

    async fn settle(&self, lease: LeaseRef, action: SettleAction) -> bool {
        let queue = "topics/t/groups/g".into();
        let settlements = vec![Settlement { queue, lease, action, holder: Holder::default() }];
        let settle = Settle { settlements, sends: Vec::new(), require: Require::Fresh };
        match self.ask(Command::Settle(settle)).await {
            Outcome::Settled { stale, .. } => stale.is_empty(),
            other => panic!("{other:?}"),
        }
    }

    /// It is made when something is to be pushed.
    async fn group(&self) -> Option<QueueView> {
        match self.ask(Command::GetQueue { queue: "topics/t/groups/g".into() }).await {
            Outcome::Queue(view) => Some(*view),
            _ => None,
        }
    }

    /// Looks at the group until it is as it should be.
    async fn until(&self, is_so: impl Fn(&QueueView) -> bool) -> QueueView {
        loop {
            if let Some(view) = self.group().await.filter(&is_so) {
                return view;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn statistics(&self, trigger: Uid, is_so: impl Fn(&Statistics) -> bool) -> Statistics {
        loop {
            if let Some(statistics) = self.pusher.statistics(ENVIRONMENT, trigger).filter(&is_so) {
                return statistics;
            }
            tokio::task::yield_now().await;
        }
    }

    async fn pushed(&mut self) -> Pushed {
        self.target.pushes.recv().await.expect("the target listens")
    }
}

fn start(disk: &Arc<TestStore>) -> (Engine, Pusher) {
    let engine = Engine::start(EngineSettings::default(), Arc::clone(disk) as _);
    let pusher = Pusher::start(engine.clone(), PushSettings::default());
    (engine, pusher)
}

fn spec() -> TriggerSpec {
    TriggerSpec { retry_after: Duration::from_secs(1), ..TriggerSpec::default() }
}

/// The lease that an inline push names.
fn lease_of(push: &Pushed) -> LeaseRef {
    let handle = push.header("ce-vqsreceipthandle").expect("it is inline");
    let handle = millpond_api::vercel::handle::ReceiptHandle::parse(handle).expect("a handle");
    LeaseRef {
        delivery: Sequence(handle.delivery),
        message: handle.message_id.parse().expect("an id"),
        generation: LeaseGeneration(handle.generation),
    }
}

#[tokio::test]
async fn a_message_is_pushed_with_its_lease_and_what_the_handler_says_of_it_counts() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    let trigger = world.put(None, "t", spec()).await;
    let sent = world.send("topics/t", "hello").await;
    let push = world.pushed().await;
    assert_eq!(push.body(), "hello");
    for (name, value) in [
        ("ce-type", "com.vercel.queue.v2beta"),
        ("ce-vqsqueuename", "t"),
        ("ce-vqsconsumergroup", "g"),
        ("ce-vqsmessageid", &sent.to_string()),
        ("ce-vqsdeliverycount", "1"),
        ("content-type", "text/plain"),
        ("webhook-id", &sent.to_string()),
    ] {
        assert_eq!(push.header(name), Some(value), "{name}");
    }
    let token = push.header("x-vercel-oidc-token").expect("a token");
    let claims = world.pusher.verify(ENVIRONMENT, token).await.expect("it is good");
    assert_eq!((&*claims.topic, &*claims.group, claims.message), ("t", "g", sent.to_string()));
    assert!(world.settle(lease_of(&push), SettleAction::Ack).await);
    push.reply(OK);
    let seen = world.statistics(trigger, |seen| seen.totals.succeeded == 1).await;
    assert_eq!(seen.last[0].ended, Ended::Succeeded { status: 200 });
    assert_eq!(world.until(|view| view.counters.leased == 0).await.why, Why::Empty);
}

#[tokio::test]
async fn a_reply_of_2xx_is_no_ack_and_another_one_gives_the_message_back() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    let trigger = world.put(None, "t", spec()).await;
    world.send("topics/t", "hello").await;
    let push = world.pushed().await;
    let lease = lease_of(&push);
    push.reply(OK);
    world.statistics(trigger, |seen| seen.totals.succeeded == 1).await;
    // The lease goes on: the handler may have handed the work over.
    assert_eq!(world.until(|_| true).await.counters.leased, 1);
    assert!(world.settle(lease, SettleAction::Nack(Some(Duration::ZERO))).await);
    let push = world.pushed().await;
    assert_eq!(push.header("ce-vqsdeliverycount"), Some("2"));
    push.reply(FAILED);
    let failed = world.statistics(trigger, |seen| seen.totals.failed == 1).await;
    assert_eq!(failed.last[0].ended, Ended::Failed { status: 500, body: "oops".to_owned() });
    assert_eq!(world.pushed().await.header("ce-vqsdeliverycount"), Some("3"), "after the trigger's time");
}

#[tokio::test]
async fn a_message_wanted_again_later_is_not_in_flight_meanwhile() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    world.put(None, "t", TriggerSpec { max_concurrency: Some(1), ..spec() }).await;
    world.send("topics/t", "one").await;
    world.send("topics/t", "two").await;
    let push = world.pushed().await;
    assert_eq!(push.body(), "one");
    assert!(world.settle(lease_of(&push), SettleAction::Extend(Some(Duration::from_secs(900)))).await);
    push.reply(OK);
    assert_eq!(world.pushed().await.body(), "two");
    let view = world.until(|_| true).await;
    assert_eq!((view.counters.leased, view.counters.delayed), (1, 1));
}

#[tokio::test]
async fn what_is_empty_is_announced_and_taken_by_its_id() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    let late = TriggerSpec { retry_after: Duration::from_secs(600), ..spec() };
    world.put(None, "t", TriggerSpec { max_concurrency: Some(1), ..late }).await;
    let sent = world.send("topics/t", "").await;
    let push = world.pushed().await;
    assert_eq!((push.header("ce-vqsreceipthandle"), push.body()), (None, ""));
    let take = || {
        Command::LeaseMessage(LeaseMessage {
            queue: "topics/t/groups/g".into(),
            message: sent,
            visibility_timeout: Some(Duration::from_secs(60)),
            reading: Reading::default(),
        })
    };
    // A grant whose answer is dropped is taken back.
    let answer = world.engine.submit(ENVIRONMENT, take()).await.expect("the engine answers");
    answer.receipt.expect("a grant").delivered();
    let Outcome::Leased(grants) = answer.outcome else { panic!("it is there to be taken") };
    assert_eq!(grants[0].delivery_count, 1);
    assert!(matches!(world.ask(take()).await, Outcome::Rejected(_)), "once");
    push.reply(FAILED);
    world.until(|view| view.counters.delayed == 1).await;
    assert!(!world.settle(grants[0].lease(), SettleAction::Ack).await, "a failed call ends its lease");
}

#[tokio::test]
async fn a_target_that_is_down_has_not_had_the_message_and_gets_it_when_it_is_up() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    let trigger = world.put(None, "t", spec()).await;
    let address = std::mem::replace(&mut world.target, Target::bind().await).close().await;
    world.send("topics/t", "hello").await;
    let down = world.until(|view| matches!(view.why, Why::TargetDown { .. })).await;
    let Why::TargetDown { trouble, .. } = &down.why else { unreachable!() };
    assert!(trouble.error.contains("refused"), "{trouble:?}");
    assert_eq!(world.until(|view| view.counters.ready == 1).await.counters.leased, 0);
    world.target = Target::at(&address).await;
    let push = world.pushed().await;
    assert_eq!(push.header("ce-vqsdeliverycount"), Some("1"), "a try that reached nobody is not counted");
    assert!(world.settle(lease_of(&push), SettleAction::Ack).await);
    push.reply(OK);
    let seen = world.statistics(trigger, |seen| seen.totals.succeeded == 1).await;
    assert!((1..5).contains(&seen.totals.unreachable), "it does not spin: {seen:?}");
    assert_eq!(world.until(|view| view.counters.leased == 0).await.why, Why::Empty);
}

#[tokio::test]
async fn a_handler_that_never_answers_is_hung_up_on_when_its_lease_is_over_and_not_before() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    let trigger = world.put(None, "t", TriggerSpec { lease: Duration::from_secs(1), ..spec() }).await;
    world.send("topics/t", "hello").await;
    let mut push = world.pushed().await;
    let extended_at = world.engine.now();
    assert!(world.settle(lease_of(&push), SettleAction::Extend(Some(Duration::from_secs(2)))).await);
    push.reply.closed().await;
    let seen = world.statistics(trigger, |seen| seen.totals.gave_up == 1).await;
    // On the engine's clock, in which leases are written: it counts in whole milliseconds, a stopwatch doesn't.
    assert!(seen.last[0].at >= extended_at.plus(Duration::from_secs(2)), "{extended_at:?}, {seen:?}");
    assert_eq!(world.pushed().await.header("ce-vqsdeliverycount"), Some("2"));
}

#[tokio::test]
async fn a_trigger_that_is_removed_pushes_nothing_from_then_on() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    world.put(None, "t", spec()).await;
    world.send("topics/t", "hello").await;
    let _under_way = world.pushed().await;
    let removed = world.ask(Command::DeleteTriggers(TriggersOf::Id("x".into()))).await;
    assert!(matches!(removed, Outcome::Triggers(_)), "{removed:?}");
    world.pusher.changed(ENVIRONMENT).await;
    world.send("topics/t", "more").await;
    let view = world.until(|_| true).await;
    assert_eq!((view.counters.ready, view.waiting), (1, 0), "nobody waits for it");
    assert!(matches!(view.why, Why::NoConsumer { .. }), "{:?}", view.why);
}

#[tokio::test]
async fn pushes_go_on_after_a_restart_and_a_topic_made_later_is_pushed_too() {
    let mut world = World::new().await;
    world.put(None, "t*", spec()).await;
    world.restart().await;
    // Opened by itself, because it has a trigger.
    world.engine.nudge();
    world.make("topics/t").await;
    world.send("topics/t", "hello").await;
    let push = world.pushed().await;
    assert_eq!((push.header("ce-vqsqueuename"), push.body()), (Some("t"), "hello"));
}

#[tokio::test]
async fn each_deployment_gets_its_own_messages_and_the_current_one_those_of_none() {
    let mut world = World::new().await;
    for name in ["topics/t", "topics/t/partitions/d", "topics/t/partitions/e"] {
        world.make(name).await;
    }
    world.put(Some("d"), "t", spec()).await;
    let mut of_d = std::mem::replace(&mut world.target, Target::bind().await);
    world.put(Some("e"), "t", spec()).await;
    world.pusher.changed(ENVIRONMENT).await;
    world.send("topics/t", "to the current one").await;
    world.send("topics/t/partitions/d", "to d").await;
    assert_eq!(world.pushed().await.body(), "to the current one");
    assert_eq!(of_d.pushes.recv().await.expect("it listens").body(), "to d");
    // Deployed again, it is the current one.
    std::mem::swap(&mut of_d, &mut world.target);
    world.put(Some("d"), "t", spec()).await;
    world.pusher.changed(ENVIRONMENT).await;
    world.send("topics/t", "to the current one").await;
    world.send("topics/t/partitions/e", "to e").await;
    assert_eq!(world.pushed().await.body(), "to the current one");
    assert_eq!(of_d.pushes.recv().await.expect("it listens").body(), "to e");
}

#[tokio::test]
async fn no_more_are_in_flight_than_the_trigger_allows() {
    let mut world = World::new().await;
    world.make("topics/t").await;
    world.put(None, "t", TriggerSpec { max_concurrency: Some(2), ..spec() }).await;
    for _ in 0..3 {
        world.send("topics/t", "hello").await;
    }
    let (one, _two) = (world.pushed().await, world.pushed().await);
    let view = world.until(|_| true).await;
    assert_eq!((view.counters.leased, view.counters.ready), (2, 1));
    assert!(world.target.pushes.try_recv().is_err(), "a third while two are held");
    assert!(world.settle(lease_of(&one), SettleAction::Ack).await);
    let _three = world.pushed().await;
    one.reply(OK);
}
