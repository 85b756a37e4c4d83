//! One push: the call, and what its reply means for the lease.
//!
//! A reply of 2xx is no ack: the handler has made its own calls by then. Anything else gives the lease back, if it is held still. A
//! target that was not reached has not had the message.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millpond_core::command::{Holder, Require, Settle, SettleAction, Settlement, Trouble};
use millpond_core::limits::TRIGGER_WAIT_MAX;
use millpond_core::outcome::Grant;
use millpond_core::row::MessageContent;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
use millpond_engine::Receipt;
use tokio::sync::oneshot;

use crate::call::{CallError, CallRequest, Reply};
use crate::feed::Feed;
use crate::form::{Form, Mode, Push};
use crate::lane::{Room, sleep_until};
use crate::pusher::Shared;
use crate::record::{Ended, Record};
use crate::signature::sign;
use crate::target::Target;
use crate::token::{PushNames, mint};

pub(crate) struct Delivery {
    pub(crate) shared: Arc<Shared>,
    pub(crate) feed: Arc<Feed>,
    pub(crate) topic: Box<str>,
    pub(crate) grant: Grant,
    pub(crate) content: Arc<MessageContent>,
}

/// A target that wants to be left alone for less is: nobody is called in a loop.
const RETRY_AFTER_LEAST: Duration = Duration::from_secs(1);
/// So often it is looked whether what a call is about is there at all.
const LOOK_AT_LEAST: Duration = Duration::from_secs(30);
/// Between two looks at where the end of a lease is by now, at least.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// `receipt`: dropped before the call begins, it takes the grant back. `_room` is given back when the call is over.
pub(crate) async fn run(delivery: Delivery, receipt: Receipt, _room: Room) {
    let mode = Mode::of(&delivery.content);
    if mode == Mode::Reference && !delivery.reserve().await {
        return;
    }
    let request = delivery.request(mode);
    // Those that were removed meanwhile push nothing more.
    if delivery.feed.is_stopped() {
        return;
    }
    // From here on the target may have the message, whatever becomes of this task.
    receipt.delivered();
    let (began, began_at) = (Instant::now(), delivery.shared.engine.now());
    let ended = match request {
        Ok(request) => delivery.call(request).await,
        Err(error) => Call::Unwritable(error),
    };
    delivery.conclude(mode, (began_at, began.elapsed()), ended).await;
}

/// What became of a call.
enum Call {
    /// The target answered, or did not.
    Made(Result<Reply, CallError>),
    /// Its lease was over.
    GivenUp,
    /// The message cannot be written as a push.
    Unwritable(String),
}

impl Delivery {
    fn environment(&self) -> &str {
        self.feed.environment.name()
    }

    fn group(&self) -> Box<str> {
        format!("topics/{}/groups/{}", self.topic, self.feed.trigger().group).into()
    }

    async fn settle(&self, action: SettleAction) -> Option<Outcome> {
        let lease = self.grant.lease();
        let settlement = Settlement { queue: self.group(), lease, action, holder: Holder::default() };
        let settle = Settle { settlements: vec![settlement], sends: Vec::new(), require: Require::Fresh };
        self.shared.insist(self.environment(), Command::Settle(settle)).await
    }

    /// Whether nobody can have the message but by its id now.
    async fn reserve(&self) -> bool {
        let outcome = self.settle(SettleAction::Reserve).await;
        matches!(outcome, Some(Outcome::Settled { stale, .. }) if stale.is_empty())
    }

    fn request(&self, mode: Mode) -> Result<CallRequest, String> {
        let now = self.shared.engine.now();
        let environment = self.environment();
        let secrets = self.feed.environment.secrets();
        let message = self.grant.message.to_string();
        let (topic, group) = (&*self.topic, &*self.feed.trigger().group);
        let names = PushNames { environment, topic, group, message: &message };
        let token = secrets.current().map(|secret| mint(secret, &names, self.grant.lease_until, now));
        let push = Push {
            topic,
            group,
            grant: &self.grant,
            content: &self.content,
            mode,
            region: self.shared.region_of(environment),
            token: token.as_deref(),
            now,
        };
        let mut rendered = Form::VercelV2Beta.render(&push).map_err(|error| error.to_string())?;
        sign(&mut rendered.headers, &secrets.in_force(now), &message, now, &rendered.body);
        let target = Target::parse(&self.feed.trigger().target);
        let target = target.map_err(|fault| format!("the target is no {}", fault.expected))?;
        Ok(CallRequest { target, headers: rendered.headers, body: rendered.body })
    }

