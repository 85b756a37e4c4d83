//! Sending one message.

use axum::body::Body;
use millpond_core::command::{Lease, Reading, Start, WaiterId};
use millpond_core::limits::CoreSettings;
use millpond_core::{Command, Outcome};

use super::{GROUP, TOPIC, Timed, error, failure, sent};
use crate::harness::HOME;

const DAY: u64 = 86_400;

#[tokio::test]
async fn a_message_is_kept_as_it_came_whatever_it_is() {
    let timed = Timed::start().await;
    let mut ids = Vec::new();
    let payloads: [(Option<&str>, &[u8], &str); 6] = [
        (Some("application/json"), b"{\"a\" : 1.0}\n", "application/json"),
        (Some("application/json"), b"{ no json", "application/json"),
        (Some("text/plain; charset=UTF-8"), "grüße".as_bytes(), "text/plain; charset=UTF-8"),
        (Some("application/cbor"), b"\x00\xff\r\n--", "application/cbor"),
        (Some("strange"), b"x", "strange"),
        (None, b"", "application/octet-stream"),
    ];
    for (content_type, payload, _) in payloads {
        let headers: Vec<_> = content_type.map(|value| ("content-type", value)).into_iter().collect();
        ids.push(timed.send(&headers, payload).await);
    }
    let received = timed.receive(GROUP, &[]).await;
    assert_eq!(received.len(), payloads.len());
    for (message, (id, (_, payload, content_type))) in received.iter().zip(ids.iter().zip(payloads)) {
        assert_eq!((&message.id, message.content_type.as_str()), (id, content_type));
        assert_eq!((message.payload.as_slice(), message.count), (payload, 1));
        assert_eq!(message.timestamp, "2023-11-14T22:13:20.000Z");
        assert_eq!(message.expires_at, "2023-11-15T22:13:20.000Z");
    }
}

/// The attributes of the first message that a group of this topic has.
async fn attributes(timed: &Timed) -> String {
    let engine = &timed.server.engine;
    let group: Box<str> = "topics/orders/groups/looking".into();
    let create = millpond_core::command::CreateQueue {
        name: group.clone(),
        start: Start::Earliest,
        spec: millpond_core::spec::QueueSpec::topic(),
        annotations: "{}".into(),
        validate_only: false,
    };
    engine.submit(HOME, Command::CreateQueue(create)).await.expect("an answer");
    let lease = Lease {
        queue: group,
        max_messages: 1,
        min_messages: 1,
        visibility_timeout: None,
        wait: std::time::Duration::ZERO,
        max_wait: None,
        waiter: WaiterId(0),
        reading: Reading::default(),
    };
    let answer = engine.submit(HOME, Command::Lease(lease)).await.expect("an answer");
    assert!(matches!(&answer.outcome, Outcome::Leased(grants) if grants.len() == 1), "{answer:?}");
    answer.contents[0].attributes.to_string()
}

#[tokio::test]
async fn a_message_is_stored_as_an_event_with_its_trace() {
    let timed = Timed::start().await;
    let headers = [
        ("content-type", "text/plain"),
        ("traceparent", "00-a-b-01"),
        ("tracestate", "v=1"),
        ("baggage", "k=v"),
        ("x-custom", "no"),
        ("authorization", "Bearer whatever"),
    ];
    timed.send(&headers, "x").await;
    let expected = concat!(
        r#"{"source":"/topics/orders","type":"com.vercel.queue.v2beta","datacontenttype":"text/plain","#,
        r#""traceparent":"00-a-b-01","tracestate":"v=1","baggage":"k=v"}"#
    );
    assert_eq!(attributes(&timed).await, expected);
}

#[tokio::test]
async fn options_are_taken_up_to_their_bounds_and_refused_beyond_them() {
    let timed = Timed::start().await;
    for headers in [
        &[("vqs-retention-seconds", "60")][..],
        &[("vqs-retention-seconds", "604800"), ("vqs-delay-seconds", "604800")],
        &[("vqs-retention-seconds", "6e1"), ("vqs-delay-seconds", "5.")],
        &[("vqs-delay-seconds", "86400")],
        &[("vqs-delay-seconds", "0")],
    ] {
        timed.send(headers, "x").await;
    }
    for (name, value, expected) in [
        ("Vqs-Retention-Seconds", "59", "an integer from 60 to 604800"),
        ("Vqs-Retention-Seconds", "604801", "an integer from 60 to 604800"),
        ("Vqs-Retention-Seconds", "60.5", "an integer from 60 to 604800"),
        ("Vqs-Retention-Seconds", "Infinity", "an integer from 60 to 604800"),
        ("Vqs-Delay-Seconds", "-1", "an integer from 0 to 604800"),
        ("Vqs-Delay-Seconds", "604801", "an integer from 0 to 604800"),
        ("Vqs-Delay-Seconds", "86401", "at most the 86400 seconds that the message lives"),
    ] {
        let reply = timed.post(TOPIC, &[(name, value)], "x").await;
        assert_eq!(error(&reply), failure(400, &format!("{name} is {value}, expected {expected}")));
    }
    let long = "k".repeat(257);
    assert_eq!(timed.post(TOPIC, &[("vqs-idempotency-key", &long)], "x").await.status, 400);
    assert_eq!(timed.post(TOPIC, &[("vqs-deployment-id", "dpl 1")], "x").await.status, 400);
    assert_eq!(timed.post(TOPIC, &[("content-type", "a\tb")], "x").await.status, 400);
}

