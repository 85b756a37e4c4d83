//! Rules of Sylphx Events' queues about minutes, hours and days, by their numbers in `docs/compatibility/sylphx.md`, on a
//! clock that the tests move. The other rules are tested against the real binary, in the crate blackbox.

use std::sync::Arc;
use std::time::Duration;

use axum::http::Method;
use millpond_core::limits::CoreSettings;
use millpond_engine::environment::EnvironmentSettings;
use millpond_engine::{Engine, EngineSettings};
use millpond_test_stores::new_store;
use serde_json::{Value, json};

use crate::harness::{ManualClock, Reply, Server, event, leases, refused};

const HOUR: u64 = 3_600;
const DAY: u64 = 24 * HOUR;

/// A server with the queue `q`, in a time of its own.
struct Timed {
    server: Server,
    clock: Arc<ManualClock>,
}

impl Timed {
    async fn with_queue(spec: Value) -> Self {
        let clock = Arc::new(ManualClock::default());
        let (settings, disk) = (EngineSettings::default(), Arc::new(new_store()));
        let server = Server::over(Engine::start_with_clock(settings, disk, clock.clone())).await;
        server.post("/v1/queues?queue_id=q", json!({ "spec": spec })).await.ok();
        Self { server, clock }
    }

    fn pass_millis(&self, millis: u64) {
        self.clock.advance(Duration::from_millis(millis));
        self.server.engine.nudge();
    }

    fn pass(&self, seconds: u64) {
        self.pass_millis(1_000 * seconds);
    }

    /// Waits until `q` has so many ready, leased, delayed and dead messages.
    #[track_caller]
    fn until(&self, expected: [u64; 4]) -> impl Future<Output = ()> {
        self.server.until(move |view| {
            let counters = &view.counters;
            [counters.ready, counters.leased, counters.delayed, counters.dead] == expected
        })
    }

    /// Sends one event to `q`.
    async fn send(&self, id: &str, delay: &str) {
        let body = json!({ "events": [event(id)], "delay": delay });
        self.server.post("/v1/queues/q:send", body).await.ok();
    }

    /// Leases one message of `q`, which is there or comes.
    async fn take(&self, visibility_timeout: &str) -> Vec<Value> {
        let call = json!({ "visibility_timeout": visibility_timeout, "wait": "20s" });
        let messages = self.server.lease(call).await;
        assert_eq!(messages.len(), 1);
        messages
    }

    async fn settle(&self, verb: &str, messages: &[Value]) -> Value {
        let reply = self.server.post(&format!("/v1/queues/q:{verb}"), leases(messages)).await;
        reply.ok()["stale_leases"].clone()
    }
}

#[tokio::test]
async fn s02_a_delay_of_12_hours_hides_for_12_hours() {
    let timed = Timed::with_queue(json!({})).await;
    timed.send("1", "43200s").await;
    timed.pass_millis(1_000 * 12 * HOUR - 1);
    assert!(timed.server.lease(json!({})).await.is_empty());
    timed.until([0, 0, 1, 0]).await;
    timed.pass_millis(1);
    assert_eq!(timed.take("30s").await[0]["delivery_count"], 1);
}

#[tokio::test]
async fn s06_a_lease_lasts_30_seconds_or_what_was_asked_for_up_to_12_hours() {
    for (call, millis) in
        [(json!({}), 30_000), (json!({ "visibility_timeout": "43200s" }), 1_000 * 12 * HOUR)]
    {
        let timed = Timed::with_queue(json!({})).await;
        timed.send("1", "0s").await;
        let held = timed.server.lease(call).await;
        timed.pass_millis(millis - 1);
        assert!(timed.server.lease(json!({})).await.is_empty(), "hidden for {millis} ms");
        timed.until([0, 1, 0, 0]).await;
        timed.pass_millis(1);
        let again = timed.take("30s").await;
        assert_eq!(again[0]["delivery_count"], 2);
        assert_eq!(timed.settle("ack", &held).await, leases(&held)["leases"], "stale by now");
    }
}

#[tokio::test]
async fn s07_who_waits_first_is_served_first() {
    let server = Server::with_queue(json!({})).await;
    let call = json!({ "wait": "20s" });
    let (first, second, ()) = tokio::join!(
        server.lease(call.clone()),
        async {
            server.until(|view| view.waiting == 1).await;
            server.lease(call.clone()).await
        },
        async {
            server.until(|view| view.waiting == 2).await;
            server.send(&["1"]).await;
            server.until(|view| view.waiting == 1).await;
            server.send(&["2"]).await;
        },
    );
    assert_eq!((&first[0]["event"]["id"], &second[0]["event"]["id"]), (&json!("1"), &json!("2")));
}

#[tokio::test]
async fn s07_a_wait_that_is_over_answers_an_empty_list() {
    let timed = Timed::with_queue(json!({})).await;
    let (messages, ()) = tokio::join!(timed.server.lease(json!({ "wait": "20s" })), async {
        timed.server.until(|view| view.waiting == 1).await;
        timed.pass_millis(19_999);
        timed.server.until(|view| view.waiting == 1).await;
        timed.pass_millis(1);
    });
    assert!(messages.is_empty());
}

#[tokio::test]
async fn s11_a_replay_never_expires_what_it_brings_back() {
    let timed = Timed::with_queue(json!({ "max_deliveries": 1, "retention": "120s" })).await;
    for id in ["1", "2"] {
        timed.send(id, "0s").await;
        let held = timed.take("30s").await;
        assert_eq!(timed.settle("nack", &held).await, json!([]));
    }
    timed.until([0, 0, 0, 2]).await;
    timed.pass(119);
    let replayed = timed.server.post("/v1/queues/q:replay", json!({})).await.ok();
    assert_eq!(replayed, json!({ "replayed_count": "2" }));
    timed.pass_millis(59_999);
    assert_eq!(timed.take("3600s").await[0]["event"]["id"], "1", "it has a minute to live");
    // What is over is looked for once a second.
    timed.pass(1);
    timed.until([0, 1, 0, 0]).await;
}

