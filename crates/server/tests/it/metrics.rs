//! What `/metrics` says, read by a parser that is not ours.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use millpond_engine::{Engine, EngineSettings};
use millpond_server::{CONNECTIONS, serve_connection};
use millpond_test_stores::{Kind, new_store};
use openmetrics_parser::{PrometheusType, PrometheusValue, prometheus::parse_prometheus};
use serde_json::json;
use tokio::io::{AsyncWriteExt as _, duplex};

use crate::gate::GatedDisk;
use crate::harness::{HOME, ManualClock, Server, event, lease_request, leases, read_head, refused};

/// A page: its text, and its values by name and labels, these in the order of their names.
struct Page {
    text: String,
    types: BTreeMap<String, &'static str>,
    values: BTreeMap<String, f64>,
}

impl Page {
    async fn of(server: &Server) -> Self {
        let reply = server.get("/metrics").await;
        assert_eq!(reply.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
        assert_eq!(reply.status, 200);
        Self::parse(String::from_utf8(reply.body).expect("utf-8"))
    }

    fn parse(text: String) -> Self {
        let parsed = parse_prometheus(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let (mut types, mut values) = (BTreeMap::new(), BTreeMap::new());
        for family in parsed.families.values() {
            let kind = match family.family_type {
                PrometheusType::Counter => "counter",
                PrometheusType::Gauge => "gauge",
                PrometheusType::Histogram => "histogram",
                PrometheusType::Summary | PrometheusType::Unknown => panic!("{family:?}"),
            };
            types.insert(family.family_name.clone(), kind);
            for sample in family.iter_samples() {
                let labels = sample.get_labelset().expect("labels");
                let mut labels: Vec<_> =
                    labels.iter().map(|(name, value)| format!("{name}={value}")).collect();
                labels.sort();
                let mut put = |suffix: &str, value: f64| {
                    let name = format!("{}{suffix}", family.family_name);
                    let key = if labels.is_empty() { name } else { format!("{name} {}", labels.join(" ")) };
                    assert!(values.insert(key.clone(), value).is_none(), "{key} is there twice");
                };
                match &sample.value {
                    PrometheusValue::Counter(counter) => put("", counter.value.as_f64()),
                    PrometheusValue::Gauge(gauge) => put("", gauge.as_f64()),
                    PrometheusValue::Histogram(histogram) => {
                        let buckets: Vec<_> =
                            histogram.buckets.iter().map(|bucket| bucket.count.as_f64()).collect();
                        assert!(buckets.is_sorted(), "{}: {buckets:?}", family.family_name);
                        let count = histogram.count.expect("a count") as f64;
                        assert_eq!(buckets.last(), Some(&count));
                        put("_count", count);
                        put("_sum", histogram.sum.expect("a sum").as_f64());
                    }
                    other => panic!("{other:?}"),
                }
            }
        }
        Self { text, types, values }
    }

    #[track_caller]
    fn value(&self, key: &str) -> f64 {
        let value = self.values.get(key);
        *value.unwrap_or_else(|| panic!("no {key} in\n{:#?}", self.values.keys().collect::<Vec<_>>()))
    }

    /// Of the home environment.
    #[track_caller]
    fn home(&self, metric: &str) -> f64 {
        self.value(&format!("millpond_environment_{metric} environment={HOME}"))
    }

    /// Of the queue `q` there.
    #[track_caller]
    fn queue(&self, metric: &str) -> f64 {
        self.value(&format!("millpond_queue_{metric} environment={HOME} queue=q"))
    }

    #[track_caller]
    fn messages(&self, state: &str) -> f64 {
        self.value(&format!("millpond_queue_messages environment={HOME} queue=q state={state}"))
    }

    /// What changed since, but for what passes with time.
    fn changes_since(&self, before: &Self) -> BTreeMap<String, f64> {
        let passes = |key: &str| key.starts_with("process_") || key.contains("_seconds_sum");
        let values = self.values.iter().filter(|(key, _)| !passes(key));
        let changes =
            values.map(|(key, value)| (key.clone(), value - before.values.get(key).unwrap_or(&0.0)));
        changes.filter(|(_, change)| *change != 0.0).collect()
    }
}

fn engine(settings: EngineSettings) -> (Engine, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::default());
    (Engine::start_with_clock(settings, Arc::new(new_store()), clock.clone()), clock)
}

async fn server_on_a_clock() -> (Server, Arc<ManualClock>) {
    let (engine, clock) = engine(EngineSettings::default());
    let server = Server::over(engine).await;
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    (server, clock)
}

/// Lets the open environments become idle and be closed.
async fn close(server: &Server, clock: &ManualClock) {
    let mut minutes = 0;
    while server.engine.stats().environments_open > 0 {
        assert!(minutes < 30, "they are never idle");
        minutes += 1;
        // A sweep that was still owed when the minute was over is work, and another minute begins.
        clock.advance(Duration::from_secs(61));
        let begun = Instant::now();
        while server.engine.stats().environments_open > 0 && begun.elapsed() < Duration::from_millis(200) {
            server.engine.nudge();
            tokio::task::yield_now().await;
        }
    }
}

fn document(name: &str) -> String {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[tokio::test]
async fn what_is_exported_is_documented_and_the_other_way_round() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1"]).await;
    let page = Page::of(&server).await;
    let documented: BTreeMap<String, String> = document("metrics.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .map(|row| {
            let (name, rest) = row.split_once('`').expect("a name in backticks");
            let kind = rest.split('|').nth(1).expect("a type").trim();
            (name.to_owned(), kind.to_owned())
        })
        .collect();
    let exported: BTreeMap<String, String> =
        page.types.iter().map(|(name, kind)| (name.clone(), (*kind).to_owned())).collect();
    assert_eq!(exported, documented);
}

