//! Large bodies on their way in (docs/decisions/0012).

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::Method;
use bytes::Bytes;
use futures_util::FutureExt as _;
use http_body::{Frame, SizeHint};
use millpond_api::limits::BINARY_BODY_BYTES_MAX;
use millpond_core::Command;
use millpond_core::limits::{CHUNK_BYTES, DATA_INLINE_BYTES_MAX};
use millpond_engine::{Engine, EngineSettings};
use millpond_test_stores::{Stored, new_store};
use serde_json::json;
use tokio::sync::mpsc;

use crate::harness::{HOME, Reply, Server, refused, strings};

const PATH: &str = "/v1/queues/q:send";
/// Enough for a store that flushes a hundred MiB on a machine that is busy, and half of the time after which an upload is
/// given up because nothing comes.
const STORED_WITHIN: Duration = Duration::from_secs(30);

/// A byte of the data that tests send.
pub(crate) fn byte_at(at: usize) -> u8 {
    (at % 251) as u8 ^ (at / 65_536) as u8
}

/// So many bytes of it.
pub(crate) fn data(bytes: usize) -> Vec<u8> {
    (0..bytes).map(byte_at).collect()
}

/// A body that is made while it is read, in frames of an odd size; its length may be told or not.
struct Made {
    at: usize,
    until: usize,
    told: bool,
}

impl http_body::Body for Made {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let end = self.until.min(self.at + 100_003);
        if self.at == end {
            return Poll::Ready(None);
        }
        let frame: Bytes = (self.at..end).map(byte_at).collect();
        self.at = end;
        Poll::Ready(Some(Ok(Frame::data(frame))))
    }

    fn size_hint(&self) -> SizeHint {
        let left = (self.until - self.at) as u64;
        if self.told { SizeHint::with_exact(left) } else { SizeHint::default() }
    }
}

pub(crate) fn made(bytes: usize, told: bool) -> Body {
    Body::new(Made { at: 0, until: bytes, told })
}

/// A body whose frames come through a channel.
struct Held {
    frames: mpsc::UnboundedReceiver<Bytes>,
    told: Option<u64>,
}

impl http_body::Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(context).map(|frame| frame.map(|frame| Ok(Frame::data(frame))))
    }

    fn size_hint(&self) -> SizeHint {
        self.told.map(SizeHint::with_exact).unwrap_or_default()
    }
}

fn held(told: Option<usize>) -> (mpsc::UnboundedSender<Bytes>, Body) {
    let (sender, frames) = mpsc::unbounded_channel();
    (sender, Body::new(Held { frames, told: told.map(|told| told as u64) }))
}

pub(crate) async fn send_binary(server: &Server, headers: &[(&str, &str)], body: impl Into<Body>) -> Reply {
    let own = [("ce-specversion", "1.0"), ("ce-source", "/s"), ("ce-type", "t"), ("ce-id", "1")];
    let all: Vec<_> = own.into_iter().chain(headers.iter().copied()).collect();
    server.call(Method::POST, PATH, &all, body).await
}

/// Waits until what is stored is so; each look is a command that takes its turn.
pub(crate) async fn until_stored(server: &Server, is_so: impl Fn(&Stored) -> bool) {
    let begun = Instant::now();
    while !is_so(&server.stored()) {
        server.engine.submit(HOME, Command::Tick).await.expect("an answer");
        let (chunks, uploads) = (server.stored().chunks.len(), server.stored().uploads);
        assert!(begun.elapsed() < STORED_WITHIN, "{chunks} chunks, {uploads:?}");
    }
}

#[tokio::test]
async fn bytes_come_back_whatever_their_number_and_whether_it_was_told() {
    let server = Server::with_queue(json!({})).await;
    let sizes = [
        0,
        1,
        DATA_INLINE_BYTES_MAX,
        DATA_INLINE_BYTES_MAX + 1,
        CHUNK_BYTES - 1,
        CHUNK_BYTES,
        CHUNK_BYTES + 1,
        2 * CHUNK_BYTES,
        3 * CHUNK_BYTES + 7,
    ];
    for bytes in sizes {
        for told in [true, false] {
            let sent = send_binary(&server, &[], made(bytes, told)).await.ok();
            let id = strings(&sent["message_ids"]).remove(0);
            let reply = server.get(&format!("/v1/queues/q/messages/{id}/data")).await;
            assert_eq!(reply.status, 200, "{bytes} {told}");
            assert!(reply.body == data(bytes), "{bytes} {told}: {} bytes came back", reply.body.len());
            let chunks = server.stored().deliveries.last().map(|row| row.chunks as usize);
            let expected = if bytes <= DATA_INLINE_BYTES_MAX { 0 } else { bytes.div_ceil(CHUNK_BYTES) };
            assert_eq!(chunks, Some(expected), "{bytes}");
        }
    }
    assert_eq!(server.stored().uploads, []);
}

