//! What is sent, and what is made of replies.

use std::time::Duration;
use tokio::sync::oneshot;

use hyper::header::HeaderValue;
use millpond_push::Caller;

use crate::target::{Listener, OK, call, caller, request, settings};

#[tokio::test]
async fn a_call_is_a_post_with_its_headers_and_its_body() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let mut request = request(&listener.url());
    request.headers.insert("ce-id", HeaderValue::from_static("msg_1"));
    let (reply, received) = tokio::join!(caller.call(request, oneshot::channel().0), async {
        let reply = "HTTP/1.1 202 Accepted\r\nretry-after: 7\r\ncontent-length: 5\r\n\r\nlater";
        listener.accept().await.serve(reply).await
    });
    assert!(received.head.starts_with("POST /push?a=b HTTP/1.1\r\n"), "{}", received.head);
    assert_eq!(received.header("ce-id"), Some("msg_1"));
    assert_eq!(received.header("content-length"), Some("5"));
    assert_eq!(received.header("host"), Some(listener.address().to_string().as_str()));
    assert_eq!(received.header("user-agent"), Some(concat!("millpond/", env!("CARGO_PKG_VERSION"))));
    assert_eq!(received.body, b"hello");
    let reply = reply.expect("it was replied to");
    assert_eq!((reply.status, reply.is_success(), reply.body_start.as_str()), (202, true, "later"));
    assert_eq!(reply.retry_after, Some(Duration::from_secs(7)));
}

#[tokio::test]
async fn an_empty_body_is_one_of_no_bytes() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let mut request = request(&listener.url());
    request.body.clear();
    let serve = async { listener.accept().await.serve("HTTP/1.1 204 No Content\r\n\r\n").await };
    let (reply, received) = tokio::join!(caller.call(request, oneshot::channel().0), serve);
    assert_eq!(
        (reply.expect("it was replied to").status, received.header("content-length")),
        (204, Some("0"))
    );
}

#[tokio::test]
async fn any_status_is_a_reply_and_no_redirect_is_followed() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.0/8"]));
    let elsewhere = Listener::bind().await;
    for status in [301, 302, 303, 307, 308, 400, 404, 429, 500, 503] {
        let location = elsewhere.url();
        let text = format!(
            "HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        );
        let serve = async { listener.accept().await.serve(&text).await };
        let (reply, _) = tokio::join!(call(&caller, listener.url()), serve);
        let reply = reply.expect("it was replied to");
        assert_eq!((reply.status, reply.is_success()), (status, false));
    }
    elsewhere.assert_untouched().await;
}

#[tokio::test]
async fn what_comes_before_the_reply_is_passed_over() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let text = format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: a\r\n\r\n{OK}");
    let serve = async { listener.accept().await.serve(&text).await };
    let (reply, _) = tokio::join!(call(&caller, listener.url()), serve);
    assert_eq!(reply.expect("it was replied to").status, 200);
}

#[tokio::test]
async fn a_call_takes_as_long_as_its_target_does() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let (reply, ()) = tokio::join!(call(&caller, listener.url()), async {
        let mut connection = listener.accept().await;
        connection.request().await;
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(7 * 86_400)).await;
        tokio::time::resume();
        connection.send(OK).await;
    });
    assert_eq!(reply.expect("it was replied to").status, 200);
}

#[tokio::test]
async fn a_call_that_is_dropped_hangs_up() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let url = listener.url();
    let mut connection = {
        let mut connection = None;
        tokio::select! {
            reply = call(&caller, &url) => panic!("nobody replied: {reply:?}"),
            () = async {
                let mut accepted = listener.accept().await;
                accepted.request().await;
                connection = Some(accepted);
            } => {}
        }
        connection.expect("it was accepted")
    };
    connection.closed_by_caller().await;
}

/// Two calls one after the other; whether they came on one connection.
async fn reuses_after(caller: &Caller, reply: &str) -> bool {
    let listener = Listener::bind().await;
    let url = listener.url();
    let mut first = None;
    let (status, ()) = tokio::join!(async { call(caller, &url).await.expect("a reply").status }, async {
        let mut connection = listener.accept().await;
        connection.request().await;
        // The caller may hang up before all of it is written.
        let _ = tokio::io::AsyncWriteExt::write_all(&mut connection.stream, reply.as_bytes()).await;
        first = Some(connection);
    });
    assert_eq!(status, 200);
    let mut first = first.expect("it was accepted");
    let mut reused = false;
    let (second, ()) = tokio::join!(call(caller, &url), async {
        tokio::select! {
            biased;
            mut connection = listener.accept() => { connection.serve(OK).await; }
            () = first.request_or_never() => {
                reused = true;
                first.send(OK).await;
            }
        }
    });
    assert_eq!(second.expect("a reply").status, 200);
    reused
}

fn with_body(bytes: usize) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: {bytes}\r\n\r\n{}", "é".repeat(bytes / 2))
}

#[tokio::test]
async fn a_connection_is_used_again_unless_its_reply_is_too_long() {
    let caller = caller(&["127.0.0.1"]);
    assert!(reuses_after(&caller, OK).await);
    assert!(reuses_after(&caller, &with_body(millpond_push::call::DRAINED_BYTES_MAX)).await);
    assert!(!reuses_after(&caller, &with_body(1 << 20)).await);
    let endless = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n";
    assert!(!reuses_after(&impatient(), endless).await);
}

fn impatient() -> Caller {
    let mut settings = settings(&["127.0.0.1"]);
    settings.drain_patience = Duration::from_millis(20);
    Caller::new(settings)
}

#[tokio::test]
async fn a_kilobyte_of_the_reply_is_kept() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let text = with_body(10_000);
    let serve = async { listener.accept().await.serve(&text).await };
    let (reply, _) = tokio::join!(call(&caller, listener.url()), serve);
    assert_eq!(reply.expect("it was replied to").body_start, "é".repeat(512));
}

#[tokio::test]
async fn a_reply_whose_body_breaks_off_or_never_ends_is_one() {
    let (listener, caller) = (Listener::bind().await, impatient());
    let half = "HTTP/1.1 500 X\r\ncontent-length: 100\r\n\r\nhalf";
    let serve = async { listener.accept().await.serve(half).await };
    let (reply, _) = tokio::join!(call(&caller, listener.url()), serve);
    let reply = reply.expect("it was replied to");
    assert_eq!((reply.status, reply.body_start.as_str()), (500, "half"));
    let open = async {
        let mut connection = listener.accept().await;
        connection.serve(half).await;
        connection
    };
    let (reply, _open) = tokio::join!(call(&caller, listener.url()), open);
    assert_eq!(reply.expect("it was replied to").status, 500);
}