#[tokio::test]
async fn names_and_order_follow_the_conventions() {
    let server = Server::with_queue(json!({})).await;
    let page = Page::of(&server).await;
    for (name, kind) in &page.types {
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert!(name.starts_with("millpond_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == "counter", "{name}");
    }
    // Each family in one piece: help, type, samples.
    let mut family = "";
    let mut seen = BTreeSet::new();
    let mut lines = page.text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help text");
            assert!(help.ends_with('.') && seen.insert(name), "{line}");
            let kind = lines.next().and_then(|line| line.strip_prefix("# TYPE "));
            assert!(kind.is_some_and(|kind| kind.starts_with(&format!("{name} "))), "{line}");
            family = name;
        } else {
            let name = line.split(['{', ' ']).next().expect("a name");
            let suffix = name.strip_prefix(family);
            assert!(matches!(suffix, Some("" | "_bucket" | "_sum" | "_count")), "{line} in {family}");
        }
    }
}

#[tokio::test]
async fn alerts_name_metrics_that_exist() {
    let server = Server::with_queue(json!({})).await;
    let page = Page::of(&server).await;
    let alerts = document("alerts.yml");
    let words = alerts.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let named: BTreeSet<_> = words.filter(|word| word.starts_with("millpond_")).collect();
    for name in &named {
        let histogram = name.strip_suffix("_bucket").unwrap_or(name);
        assert!(page.types.contains_key(*name) || page.types.get(histogram) == Some(&"histogram"), "{name}");
    }
    assert_eq!(alerts.matches("- alert: ").count(), 5);
    assert!(named.len() >= 5, "{named:?}");
}

/// What changes when three are sent, two are leased, one of these is acked and one nacked with a delay, a send is refused,
/// and a page was read before; of bytes apart. A send writes two rows a message, what follows one, and each the counters.
const CHANGES: &str = "
millpond_commands_total 4
millpond_commit_commands_count 4
millpond_commit_commands_sum 4
millpond_commit_duration_seconds_count 4
millpond_commit_rows_total 14
millpond_commit_wait_seconds_count 4
millpond_commits_total 4
millpond_environment_messages environment=HOME state=delayed 1
millpond_environment_messages environment=HOME state=ready 1
millpond_environment_messages_acked_total environment=HOME 1
millpond_environment_messages_delivered_total environment=HOME 2
millpond_environment_messages_sent_total environment=HOME 3
millpond_http_refused_total code=malformed_json 1
millpond_http_request_duration_seconds_count status=2xx verb=ack 1
millpond_http_request_duration_seconds_count status=2xx verb=lease 1
millpond_http_request_duration_seconds_count status=2xx verb=metrics 1
millpond_http_request_duration_seconds_count status=2xx verb=nack 1
millpond_http_request_duration_seconds_count status=2xx verb=send 1
millpond_http_request_duration_seconds_count status=4xx verb=send 1
millpond_http_requests_total status=2xx verb=ack 1
millpond_http_requests_total status=2xx verb=lease 1
millpond_http_requests_total status=2xx verb=metrics 1
millpond_http_requests_total status=2xx verb=nack 1
millpond_http_requests_total status=2xx verb=send 1
millpond_http_requests_total status=4xx verb=send 1
millpond_queue_messages environment=HOME queue=q state=delayed 1
millpond_queue_messages environment=HOME queue=q state=ready 1
millpond_queue_messages_acked_total environment=HOME queue=q 1
millpond_queue_messages_delivered_total environment=HOME queue=q 2
millpond_queue_messages_sent_total environment=HOME queue=q 3
";