#[tokio::test]
async fn a_body_has_100_mib() {
    let server = Server::with_queue(json!({})).await;
    let sent = send_binary(&server, &[], made(BINARY_BODY_BYTES_MAX, true)).await.ok();
    let id = strings(&sent["message_ids"]).remove(0);
    let reply = server.get(&format!("/v1/queues/q/messages/{id}/data")).await;
    assert_eq!(reply.body.len(), BINARY_BODY_BYTES_MAX);
    let wrong = reply.body.iter().zip(0..).find(|(byte, at)| **byte != byte_at(*at));
    assert_eq!(wrong, None, "a byte and its place");
    server.post_nothing("/v1/queues/q:purge").await.ok();
    until_stored(&server, |stored| stored.chunks.is_empty() && stored.uploads.is_empty()).await;
    for told in [true, false] {
        let reply = send_binary(&server, &[], made(BINARY_BODY_BYTES_MAX + 1, told)).await;
        assert_eq!(reply.refusal(), refused(413, "payload_too_large"), "told: {told}");
        assert_eq!(reply.json()["limit"], BINARY_BODY_BYTES_MAX.to_string());
        until_stored(&server, |stored| stored.chunks.is_empty() && stored.uploads.is_empty()).await;
    }
}

#[tokio::test]
async fn a_deployment_may_take_less() {
    let engine = Engine::start(EngineSettings::default(), Arc::new(new_store()));
    let most = 3 * CHUNK_BYTES;
    let server = Server::made(engine, 10, |app| app.with_data_bytes(most)).await;
    server.post_nothing("/v1/queues?queue_id=q").await.ok();
    for told in [true, false] {
        send_binary(&server, &[], made(most, told)).await.ok();
        let reply = send_binary(&server, &[], made(most + 1, told)).await;
        assert_eq!(reply.refusal(), refused(413, "payload_too_large"), "told: {told}");
        assert_eq!(reply.json()["limit"], most.to_string());
    }
}

#[tokio::test]
async fn a_quota_counts_large_data_and_what_it_refuses_is_not_kept() {
    let mut settings = EngineSettings::default();
    settings.environment.core.bytes = 4 * CHUNK_BYTES as u64;
    let server = Server::on(settings, new_store()).await;
    server.post_nothing("/v1/queues?queue_id=q").await.ok();
    send_binary(&server, &[], made(2 * CHUNK_BYTES, true)).await.ok();
    for told in [true, false] {
        let reply = send_binary(&server, &[], made(2 * CHUNK_BYTES, told)).await;
        assert_eq!(reply.refusal(), refused(429, "byte_limit"), "told: {told}");
        until_stored(&server, |stored| stored.chunks.len() == 2 && stored.uploads.is_empty()).await;
    }
    server.post_nothing("/v1/queues/q:purge").await.ok();
    until_stored(&server, |stored| stored.chunks.is_empty() && stored.uploads.is_empty()).await;
    send_binary(&server, &[], made(3 * CHUNK_BYTES, false)).await.ok();
}

#[tokio::test]
async fn what_can_be_refused_is_refused_before_a_byte_is_read() {
    let server = Server::with_queue(json!({})).await;
    let large = 4 * CHUNK_BYTES;
    let path = |path: &str| path.to_owned();
    let event = [("ce-specversion", "1.0"), ("ce-source", "/s"), ("ce-type", "t"), ("ce-id", "1")];
    for (path, headers, expected) in [
        (path("/v1/queues/none:send"), &event[..], refused(404, "queue_not_found")),
        (path("/v1/queues/q:send?delay=13h"), &event[..], refused(400, "invalid_field")),
        (path("/v1/queues/q:send?ttl=0s"), &event[..], refused(400, "invalid_field")),
        (path(PATH), &event[..3], refused(400, "missing_field")),
        (
            path(PATH),
            &[event[0], event[1], event[2], event[3], ("idempotency-key", "")],
            refused(400, "invalid_field"),
        ),
    ] {
        // Nothing ever comes of this body: whoever waits for it waits for ever.
        let (_frames, body) = held(Some(large));
        let reply = server.call(Method::POST, &path, headers, body).await;
        assert_eq!(reply.refusal(), expected, "{path}");
    }
    server.engine.submit(HOME, Command::SetSpace { low: true }).await.expect("an answer");
    let (_frames, body) = held(Some(large));
    assert_eq!(send_binary(&server, &[], body).await.refusal(), refused(507, "storage_full"));
    assert_eq!((server.stored().chunks, server.stored().uploads), (vec![], vec![]));
}

