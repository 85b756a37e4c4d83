//! A server on the store that tests run on, and calls to its router.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use millpond_api::name::EnvironmentName;
use millpond_core::outcome::QueueView;
use millpond_core::{Command, Outcome};
use millpond_engine::clock::{Clock, Reading};
use millpond_engine::{Engine, EngineSettings};
use millpond_server::config::DEFAULT_ENVIRONMENT;
use millpond_server::{AllowedHosts, App, CONNECTIONS, Connections, METRICS_QUEUES, Shutdown, app};
use millpond_test_stores::{Stored, TestStore, new_store};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::task::JoinHandle;
use tower::ServiceExt as _;

use crate::documented;

/// How long [`Server::until`] looks.
const NOTICED_WITHIN: Duration = Duration::from_secs(10);

/// Where the queues of short paths are.
pub(crate) const HOME: &str = DEFAULT_ENVIRONMENT;

pub(crate) struct Server {
    pub(crate) router: Router,
    pub(crate) engine: Engine,
    pub(crate) connections: Connections,
    pub(crate) shutdown: Shutdown,
    /// What is stored, unless the engine is the test's own.
    /// What the engine keeps its rows in, unless it is the test's own.
    pub(crate) store: Option<TestStore>,
}

/// An engine's clock that the test moves; both of its clocks show the same.
#[derive(Default)]
pub(crate) struct ManualClock(AtomicI64);

impl ManualClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(i64::try_from(time.as_millis()).expect("small"), Ordering::SeqCst);
    }

    pub(crate) fn now(&self) -> Duration {
        self.read().monotonic
    }
}

impl Clock for ManualClock {
    fn read(&self) -> Reading {
        let millis = self.0.load(Ordering::SeqCst);
        let monotonic = Duration::from_millis(u64::try_from(millis).expect("it only advances"));
        Reading { monotonic, wall_millis: 1_700_000_000_000 + millis }
    }
}

pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| {
            panic!("{}: {error}: {}", self.status, String::from_utf8_lossy(&self.body))
        })
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("ascii"))
    }

    /// The answer, which must be a success.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The code of the answer, which must be an error with a whole problem body.
    #[track_caller]
    pub(crate) fn code(&self) -> String {
        let problem = self.json();
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(problem["status"], self.status.as_u16());
        assert_eq!(problem["instance"], self.header("millpond-request-id"));
        problem["code"].as_str().expect("a code").to_owned()
    }

    /// Status and code in one.
    #[track_caller]
    pub(crate) fn refusal(&self) -> (u16, String) {
        (self.status.as_u16(), self.code())
    }
}

