//! Which calls are tried again, how often, and that all tries of a call are alike.

use millpond_client::{Client, Error, ErrorCode, Event, LeaseOptions, NewQueue, RetryPolicy, SendOptions};

use crate::server::{Line, Scripted, header};

fn sent() -> Line {
    Line::Answer(200, "content-type: application/json\r\n", r#"{"message_ids": ["msg_1"]}"#.to_owned())
}

fn problem(status: u16, code: &str, retryable: bool) -> Line {
    let effect = if code == "outcome_unknown" { "unknown" } else { "none" };
    let body = format!(
        r#"{{"status": {status}, "code": "{code}", "retryable": {retryable}, "effect": "{effect}", "detail": "as told"}}"#
    );
    Line::Answer(status, "content-type: application/problem+json\r\n", body)
}

async fn send(client: &Client) -> Result<Vec<String>, Error> {
    client.send("q", &[Event::new("/s", "t").json(&1)], &SendOptions::default()).await
}

#[tokio::test]
async fn one_send_keeps_one_key_through_all_its_tries() {
    let lines = vec![Line::HangUp, problem(503, "outcome_unknown", true), sent()];
    let server = Scripted::start(lines).await;
    assert_eq!(send(&server.client).await.expect("it is sent"), ["msg_1"]);
    let requests = server.requests().await;
    assert_eq!(requests.len(), 3);
    assert!(requests.windows(2).all(|pair| pair[0] == pair[1]), "{requests:#?}");
    let key = header(&requests[0], "idempotency-key").expect("a key");
    assert_eq!((key.len(), key.as_bytes()[14]), (36, b'7'), "a UUID of version 7: {key}");
}

#[tokio::test]
async fn two_sends_have_two_keys() {
    let server = Scripted::start(vec![sent(), sent()]).await;
    for _ in 0..2 {
        send(&server.client).await.expect("it is sent");
    }
    let requests = server.requests().await;
    assert_ne!(header(&requests[0], "idempotency-key"), header(&requests[1], "idempotency-key"));
}

#[tokio::test]
async fn every_call_that_changes_something_carries_a_key_and_no_other_does() {
    let answer = |body: &str| Line::Answer(200, "", body.to_owned());
    let stale = r#"{"stale_leases": []}"#;
    let lines = vec![
        answer(r#"{"purged_count": "1"}"#),
        answer(r#"{"replayed_count": "2"}"#),
        answer(r#"{"redriven_count": "3", "skipped_count": "4"}"#),
        answer("{}"),
        answer("{}"),
        answer(r#"{"messages": []}"#),
        answer(stale),
        answer(stale),
        answer(stale),
    ];
    let server = Scripted::start(lines).await;
    let client = &server.client;
    let (lease, which) = (Vec::new(), millpond_client::Selection::default());
    client.purge_queue("q", millpond_client::PurgeTarget::All).await.expect("purged");
    client.replay("q", &which).await.expect("replayed");
    client.redrive("q", Some("home"), &which).await.expect("redriven");
    client.delete_message("q", "msg_1").await.expect("deleted");
    client.delete_queue("q", &millpond_client::DeleteQueue::default()).await.expect("deleted");
    client.lease("q", &LeaseOptions::default()).await.expect("leased");
    client.ack("q", &lease).await.expect("acked");
    client.nack("q", &lease, None).await.expect("nacked");
    client.extend("q", &lease, None).await.expect("extended");
    let keyed: Vec<bool> =
        server.requests().await.iter().map(|request| header(request, "idempotency-key").is_some()).collect();
    assert_eq!(keyed, [true, true, true, true, true, false, false, false, false]);
}

#[tokio::test]
async fn three_tries_are_made_and_the_last_error_is_told() {
    let lines = vec![problem(503, "storage_unavailable", true); 3];
    let server = Scripted::start(lines).await;
    let error = send(&server.client).await.expect_err("refused");
    assert_eq!(error.code(), Some(&ErrorCode::StorageUnavailable));
    assert_eq!(error.to_string(), "as told (storage_unavailable)");
    assert_eq!(server.requests().await.len(), 3);
}

#[tokio::test]
async fn a_refusal_for_good_is_not_tried_again() {
    for (status, code) in [(404, "queue_not_found"), (429, "queue_limit"), (500, "internal")] {
        let server = Scripted::start(vec![problem(status, code, false)]).await;
        let error = send(&server.client).await.expect_err("refused");
        assert_eq!(error.code().map(ErrorCode::as_str), Some(code));
        assert_eq!(server.requests().await.len(), 1);
    }
}

#[tokio::test]
async fn a_proxy_that_is_busy_is_asked_again_and_its_pages_are_told() {
    let busy = Line::Answer(502, "retry-after: 0\r\n", "<h1>Bad gateway</h1>".to_owned());
    let server = Scripted::start(vec![busy.clone(), sent()]).await;
    assert!(send(&server.client).await.is_ok());
    assert_eq!(server.requests().await.len(), 2);

    let wrong = Line::Answer(404, "", "<h1>Not found</h1>".to_owned());
    let server = Scripted::start(vec![wrong]).await;
    let error = send(&server.client).await.expect_err("refused");
    assert!(matches!(&error, Error::Unexpected { status: 404, .. }), "{error:?}");
    assert!(error.to_string().contains("<h1>Not found</h1>"), "{error}");
    assert_eq!(server.requests().await.len(), 1);
}

#[tokio::test]
async fn an_answer_that_is_not_what_was_promised_is_an_error() {
    let server = Scripted::start(vec![Line::Answer(200, "", "<html>".to_owned())]).await;
    let error = send(&server.client).await.expect_err("not understood");
    assert!(matches!(&error, Error::Unexpected { status: 200, .. }), "{error:?}");
    assert!(error.may_have_happened());
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_apart_from_one_that_does_not_answer() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    let client = Client::builder(&url).retry(RetryPolicy::never()).build().expect("a client");
    let error = client.create_queue(&NewQueue::named("q")).await.expect_err("unreachable");
    assert!(matches!(&error, Error::Unreachable { .. }), "{error:?}");
    assert!(error.to_string().starts_with(&format!("cannot reach {url}: ")), "{error}");
    assert!(!error.may_have_happened());

    let server = Scripted::start(vec![Line::HangUp]).await;
    let client = Client::builder(server.client.url()).retry(RetryPolicy::never()).build().expect("a client");
    let error = send(&client).await.expect_err("unanswered");
    assert!(matches!(&error, Error::Unanswered { .. }) && error.may_have_happened(), "{error:?}");
}
