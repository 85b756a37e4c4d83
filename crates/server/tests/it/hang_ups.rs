//! Clients that hang up while they wait, or at any other moment (design-holes B13).

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use millpond_server::serve_connection;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::{Server, content_length, event, lease_request, split_head};

async fn listen(server: &Server) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let (router, shutdown) = (server.router.clone(), server.shutdown.watch());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(stream, router.clone(), shutdown.clone()));
        }
    });
    address
}

/// A client whose long poll waits in the queue.
async fn waiting_client(server: &Server, address: std::net::SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("a connection");
    client.write_all(lease_request(1).as_bytes()).await.expect("written");
    server.until(|view| view.waiting > 0).await;
    client
}

#[tokio::test]
async fn a_client_that_hangs_up_while_it_waits_leaves_the_queue_at_once() {
    let server = Server::with_queue(json!({ "max_deliveries": 1 })).await;
    let address = listen(&server).await;
    for with_reset in [false, true] {
        let client = waiting_client(&server, address).await;
        if with_reset {
            client.set_zero_linger().expect("it is set");
        }
        drop(client);
        server.until(|view| view.waiting == 0).await;
    }
    server.send(&["1"]).await;
    let messages = server.lease(json!({})).await;
    assert_eq!(messages[0]["delivery_count"], 1);
    let counters = server.view().await.counters;
    assert_eq!((counters.total_delivered, counters.total_undone), (1, 0), "nothing was granted to nobody");
}

#[tokio::test]
async fn a_client_that_shuts_its_side_only_is_taken_to_be_gone() {
    let server = Server::with_queue(json!({})).await;
    let address = listen(&server).await;
    let mut client = waiting_client(&server, address).await;
    client.shutdown().await.expect("it is shut");
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.expect("the end");
    assert!(answer.is_empty());
    server.until(|view| view.waiting == 0).await;
}

#[tokio::test]
async fn a_client_that_stays_gets_the_message_that_another_left() {
    let server = Server::with_queue(json!({})).await;
    let address = listen(&server).await;
    let first = waiting_client(&server, address).await;
    let mut second = TcpStream::connect(address).await.expect("a connection");
    second.write_all(lease_request(1).as_bytes()).await.expect("written");
    server.until(|view| view.waiting == 2).await;
    drop(first);
    // Before it is noticed, its socket might still take the answer.
    server.until(|view| view.waiting == 1).await;
    server.send(&["1"]).await;
    let (_, body) = crate::harness::read_answer(&mut second).await;
    let answer: Value = serde_json::from_slice(&body).expect("json");
    assert_eq!(answer["messages"][0]["event"]["id"], "1");
    assert_eq!(answer["messages"][0]["delivery_count"], 1);
}

/// The server's end of a connection, writing down what the other side took.
struct Recorded<S> {
    stream: S,
    taken: Arc<Mutex<Vec<u8>>>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Recorded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Recorded<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.taken.lock().expect("no panic").extend_from_slice(&bytes[..count]);
        Poll::Ready(Ok(count))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Messages in answers that were taken to their last byte.
fn messages_taken(mut taken: &[u8]) -> u64 {
    let mut count = 0;
    while let Some((head, rest)) = split_head(taken) {
        let Some((body, next)) = rest.split_at_checked(content_length(&head)) else { break };
        let answer: Value = serde_json::from_slice(body).expect("json");
        count += answer["messages"].as_array().map_or(0, |messages| messages.len() as u64);
        taken = next;
    }
    count
}

/// Splitmix: what each client does follows from its number alone.
fn random(seed: u64) -> u64 {
    let mut value = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x9e37_79b9_7f4a_7c15);
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Asks, then hangs up: after some turns, or after it has read some bytes.
async fn impatient(mut stream: impl AsyncRead + AsyncWrite + Unpin, number: u64) {
    let most = 1 + u32::try_from(random(number) % 3).expect("small");
    if stream.write_all(lease_request(most).as_bytes()).await.is_err() {
        return;
    }
    let mut bytes = vec![0; usize::try_from(random(number + 1) % 1_500).expect("small")];
    let reading = stream.read_exact(&mut bytes);
    let waiting = async {
        for _ in 0..random(number + 2) % 3_000 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = reading => {}
        () = waiting => {}
    }
}

/// Starts the server's end of one connection and its impatient client.
async fn start_pair(
    server: &Server,
    listener: &TcpListener,
    number: u64,
    tasks: &mut JoinSet<()>,
) -> Arc<Mutex<Vec<u8>>> {
    let taken = Arc::new(Mutex::new(Vec::new()));
    let (router, watch) = (server.router.clone(), server.shutdown.watch());
    let recorded = Arc::clone(&taken);
    if number.is_multiple_of(2) {
        let address = listener.local_addr().expect("an address");
        let (client, accepted) = tokio::join!(TcpStream::connect(address), listener.accept());
        let (stream, _) = accepted.expect("a connection");
        tasks.spawn(serve_connection(Recorded { stream, taken: recorded }, router, watch));
        tasks.spawn(impatient(client.expect("a connection"), number));
    } else {
        let (client, stream) = duplex(200);
        tasks.spawn(serve_connection(Recorded { stream, taken: recorded }, router, watch));
        tasks.spawn(impatient(client, number));
    }
    taken
}

#[tokio::test]
async fn every_spent_delivery_belongs_to_an_answer_that_was_taken_whole() {
    const CLIENTS: u64 = 10_000;
    const AT_ONCE: usize = 256;
    const SEND_EACH: u64 = 8;
    let server = Server::with_queue(json!({ "visibility_timeout": "43200s", "max_deliveries": 5 })).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let mut tasks = JoinSet::new();
    let mut records = Vec::new();
    for number in 0..CLIENTS {
        records.push(start_pair(&server, &listener, number * 3, &mut tasks).await);
        if number.is_multiple_of(SEND_EACH) {
            let events = vec![event("1"); usize::try_from(1 + number / SEND_EACH % 2).expect("small")];
            server.post("/v1/queues/q:send", json!({ "events": events })).await.ok();
        }
        while tasks.len() > AT_ONCE {
            tasks.join_next().await.expect("a task").expect("no panic");
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.expect("no panic");
    }
    let taken: u64 = records.iter().map(|record| messages_taken(&record.lock().expect("no panic"))).sum();

    // Whatever is still to be taken back is; the view comes after it in the queue's one order.
    server.until(|view| view.counters.leased <= taken).await;
    let counters = server.view().await.counters;
    assert_eq!(counters.leased, taken);
    assert_eq!(counters.total_delivered - counters.total_undone, taken);
    assert!(taken > 0 && counters.total_undone > 0, "both happened: {counters:?}");
    assert_eq!(counters.dead, 0);
    while server.view().await.counters.ready > 0 {
        for message in server.lease(json!({ "max_messages": 100 })).await {
            assert_eq!(message["delivery_count"], 1, "no delivery was spent on who had hung up");
        }
    }
}
