//! Sending many messages at once.

use millpond_core::limits::CoreSettings;
use serde_json::{Value, json};

use super::{GROUP, TOPIC, Timed, error, failure};
use crate::harness::Reply;

const CONTENT_TYPE: (&str, &str) = ("content-type", "multipart/mixed; boundary=vqs-b");

/// Headers and payload.
type Part<'a> = (&'a [(&'a str, &'a str)], &'a [u8]);

/// A body as the real client writes it.
fn body(parts: &[Part<'_>]) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, payload) in parts {
        body.extend_from_slice(b"--vqs-b\r\n");
        headers
            .iter()
            .for_each(|(name, value)| body.extend_from_slice(format!("{name}: {value}\r\n").as_bytes()));
        body.extend_from_slice(b"\r\n");
        body.extend_from_slice(payload);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"--vqs-b--\r\n");
    body
}

async fn send(timed: &Timed, headers: &[(&str, &str)], body: Vec<u8>) -> Reply {
    let all = [&[CONTENT_TYPE], headers].concat();
    timed.post(&format!("{TOPIC}/batch"), &all, body).await
}

#[track_caller]
fn results(reply: &Reply) -> Vec<Value> {
    let answer = reply.ok();
    answer["results"].as_array().expect("a list").clone()
}

#[tokio::test]
async fn parts_are_messages_with_options_of_their_own() {
    let timed = Timed::start().await;
    let plain = body(&[
        (&[("content-type", "application/json")], b"{\"n\":1}"),
        (&[("content-type", "text/plain"), ("vqs-delay-seconds", "10")], b"late"),
        (&[("content-type", "text/plain"), ("vqs-retention-seconds", "60"), ("x-custom", "y")], b""),
        (&[], b"\r\n--vqs-"),
    ]);
    let results = results(&send(&timed, &[], plain).await);
    let ids: Vec<_> = results.iter().map(|result| result["messageId"].as_str().expect("an id")).collect();
    assert_eq!(ids.len(), 4);
    assert!(results.iter().all(|result| result["status"] == "sent"), "{results:?}");
    let received = timed.receive(GROUP, &[]).await;
    let found: Vec<_> = received.iter().map(|message| (&*message.id, &*message.payload)).collect();
    assert_eq!(found, [(ids[0], &b"{\"n\":1}"[..]), (ids[2], b""), (ids[3], b"\r\n--vqs-")]);
    assert_eq!(received[0].content_type, "application/json");
    assert_eq!(received[1].expires_at, "2023-11-14T22:14:20.000Z");
    assert_eq!(received[2].content_type, "application/octet-stream");
    timed.pass(10);
    assert_eq!(timed.receive_one(&[]).await.id, ids[1]);
}

#[tokio::test]
async fn a_part_that_is_wrong_fails_alone() {
    let timed = Timed::start().await;
    let long = "k".repeat(257);
    let large = vec![b'x'; (256 << 10) + 1];
    let mixed = body(&[
        (&[("vqs-retention-seconds", "59")], b"a"),
        (&[], b"b"),
        (&[("vqs-idempotency-key", &long)], b"c"),
        (&[("content-type", "text/\u{1}")], b"d"),
        (&[], &large),
        (&[], &large[1..]),
    ]);
    let results = results(&send(&timed, &[], mixed).await);
    let codes: Vec<_> = results.iter().map(|result| result["statusCode"].as_u64()).collect();
    assert_eq!(codes, [Some(400), None, Some(400), Some(400), None, None]);
    let expected = json!({
        "status": "failed",
        "statusCode": 400,
        "error": "Vqs-Retention-Seconds is 59, expected an integer from 60 to 604800",
        "retryable": false,
    });
    assert_eq!(results[0], expected);
    let received = timed.receive(GROUP, &[]).await;
    let found: Vec<_> = received.iter().map(|message| message.payload.len()).collect();
    assert_eq!(found, [1, (256 << 10) + 1, 256 << 10], "one payload comes in chunks");
}