/// What `refusal` is compared with.
pub(crate) fn refused(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

impl Server {
    pub(crate) async fn start() -> Self {
        Self::on(EngineSettings::default(), new_store()).await
    }

    /// A server on an engine with these settings and a store of the test's own.
    pub(crate) async fn on(settings: EngineSettings, store: TestStore) -> Self {
        let engine = Engine::start(settings, Arc::new(store.clone()));
        Self { store: Some(store), ..Self::over(engine).await }
    }

    /// A server on an engine of the test's own.
    pub(crate) async fn over(engine: Engine) -> Self {
        Self::bounded(engine, METRICS_QUEUES, CONNECTIONS).await
    }

    /// The same with so many queues shown singly in metrics, and so many connections.
    pub(crate) async fn bounded(engine: Engine, metrics_queues: usize, connections: usize) -> Self {
        Self::made(engine, connections, |app| app.with_metrics_queues(metrics_queues)).await
    }

    /// The same with further settings.
    pub(crate) async fn made(engine: Engine, connections: usize, set: impl FnOnce(App) -> App) -> Self {
        engine.create_environment(HOME).await.expect("it is made");
        let shutdown = Shutdown::default();
        let hosts = AllowedHosts::new(([127, 0, 0, 1], 8400).into(), vec!["queue.example.com".to_owned()]);
        let home = EnvironmentName::parse("home", HOME).expect("valid");
        let served = set(App::new(engine.clone(), hosts, home, shutdown.watch()));
        let connections = served.connections(connections);
        Self { router: app(served), engine, connections, shutdown, store: None }
    }

    /// A server with the queue `q`.
    pub(crate) async fn with_queue(spec: Value) -> Self {
        let server = Self::start().await;
        server.post("/v1/queues?queue_id=q", json!({ "spec": spec })).await.ok();
        server
    }

    /// One request, with nothing added to it. Its answer must be documented.
    pub(crate) async fn raw(&self, request: Request<Body>) -> Reply {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let Ok(response) = self.router.clone().oneshot(request).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.expect("a whole body").to_vec();
        let reply = Reply { status: parts.status, headers: parts.headers, body };
        documented::check(&method, &path, &reply);
        reply
    }

    /// One request with these headers and the right host.
    pub(crate) async fn call(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        if !headers.iter().any(|(name, _)| *name == "host") {
            request = request.header("host", "127.0.0.1:8400");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.raw(request.body(body.into()).expect("a valid request")).await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.call(Method::GET, path, &[], Body::empty()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.call(Method::DELETE, path, &[], Body::empty()).await
    }

    /// A POST of JSON.
    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        let headers = [("content-type", "application/json")];
        self.call(Method::POST, path, &headers, body.to_string()).await
    }

    /// A POST without a body or content type.
    pub(crate) async fn post_nothing(&self, path: &str) -> Reply {
        self.call(Method::POST, path, &[], Body::empty()).await
    }

    /// Sends events with these ids to `q`; answers the message ids.
    pub(crate) async fn send(&self, ids: &[&str]) -> Vec<String> {
        let events: Vec<Value> = ids.iter().map(|id| event(id)).collect();
        let sent = self.post("/v1/queues/q:send", json!({ "events": events })).await.ok();
        strings(&sent["message_ids"])
    }

    /// Begins to send an event to `q`; the status of the answer comes in its time.
    pub(crate) fn begin_send(&self) -> JoinHandle<StatusCode> {
        let router = self.router.clone();
        let body = json!({ "events": [event("1")] }).to_string();
        let request = Request::post("/v1/queues/q:send").header("host", "localhost");
        let request = request.header("content-type", "application/json").body(Body::from(body));
        tokio::spawn(async move {
            let Ok(response) = router.oneshot(request.expect("a valid request")).await;
            response.status()
        })
    }

    /// Leases from `q`; answers the messages.
    pub(crate) async fn lease(&self, body: Value) -> Vec<Value> {
        let leased = self.post("/v1/queues/q:lease", body).await.ok();
        leased["messages"].as_array().expect("a list").clone()
    }

    /// Waits until `q` is so. Nothing sleeps: each look is a command that takes its turn. A hang-up is noticed by what
    /// the kernel says and not by a time that is over, so the limit is far below the longest wait of 20 s.
    #[track_caller]
    pub(crate) fn until(&self, is_so: impl Fn(&QueueView) -> bool) -> impl Future<Output = ()> {
        let caller = std::panic::Location::caller();
        let begun = Instant::now();
        async move {
            loop {
                let view = self.view().await;
                if is_so(&view) {
                    return;
                }
                assert!(begun.elapsed() < NOTICED_WITHIN, "{caller}: {view:?}");
            }
        }
    }

    /// What is stored.
    pub(crate) fn stored(&self) -> Stored {
        self.store.as_ref().expect("the engine is not the test's own").stored(HOME)
    }

    /// The core's view of `q`.
    pub(crate) async fn view(&self) -> QueueView {
        view_of(&self.engine).await
    }
}

pub(crate) async fn view_of(engine: &Engine) -> QueueView {
    let answer = engine.submit(HOME, Command::GetQueue { queue: "q".into() }).await.expect("an answer");
    let Outcome::Queue(view) = answer.outcome else { panic!("not a queue: {:?}", answer.outcome) };
    *view
}

pub(crate) fn event(id: &str) -> Value {
    json!({ "id": id, "source": "/tests", "type": "example.made", "data": { "n": 1 } })
}

pub(crate) fn strings(list: &Value) -> Vec<String> {
    list.as_array().expect("a list").iter().map(|item| item.as_str().expect("a string").to_owned()).collect()
}

pub(crate) fn leases(messages: &[Value]) -> Value {
    json!({ "leases": messages.iter().map(|message| message["lease"].clone()).collect::<Vec<_>>() })
}

/// The text of a lease call that asks for so many messages and waits up to 20 s.
pub(crate) fn lease_request(max_messages: u32) -> String {
    let body = json!({ "max_messages": max_messages, "wait": "20s" }).to_string();
    format!(
        "POST /v1/queues/q:lease HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads one answer from a connection: its head, then its body by `content-length`.
pub(crate) async fn read_answer(stream: &mut (impl AsyncRead + Unpin)) -> (String, Vec<u8>) {
    let (head, mut body, length) = read_head(stream).await;
    let start = body.len();
    body.resize(length, 0);
    stream.read_exact(&mut body[start..]).await.expect("the rest of the body");
    (head, body)
}

/// Reads the head of an answer; what came of the body with it, and how long the body is.
pub(crate) async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> (String, Vec<u8>, usize) {
    let mut read = Vec::new();
    loop {
        let mut piece = [0; 16];
        let count = stream.read(&mut piece).await.expect("more of the head");
        assert_ne!(count, 0, "the answer ends in its head");
        read.extend_from_slice(&piece[..count]);
        if let Some((head, body)) = split_head(&read) {
            return (head.clone(), body.to_vec(), content_length(&head));
        }
    }
}

/// An answer's head and what follows it.
pub(crate) fn split_head(answer: &[u8]) -> Option<(String, &[u8])> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    Some((String::from_utf8_lossy(&answer[..end]).into_owned(), &answer[end..]))
}

pub(crate) fn content_length(head: &str) -> usize {
    let line = head.lines().find_map(|line| line.strip_prefix("content-length: ")).expect("a length");
    line.parse().expect("a number")
}
