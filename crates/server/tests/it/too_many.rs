//! Connections: how many there may be, and how long one may be without a request.

use std::sync::Arc;
use std::time::Duration;

use millpond_engine::{Engine, EngineSettings};
use millpond_server::{HEAD_READ_MAX, METRICS_QUEUES, bind, serve, serve_connection};
use millpond_test_stores::new_store;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, advance};

use crate::harness::{Server, read_answer};

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// What a timer may be late by.
const TICK: Duration = Duration::from_millis(2);

fn connect(server: &Server) -> (DuplexStream, JoinHandle<()>) {
    let (client, stream) = duplex(1 << 10);
    (client, tokio::spawn(serve_connection(stream, server.router.clone(), server.shutdown.watch())))
}

async fn ask(client: &mut DuplexStream) {
    client.write_all(REQUEST).await.expect("written");
    let (head, _) = read_answer(client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

/// How long it takes until the server ends the connection without another word.
async fn until_it_ends(client: &mut DuplexStream, serving: JoinHandle<()>) -> Duration {
    let begun = Instant::now();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.expect("the end");
    serving.await.expect("no panic");
    assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    begun.elapsed()
}

#[tokio::test(start_paused = true)]
async fn a_head_that_does_not_come_ends_the_connection() {
    let server = Server::start().await;
    for pieces in [&[][..], &["GET /heal"], &["GET /healthz HTTP/1.1\r\n", "host: ", "localhost\r\nx-y: "]] {
        let (mut client, serving) = connect(&server);
        // Its time begins when it is served.
        tokio::task::yield_now().await;
        let mut passed = Duration::ZERO;
        for piece in pieces {
            client.write_all(piece.as_bytes()).await.expect("written");
            // What comes piece by piece gains no time.
            advance(Duration::from_secs(30)).await;
            passed += Duration::from_secs(30);
        }
        let took = passed + until_it_ends(&mut client, serving).await;
        assert!((HEAD_READ_MAX..HEAD_READ_MAX + TICK).contains(&took), "{took:?} {pieces:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_has_as_long_after_each_answer() {
    let server = Server::start().await;
    let (mut client, serving) = connect(&server);
    tokio::task::yield_now().await;
    for _ in 0..3 {
        advance(HEAD_READ_MAX - Duration::from_secs(1)).await;
        ask(&mut client).await;
    }
    let took = until_it_ends(&mut client, serving).await;
    assert!((HEAD_READ_MAX..HEAD_READ_MAX + TICK).contains(&took), "{took:?}");
}

#[tokio::test]
async fn one_connection_too_many_is_told_so() {
    let engine = Engine::start(EngineSettings::default(), Arc::new(new_store()));
    let server = Server::bounded(engine, METRICS_QUEUES, 2).await;
    let listener = bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let ask = async || {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        client.write_all(REQUEST).await.expect("written");
        let (head, body) = read_answer(&mut client).await;
        (client, head, serde_json::from_slice::<Value>(&body).expect("json"))
    };
    let client = async {
        let (first, head, _) = ask().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let (_second, head, _) = ask().await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");

        let (mut third, head, problem) = ask().await;
        assert!(head.starts_with("HTTP/1.1 429") && head.contains("connection: close"), "{head}");
        assert!(head.contains("content-type: application/problem+json"), "{head}");
        assert_eq!((&problem["code"], &problem["limit"]), (&json!("server_overloaded"), &json!("2")));
        assert_eq!(problem["detail"], "too many connections are open, limit 2");
        assert!(head.contains(problem["instance"].as_str().expect("an id")), "{head}");
        assert_eq!(third.read(&mut [0]).await.expect("the end"), 0);

        let page = server.get("/metrics").await;
        let page = String::from_utf8(page.body).expect("utf-8");
        for line in [
            "millpond_http_connections 2",
            "millpond_http_connections_max 2",
            "millpond_http_connections_accepted_total 2",
            "millpond_http_connections_refused_total 1",
            "millpond_http_refused_total{code=\"server_overloaded\"} 1",
        ] {
            assert!(page.contains(&format!("\n{line}\n")), "{line}");
        }

        drop(first);
        // A place is free as soon as the server has noticed.
        while !ask().await.1.starts_with("HTTP/1.1 200") {}
        stop.send(()).expect("it is heard");
    };
    let stopping = async { drop(stopped.await) };
    let serving = serve(listener, server.router.clone(), &server.connections, &server.shutdown, stopping);
    tokio::join!(serving, client);
}
