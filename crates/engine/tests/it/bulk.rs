//! Looking at messages, and bringing any number of dead letters back.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_core::command::{
    Browse, DeleteQueue, Idempotency, Lease, NewMessage, Require, Send, Settle, SettleAction, Settlement,
    WaiterId,
};
use millpond_core::id::MessageId;
use millpond_core::outcome::Tally;
use millpond_core::row::{DataKind, DeliveryState, MessageContent};
use millpond_core::spec::{AtLimit, AttemptLimit, Counted, Gone, QueueSpec};
use millpond_core::{Command, Outcome, Rejection};
use millpond_engine::{BulkDone, BulkStep, BulkWalk, EngineSettings, Which};
use millpond_test_stores::new_store;

use crate::failures;
use crate::support::{ENVIRONMENT, World};

const ALL: Which = Which::Died { from: None, until: None };

/// Out of attempts after one delivery.
fn mortal(at_limit: AtLimit) -> QueueSpec {
    let attempt_limit = Some(AttemptLimit { max: 1, counts: Counted::Deliveries });
    QueueSpec { at_limit, attempt_limit, ..QueueSpec::default() }
}

impl World {
    /// Sends so many messages and lets them die.
    async fn bury(&self, queue: &str, count: usize) -> Vec<MessageId> {
        let mut ids = Vec::new();
        for first in (0..count).step_by(100) {
            let content = MessageContent {
                attributes: "{}".into(),
                data_kind: DataKind::Text,
                data: b"x".as_slice().into(),
            };
            let message =
                NewMessage { content: Arc::new(content), delay: None, priority: 0, time_to_live: None };
            let messages = vec![message; (count - first).min(100)];
            let send = Send { queue: queue.into(), messages, idempotency: None };
            let Outcome::Sent(sent) = self.run(Command::Send(send)).await.outcome else { panic!("not sent") };
            ids.extend(sent.ids);
            self.kill(queue).await;
        }
        ids
    }

    /// Lets what is ready, up to a hundred, die.
    async fn kill(&self, queue: &str) {
        self.nack(queue, None).await;
    }

    /// Gives back what is ready, up to a hundred.
    async fn nack(&self, queue: &str, delay: Option<Duration>) {
        let mut answer = self
            .run(Command::Lease(Lease {
                queue: queue.into(),
                max_messages: 100,
                min_messages: 1,
                visibility_timeout: None,
                max_wait: None,
                wait: Duration::ZERO,
                waiter: WaiterId(0),
                reading: Default::default(),
            }))
            .await;
        answer.receipt.take().expect("grants").delivered();
        let Outcome::Leased(grants) = answer.outcome else { panic!("not leased") };
        let nack = |lease| Settlement {
            queue: queue.into(),
            lease,
            action: SettleAction::Nack(delay),
            holder: Default::default(),
        };
        let settle = Settle {
            settlements: grants.iter().map(|grant| nack(grant.lease())).collect(),
            sends: Vec::new(),
            require: Require::All,
        };
        assert!(matches!(self.run(Command::Settle(settle)).await.outcome, Outcome::Settled { .. }));
    }

    async fn delete(&self, queue: &str) {
        let delete = DeleteQueue {
            name: queue.into(),
            etag: None,
            allow_missing: false,
            force: true,
            validate_only: false,
        };
        let outcome = self.run(Command::DeleteQueue(delete)).await.outcome;
        assert!(matches!(outcome, Outcome::QueueDeleted(_)), "{outcome:?}");
    }

    /// The steps of a walk, and what it did.
    async fn walk(&self, mut walk: BulkWalk) -> (Vec<Command>, Result<BulkDone, Rejection>) {
        let mut steps = Vec::new();
        let mut step = walk.begin();
        loop {
            match step {
                BulkStep::Submit(command) => {
                    steps.push(command.clone());
                    step = walk.go_on(self.run(command).await.outcome);
                }
                BulkStep::Done(done) => return (steps, done),
            }
        }
    }

