//! A target that does what a test says, one connection and one request at a time.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::header::HeaderMap;
use millpond_push::{AllowList, CallError, CallRequest, CallSettings, Caller, Looking, Reply, Target};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;

/// Says that all went well, and that the connection may be used again.
pub(crate) const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

/// Where connections are awaited.
pub(crate) struct Listener {
    inner: TcpListener,
}

impl Listener {
    pub(crate) async fn bind() -> Self {
        Self::bind_to("127.0.0.1:0").await
    }

    pub(crate) async fn bind_to(address: &str) -> Self {
        Self { inner: TcpListener::bind(address).await.expect("a free port") }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.inner.local_addr().expect("it is bound")
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/push?a=b", self.address())
    }

    pub(crate) async fn accept_raw(&self) -> TcpStream {
        self.inner.accept().await.expect("a connection").0
    }

    pub(crate) async fn accept(&self) -> Connection<TcpStream> {
        Connection::new(self.accept_raw().await)
    }

    /// Nobody has connected until now: the next connection to be taken is one of our own.
    pub(crate) async fn assert_untouched(&self) {
        let own = TcpStream::connect(self.address()).await.expect("it listens");
        let (_, peer) = self.inner.accept().await.expect("a connection");
        assert_eq!(peer, own.local_addr().expect("it is connected"), "somebody had connected");
    }
}

/// A request as it arrived.
pub(crate) struct Received {
    /// The request line and the headers.
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut fields = lines.filter_map(|line| line.split_once(": "));
        fields.find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// The caller has closed the connection, or nobody replies.
#[derive(Debug)]
pub(crate) struct Closed;

/// A connection of a caller.
pub(crate) struct Connection<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// The next request.
    pub(crate) async fn request(&mut self) -> Received {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|bytes| bytes == b"\r\n\r\n") {
                break at + 4;
            }
            self.read().await;
        };
        let head: Vec<u8> = self.buffer.drain(..head_end).collect();
        let mut received = Received { head: String::from_utf8(head).expect("ascii"), body: Vec::new() };
        let bytes = received.header("content-length").map_or(0, |text| text.parse().expect("a number"));
        while self.buffer.len() < bytes {
            self.read().await;
        }
        received.body = self.buffer.drain(..bytes).collect();
        received
    }

    /// The next request, if the caller sends one on this connection at all.
    pub(crate) async fn request_or_never(&mut self) {
        while self.buffer.is_empty() {
            if !self.stream.read_buf(&mut self.buffer).await.is_ok_and(|bytes| bytes > 0) {
                std::future::pending::<()>().await;
            }
        }
        self.request().await;
    }

    async fn read(&mut self) {
        let bytes = self.stream.read_buf(&mut self.buffer).await.expect("a living connection");
        assert_ne!(bytes, 0, "the connection was closed");
    }

    pub(crate) async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("a living connection");
        self.stream.flush().await.expect("a living connection");
    }

    /// The next request; `None`: the caller has closed the connection.
    pub(crate) async fn request_if_any(&mut self) -> Option<Received> {
        while self.buffer.is_empty() {
            if !self.stream.read_buf(&mut self.buffer).await.is_ok_and(|bytes| bytes > 0) {
                return None;
            }
        }
        Some(self.request().await)
    }

    /// What comes of this, unless the caller closes the connection before.
    pub(crate) async fn or_closed<T>(&mut self, awaited: oneshot::Receiver<T>) -> Result<T, Closed> {
        tokio::select! {
            outcome = awaited => outcome.map_err(|_| Closed),
            () = self.closed_by_caller() => Err(Closed),
        }
    }

    /// Takes a request and replies.
    pub(crate) async fn serve(&mut self, reply: &str) -> Received {
        let received = self.request().await;
        self.send(reply).await;
        received
    }

    /// Waits until the caller has closed its side.
    pub(crate) async fn closed_by_caller(&mut self) {
        let mut rest = [0; 4_096];
        while self.stream.read(&mut rest).await.is_ok_and(|bytes| bytes > 0) {}
    }
}

impl Connection<TcpStream> {
    /// Ends it the hard way.
    pub(crate) fn reset(self) {
        self.stream.set_zero_linger().expect("a socket takes this");
    }
}

/// A caller that may go to these networks.
pub(crate) fn caller(networks: &[&'static str]) -> Caller {
    Caller::new(settings(networks))
}

pub(crate) fn settings(networks: &[&'static str]) -> CallSettings {
    let mut settings = CallSettings::default();
    settings.allowed = AllowList::parse(networks.iter().copied()).expect("networks");
    settings
}

/// A resolver of this answer.
pub(crate) fn resolving(
    settings: &mut CallSettings,
    answer: impl Fn(String, u16) -> Vec<SocketAddr> + Send + Sync + 'static,
) {
    settings.look_up_by(Arc::new(move |name, port| -> Looking {
        let addresses = answer(name, port);
        Box::pin(async { Ok(addresses) })
    }));
}

pub(crate) fn request(url: &str) -> CallRequest {
    let target = Target::parse(url).expect("a target");
    CallRequest { target, headers: HeaderMap::new(), body: Bytes::from_static(b"hello") }
}

pub(crate) async fn call(caller: &Caller, url: impl AsRef<str>) -> Result<Reply, CallError> {
    caller.call(request(url.as_ref()), oneshot::channel().0).await
}

/// Calls a target that is expected not to be reached, and gives the error.
pub(crate) async fn unreachable(caller: &Caller, url: &str) -> String {
    match call(caller, url).await {
        Err(CallError::Unreachable { error }) => error,
        other => panic!("{url}: {other:?}"),
    }
}