#[tokio::test]
async fn keys_are_each_parts_own_and_the_deployment_is_the_calls() {
    let timed = Timed::start().await;
    let keyed = |key: &'static str| [("vqs-idempotency-key", key)];
    let (one, two) = (keyed("one"), keyed("two"));
    let parts = body(&[(&one, b"a"), (&two, b"b"), (&one, b"c")]);
    let deployment = [("vqs-deployment-id", "dpl_1"), ("vqs-idempotency-key", "of the call")];
    let first = results(&send(&timed, &deployment, parts.clone()).await);
    let second = results(&send(&timed, &deployment, parts).await);
    let starts = |results: &[Value]| -> Vec<String> {
        results.iter().map(|result| result["messageId"].as_str().expect("an id")[..4].to_owned()).collect()
    };
    assert_eq!(starts(&first), ["msg_", "msg_", "dup_"]);
    assert_eq!(starts(&second), ["dup_", "dup_", "dup_"]);
    let received = timed.receive(GROUP, &[("vqs-deployment-id", "dpl_1")]).await;
    let found: Vec<_> = received.iter().map(|message| &*message.payload).collect();
    assert_eq!(found, [b"a", b"b"]);
    assert_eq!(timed.post(&format!("{TOPIC}/batch"), &[("vqs-deployment-id", "")], "").await.status, 400);
}

#[tokio::test]
async fn a_batch_has_1_to_100_parts() {
    let timed = Timed::start().await;
    let part: Part<'_> = (&[], b"x");
    for (count, taken) in [(0, false), (1, true), (100, true), (101, false)] {
        let reply = send(&timed, &[], body(&vec![part; count])).await;
        match taken {
            true => assert_eq!(results(&reply).len(), count),
            false => assert_eq!(error(&reply).0, 400, "{count}"),
        }
    }
}

#[tokio::test]
async fn what_is_no_batch_is_refused_and_makes_no_topic() {
    let timed = Timed::start().await;
    let path = format!("{TOPIC}/batch");
    let good = body(&[(&[], b"x")]);
    for content_type in ["application/json", "multipart/mixed", "multipart/form-data; boundary=vqs-b"] {
        let reply = timed.post(&path, &[("content-type", content_type)], good.clone()).await;
        assert_eq!(error(&reply).0, 400, "{content_type}");
    }
    assert_eq!(error(&timed.post(&path, &[], good.clone()).await).0, 400);
    let cut = good[..good.len() - 13].to_vec();
    let reply = send(&timed, &[], cut).await;
    assert_eq!(error(&reply), failure(400, "body is not multipart/mixed: its last part has no end"));
    let long = body(&[(&[], &vec![b'x'; 8 << 20])]);
    assert_eq!(error(&send(&timed, &[], long).await).0, 413);
    let command = millpond_core::Command::GetQueue { queue: "topics/orders".into() };
    let answer = timed.server.engine.submit(crate::harness::HOME, command).await.expect("an answer");
    assert!(matches!(answer.outcome, millpond_core::Outcome::Rejected(_)), "{answer:?}");
}

#[tokio::test]
async fn small_batches_are_one_commit_and_large_ones_a_few() {
    let timed = Timed::start().await;
    timed.send(&[], "the topic is there").await;
    for (bytes, commits) in [(10_000, 1), (40_000, 4)] {
        let before = timed.server.engine.stats().commits;
        let payload = vec![b'x'; bytes];
        let part: Part<'_> = (&[], &payload);
        let results = results(&send(&timed, &[], body(&vec![part; 100])).await);
        assert!(results.iter().all(|result| result["status"] == "sent"));
        assert_eq!(timed.server.engine.stats().commits - before, commits, "{bytes}");
    }
}

#[tokio::test]
async fn a_full_environment_fails_what_is_not_stored_by_then() {
    let timed = Timed::with(CoreSettings { bytes: 3 << 20, ..CoreSettings::default() }).await;
    let payload = vec![b'x'; 250_000];
    let part: Part<'_> = (&[], &payload);
    let first = results(&send(&timed, &[], body(&vec![part; 16])).await);
    let codes: Vec<_> = first.iter().map(|result| result["statusCode"].as_u64()).collect();
    assert_eq!(codes, [vec![None; 12], vec![Some(429); 4]].concat());
    assert_eq!(first[15]["retryable"], true);
    let reply = send(&timed, &[], body(&[part; 2])).await;
    assert_eq!((error(&reply).0, reply.header("retry-after")), (429, "1"), "nothing of it is stored");
}
