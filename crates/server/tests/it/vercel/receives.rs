//! Receiving messages.

use axum::body::Body;

use super::{GROUP, LINES, PARTS, TOPIC, Timed, error, failure, messages};

#[tokio::test]
async fn there_is_nothing_where_nothing_was_sent() {
    let timed = Timed::start().await;
    for group in [GROUP, "/api/v3/topic/unknown/consumer/g"] {
        let reply = timed.post(group, &[PARTS], Body::empty()).await;
        assert_eq!((reply.status.as_u16(), reply.body.len()), (204, 0));
        assert!(!reply.headers.contains_key("content-type"));
    }
}

#[tokio::test]
async fn a_group_that_is_empty_is_looked_at_for_nothing() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let first = timed.receive_one(&[]).await;
    assert_eq!(timed.ack(&first.handle).await.status, 204);
    let before = timed.server.engine.stats().commits;
    for headers in [&[][..], &[("vqs-cursor-fallback", "latest")], &[("vqs-deployment-id", "dpl_1")]] {
        assert_eq!(timed.receive(GROUP, headers).await, []);
    }
    assert_eq!(timed.server.engine.stats().commits, before, "nothing is written");
}

#[tokio::test]
async fn messages_come_in_parts_or_in_lines() {
    let timed = Timed::start().await;
    for payload in [&b"a"[..], b"ab", b"abc", b"", b"\r\n--x"] {
        timed.send(&[("content-type", "text/plain;x=\"y\"")], payload).await;
    }
    let look = ("vqs-visibility-timeout-seconds", "0");
    let all = ("vqs-max-messages", "10");
    let parts = messages(&timed.post(GROUP, &[PARTS, look, all], Body::empty()).await);
    let reply = timed.post(GROUP, &[LINES, look, all], Body::empty()).await;
    assert_eq!(reply.header("content-type"), "application/x-ndjson");
    assert_eq!(messages(&reply), parts);
    let both = ("accept", "application/x-ndjson, multipart/mixed");
    let reply = timed.post(GROUP, &[both, look, all], Body::empty()).await;
    assert!(reply.header("content-type").starts_with("multipart/mixed"));
    for accept in [&[][..], &[("accept", "*/*")], &[("accept", "application/json")]] {
        let reply = timed.post(GROUP, accept, Body::empty()).await;
        let (status, text) = error(&reply);
        assert_eq!(status, 400);
        assert!(text.contains("expected multipart/mixed or application/x-ndjson"), "{text}");
    }
}

#[tokio::test]
async fn one_message_is_given_unless_more_are_asked_for() {
    let timed = Timed::start().await;
    for number in 0..12 {
        timed.send(&[], format!("{number}")).await;
    }
    assert_eq!(messages(&timed.post(GROUP, &[PARTS], Body::empty()).await).len(), 1);
    let ten = messages(&timed.post(GROUP, &[PARTS, ("vqs-max-messages", "1e1")], Body::empty()).await);
    let order: Vec<_> = ten.iter().map(|message| String::from_utf8_lossy(&message.payload)).collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
    for value in ["0", "11", "2.5", "many"] {
        let reply = timed.post(GROUP, &[PARTS, ("vqs-max-messages", value)], Body::empty()).await;
        let expected = format!("Vqs-Max-Messages is {value}, expected an integer from 1 to 10");
        assert_eq!(error(&reply), failure(400, &expected));
    }
    assert_eq!(timed.receive(GROUP, &[]).await.len(), 1, "what was refused leased nothing");
}

#[tokio::test]
async fn a_lease_lasts_a_minute_or_as_long_as_was_asked_for() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    for (asked, lasts) in [(None, 60), (Some("1"), 1), (Some("3600"), 3_600)] {
        let headers: Vec<_> =
            asked.map(|value| ("vqs-visibility-timeout-seconds", value)).into_iter().collect();
        timed.receive_one(&headers).await;
        timed.pass(lasts - 1);
        assert_eq!(timed.receive(GROUP, &[]).await, []);
        timed.pass(1);
    }
    assert_eq!(timed.receive_one(&[]).await.count, 4);
    for value in ["3601", "-1", "1.5"] {
        let reply =
            timed.post(GROUP, &[PARTS, ("vqs-visibility-timeout-seconds", value)], Body::empty()).await;
        assert_eq!(error(&reply).0, 400, "{value}");
    }
}

