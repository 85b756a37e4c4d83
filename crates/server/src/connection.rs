//! One connection: a socket that tells [`Deliveries`] what was written, and hyper on top of it.
//!
//! A client that hangs up while its long poll waits is noticed at once: hyper goes on reading a connection whose request
//! is complete, and takes the end of input there for the end of the connection (`half_close` stays off). The handler is
//! dropped with it and so is the engine's future. Only a client that has pipelined a further request before it hangs up
//! is not noticed until its answer is written, since hyper does not read past a request that it has in hand.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower::Service;

use crate::delivery::Deliveries;
use crate::shutdown::ShutdownWatch;

/// How long a connection may be without a whole head of a request: from its beginning or from the end of the answer
/// before. That is how long a client can keep an idle connection too; two minutes are longer than proxies and clients keep
/// theirs, so that it is they who close it and never send a request to a connection that is just going.
pub const HEAD_READ_MAX: Duration = Duration::from_secs(120);

/// A stream that counts what it writes.
struct Tracked<S> {
    stream: S,
    deliveries: Deliveries,
}

impl<S> Drop for Tracked<S> {
    fn drop(&mut self) {
        self.deliveries.end();
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Tracked<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Tracked<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.deliveries.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.deliveries.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.deliveries.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Serves one connection to its end, or until it is drained or cut.
pub async fn serve_connection<S>(stream: S, app: Router, mut shutdown: ShutdownWatch)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let deliveries = Deliveries::default();
    let io = TokioIo::new(Tracked { stream, deliveries: deliveries.clone() });
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(deliveries.clone());
        app.clone().call(request)
    });
    // No `pipeline_flush`: it would let an answer wait in the buffer.
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX);
    let mut connection = pin!(builder.serve_connection(io, service));
    // The drain is looked at first, so that an answer which it sets free says that it is the last one.
    let finished = tokio::select! {
        biased;
        () = shutdown.draining() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                finished = connection.as_mut() => finished,
                () = shutdown.cutting() => Ok(()),
            }
        }
        finished = connection.as_mut() => finished,
    };
    if let Err(error) = finished {
        tracing::debug!(%error, "connection ended early");
    }
}
