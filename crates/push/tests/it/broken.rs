//! Connections that fail: what the target may have had, and what it surely has not.

use millpond_push::{CallError, Caller};
use tokio::io::AsyncWriteExt as _;

use crate::target::{Listener, OK, call, caller, unreachable};

#[tokio::test]
async fn a_target_that_does_not_listen_has_nothing() {
    let listener = Listener::bind().await;
    let (url, address) = (listener.url(), listener.address());
    drop(listener);
    let error = unreachable(&caller(&["127.0.0.1"]), &url).await;
    assert!(error.starts_with(&format!("{address}: ")) && error.contains("refused"), "{error}");
}

#[tokio::test]
async fn a_connection_that_ends_before_the_reply_is_broken() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    for begun in ["", "HTTP/1.1 200", "HTTP/1.1 200 OK\r\ncontent-le"] {
        for hard in [false, true] {
            let (outcome, ()) = tokio::join!(call(&caller, listener.url()), async {
                let mut connection = listener.accept().await;
                connection.request().await;
                connection.send(begun).await;
                if hard {
                    connection.reset();
                }
            });
            assert!(matches!(outcome, Err(CallError::Broken { .. })), "{begun:?} {hard}: {outcome:?}");
        }
    }
}

#[tokio::test]
async fn what_is_no_http_is_broken() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    let serve = async { listener.accept().await.serve("hello\r\n\r\n").await };
    let (outcome, _) = tokio::join!(call(&caller, listener.url()), serve);
    assert!(matches!(outcome, Err(CallError::Broken { .. })), "{outcome:?}");
}

/// A connection that was used once, that its target has closed since, and that the caller has noticed to be closed.
async fn used_and_closed(caller: &Caller, listener: &Listener) {
    let (reply, mut connection) = tokio::join!(call(caller, listener.url()), async {
        let mut connection = listener.accept().await;
        connection.serve(OK).await;
        connection
    });
    assert_eq!(reply.expect("it was replied to").status, 200);
    connection.stream.shutdown().await.expect("a living connection");
    connection.closed_by_caller().await;
}

#[tokio::test]
async fn a_pooled_connection_that_the_target_had_closed_is_replaced() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    used_and_closed(&caller, &listener).await;
    let serve = async { listener.accept().await.serve(OK).await };
    let (reply, received) = tokio::join!(call(&caller, listener.url()), serve);
    assert_eq!((reply.expect("it was replied to").status, received.body), (200, b"hello".to_vec()));
}

#[tokio::test]
async fn a_target_that_is_gone_is_unreachable_though_it_was_reached_before() {
    let (listener, caller) = (Listener::bind().await, caller(&["127.0.0.1"]));
    used_and_closed(&caller, &listener).await;
    let url = listener.url();
    drop(listener);
    let error = unreachable(&caller, &url).await;
    assert!(error.contains("refused"), "{error}");
}
