//! Connections to targets: resolved, checked against the allow-list and made to the very addresses that were checked.
//!
//! Invariant: between the check of an address and the connection to it nothing is looked up again, and there is no other way
//! from a URL to a socket.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::Uri;
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tower_service::Service;

use crate::target::{AllowList, Host, Target};

type BoxError = Box<dyn std::error::Error + Send + Sync>;
type Connecting<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// The addresses of a name, with this port.
pub type Looking = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Looks names up: the system, or what a test says.
pub type Lookup = dyn Fn(String, u16) -> Looking + Send + Sync;

/// By the system's resolver.
pub(crate) fn system_lookup(name: String, port: u16) -> Looking {
    Box::pin(async move { Ok(tokio::net::lookup_host((name, port)).await?.collect()) })
}

/// Makes plain connections.
#[derive(Clone)]
pub(crate) struct TcpConnector {
    pub(crate) allowed: Arc<AllowList>,
    pub(crate) lookup: Arc<Lookup>,
    /// For all addresses of a target together.
    pub(crate) patience: Duration,
}

impl TcpConnector {
    async fn connect(self, uri: Uri) -> io::Result<TcpStream> {
        let target = Target::of_uri(uri).map_err(|fault| io::Error::other(fault.expected))?;
        let addresses = match target.host() {
            Host::Address(address) => vec![SocketAddr::new(*address, target.port())],
            Host::Name(name) => (self.lookup)(name.clone(), target.port()).await?,
        };
        let addresses = self.allowed.divide(addresses);
        // An address that never answers must leave time for the next one.
        let share = self.patience / u32::try_from(addresses.allowed.len().max(1)).unwrap_or(u32::MAX);
        let mut failure = None;
        for address in &addresses.allowed {
            match tokio::time::timeout(share, TcpStream::connect(address)).await {
                Ok(Ok(stream)) => {
                    stream.set_nodelay(true)?;
                    return Ok(stream);
                }
                Ok(Err(error)) => failure = Some(describe(*address, &error.to_string())),
                Err(_) => failure = Some(describe(*address, "no answer")),
            }
        }
        Err(failure.unwrap_or_else(|| match addresses.refused.first() {
            Some(address) => {
                let text = format!("this server may not push to it, only to {}", self.allowed);
                describe(*address, &text)
            }
            None => io::Error::other("the name has no address"),
        }))
    }
}

fn describe(address: SocketAddr, text: &str) -> io::Error {
    io::Error::other(format!("{address}: {text}"))
}

impl Service<Uri> for TcpConnector {
    type Response = TokioIo<TcpStream>;
    type Error = io::Error;
    type Future = Connecting<Self::Response, io::Error>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await.map(TokioIo::new) })
    }
}

/// Makes connections that are ready for requests: resolved, connected and, for `https`, encrypted within the time allowed.
#[derive(Clone)]
pub(crate) struct Connector {
    pub(crate) inner: HttpsConnector<TcpConnector>,
    pub(crate) patience: Duration,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = BoxError;
    type Future = Connecting<Self::Response, BoxError>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, patience) = (self.inner.call(uri), self.patience);
        Box::pin(async move {
            match tokio::time::timeout(patience, connecting).await {
                Ok(connected) => connected,
                Err(_) => Err(format!("no connection within {} s", patience.as_secs_f64()).into()),
            }
        })
    }
}