#[tokio::test]
async fn a_refused_send_makes_no_topic() {
    let timed = Timed::start().await;
    timed.post(TOPIC, &[("vqs-delay-seconds", "x")], "x").await;
    let command = Command::GetQueue { queue: "topics/orders".into() };
    let answer = timed.server.engine.submit(HOME, command).await.expect("an answer");
    assert!(matches!(answer.outcome, Outcome::Rejected(_)), "{answer:?}");
}

#[tokio::test]
async fn a_delay_hides_and_a_retention_ends() {
    let timed = Timed::start().await;
    let headers = [("vqs-delay-seconds", "10"), ("vqs-retention-seconds", "100")];
    timed.send(&headers, "late").await;
    assert_eq!(timed.receive(GROUP, &[]).await, []);
    timed.pass(10);
    let late = timed.receive_one(&[("vqs-visibility-timeout-seconds", "5")]).await;
    assert_eq!(
        (late.payload.as_slice(), late.expires_at.as_str()),
        (&b"late"[..], "2023-11-14T22:15:00.000Z")
    );
    timed.pass(89);
    assert_eq!(timed.receive_one(&[("vqs-visibility-timeout-seconds", "0")]).await.count, 2);
    timed.pass(1);
    assert_eq!(timed.receive(GROUP, &[]).await, []);
    // What is delayed for as long as it lives is never seen.
    timed.send(&[("vqs-delay-seconds", "60"), ("vqs-retention-seconds", "60")], "never").await;
    timed.pass(60);
    assert_eq!(timed.receive(GROUP, &[]).await, []);
}

#[tokio::test]
async fn a_duplicate_gets_an_id_of_its_own_and_is_never_delivered() {
    let timed = Timed::start().await;
    let longest = "é".repeat(256);
    for key in ["k", &longest] {
        let headers = [("vqs-idempotency-key", key)];
        let first = timed.send(&headers, "one").await;
        let (second, third) = (timed.send(&headers, "two").await, timed.send(&headers, "one").await);
        assert!(first != second && first != third && second != third);
        assert!(second.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)), "{second}");
        let received = timed.receive_one(&[]).await;
        assert_eq!((received.id, received.payload), (first, b"one".to_vec()));
    }
}

#[tokio::test]
async fn a_key_is_its_topics_and_its_deployments_own() {
    let timed = Timed::start().await;
    let key = ("vqs-idempotency-key", "k");
    let mut ids = vec![timed.send(&[key], "x").await];
    for deployment in ["dpl_1", "dpl_2"] {
        ids.push(timed.send(&[key, ("vqs-deployment-id", deployment)], "x").await);
    }
    ids.push(sent(&timed.post("/api/v3/topic/others", &[key], "x").await));
    assert!(ids.iter().all(|id| id.starts_with("msg_")), "{ids:?}");
    assert!(timed.send(&[key, ("vqs-deployment-id", "dpl_2")], "x").await.starts_with("dup_"));
    assert_eq!(timed.receive(GROUP, &[]).await.len(), 3);
}

#[tokio::test]
async fn a_key_counts_for_as_long_as_its_message_lives_and_a_day_at_most() {
    let timed = Timed::start().await;
    for (retention, window) in [(60, 60), (2 * DAY, DAY)] {
        let (key, retention) = (retention.to_string(), retention.to_string());
        let headers = [("vqs-idempotency-key", key.as_str()), ("vqs-retention-seconds", &retention)];
        assert!(timed.send(&headers, "x").await.starts_with("msg_"));
        timed.pass(window - 1);
        assert!(timed.send(&headers, "x").await.starts_with("dup_"));
        timed.pass(1);
        assert!(timed.send(&headers, "x").await.starts_with("msg_"));
    }
}

#[tokio::test]
async fn limits_and_overload_are_429_and_say_when_to_come_back() {
    let core = CoreSettings { messages: 1, topics: 1, ..CoreSettings::default() };
    let timed = Timed::with(core).await;
    timed.send(&[], "x").await;
    for path in [TOPIC, "/api/v3/topic/others"] {
        let reply = timed.post(path, &[], "x").await;
        assert_eq!(error(&reply).0, 429);
        assert_eq!(reply.header("retry-after"), "1");
    }
    timed.server.engine.shut_down().await;
    let reply = timed.post(TOPIC, &[], "x").await;
    assert_eq!(error(&reply), failure(429, "the server is going down"));
    assert_eq!(reply.header("retry-after"), "1");
}

#[tokio::test]
async fn a_body_beyond_the_servers_bound_is_413() {
    let engine = Timed::start().await.server.engine;
    let server = crate::harness::Server::made(engine, 10, |app| app.with_data_bytes(1 << 20)).await;
    let reply = server.call(axum::http::Method::POST, TOPIC, &[], Body::from(vec![0; (1 << 20) + 1])).await;
    assert_eq!(error(&reply).0, 413);
    let reply = server.call(axum::http::Method::POST, TOPIC, &[], Body::from(vec![0; 1 << 20])).await;
    assert_eq!(reply.status, 201);
}