#[tokio::test]
async fn a_client_that_hangs_up_in_the_middle_leaves_nothing() {
    let server = Server::with_queue(json!({})).await;
    for told in [Some(8 * CHUNK_BYTES), None] {
        let (frames, body) = held(told);
        let mut sending = Box::pin(send_binary(&server, &[], body));
        for _ in 0..4 {
            frames.send(data(CHUNK_BYTES).into()).expect("it is read");
        }
        tokio::select! {
            reply = sending.as_mut() => panic!("answered: {}", reply.status),
            () = until_stored(&server, |stored| stored.chunks.len() == 4) => {}
        }
        assert_eq!(server.stored().uploads.len(), 1);
        drop(sending);
        until_stored(&server, |stored| stored.chunks.is_empty() && stored.uploads.is_empty()).await;
    }
    let counters = server.view().await.counters;
    assert_eq!((counters.ready, counters.total_sent), (0, 0));
}

#[tokio::test]
async fn a_key_stands_for_the_bytes_however_they_come() {
    let server = Server::with_queue(json!({})).await;
    let key = [("idempotency-key", "k"), ("content-type", "video/mp4")];
    let bytes = 3 * CHUNK_BYTES + 1;
    let first = send_binary(&server, &key, made(bytes, true)).await.ok();
    let chunks = server.stored().chunks.len();
    for told in [false, true] {
        assert_eq!(send_binary(&server, &key, made(bytes, told)).await.ok(), first, "told: {told}");
        let other = send_binary(&server, &key, made(bytes - 1, told)).await;
        assert_eq!(other.refusal(), refused(409, "idempotency_key_reused"), "told: {told}");
        let small = send_binary(&server, &key, made(10, told)).await;
        assert_eq!(small.refusal(), refused(409, "idempotency_key_reused"), "told: {told}");
    }
    let header = [("idempotency-key", "k"), ("content-type", "video/webm")];
    let other = send_binary(&server, &header, made(bytes, true)).await;
    assert_eq!(other.refusal(), refused(409, "idempotency_key_reused"));
    assert_eq!((server.stored().chunks.len(), server.stored().uploads.len()), (chunks, 0));
    assert_eq!(server.view().await.counters.total_sent, 1);
}

#[tokio::test]
async fn there_are_at_most_64_uploads_at_once() {
    let server = Server::with_queue(json!({})).await;
    let mut under_way = Vec::new();
    for _ in 0..64 {
        let (frames, body) = held(Some(CHUNK_BYTES + 1));
        let mut sending = Box::pin(send_binary(&server, &[], body));
        frames.send(data(CHUNK_BYTES).into()).expect("it is read");
        assert!(sending.as_mut().now_or_never().is_none());
        under_way.push((frames, sending));
    }
    let (_frames, body) = held(Some(CHUNK_BYTES + 1));
    let reply = send_binary(&server, &[], body).await;
    assert_eq!(reply.refusal(), refused(429, "upload_limit"));
    assert_eq!(reply.json()["limit"], "64");
    assert!(reply.json()["retry_after_ms"].is_u64() && !reply.header("retry-after").is_empty());
    let (frames, mut sending) = under_way.pop().expect("there are some");
    frames.send(Bytes::from_static(&[1])).expect("it is read");
    drop(frames);
    sending.as_mut().await.ok();
    let (frames, body) = held(Some(CHUNK_BYTES + 1));
    frames.send(data(CHUNK_BYTES + 1).into()).expect("it is read");
    drop(frames);
    send_binary(&server, &[], body).await.ok();
}

#[tokio::test]
async fn bodies_that_do_not_fit_together_wait_for_each_other() {
    let server = Server::with_queue(json!({})).await;
    let large = 100 << 20;
    let begin = |bytes: usize| {
        let (frames, body) = held(Some(bytes));
        (frames, Box::pin(send_binary(&server, &[], body)))
    };
    let (first_frames, mut first) = begin(large);
    let (second_frames, mut second) = begin(large);
    for (frames, sending) in [(&first_frames, &mut first), (&second_frames, &mut second)] {
        frames.send(data(CHUNK_BYTES).into()).expect("it is read");
        assert!(sending.as_mut().now_or_never().is_none());
    }
    let both = async { tokio::join!(first.as_mut(), second.as_mut()) };
    tokio::select! {
        _ = both => panic!("they have not ended"),
        () = until_stored(&server, |stored| stored.uploads.len() == 2) => {}
    }
    let third = send_binary(&server, &[], made(large, true));
    let mut third = Box::pin(third);
    assert!(third.as_mut().now_or_never().is_none());
    drop(first);
    third.await.ok();
    drop(second);
    until_stored(&server, |stored| stored.uploads.is_empty() && stored.deliveries.len() == 1).await;
}