#[tokio::test]
async fn s13_a_lease_is_held_for_12_hours_in_all() {
    let timed = Timed::with_queue(json!({})).await;
    timed.send("1", "0s").await;
    let held = timed.take("3600s").await;
    timed.pass(HOUR / 2);
    let extend = async |timeout: &str| -> Reply {
        let mut call = leases(&held);
        call["visibility_timeout"] = json!(timeout);
        timed.server.post("/v1/queues/q:extend", call).await
    };
    let reply = extend("41400.001s").await;
    assert_eq!(reply.refusal(), refused(400, "invalid_field"));
    assert_eq!(reply.json()["field"], "visibility_timeout");
    assert_eq!(extend("41400s").await.ok(), json!({ "stale_leases": [] }));
    timed.pass_millis(1_000 * (12 * HOUR - HOUR / 2) - 1);
    timed.until([0, 1, 0, 0]).await;
    timed.pass_millis(1);
    assert_eq!(timed.take("30s").await[0]["delivery_count"], 2);
}

#[tokio::test]
async fn s15_messages_go_at_the_end_of_their_retention_but_not_under_their_holders() {
    let timed = Timed::with_queue(json!({ "max_deliveries": 1, "retention": "60s" })).await;
    timed.send("dead", "0s").await;
    let buried = timed.take("30s").await;
    assert_eq!(timed.settle("nack", &buried).await, json!([]));
    timed.send("kept", "0s").await;
    let kept = timed.take("3600s").await;
    timed.send("lost", "0s").await;
    timed.take("100s").await;
    timed.send("delayed", "59.999s").await;
    timed.send("ready", "0s").await;
    timed.pass_millis(59_998);
    timed.until([1, 2, 1, 1]).await;
    timed.pass_millis(2);
    timed.until([0, 2, 0, 0]).await;
    assert_eq!(timed.settle("ack", &kept).await, json!([]), "the holder may still ack");
    timed.pass(40);
    timed.until([0, 0, 0, 0]).await;
    assert!(timed.server.lease(json!({})).await.is_empty(), "dropped with its lease, no dead letter");
}

#[tokio::test]
async fn s15_dead_letters_in_the_own_set_live_from_their_send() {
    let timed = Timed::with_queue(json!({ "max_deliveries": 1 })).await;
    timed.send("1", "0s").await;
    timed.pass(3 * DAY);
    let held = timed.take("30s").await;
    assert_eq!(timed.settle("nack", &held).await, json!([]));
    timed.pass_millis(1_000 * DAY - 1);
    timed.until([0, 0, 0, 1]).await;
    // What is over is looked for once a second.
    timed.pass(1);
    timed.until([0, 0, 0, 0]).await;
}

#[tokio::test]
async fn s20_a_key_is_remembered_for_24_hours() {
    let timed = Timed::with_queue(json!({})).await;
    let send = json!({ "events": [event("1")] }).to_string();
    let calls = [("/v1/queues?queue_id=made", "{}"), ("/v1/queues/q:send", send.as_str())];
    let call = async |path: &str, body: &str| {
        let headers = [("content-type", "application/json"), ("idempotency-key", path)];
        timed.server.call(Method::POST, path, &headers, body.to_owned()).await
    };
    let mut answers = Vec::new();
    for (path, body) in calls {
        answers.push(call(path, body).await.ok());
    }
    timed.pass_millis(1_000 * DAY - 1);
    for ((path, body), first) in calls.iter().zip(&answers) {
        let reply = call(path, body).await;
        assert_eq!((reply.header("millpond-idempotent-replay"), &reply.ok()), ("true", first), "{path}");
    }
    timed.pass_millis(1);
    let [create, send] = calls;
    assert_eq!(call(create.0, create.1).await.refusal(), refused(409, "queue_already_exists"));
    let reply = call(send.0, send.1).await;
    assert_eq!(reply.header("millpond-idempotent-replay"), "");
    assert_ne!(reply.ok(), answers[1]);
}

/// Sylphx's rate limit; here it is the bound on work that waits.
#[tokio::test]
async fn s25_a_server_with_too_much_to_do_says_when_to_come_back() {
    let core = CoreSettings { waiters: 1, ..CoreSettings::default() };
    let environment = EnvironmentSettings { core, ..EnvironmentSettings::default() };
    let settings = EngineSettings { environment, ..EngineSettings::default() };
    let server = Server::over(Engine::start(settings, Arc::new(new_store()))).await;
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    let call = json!({ "wait": "20s" });
    let (_, reply) = tokio::join!(server.lease(call.clone()), async {
        server.until(|view| view.waiting == 1).await;
        let reply = server.post("/v1/queues/q:lease", call.clone()).await;
        server.send(&["1"]).await;
        reply
    });
    assert_eq!(reply.refusal(), refused(429, "server_overloaded"));
    let problem = reply.json();
    assert_eq!((&problem["retryable"], &problem["effect"]), (&json!(true), &json!("none")));
    let millis = problem["retry_after_ms"].as_u64().expect("a time");
    let seconds: u64 = reply.header("retry-after").parse().expect("whole seconds");
    assert_eq!(seconds, millis.div_ceil(1_000).max(1));
}
