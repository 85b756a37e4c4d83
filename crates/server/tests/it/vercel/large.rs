//! Payloads that are larger than a chunk, on their way in and out.

use axum::body::Body;
use axum::http::Method;
use millpond_core::limits::CHUNK_BYTES;
use millpond_server::serve_connection;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::{GROUP, LINES, PARTS, TOPIC, Timed, messages, sent};
use crate::harness::{content_length, read_head};
use crate::uploads::{data, made};

const LARGE: usize = 3 * CHUNK_BYTES + 7;

#[tokio::test]
async fn a_payload_of_any_length_comes_back_as_it_was_sent() {
    let timed = Timed::start().await;
    for bytes in [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, LARGE] {
        for body in [made(bytes, true), made(bytes, false)] {
            let headers = [("content-type", "video/mp4")];
            let id = sent(&timed.post(TOPIC, &headers, body).await);
            for accept in [PARTS, LINES] {
                let look = ("vqs-visibility-timeout-seconds", "0");
                let reply = timed.post(GROUP, &[accept, look], Body::empty()).await;
                let seen = messages(&reply).remove(0);
                assert_eq!((&seen.id, seen.content_type.as_str()), (&id, "video/mp4"));
                assert!(seen.payload == data(bytes), "{bytes} {accept:?}");
            }
            let received = timed.receive_one(&[]).await;
            assert!(received.payload == data(bytes), "{bytes}");
            assert_eq!(timed.ack(&received.handle).await.status, 204);
        }
    }
}

#[tokio::test]
async fn small_and_large_payloads_come_in_one_answer() {
    let timed = Timed::start().await;
    let lengths = [5, LARGE, 0, LARGE, 9];
    for bytes in lengths {
        timed.send(&[], data(bytes)).await;
    }
    for accept in [LINES, PARTS] {
        let headers = [accept, ("vqs-max-messages", "10"), ("vqs-visibility-timeout-seconds", "0")];
        let received = messages(&timed.post(GROUP, &headers, Body::empty()).await);
        let found: Vec<_> = received.iter().map(|message| message.payload.len()).collect();
        assert_eq!(found, lengths);
        assert!(received.iter().all(|message| message.payload == data(message.payload.len())));
    }
}

#[tokio::test]
async fn a_large_duplicate_is_read_and_not_stored() {
    let timed = Timed::start().await;
    let headers = [("vqs-idempotency-key", "k")];
    assert!(timed.send(&headers, data(LARGE)).await.starts_with("msg_"));
    assert!(timed.send(&headers, vec![b'y'; LARGE]).await.starts_with("dup_"));
    let received = timed.receive_one(&[]).await;
    assert!(received.payload == data(LARGE));
}

#[tokio::test]
async fn an_answer_has_8_mib_or_one_message() {
    let timed = Timed::start().await;
    let lengths = [5 << 20, 2 << 20, 2 << 20, 9 << 20, 1];
    for bytes in lengths {
        timed.send(&[], data(bytes)).await;
    }
    for expected in [&lengths[..2], &lengths[2..3], &lengths[3..4], &lengths[4..]] {
        let received = timed.receive(GROUP, &[]).await;
        let found: Vec<_> = received.iter().map(|message| message.payload.len()).collect();
        assert_eq!(found, expected);
        assert!(received.iter().all(|message| message.count == 1), "what stayed was not counted");
    }
}

#[tokio::test]
async fn what_was_whole_stays_leased_when_an_answer_breaks_off_and_the_rest_comes_back() {
    let timed = Timed::start().await;
    for bytes in [100, LARGE, LARGE] {
        timed.send(&[], data(bytes)).await;
    }
    let (mut client, stream) = duplex(16 << 10);
    let shutdown = timed.server.shutdown.watch();
    let served = tokio::spawn(serve_connection(stream, timed.server.router.clone(), shutdown));
    let call = format!(
        "POST {GROUP} HTTP/1.1\r\nhost: localhost\r\naccept: multipart/mixed\r\nvqs-max-messages: 10\r\n\
         content-length: 0\r\n\r\n"
    );
    client.write_all(call.as_bytes()).await.expect("written");
    let (head, body, length) = read_head(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert_eq!(content_length(&head), length);
    // Two thirds of it: the first two messages and a part of the third.
    let mut rest = vec![0; 2 * LARGE - body.len()];
    client.read_exact(&mut rest).await.expect("so much of it");
    drop(client);
    served.await.expect("it ends");
    let back = timed.receive_one_soon().await;
    assert_eq!((back.payload.len(), back.count), (LARGE, 1), "the third, as if it had not been handed out");
    timed.pass(60);
    let counts: Vec<_> = timed.receive(GROUP, &[]).await.iter().map(|message| message.count).collect();
    assert_eq!(counts, [2, 2, 2]);
}

#[tokio::test]
async fn an_early_message_is_settled_while_a_later_one_is_on_its_way() {
    let timed = Timed::start().await;
    timed.send(&[], data(100)).await;
    timed.send(&[], data(LARGE)).await;
    let (mut client, stream) = duplex(1 << 10);
    let shutdown = timed.server.shutdown.watch();
    tokio::spawn(serve_connection(stream, timed.server.router.clone(), shutdown));
    let call = format!(
        "POST {GROUP} HTTP/1.1\r\nhost: localhost\r\naccept: multipart/mixed\r\nvqs-max-messages: 10\r\n\
         content-length: 0\r\n\r\n"
    );
    client.write_all(call.as_bytes()).await.expect("written");
    let (_, mut body, length) = read_head(&mut client).await;
    while !body.windows(4).any(|window| window == b"\r\n\r\n") {
        body.push(client.read_u8().await.expect("more"));
    }
    let text = String::from_utf8_lossy(&body).into_owned();
    let handle = text.split("Vqs-Receipt-Handle: ").nth(1).and_then(|rest| rest.get(..50)).expect("a handle");
    let path = format!("{GROUP}/lease/{handle}");
    assert_eq!(timed.call(Method::DELETE, &path, &[], Body::empty()).await.status, 204);
    let mut rest = vec![0; length - body.len()];
    client.read_exact(&mut rest).await.expect("all of it");
    assert!(rest.windows(LARGE).any(|window| window == data(LARGE)));
}
