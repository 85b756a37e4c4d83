//! Acknowledging, extending and giving back.

use axum::body::Body;
use axum::http::Method;
use serde_json::json;

use super::{GROUP, TOPIC, Timed, error, failure};

const NOT_IN_FLIGHT: &str = "Message is not currently in-flight";
const EXPIRED: &str = "Message lease has expired";
const TAKEN: &str = "Receipt handle does not match current lease holder";
const NOT_FOUND: &str = "Message not found";

#[tokio::test]
async fn an_ack_ends_a_message_for_its_group_and_can_be_repeated() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    for _ in 0..2 {
        let reply = timed.ack(&message.handle).await;
        assert_eq!((reply.status.as_u16(), reply.body.len()), (204, 0));
    }
    assert_eq!(error(&timed.change(&message.handle, 30).await), failure(409, NOT_IN_FLIGHT));
    timed.pass(61);
    assert_eq!(timed.receive(GROUP, &[]).await, []);
    assert_eq!(timed.receive(&format!("{TOPIC}/consumer/other"), &[]).await.len(), 1);
    // It is not remembered for ever.
    timed.pass(600);
    timed.send(&[], "y").await;
    let other = timed.receive_one(&[]).await;
    assert_eq!(timed.ack(&other.handle).await.status, 204);
    assert_eq!(error(&timed.ack(&message.handle).await), failure(404, NOT_FOUND));
}

#[tokio::test]
async fn a_lease_that_is_not_held_says_why() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let first = timed.receive_one(&[]).await;
    timed.pass(60);
    let second = timed.receive_one(&[]).await;
    for reply in [timed.ack(&first.handle).await, timed.change(&first.handle, 30).await] {
        assert_eq!(error(&reply), failure(409, TAKEN));
    }
    assert_eq!(timed.change(&second.handle, 0).await.status, 200);
    for reply in [timed.ack(&second.handle).await, timed.change(&second.handle, 30).await] {
        assert_eq!(error(&reply), failure(409, EXPIRED));
    }
    assert_eq!(timed.receive_one(&[]).await.count, 3);
}

#[tokio::test]
async fn a_lease_that_ran_out_is_over_though_nobody_took_the_message() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    timed.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(error(&timed.ack(&message.handle).await), failure(409, EXPIRED));
    assert_eq!(timed.receive_one(&[]).await.count, 2);
}

#[tokio::test]
async fn a_lease_is_another_groups_or_nobodys() {
    let timed = Timed::start().await;
    timed.send(&[("vqs-retention-seconds", "60")], "x").await;
    let message = timed.receive_one(&[]).await;
    timed.receive(&format!("{TOPIC}/consumer/other"), &[]).await;
    let other_group = format!("{TOPIC}/consumer/other/lease/{}", message.handle);
    let other_topic = format!("/api/v3/topic/others/consumer/mailer/lease/{}", message.handle);
    let body = || json!({ "visibilityTimeoutSeconds": 30 }).to_string();
    for (path, expected) in
        [(&other_group, failure(409, NOT_IN_FLIGHT)), (&other_topic, failure(404, NOT_FOUND))]
    {
        assert_eq!(error(&timed.call(Method::DELETE, path, &[], Body::empty()).await), expected);
        assert_eq!(error(&timed.call(Method::PATCH, path, &[], body()).await), expected);
    }
    let damaged = message.handle.replacen(&message.handle[..4], "0000", 1);
    for unknown in ["x", "visibility", &message.handle[1..], &format!("{}A", message.handle), &damaged] {
        assert_eq!(error(&timed.ack(unknown).await), failure(404, NOT_FOUND), "{unknown}");
        assert_eq!(error(&timed.change(unknown, 30).await), failure(404, NOT_FOUND), "{unknown}");
    }
    timed.pass(61);
    assert_eq!(error(&timed.ack(&message.handle).await).0, 404, "the message has expired with its lease");
    let reply = timed.call(Method::DELETE, &other_group, &[], Body::empty()).await;
    assert_eq!(error(&reply), failure(404, NOT_FOUND));
}