#[tokio::test]
async fn counts_change_by_exactly_what_was_done() {
    let (server, _) = server_on_a_clock().await;
    let before = Page::of(&server).await;

    let mut bytes_in = 0;
    let mut bytes_out = 0;
    let mut call = async |path: &str, body: String| {
        bytes_in += body.len();
        let headers = [("content-type", "application/json")];
        let reply = server.call(Method::POST, path, &headers, body).await;
        bytes_out += reply.body.len();
        reply
    };
    let events = json!({ "events": [event("1"), event("2"), event("3")] });
    call("/v1/queues/q:send", events.to_string()).await.ok();
    let leased = call("/v1/queues/q:lease", json!({ "max_messages": 2 }).to_string()).await.ok();
    let leased = leased["messages"].as_array().expect("a list");
    call("/v1/queues/q:ack", leases(&leased[..1]).to_string()).await.ok();
    let mut nack = leases(&leased[1..]);
    nack["delay"] = json!("100s");
    call("/v1/queues/q:nack", nack.to_string()).await.ok();
    let reply = call("/v1/queues/q:send", "{".to_owned()).await;
    assert_eq!(reply.refusal(), refused(400, "malformed_json"));

    let after = Page::of(&server).await;
    let changes = CHANGES.lines().filter(|line| !line.is_empty()).map(|line| {
        let (key, change) = line.rsplit_once(' ').expect("a change");
        (key.replace("HOME", HOME), change.parse::<f64>().expect("a number"))
    });
    let mut expected: BTreeMap<String, f64> = changes.collect();
    expected.insert("millpond_http_request_body_bytes_total".to_owned(), bytes_in as f64);
    let bytes_out = bytes_out + before.text.len();
    expected.insert("millpond_http_response_body_bytes_total".to_owned(), bytes_out as f64);
    if Kind::of_tests().tells_flushes() {
        expected.insert("millpond_commit_flush_seconds_count".to_owned(), 4.0);
    }
    assert_eq!(after.changes_since(&before), expected);
    assert_eq!(after.value("millpond_http_requests_in_flight"), 1.0, "this one");
}

#[tokio::test]
async fn ages_grow_with_the_clock() {
    let (server, clock) = server_on_a_clock().await;
    clock.advance(Duration::from_secs(10));
    let page = Page::of(&server).await;
    assert_eq!(page.queue("oldest_ready_age_seconds"), 0.0);
    assert_eq!(page.queue("consumer_age_seconds"), 10.0, "since the queue was made");
    server.send(&["1"]).await;
    clock.advance(Duration::from_millis(30_500));
    let page = Page::of(&server).await;
    assert_eq!(page.queue("oldest_ready_age_seconds"), 30.5);
    assert_eq!(page.home("oldest_ready_age_seconds"), 30.5);
    assert_eq!(page.queue("consumer_age_seconds"), 40.5);
    server.lease(json!({})).await;
    clock.advance(Duration::from_secs(1));
    let page = Page::of(&server).await;
    assert_eq!(page.queue("oldest_ready_age_seconds"), 0.0);
    assert_eq!(page.queue("consumer_age_seconds"), 1.0);
    assert_eq!([page.messages("leased"), page.messages("ready")], [1.0, 0.0]);
}

