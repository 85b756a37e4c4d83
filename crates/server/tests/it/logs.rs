//! What the log says of requests.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::Method;
use millpond_engine::{Engine, EngineSettings};
use serde_json::{Value, json};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::EnvFilter;

use crate::gate::GatedDisk;
use crate::harness::{HOME, Reply, Server, event};

/// The log of this thread, as long as it lives.
struct Log {
    written: Arc<Mutex<Vec<u8>>>,
    _here: DefaultGuard,
}

#[derive(Clone)]
struct Sink(Arc<Mutex<Vec<u8>>>);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// As `--log FILTER --log-format json` has it.
    fn start(filter: &str) -> Self {
        let written = Arc::new(Mutex::new(Vec::new()));
        let sink = Sink(Arc::clone(&written));
        let log = tracing_subscriber::fmt().with_env_filter(EnvFilter::new(filter));
        let log = log.json().flatten_event(true).with_span_list(false).with_writer(move || sink.clone());
        Self { written, _here: tracing::subscriber::set_default(log.finish()) }
    }

    fn text(&self) -> String {
        String::from_utf8(self.written.lock().expect("no panic").clone()).expect("utf-8")
    }

    /// Lines with this message.
    fn lines(&self, message: &str) -> Vec<Value> {
        let text = self.text();
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("json"));
        lines.filter(|line| line["message"] == message).collect()
    }
}

fn request_id(reply: &Reply) -> &str {
    reply.header("millpond-request-id")
}

#[tokio::test]
async fn a_request_is_told_with_its_id_and_nothing_of_what_was_sent() {
    let server = Server::start().await;
    server.post("/v1/queues?queue_id=secret-queue", json!({})).await.ok();
    let log = Log::start("info");
    let path = "/v1/queues/secret-queue:send";
    let sent = server.post(path, json!({ "events": [event("secret-event")] })).await;
    let refused = server.post(path, json!({ "secret-field": "secret-value" })).await;
    let lines = log.lines("answered");
    assert_eq!(lines.len(), 2);
    for (line, (reply, status)) in lines.iter().zip([(sent, 200), (refused, 400)]) {
        assert_eq!(line["span"]["request_id"], request_id(&reply));
        assert_eq!(line["span"]["method"], "POST");
        assert_eq!(line["span"]["route"], "queues/{queue}:send");
        assert_eq!(line["status"], status);
        assert!(line["duration_ms"].as_f64().is_some_and(|duration| duration > 0.0), "{line}");
    }
    assert!(!log.text().contains("secret"), "{}", log.text());
}

#[tokio::test]
async fn a_method_that_is_none_of_ours_is_not_written_out() {
    let server = Server::start().await;
    let log = Log::start("info");
    let method = Method::from_bytes(b"SECRET").expect("a token");
    server.call(method, "/secret", &[("millpond-request-id", "secret id")], "").await;
    let lines = log.lines("answered");
    assert_eq!((&lines[0]["span"]["method"], &lines[0]["span"]["route"]), (&json!("other"), &json!("other")));
    assert!(!log.text().to_lowercase().contains("secret"), "{}", log.text());
}

#[tokio::test]
async fn ordinary_requests_are_not_told_unless_asked_for() {
    let server = Server::with_queue(json!({})).await;
    let log = Log::start("warn");
    server.send(&["1"]).await;
    server.lease(json!({})).await;
    assert_eq!(log.text(), "");
}

#[tokio::test]
async fn a_client_may_choose_a_well_formed_id() {
    let server = Server::start().await;
    let log = Log::start("info");
    let id = "trace-4bf92f3577b34da6";
    let reply = server.call(Method::GET, "/healthz", &[("millpond-request-id", id)], "").await;
    assert_eq!(request_id(&reply), id);
    assert_eq!(log.lines("answered")[0]["span"]["request_id"], id);
    let reply = server.call(Method::GET, "/nowhere", &[("millpond-request-id", id)], "").await;
    assert_eq!((reply.code().as_str(), reply.json()["instance"].as_str()), ("not_found", Some(id)));
    let reply = server.call(Method::GET, "/healthz", &[("millpond-request-id", "a b")], "").await;
    assert!(request_id(&reply).starts_with("req_"));
}

#[tokio::test(start_paused = true)]
async fn a_slow_request_is_warned_of_with_its_phases() {
    let disk = GatedDisk::default();
    let engine = Engine::start(EngineSettings::default(), Arc::new(disk.clone()));
    let server = Server::over(engine).await;
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    let log = Log::start("warn");
    for (held, slow) in [(Duration::from_millis(999), 0), (Duration::from_millis(1_500), 1)] {
        let gate = disk.hold(HOME);
        let sending = server.begin_send();
        disk.begun(HOME).await;
        tokio::time::advance(held).await;
        drop(gate);
        assert_eq!(sending.await.expect("an answer"), 200);
        assert_eq!(log.lines("slow request").len(), slow, "{held:?}");
    }
    let line = &log.lines("slow request")[0];
    assert_eq!(line["level"], "WARN");
    assert_eq!((&line["method"], &line["route"]), (&json!("POST"), &json!("queues/{queue}:send")));
    assert!(line["request_id"].as_str().is_some_and(|id| id.starts_with("req_")), "{line}");
    for (field, value) in
        [("duration_ms", 1_500.0), ("engine_ms", 1_500.0), ("body_ms", 0.0), ("wait_ms", 0.0)]
    {
        assert_eq!(line[field].as_f64(), Some(value), "{field}: {line}");
    }
    let page = server.get("/metrics").await;
    let page = String::from_utf8(page.body).expect("utf-8");
    assert!(page.contains("\nmillpond_http_slow_requests_total 1\n"), "{page}");
}
