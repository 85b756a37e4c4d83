//! How the server stops.

use std::time::{Duration, Instant};

use millpond_server::{bind, serve};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use crate::harness::{Server, lease_request, read_answer};

#[tokio::test]
async fn a_stop_answers_long_polls_ends_idle_connections_and_takes_no_more() {
    let server = Server::with_queue(json!({})).await;
    let listener = bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let mut idle = TcpStream::connect(address).await.expect("a connection");
        idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("written");
        read_answer(&mut idle).await;
        let mut waiting = TcpStream::connect(address).await.expect("a connection");
        waiting.write_all(lease_request(1).as_bytes()).await.expect("written");
        server.until(|view| view.waiting > 0).await;
        stop.send(()).expect("it is heard");
        let (head, body) = read_answer(&mut waiting).await;
        assert!(head.starts_with("HTTP/1.1 200") && head.contains("connection: close"), "{head}");
        assert_eq!(serde_json::from_slice::<Value>(&body).expect("json"), json!({ "messages": [] }));
        for connection in [&mut idle, &mut waiting] {
            assert_eq!(connection.read(&mut [0; 1]).await.expect("the end"), 0);
        }
    };
    let stopping = async { drop(stopped.await) };
    let begun = Instant::now();
    tokio::join!(
        serve(listener, server.router.clone(), &server.connections, &server.shutdown, stopping),
        client
    );
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert!(TcpStream::connect(address).await.is_err());
    assert_eq!(server.view().await.waiting, 0);
}

#[tokio::test]
async fn a_stop_lets_a_request_that_is_being_read_come_to_its_end() {
    let server = Server::with_queue(json!({})).await;
    let listener = bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (stop, stopped) = oneshot::channel::<()>();
    let client = async {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let request = lease_request(1).replace("\"20s\"", "\"00s\"");
        let (first, second) = request.split_at(request.len() - 1);
        // The interim answer tells that the handler is reading the body.
        let first = first.replace("host:", "expect: 100-continue\r\nhost:");
        client.write_all(first.as_bytes()).await.expect("written");
        let mut interim = [0; 25];
        client.read_exact(&mut interim).await.expect("an interim answer");
        assert_eq!(&interim, b"HTTP/1.1 100 Continue\r\n\r\n");
        stop.send(()).expect("it is heard");
        client.write_all(second.as_bytes()).await.expect("written");
        let (head, _) = read_answer(&mut client).await;
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    };
    let stopping = async { drop(stopped.await) };
    tokio::join!(
        serve(listener, server.router.clone(), &server.connections, &server.shutdown, stopping),
        client
    );
}

#[tokio::test]
async fn what_does_not_end_by_itself_is_cut() {
    let server = Server::with_queue(json!({})).await;
    let listener = bind(([127, 0, 0, 1], 0).into()).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let client = async {
        let mut client = TcpStream::connect(address).await.expect("a connection");
        let request = lease_request(1).replace("host:", "expect: 100-continue\r\nhost:");
        client.write_all(&request.as_bytes()[..request.len() - 1]).await.expect("written");
        client.read_exact(&mut [0; 25]).await.expect("an interim answer");
        server.shutdown.cut();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.expect("the end");
        assert!(rest.is_empty());
    };
    tokio::select! {
        () = serve(listener, server.router.clone(), &server.connections, &server.shutdown, std::future::pending()) => {}
        () = client => {}
    }
}