#[tokio::test]
async fn a_pause_and_calls_that_wait_are_shown() {
    let (server, clock) = server_on_a_clock().await;
    server.post_nothing("/v1/queues/q:pause").await.ok();
    let (mut client, stream) = duplex(1 << 10);
    let serving = tokio::spawn(serve_connection(stream, server.router.clone(), server.shutdown.watch()));
    client.write_all(lease_request(1).as_bytes()).await.expect("written");
    server.until(|view| view.waiting == 1).await;
    clock.advance(Duration::from_secs(5));
    let page = Page::of(&server).await;
    assert_eq!([page.queue("paused"), page.home("queues_paused")], [1.0, 1.0]);
    assert_eq!([page.queue("waiting_calls"), page.home("waiting_calls")], [1.0, 1.0]);
    assert_eq!(page.queue("consumer_age_seconds"), 0.0, "somebody is there");
    assert_eq!(page.value("millpond_commands_waiting"), 1.0);
    assert_eq!(page.value("millpond_http_requests_in_flight"), 2.0, "the lease call and this one");

    drop(client);
    serving.await.expect("it ends");
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_http_requests_total status=hung_up verb=lease"), 1.0);
    assert_eq!(page.value("millpond_http_requests_in_flight"), 1.0);
}

#[tokio::test]
async fn a_closed_environment_is_remembered_and_not_opened() {
    let (server, clock) = server_on_a_clock().await;
    server.send(&["1", "2"]).await;
    let sent_at = clock.now();
    server.engine.create_environment("orgs/o/projects/p/envs/never-used").await.expect("it is made");
    close(&server, &clock).await;
    for _ in 0..2 {
        clock.advance(Duration::from_secs(20));
        let page = Page::of(&server).await;
        assert_eq!(page.value("millpond_environments state=open"), 0.0);
        assert_eq!(page.value("millpond_metrics_environments_left_out"), 0.0);
        assert_eq!([page.messages("ready"), page.queue("messages_sent_total")], [2.0, 2.0]);
        assert!(!page.text.contains("never-used"));
        assert_eq!(server.engine.stats().environments_open, 0);
    }
    let page = Page::of(&server).await;
    assert_eq!(page.queue("oldest_ready_age_seconds"), (clock.now() - sent_at).as_secs_f64());

    server.send(&["3"]).await;
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_environments state=open"), 1.0);
    assert_eq!(page.messages("ready"), 3.0);
    assert_eq!(server.engine.environments_remembered().len(), 0);
}

#[tokio::test]
async fn the_front_of_a_backlog_is_read_for_who_asks_again() {
    let (server, clock) = server_on_a_clock().await;
    server.send(&["1"]).await;
    let sent_at = clock.now();
    close(&server, &clock).await;
    // Nobody leases: an opened environment knows how many there are, and not since when.
    server.view().await;
    let key = format!("millpond_queue_oldest_ready_age_seconds environment={HOME} queue=q");
    let first = Page::of(&server).await;
    assert_eq!((first.messages("ready"), first.values.get(&key)), (1.0, None));
    loop {
        let page = Page::of(&server).await;
        if let Some(age) = page.values.get(&key) {
            assert_eq!(*age, (clock.now() - sent_at).as_secs_f64());
            break;
        }
    }
}

#[tokio::test]
async fn queues_beyond_the_limit_are_in_the_sums_alone() {
    const QUEUES: usize = 600;
    let (engine, _) = engine(EngineSettings::default());
    let server = Server::bounded(engine, 3, CONNECTIONS).await;
    for number in 0..QUEUES {
        server.post(&format!("/v1/queues?queue_id=q-{number:03}"), json!({})).await.ok();
    }
    for queue in ["q-000", "q-299", "q-599"] {
        let path = format!("/v1/queues/{queue}:send");
        server.post(&path, json!({ "events": [event("1")] })).await.ok();
    }
    let page = Page::of(&server).await;
    assert_eq!(page.home("queues"), 600.0);
    assert_eq!(page.home("messages_sent_total"), 3.0);
    assert_eq!(page.value(&format!("millpond_environment_messages environment={HOME} state=ready")), 3.0);
    assert_eq!(page.value("millpond_metrics_queues_left_out"), 597.0);
    let shown: Vec<_> = page.values.keys().filter(|key| key.starts_with("millpond_queue_paused")).collect();
    let all = ["q-000", "q-001", "q-002"];
    let all = all.map(|queue| format!("millpond_queue_paused environment={HOME} queue={queue}"));
    assert_eq!(shown, all.iter().collect::<Vec<_>>());

    // What a deleted queue had counted does not leave the sum.
    assert_eq!(server.delete("/v1/queues/q-299").await.status, 200);
    let page = Page::of(&server).await;
    assert_eq!([page.home("queues"), page.home("messages_sent_total")], [599.0, 3.0]);
}