#[tokio::test]
async fn a_handle_may_come_percent_encoded() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    let encoded: String = message.handle.bytes().map(|byte| format!("%{byte:02X}")).collect();
    assert_eq!(timed.ack(&encoded).await.status, 204);
}

#[tokio::test]
async fn a_change_counts_from_now_longer_or_shorter() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    timed.pass(50);
    let reply = timed.change(&message.handle, 3_600).await;
    assert_eq!((reply.status.as_u16(), reply.json()), (200, json!({ "success": true })));
    assert_eq!(reply.header("content-type"), "application/json");
    timed.pass(3_599);
    assert_eq!(timed.receive(GROUP, &[]).await, []);
    let alias = format!("{GROUP}/lease/{}/visibility", message.handle);
    let body = json!({ "visibilityTimeoutSeconds": 20 }).to_string();
    assert_eq!(
        timed.call(Method::PATCH, &alias, &[("content-type", "application/json")], body).await.status,
        200
    );
    timed.pass(19);
    assert_eq!(timed.receive(GROUP, &[]).await, []);
    timed.pass(1);
    let again = timed.receive_one(&[]).await;
    assert_eq!(again.count, 2);
    assert_eq!(timed.change(&again.handle, 0).await.status, 200);
    assert_eq!(timed.receive_one(&[]).await.count, 3, "it is there at once");
}

#[tokio::test]
async fn a_change_names_whole_seconds_up_to_an_hour() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    let path = format!("{GROUP}/lease/{}", message.handle);
    for body in [
        r#"{"visibilityTimeoutSeconds":3601}"#,
        r#"{"visibilityTimeoutSeconds":"30"}"#,
        r#"{"visibilityTimeoutSeconds":30.5}"#,
        r#"{"visibilityTimeoutSeconds":-1}"#,
        r#"{"visibilityTimeoutSeconds":null}"#,
        "{}",
        "",
        "{",
    ] {
        let reply = timed.call(Method::PATCH, &path, &[], body).await;
        assert_eq!(error(&reply).0, 400, "{body}");
    }
    let long = vec![b' '; (64 << 10) + 1];
    assert_eq!(error(&timed.call(Method::PATCH, &path, &[], long).await).0, 413);
    assert_eq!(timed.ack(&message.handle).await.status, 204, "nothing of that changed it");
}

#[tokio::test]
async fn a_lease_does_not_outlive_its_message_but_may_be_acked_to_its_end() {
    let timed = Timed::start().await;
    timed.send(&[("vqs-retention-seconds", "100")], "x").await;
    let message = timed.receive_one(&[]).await;
    timed.pass(50);
    let reply = timed.change(&message.handle, 51).await;
    let expected = failure(400, "Visibility timeout cannot extend beyond message expiration");
    assert_eq!(error(&reply), expected);
    let body = reply.json();
    assert_eq!(body["messageExpiresAt"], "2023-11-14T22:15:00.000Z");
    assert_eq!(body["requestedExpiresAt"], "2023-11-14T22:15:01.000Z");
    assert_eq!(timed.change(&message.handle, 50).await.status, 200);
    assert_eq!(timed.ack(&message.handle).await.status, 204);
}

#[tokio::test]
async fn of_two_changes_the_one_that_was_asked_for_later_counts() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let message = timed.receive_one(&[]).await;
    let path = format!("{GROUP}/lease/{}", message.handle);
    for (asked_at, seconds) in [("2026-11-30T03:25:23.700Z", 5), ("2026-11-30T03:25:23.699999+00:00", 300)] {
        let body = json!({ "visibilityTimeoutSeconds": seconds }).to_string();
        let reply = timed.call(Method::PATCH, &path, &[("vqs-client-ts", asked_at)], body).await;
        assert_eq!(reply.status, 200);
    }
    timed.pass(5);
    assert_eq!(timed.receive_one(&[]).await.count, 2, "the late renewal did not undo the reschedule");
}
