//! Leases what one trigger pushes of one topic, as fast as its target and the room for pushes under way allow.

use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::{CreateQueue, Lease, Start, WaiterId};
use millpond_core::limits::WAIT_MAX;
use millpond_core::outcome::Rejection;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
use millpond_engine::{Answer, EngineError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::circuit::Admission;
use crate::delivery::{self, Delivery};
use crate::feed::Feed;
use crate::patience::Patience;
use crate::pusher::Shared;

/// Most messages of one lease call.
const MESSAGES_PER_LEASE: usize = 32;

/// Room for one push under way.
pub(crate) struct Room {
    _of_all: OwnedSemaphorePermit,
    _of_trigger: OwnedSemaphorePermit,
}

/// Until the trigger is stopped, or the topic is gone.
pub(crate) async fn run(shared: Arc<Shared>, feed: Arc<Feed>, topic: Box<str>) {
    let group: Box<str> = format!("topics/{topic}/groups/{}", feed.trigger().group).into();
    sleep_until(&shared, feed.trigger().starts_at()).await;
    let mut patience = Patience::default();
    loop {
        let most = wait_for_turn(&shared, &feed).await;
        let answer = shared.engine.submit(feed.environment.name(), lease(&feed, &group, most)).await;
        match answer {
            Ok(answer) => match &answer.outcome {
                Outcome::Rejected(Rejection::QueueNotFound { name }) if *name == group => {
                    if !make_group(&shared, &feed, &group).await {
                        return;
                    }
                }
                // The topic is gone: if it is made again, another begins.
                Outcome::Rejected(Rejection::QueueNotFound { .. }) => return,
                Outcome::Rejected(rejection) => {
                    tracing::warn!(%group, ?rejection, "nothing can be leased for a trigger");
                    patience.wait().await;
                }
                _ => {
                    patience = Patience::default();
                    hand_on(&shared, &feed, &topic, answer);
                }
            },
            Err(EngineError::ShuttingDown | EngineError::EnvironmentNotFound(_)) => return,
            Err(error) => {
                tracing::debug!(%group, %error, "nothing leased for a trigger, tried again");
                patience.wait().await;
            }
        }
    }
}

fn lease(feed: &Feed, group: &str, most: usize) -> Command {
    Command::Lease(Lease {
        queue: group.into(),
        max_messages: u32::try_from(most).unwrap_or(1),
        min_messages: 1,
        visibility_timeout: Some(feed.trigger().spec.lease),
        wait: WAIT_MAX,
        max_wait: None,
        waiter: WaiterId(0),
        reading: feed.reading(),
    })
}

/// `false`: there cannot be one, because the topic is gone.
async fn make_group(shared: &Shared, feed: &Feed, group: &str) -> bool {
    let create = Command::CreateQueue(CreateQueue {
        name: group.into(),
        start: Start::Earliest,
        spec: QueueSpec::topic(),
        annotations: "{}".into(),
        validate_only: false,
    });
    match shared.insist(feed.environment.name(), create).await {
        None | Some(Outcome::Rejected(Rejection::QueueNotFound { .. })) => false,
        Some(Outcome::Rejected(Rejection::QueueLimit { limit, .. })) => {
            tracing::warn!(group, limit, "there are too many groups: a trigger cannot push");
            Patience::long().wait().await;
            true
        }
        Some(_) => true,
    }
}

/// Waits until the target may be tried and there is room; answers for how many messages.
async fn wait_for_turn(shared: &Shared, feed: &Feed) -> usize {
    loop {
        let turned = feed.standing.turned.notified();
        let admission = feed.standing.circuit().admit(shared.engine.now());
        let most = match admission {
            Admission::Open => MESSAGES_PER_LEASE,
            Admission::Probe => 1,
            Admission::Wait(until) => {
                tokio::select! {
                    () = sleep_until(shared, until) => {}
                    () = turned => {}
                }
                continue;
            }
        };
        // Nobody holds room while it waits for a message: somebody else may have one.
        for calls in [&feed.standing.calls, &shared.calls] {
            drop(calls.acquire().await);
        }
        let free = feed.standing.calls.available_permits().min(shared.calls.available_permits());
        if free > 0 {
            return most.min(free);
        }
    }
}

/// Begins a push of each message for which there is room; the others go back.
fn hand_on(shared: &Arc<Shared>, feed: &Arc<Feed>, topic: &str, mut answer: Answer) {
    let Outcome::Leased(grants) = &answer.outcome else { return };
    if grants.is_empty() {
        return;
    }
    let now = shared.engine.now();
    let admission = feed.standing.circuit().admit(now);
    let most = match admission {
        Admission::Open => grants.len(),
        Admission::Probe => usize::from(feed.standing.circuit().begin_probe(now)),
        Admission::Wait(_) => 0,
    };
    let rooms: Vec<Room> = (0..most).map_while(|_| take_room(shared, feed)).collect();
    answer.keep(rooms.len());
    let Answer { outcome: Outcome::Leased(grants), contents, receipt: Some(mut receipt), .. } = answer else {
        return;
    };
    for ((grant, content), room) in grants.into_iter().zip(contents).zip(rooms) {
        let receipt = receipt.split(&grant.lease());
        let delivery = Delivery {
            shared: Arc::clone(shared),
            feed: Arc::clone(feed),
            topic: topic.into(),
            grant,
            content,
        };
        tokio::spawn(delivery::run(delivery, receipt, room));
    }
}

fn take_room(shared: &Shared, feed: &Feed) -> Option<Room> {
    let take = |calls: &Arc<Semaphore>| Arc::clone(calls).try_acquire_owned().ok();
    Some(Room { _of_trigger: take(&feed.standing.calls)?, _of_all: take(&shared.calls)? })
}

/// Until the engine's clock shows a time.
pub(crate) async fn sleep_until(shared: &Shared, until: Timestamp) {
    /// The longest that is slept at once, should the clock be set.
    const AT_ONCE: Duration = Duration::from_secs(60);
    loop {
        let left = until.since(shared.engine.now());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left.min(AT_ONCE)).await;
    }
}