/// In real time: while time is paused it is over before the other environment's thread has answered.
#[tokio::test]
async fn an_environment_that_does_not_answer_is_left_out() {
    const OTHER: &str = "orgs/o/projects/p/envs/other";
    let disk = GatedDisk::default();
    let engine = Engine::start(EngineSettings::default(), Arc::new(disk.clone()));
    let server = Server::over(engine).await;
    server.engine.create_environment(OTHER).await.expect("it is made");
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    server.post(&format!("/v1/{OTHER}/queues?queue_id=q"), json!({})).await.ok();

    let gate = disk.hold(HOME);
    let sending = server.begin_send();
    disk.begun(HOME).await;
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_metrics_environments_left_out"), 1.0);
    assert_eq!(page.value(&format!("millpond_environment_queues environment={OTHER}")), 1.0);
    assert!(!page.text.contains(&format!("environment=\"{HOME}\"")), "nothing is shown that is not durable");

    drop(gate);
    assert_eq!(sending.await.expect("an answer"), 200);
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_metrics_environments_left_out"), 0.0);
    assert_eq!(page.messages("ready"), 1.0);
}

#[tokio::test]
async fn what_is_refused_for_too_much_work_is_counted() {
    let disk = GatedDisk::default();
    let settings = EngineSettings { mailbox_commands: 1, ..EngineSettings::default() };
    let server = Server::over(Engine::start(settings, Arc::new(disk.clone()))).await;
    server.post("/v1/queues?queue_id=q", json!({})).await.ok();
    let gate = disk.hold(HOME);
    let sending = server.begin_send();
    disk.begun(HOME).await;
    let reply = server.post("/v1/queues/q:lease", json!({})).await;
    assert_eq!(reply.refusal(), refused(429, "server_overloaded"));
    drop(gate);
    assert_eq!(sending.await.expect("an answer"), 200);
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_commands_overloaded_total bound=commands"), 1.0);
    assert_eq!(page.value("millpond_commands_overloaded_total bound=bytes"), 0.0);
    assert_eq!(page.value("millpond_http_refused_total code=server_overloaded"), 1.0);
}

#[tokio::test]
async fn answers_that_nobody_got_are_counted() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let (mut client, stream) = duplex(64);
    let serving = tokio::spawn(serve_connection(stream, server.router.clone(), server.shutdown.watch()));
    client.write_all(lease_request(10).as_bytes()).await.expect("written");
    read_head(&mut client).await;
    drop(client);
    serving.await.expect("it ends");
    server.until(|view| view.counters.leased == 0).await;
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_receipts_undone_total"), 1.0);
    assert_eq!(page.value("millpond_grants_undone_total"), 3.0);
    assert_eq!(page.queue("messages_undone_total"), 3.0);
}

#[tokio::test]
async fn a_web_page_does_not_get_it() {
    let server = Server::start().await;
    for (header, status, code) in [
        (("host", "evil.example"), 421, "host_not_allowed"),
        (("origin", "http://evil.example"), 403, "cross_origin"),
        (("sec-fetch-site", "cross-site"), 403, "cross_origin"),
    ] {
        let reply = server.call(Method::GET, "/metrics", &[header], Body::empty()).await;
        assert_eq!(reply.refusal(), refused(status, code));
    }
    let page = Page::of(&server).await;
    assert_eq!(page.value("millpond_http_requests_total status=4xx verb=metrics"), 3.0);
    assert_eq!(page.value("millpond_http_refused_total code=cross_origin"), 2.0);
}

#[tokio::test]
async fn it_takes_no_parameters() {
    let server = Server::start().await;
    assert_eq!(server.get("/metrics?name=x").await.refusal(), refused(400, "unknown_field"));
}