    async fn counts(&self, queue: &str) -> (u64, u64) {
        let counters = self.view(queue).await.counters;
        (counters.ready, counters.dead)
    }
}

/// A look at dead letters.
fn is_of_dead(step: &Command) -> bool {
    matches!(step, Command::Browse(browse) if browse.state == DeliveryState::Dead)
}

fn tally(done: u64, skipped: u64) -> BulkDone {
    BulkDone { tally: Tally { done, skipped }, repeated: false }
}

fn look(queue: &str, limit: usize) -> Browse {
    Browse {
        queue: queue.into(),
        state: DeliveryState::Ready,
        after: None,
        from: None,
        until: None,
        limit,
        contents: true,
        waiter: WaiterId(0),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_brings_back_all_that_is_dead_page_by_page() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    world.bury("jobs", 2_500).await;
    assert_eq!(world.counts("jobs").await, (0, 2_500));
    let done = world.engine.replay(ENVIRONMENT, "jobs", ALL, None).await.expect("answer");
    assert_eq!(done, Ok(tally(2_500, 0)));
    assert_eq!(world.counts("jobs").await, (2_500, 0));
    let done = world.engine.replay(ENVIRONMENT, "jobs", ALL, None).await.expect("answer");
    assert_eq!(done, Ok(BulkDone::default()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_given_messages_counts_those_that_are_not_dead() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    let ids = world.bury("jobs", 3).await;
    let some = Which::Messages(ids[..2].to_vec());
    let done = world.engine.replay(ENVIRONMENT, "jobs", some, None).await.expect("answer");
    assert_eq!(done, Ok(tally(2, 0)));
    let done = world.engine.replay(ENVIRONMENT, "jobs", Which::Messages(ids), None).await.expect("answer");
    assert_eq!(done, Ok(tally(1, 2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_of_a_range_brings_back_what_died_in_it() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    world.bury("jobs", 1).await;
    world.pass(Duration::from_secs(10));
    let second = world.bury("jobs", 1).await;
    world.pass(Duration::from_secs(10));
    world.bury("jobs", 1).await;
    let at = second[0].sent_at;
    let range = Which::Died { from: Some(at), until: Some(at.plus(Duration::from_secs(10))) };
    let done = world.engine.replay(ENVIRONMENT, "jobs", range, None).await.expect("answer");
    assert_eq!(done, Ok(tally(1, 0)));
    assert_eq!(world.counts("jobs").await, (1, 2));
    let empty = Which::Died { from: Some(at), until: Some(at) };
    let refused = world.engine.replay(ENVIRONMENT, "jobs", empty, None).await.expect("answer");
    assert!(matches!(refused, Err(Rejection::OutOfRange { field: "start_time", .. })), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_done_at_all_is_refused_also_where_nothing_is_dead() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("graves", QueueSpec::default()).await;
    world.create("jobs", mortal(AtLimit::MoveTo { queue: "graves".into(), otherwise: Gone::Drop })).await;
    let refused = world.engine.replay(ENVIRONMENT, "jobs", ALL, None).await.expect("answer");
    assert!(matches!(refused, Err(Rejection::DeadLettersElsewhere { .. })), "{refused:?}");
    let refused =
        world.engine.redrive(ENVIRONMENT, "graves", Some("missing"), ALL, None).await.expect("answer");
    assert_eq!(refused, Err(Rejection::QueueNotFound { name: "missing".into() }));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_sends_home_what_came_as_a_dead_letter_and_leaves_the_rest() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("graves", mortal(AtLimit::DeadLetterSet)).await;
    world.create("jobs", mortal(AtLimit::MoveTo { queue: "graves".into(), otherwise: Gone::Drop })).await;
    // Five die in the queue to which they are sent, and so come from nowhere.
    world.bury("graves", 5).await;
    world.bury("jobs", 1_200).await;
    world.send("graves", "no dead letter").await;
    let done = world.engine.redrive(ENVIRONMENT, "graves", None, ALL, None).await.expect("answer");
    assert_eq!(done, Ok(tally(1_200, 5)));
    assert_eq!(world.counts("jobs").await, (1_200, 0));
    assert_eq!(world.counts("graves").await, (1, 5));
    let done = world.engine.redrive(ENVIRONMENT, "graves", Some("jobs"), ALL, None).await.expect("answer");
    assert_eq!(done, Ok(tally(5, 0)));
    assert_eq!(world.counts("jobs").await, (1_205, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redrive_without_a_destination_does_not_touch_what_died_where_it_is() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("graves", mortal(AtLimit::DeadLetterSet)).await;
    let ids = world.bury("graves", 3).await;
    world.pass(Duration::from_secs(10));
    world.bury("graves", 1).await;
    let walk = |which| BulkWalk::redrive("graves", None, which);
    // All are counted by the queue itself, some of a range by a look.
    let (steps, done) = world.walk(walk(ALL)).await;
    assert!(steps.iter().all(|step| !is_of_dead(step)), "{steps:?}");
    assert_eq!(done, Ok(tally(0, 4)));
    let until = Some(ids[0].sent_at.plus(Duration::from_secs(5)));
    let (steps, done) = world.walk(walk(Which::Died { from: None, until })).await;
    assert_eq!(steps.iter().filter(|step| is_of_dead(step)).count(), 1, "{steps:?}");
    let names_some =
        |step: &Command| matches!(step, Command::MoveMessages(moves) if !moves.messages.is_empty());
    assert!(!steps.iter().any(names_some), "{steps:?}");
    assert_eq!(done, Ok(tally(0, 3)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_skipped_and_met_again_counts_once() {
    for home_again in [false, true] {
        let world = World::over(Arc::new(new_store())).await;
        let jobs = mortal(AtLimit::MoveTo { queue: "graves".into(), otherwise: Gone::Drop });
        world.create("graves", QueueSpec::default()).await;
        world.create("jobs", jobs.clone()).await;
        world.bury("jobs", 1).await;
        world.nack("graves", Some(Duration::from_secs(10))).await;
        world.delete("jobs").await;
        // Done once, it is counted in the answer that is remembered, too.
        let key = Idempotency { key: "once".into(), digest: 1 };
        let mut walk = BulkWalk::redrive("graves", None, ALL).once(Some(key.clone()));
        let mut step = walk.begin();
        let mut skips = 0;
        let done = loop {
            let BulkStep::Submit(command) = step else { break step };
            let outcome = world.run(command).await.outcome;
            if let Outcome::Moved { skipped, .. } = &outcome
                && !skipped.is_empty()
            {
                skips += skipped.len();
                world.pass(Duration::from_secs(20));
                if home_again && skips == 1 {
                    world.create("jobs", jobs.clone()).await;
                }
            }
            step = walk.go_on(outcome);
        };
        let expected = if home_again { tally(1, 0) } else { tally(0, 1) };
        assert_eq!((skips, done), (2 - usize::from(home_again), BulkStep::Done(Ok(expected))));
        let again = world.engine.redrive(ENVIRONMENT, "graves", None, ALL, Some(key)).await.expect("answer");
        assert_eq!(again, Ok(BulkDone { repeated: true, ..expected }));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_dies_after_a_replay_began_stays_dead() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    world.bury("jobs", 1_100).await;
    let mut walk = BulkWalk::replay("jobs", ALL);
    let mut step = walk.begin();
    let mut pages = 0;
    let done = loop {
        match step {
            BulkStep::Submit(command) => {
                let answer = world.run(command).await;
                pages += u32::from(matches!(answer.outcome, Outcome::Browsed(_)));
                if pages == 1 && matches!(answer.outcome, Outcome::Revived { .. }) {
                    world.pass(Duration::from_millis(1));
                    world.kill("jobs").await;
                }
                step = walk.go_on(answer.outcome);
            }
            BulkStep::Done(done) => break done,
        }
    };
    assert_eq!(pages, 2);
    assert_eq!(done, Ok(tally(1_100, 0)));
    assert_eq!(world.counts("jobs").await, (1_000, 100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_whose_caller_leaves_stops_after_the_page_under_way() {
    let (world, faults) = failures::world().await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    world.bury("jobs", 2_500).await;
    let held = faults.gate.lock().await;
    let before = faults.begun.load(Ordering::SeqCst);
    let replay = tokio::spawn({
        let engine = world.engine.clone();
        async move { engine.replay(ENVIRONMENT, "jobs", ALL, None).await.map(drop) }
    });
    while faults.begun.load(Ordering::SeqCst) == before {
        tokio::task::yield_now().await;
    }
    replay.abort();
    assert!(replay.await.is_err(), "its first page cannot have been answered");
    drop(held);
    assert_eq!(world.counts("jobs").await, (1_000, 1_500));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replay_under_a_key_is_done_once_and_answered_alike() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("jobs", mortal(AtLimit::DeadLetterSet)).await;
    world.bury("jobs", 1_100).await;
    let key = |digest| Some(Idempotency { key: "again".into(), digest });
    let done = world.engine.replay(ENVIRONMENT, "jobs", ALL, key(1)).await.expect("answer");
    assert_eq!(done, Ok(tally(1_100, 0)));
    world.bury("jobs", 100).await;
    let done = world.engine.replay(ENVIRONMENT, "jobs", ALL, key(1)).await.expect("answer");
    assert_eq!(done, Ok(BulkDone { repeated: true, ..tally(1_100, 0) }));
    let refused = world.engine.replay(ENVIRONMENT, "jobs", ALL, key(2)).await.expect("answer");
    assert_eq!(refused, Err(Rejection::IdempotencyKeyReused { key: "again".into() }));
    // Also where there was nothing to do.
    let nothing = Some(Idempotency { key: "nothing".into(), digest: 1 });
    world.create("graves", mortal(AtLimit::DeadLetterSet)).await;
    let redrive = || world.engine.redrive(ENVIRONMENT, "graves", None, ALL, nothing.clone());
    assert_eq!(redrive().await.expect("answer"), Ok(tally(0, 0)));
    assert_eq!(redrive().await.expect("answer"), Ok(BulkDone { repeated: true, ..tally(0, 0) }));
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_looked_at_with_their_contents_and_without_a_trace() {
    let world = World::over(Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    for data in ["one", "two", "three"] {
        world.send("mail", data).await;
    }
    let answer = world.run(Command::Browse(look("mail", 10))).await;
    assert!(answer.receipt.is_none());
    let data: Vec<_> = answer.contents.iter().map(|content| content.data.held()).collect();
    assert_eq!(data, [b"one".as_slice(), b"two", b"three"]);
    let taken = world.lease("mail", 0).await;
    assert!(taken.iter().all(|(grant, _)| grant.delivery_count == 1), "{taken:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_into_a_page_comes_with_the_next() {
    let mut settings = EngineSettings::default();
    settings.environment.core.browse_bytes = 2_500;
    let world = World::with_settings(settings, Arc::new(new_store())).await;
    world.create("mail", QueueSpec::default()).await;
    for _ in 0..5 {
        world.send("mail", &"x".repeat(1_000)).await;
    }
    let (mut after, mut pages) = (None, Vec::new());
    loop {
        let answer = world.run(Command::Browse(Browse { after, ..look("mail", 10) })).await;
        let Outcome::Browsed(page) = &answer.outcome else { panic!("{:?}", answer.outcome) };
        assert_eq!(page.deliveries.len(), answer.contents.len());
        pages.push(answer.contents.len());
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    assert_eq!(pages, [2, 2, 1]);
}
