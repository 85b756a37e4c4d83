//! When an answer with grants counts as delivered (design-holes B13).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use millpond_server::serve_connection;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::harness::{Server, lease_request, read_answer, read_head};

/// A client of a connection that holds so many bytes on their way, and the server's end of it.
fn connect(server: &Server, bytes_on_the_way: usize) -> (DuplexStream, JoinHandle<()>) {
    let (client, stream) = duplex(bytes_on_the_way);
    (client, tokio::spawn(serve_connection(stream, server.router.clone(), server.shutdown.watch())))
}

/// The same over TCP.
async fn connect_tcp(server: &Server) -> (TcpStream, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
    let (stream, _) = accepted.expect("a connection");
    let serving = tokio::spawn(serve_connection(stream, server.router.clone(), server.shutdown.watch()));
    (client.expect("a connection"), serving)
}

/// What the engine counts: grants, of which taken back, of which held.
async fn counts(server: &Server) -> [u64; 3] {
    let counters = server.view().await.counters;
    [counters.total_delivered, counters.total_undone, counters.leased]
}

#[tokio::test]
async fn an_answer_that_was_read_is_delivered() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2"]).await;
    let (mut client, serving) = connect(&server, 64);
    client.write_all(lease_request(10).as_bytes()).await.expect("written");
    let (head, body) = read_answer(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    let answer: Value = serde_json::from_slice(&body).expect("json");
    assert_eq!(answer["messages"].as_array().map(Vec::len), Some(2));
    drop(client);
    serving.await.expect("it ends");
    assert_eq!(counts(&server).await, [2, 0, 2]);
}

#[tokio::test]
async fn an_answer_that_the_connection_did_not_take_whole_is_taken_back() {
    const ON_THE_WAY: usize = 64;
    let server = Server::with_queue(json!({ "max_deliveries": 1 })).await;
    server.send(&["1", "2", "3"]).await;
    // From the first byte of the body on, each connection leaves one byte more than the way holds.
    for read_further in [0, 1, usize::MAX] {
        let (mut client, serving) = connect(&server, ON_THE_WAY);
        client.write_all(lease_request(10).as_bytes()).await.expect("written");
        let (_, start, length) = read_head(&mut client).await;
        let most = length - start.len() - ON_THE_WAY - 1;
        let mut rest = vec![0; read_further.min(most)];
        client.read_exact(&mut rest).await.expect("more of the body");
        assert_eq!(server.view().await.counters.leased, 3);
        drop(client);
        serving.await.expect("it ends");
    }
    let again = server.lease(json!({ "max_messages": 10, "wait": "20s", "min_messages": 3 })).await;
    let delivery_counts: Vec<_> = again.iter().map(|message| message["delivery_count"].clone()).collect();
    assert_eq!(delivery_counts, [1, 1, 1], "no delivery was spent");
    assert_eq!(counts(&server).await, [12, 9, 3]);
}

#[tokio::test]
async fn over_tcp_too() {
    let server = Server::with_queue(json!({})).await;
    // More than the buffers of two sockets hold; 33 of them fit into one answer, the others go back at once.
    let event = json!({ "id": "1", "source": "/s", "type": "t", "data": "x".repeat(250_000) });
    for _ in 0..32 {
        server.post("/v1/queues/q:send", json!({ "events": vec![event.clone(); 4] })).await.ok();
    }
    let (mut client, serving) = connect_tcp(&server).await;
    client.write_all(lease_request(100).as_bytes()).await.expect("written");
    read_head(&mut client).await;
    server.until(|view| view.counters.leased == 33).await;
    drop(client);
    serving.await.expect("it ends");
    server.until(|view| view.counters.leased == 0).await;
    assert_eq!(counts(&server).await, [100, 100, 0]);

    let (mut client, serving) = connect_tcp(&server).await;
    client.write_all(lease_request(100).as_bytes()).await.expect("written");
    let (_, body) = read_answer(&mut client).await;
    assert!(body.len() > 33 * 250_000);
    drop(client);
    serving.await.expect("it ends");
    assert_eq!(counts(&server).await, [200, 167, 33]);
}

#[tokio::test]
async fn each_answer_of_a_connection_counts_for_itself() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let (mut client, serving) = connect(&server, 64);
    for _ in 0..2 {
        client.write_all(lease_request(1).as_bytes()).await.expect("written");
        read_answer(&mut client).await;
    }
    client.write_all(lease_request(1).as_bytes()).await.expect("written");
    read_head(&mut client).await;
    drop(client);
    serving.await.expect("it ends");
    server.until(|view| view.counters.leased <= 2).await;
    assert_eq!(counts(&server).await, [3, 1, 2]);
}

#[tokio::test]
async fn pipelined_answers_are_each_delivered_once_written() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1", "2", "3"]).await;
    let (mut client, serving) = connect(&server, 100);
    let requests = lease_request(1).repeat(3);
    let (mut reads, mut writes) = tokio::io::split(&mut client);
    let (_, ()) = tokio::join!(writes.write_all(requests.as_bytes()), async {
        read_answer(&mut reads).await;
        read_answer(&mut reads).await;
        read_head(&mut reads).await;
    });
    drop(client);
    serving.await.expect("it ends");
    server.until(|view| view.counters.leased <= 2).await;
    assert_eq!(counts(&server).await, [3, 1, 2]);
}

/// Takes writes and never lets a flush through.
struct NeverFlushes(DuplexStream);

impl tokio::io::AsyncRead for NeverFlushes {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl tokio::io::AsyncWrite for NeverFlushes {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Pending
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[tokio::test]
async fn written_is_not_delivered_before_it_is_flushed() {
    let server = Server::with_queue(json!({})).await;
    server.send(&["1"]).await;
    let (mut client, stream) = duplex(1 << 16);
    let watch = server.shutdown.watch();
    let serving = tokio::spawn(serve_connection(NeverFlushes(stream), server.router.clone(), watch));
    client.write_all(lease_request(1).as_bytes()).await.expect("written");
    read_answer(&mut client).await;
    drop(client);
    serving.await.expect("it ends");
    server.until(|view| view.counters.leased == 0).await;
    assert_eq!(counts(&server).await, [1, 1, 0]);
}

/// A client that looks for its answer only when it has sent everything finds it, and can go on.
#[tokio::test]
async fn a_refusal_is_there_for_who_sends_the_whole_body_first() {
    let server = Server::with_queue(json!({})).await;
    let (mut client, serving) = connect(&server, 1 << 10);
    let event = "ce-specversion: 1.0\r\nce-id: 1\r\nce-source: /s\r\nce-type: t\r\n";
    for (queue, headers, length, status) in [
        ("q", "content-type: application/json\r\n", 2 << 20, 413),
        ("none", event, 1 << 20, 404),
        ("q", event, 101 << 20, 413),
    ] {
        let head = format!(
            "POST /v1/queues/{queue}:send HTTP/1.1\r\nhost: localhost\r\n{headers}content-length: {length}\r\n\r\n"
        );
        client.write_all(head.as_bytes()).await.expect("written");
        // What is refused by its length is read all the same.
        for _ in (0..length).step_by(1 << 20) {
            client.write_all(&vec![b' '; 1 << 20]).await.expect("it is taken");
        }
        let (head, _) = read_answer(&mut client).await;
        assert!(head.starts_with(&format!("HTTP/1.1 {status}")), "{head}");
    }
    client.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.expect("written");
    let (head, _) = read_answer(&mut client).await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    drop(client);
    serving.await.expect("it ends");
}
