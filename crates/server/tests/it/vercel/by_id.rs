//! Receiving the message of an id.

use axum::body::Body;
use millpond_core::{Command, Outcome};

use super::{GROUP, LINES, Message, PARTS, TOPIC, Timed, error, failure, messages};
use crate::harness::{HOME, Reply};

async fn take(timed: &Timed, id: &str, headers: &[(&str, &str)]) -> Reply {
    let all = [&[PARTS], headers].concat();
    timed.post(&format!("{GROUP}/id/{id}"), &all, Body::empty()).await
}

#[track_caller]
fn one(reply: &Reply) -> Message {
    let mut all = messages(reply);
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn not_found() -> (u16, String) {
    failure(404, "Message not found")
}

#[tokio::test]
async fn a_message_is_taken_ahead_of_others_and_only_once() {
    let timed = Timed::start().await;
    timed.send(&[], "first").await;
    let id = timed.send(&[("content-type", "text/plain")], "second").await;
    let taken = one(&take(&timed, &id, &[]).await);
    assert_eq!((&taken.id, &taken.payload[..], taken.count), (&id, &b"second"[..], 1));
    let reply = take(&timed, &id, &[]).await;
    assert_eq!(error(&reply), failure(409, "Message is locked by another consumer"));
    assert_eq!(reply.header("retry-after"), "60");
    assert!(reply.json().get("originalMessageId").is_none());
    timed.pass(59);
    assert_eq!(take(&timed, &id, &[]).await.header("retry-after"), "1");
    timed.pass(1);
    let again = timed.post(&format!("{GROUP}/id/{id}"), &[LINES], Body::empty()).await;
    let again = one(&again);
    assert_eq!(again.count, 2);
    assert_eq!(timed.ack(&again.handle).await.status, 204);
    let reply = take(&timed, &id, &[]).await;
    assert_eq!((reply.status.as_u16(), reply.body.len()), (410, 0));
    let rest = timed.receive_one(&[]).await;
    assert_eq!(rest.payload, b"first");
}

#[tokio::test]
async fn what_is_not_there_is_not_found_and_makes_no_group() {
    let timed = Timed::start().await;
    let reply = take(&timed, "msg_01KC9Z1V0G00000004Q3HRAZRX", &[]).await;
    assert_eq!(error(&reply), not_found());
    let id = timed.send(&[("vqs-retention-seconds", "60")], "x").await;
    for unknown in ["0-1", "visibility", "msg_01KC9Z1V0G00000004Q3HRAZRX", "%2F", &id.to_lowercase()] {
        assert_eq!(error(&take(&timed, unknown, &[]).await), not_found(), "{unknown}");
    }
    let elsewhere = format!("/api/v3/topic/others/consumer/mailer/id/{id}");
    assert_eq!(error(&timed.post(&elsewhere, &[PARTS], Body::empty()).await), not_found());
    for queue in ["topics/orders/groups/mailer", "topics/others"] {
        let command = Command::GetQueue { queue: queue.into() };
        let answer = timed.server.engine.submit(HOME, command).await.expect("an answer");
        assert!(matches!(answer.outcome, Outcome::Rejected(_)), "{queue}: {answer:?}");
    }
    timed.pass(60);
    assert_eq!(error(&take(&timed, &id, &[]).await), not_found(), "it has expired");
}

#[tokio::test]
async fn a_group_is_made_for_a_message_that_is_there_and_has_all_others() {
    let timed = Timed::start().await;
    timed.send(&[], "other").await;
    let id = timed.send(&[], "wanted").await;
    one(&take(&timed, &id, &[]).await);
    assert_eq!(timed.receive_one(&[]).await.payload, b"other");
}

#[tokio::test]
async fn a_message_that_is_delayed_is_not_taken_before_its_time() {
    let timed = Timed::start().await;
    let id = timed.send(&[("vqs-delay-seconds", "30")], "x").await;
    let reply = take(&timed, &id, &[]).await;
    assert_eq!((error(&reply).0, reply.header("retry-after")), (409, "30"));
    timed.pass(30);
    let taken = one(&take(&timed, &id, &[]).await);
    assert_eq!(timed.change(&taken.handle, 0).await.status, 200);
    assert_eq!(one(&take(&timed, &id, &[]).await).count, 2);
}

#[tokio::test]
async fn a_duplicate_names_its_original() {
    let timed = Timed::start().await;
    let key = [("vqs-idempotency-key", "k"), ("vqs-retention-seconds", "60")];
    let original = timed.send(&key, "x").await;
    let duplicate = timed.send(&key, "x").await;
    let expected = failure(409, "This messageId was a duplicate - use originalMessageId instead");
    let reply = take(&timed, &duplicate, &[]).await;
    assert_eq!(error(&reply), expected);
    assert_eq!(reply.json()["originalMessageId"], original);
    assert!(!reply.headers.contains_key("retry-after"));
    let taken = one(&take(&timed, &original, &[]).await);
    timed.ack(&taken.handle).await;
    assert_eq!(error(&take(&timed, &duplicate, &[]).await), expected, "whatever became of the original");
    let elsewhere = format!("/api/v3/topic/others/consumer/mailer/id/{duplicate}");
    assert_eq!(error(&timed.post(&elsewhere, &[PARTS], Body::empty()).await), not_found());
    timed.pass(60);
    assert_eq!(error(&take(&timed, &duplicate, &[]).await), not_found(), "its original has expired");
}

#[tokio::test]
async fn headers_are_those_of_a_receive_but_for_two() {
    let timed = Timed::start().await;
    let id = timed.send(&[], "x").await;
    timed.send(&[], "y").await;
    for (name, value) in
        [("accept", "text/html"), ("vqs-visibility-timeout-seconds", "3601"), ("vqs-max-concurrency", "0")]
    {
        let reply = timed.post(&format!("{GROUP}/id/{id}"), &[(name, value)], Body::empty()).await;
        assert_eq!(error(&reply).0, 400, "{name}");
    }
    let ignored = [("vqs-max-messages", "x"), ("vqs-cursor-fallback", "x")];
    let look = [ignored[0], ignored[1], ("vqs-visibility-timeout-seconds", "0")];
    assert_eq!(one(&take(&timed, &id, &look).await).count, 1);
    let one_at_once = ("vqs-max-concurrency", "1");
    timed.post(GROUP, &[PARTS, one_at_once], Body::empty()).await;
    let second = timed.receive(&format!("{TOPIC}/consumer/other"), &[]).await.remove(1);
    let reply = take(&timed, &second.id, &[one_at_once]).await;
    assert_eq!(error(&reply).0, 429);
    assert_eq!(reply.json()["currentInflight"], 1);
    assert_eq!(one(&take(&timed, &second.id, &[("vqs-visibility-timeout-seconds", "5")]).await).count, 1);
}