    /// Calls, for as long as the lease lives: whoever works on the message may move its end.
    async fn call(&self, request: CallRequest) -> Call {
        let (sender, connected) = oneshot::channel();
        let is_connected = AtomicBool::new(false);
        let call = async {
            // A target that was down is up as soon as it can be connected to, however long its handlers take.
            let reached = async {
                if connected.await.is_ok() {
                    is_connected.store(true, Ordering::SeqCst);
                    self.target_up().await;
                }
            };
            tokio::join!(self.shared.caller.call(request, sender), reached).0
        };
        tokio::pin!(call);
        let stopped = self.feed.until_stopped();
        tokio::pin!(stopped);
        let mut is_stopped = false;
        let mut end = self.grant.lease_until;
        loop {
            let now = self.shared.engine.now();
            tokio::select! {
                called = &mut call => return Call::Made(called),
                () = &mut stopped, if !is_stopped => {
                    is_stopped = true;
                    // A trigger that is removed pushes nothing any more to a target that it is only about to reach.
                    if !is_connected.load(Ordering::SeqCst) {
                        let error = "the trigger was removed before there was a connection".to_owned();
                        return Call::Made(Err(CallError::Unreachable { error }));
                    }
                    continue;
                }
                () = sleep_until(&self.shared, end.min(now.plus(LOOK_AT_LEAST))) => {}
            }
            let state = Command::LeaseState { queue: self.group(), lease: self.grant.lease() };
            let state = tokio::select! {
                called = &mut call => return Call::Made(called),
                state = self.shared.insist(self.environment(), state) => state,
            };
            let now = self.shared.engine.now();
            match state {
                Some(Outcome::LeaseHeld(Some(until))) => end = until.max(now.plus(LOOK_AGAIN)),
                // A handler that has settled its message may have something left to do.
                Some(Outcome::LeaseHeld(None)) if now < end => {}
                // Its time is over, or its group is gone.
                _ => return Call::GivenUp,
            }
        }
    }

    async fn conclude(&self, mode: Mode, (began, duration): (Timestamp, Duration), call: Call) {
        let (ended, action) = match call {
            Call::Made(Err(CallError::Unreachable { error })) => {
                self.record(mode, duration, Ended::Unreachable { error: error.clone() });
                let undo = Command::Undo(vec![self.grant.lease()]);
                // First, so that nobody leases it anew who would call at once.
                self.target_down(began, &error).await;
                self.shared.insist(self.environment(), undo).await;
                return;
            }
            Call::Made(Ok(reply)) if reply.is_success() => {
                (Ended::Succeeded { status: reply.status }, Some(SettleAction::EndCall))
            }
            Call::Made(Ok(reply)) => {
                let wait = reply.retry_after.map(|wait| wait.clamp(RETRY_AFTER_LEAST, TRIGGER_WAIT_MAX));
                let ended = Ended::Failed { status: reply.status, body: reply.body_start };
                (ended, Some(SettleAction::Nack(wait)))
            }
            Call::Made(Err(CallError::Broken { error })) => {
                (Ended::Broken { error }, Some(SettleAction::Nack(None)))
            }
            Call::GivenUp => (Ended::GaveUp, None),
            // It never can be: it is tried again like one that failed, until its deliveries or its time are over.
            Call::Unwritable(error) => {
                let trigger = &self.feed.trigger().id;
                tracing::warn!(%trigger, message = %self.grant.message, error, "a message cannot be pushed");
                (Ended::Unwritable { error }, Some(SettleAction::Nack(None)))
            }
        };
        self.record(mode, duration, ended);
        if let Some(action) = action {
            self.settle(action).await;
        }
    }

    fn record(&self, mode: Mode, duration: Duration, ended: Ended) {
        self.feed.standing.record(Record {
            at: self.shared.engine.now(),
            message: self.grant.message,
            delivery_count: self.grant.delivery_count,
            inline: mode == Mode::Inline,
            duration,
            ended,
        });
    }

    async fn target_down(&self, began: Timestamp, error: &str) {
        let now = self.shared.engine.now();
        let counts = self.feed.standing.circuit().failed(began, now, error, fastrand::u64(..));
        if !counts {
            return;
        }
        self.feed.standing.turned.notify_waiters();
        let is_new = self.feed.standing.circuit().trouble().is_some_and(|(since, ..)| since == now);
        if is_new {
            let trigger = &self.feed.trigger().id;
            tracing::warn!(%trigger, error, "the target of a trigger cannot be reached");
        }
        self.report().await;
    }

    async fn target_up(&self) {
        let was_down = self.feed.standing.circuit().reached();
        if was_down {
            self.feed.standing.turned.notify_waiters();
            tracing::info!(trigger = %self.feed.trigger().id, "the target of a trigger is reached again");
            self.report().await;
        }
    }

    /// Tells the core how the target stands by now. One at a time, so that the last word is the last state.
    async fn report(&self) {
        let _turn = self.feed.standing.reporting.lock().await;
        let trouble = self.feed.standing.circuit().trouble().map(|(since, error, next_try)| Trouble {
            since,
            error: error.into(),
            next_try,
        });
        let trigger = self.feed.trigger();
        let report = Command::ReportTrigger { id: trigger.id.clone(), uid: trigger.uid, trouble };
        self.shared.insist(self.environment(), report).await;
    }
}