#[tokio::test]
async fn a_timeout_of_nothing_is_a_look() {
    let timed = Timed::start().await;
    timed.send(&[], "x").await;
    let look = ("vqs-visibility-timeout-seconds", "0");
    for _ in 0..2 {
        let seen = timed.receive_one(&[look]).await;
        assert_eq!((seen.count, seen.payload.as_slice()), (1, &b"x"[..]));
        for reply in [timed.ack(&seen.handle).await, timed.change(&seen.handle, 30).await] {
            assert_eq!(error(&reply), failure(409, "Message is not currently in-flight"));
        }
    }
    let held = timed.receive_one(&[]).await;
    assert_eq!(held.count, 1, "a look is not counted");
    assert_eq!(timed.receive(GROUP, &[look]).await, []);
    assert_eq!(timed.ack(&held.handle).await.status, 204);
}

#[tokio::test]
async fn each_group_has_every_message_from_the_beginning_or_from_now_on() {
    let timed = Timed::start().await;
    timed.send(&[], "old").await;
    let group = |name: &str| format!("{TOPIC}/consumer/{name}");
    let latest = [("vqs-cursor-fallback", "latest")];
    assert_eq!(timed.receive(&group("late"), &latest).await, []);
    timed.send(&[], "new").await;
    let payloads = async |name: &str, headers: &[(&str, &str)]| {
        let received = timed.receive(&group(name), headers).await;
        received
            .iter()
            .map(|message| String::from_utf8_lossy(&message.payload).into_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(payloads("early", &[("vqs-cursor-fallback", "earliest")]).await, ["old", "new"]);
    assert_eq!(payloads("late", &[]).await, ["new"], "its start is kept");
    assert_eq!(payloads("plain", &[]).await, ["old", "new"]);
    assert_eq!(payloads("plain", &latest).await, [""; 0], "a group that has begun does not begin anew");
    let reply = timed.post(GROUP, &[PARTS, ("vqs-cursor-fallback", "middle")], Body::empty()).await;
    let expected = "Vqs-Cursor-Fallback is middle, expected earliest or latest";
    assert_eq!(error(&reply), failure(400, expected));
}

#[tokio::test]
async fn new_messages_go_before_those_that_come_back() {
    let timed = Timed::start().await;
    timed.send(&[], "first").await;
    let first = timed.receive_one(&[]).await;
    timed.send(&[], "second").await;
    assert_eq!(timed.change(&first.handle, 0).await.status, 200);
    let received = timed.receive(GROUP, &[]).await;
    let order: Vec<_> = received.iter().map(|message| (&message.payload[..], message.count)).collect();
    assert_eq!(order, [(&b"second"[..], 1), (b"first", 2)]);
}

#[tokio::test]
async fn no_more_are_in_flight_than_the_call_allows() {
    let timed = Timed::start().await;
    for _ in 0..4 {
        timed.send(&[], "x").await;
    }
    let three = ("vqs-max-concurrency", "3");
    let held = timed.receive(GROUP, &[three]).await;
    assert_eq!(held.len(), 3, "as many as there is room for");
    let headers = [PARTS, three];
    let reply = timed.post(GROUP, &headers, Body::empty()).await;
    assert_eq!(error(&reply).0, 429);
    assert_eq!((&reply.json()["currentInflight"], &reply.json()["maxConcurrency"]), (&3.into(), &3.into()));
    assert_eq!(reply.header("retry-after"), "1");
    assert_eq!(timed.ack(&held[0].handle).await.status, 204);
    assert_eq!(timed.receive(GROUP, &[three]).await.len(), 1);
    for value in ["0", "-1", "many"] {
        let reply = timed.post(GROUP, &[PARTS, ("vqs-max-concurrency", value)], Body::empty()).await;
        assert_eq!(error(&reply).0, 400, "{value}");
    }
}
