//! One connection: a socket that tells [`Deliveries`] what was written, and hyper on top of it.
//!
//! A client that hangs up while its long poll waits is noticed at once: hyper goes on reading a connection whose request
//! is complete, and takes the end of input there for the end of the connection (`half_close` stays off). The handler is
//! dropped with it and so is the engine's future. Only a client that has pipelined a further request before it hangs up
//! is not noticed until its answer is written, since hyper does not read past a request that it has in hand.

use std::future::Future as _;
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
use tokio::time::Sleep;
use tower::Service;

use crate::delivery::Deliveries;
use crate::linger::Lingering;
use crate::shutdown::ShutdownWatch;

/// A client that takes less than [`WRITE_LEAST`] of an answer in so long is given up: it may hold leases, memory, or chunks
/// that could be removed.
const WRITE_STALL_MAX: Duration = Duration::from_secs(60);
/// The least that counts as taking an answer, in bytes: 273 a second.
const WRITE_LEAST: usize = 16 << 10;
/// Bytes of the buffers that a connection reads and writes by. A request's head fits into one, or is refused with 431.
const BUFFER_BYTES: usize = 64 << 10;

/// How long a connection may be without a whole head of a request: from its beginning or from the end of the answer
/// before. That is how long a client can keep an idle connection too; two minutes are longer than proxies and clients keep
/// theirs, so that it is they who close it and never send a request to a connection that is just going.
pub const HEAD_READ_MAX: Duration = Duration::from_secs(120);

/// A stream that counts what it writes.
struct Tracked<S> {
    stream: S,
    deliveries: Deliveries,
    /// Runs while the other side takes too little.
    stalled: Option<Pin<Box<Sleep>>>,
    /// Bytes taken while that ran.
    taken: usize,
}

impl<S> Tracked<S> {
    /// The result of a write, unless it has been pending for too long.
    fn watch(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if let Poll::Ready(result) = &written {
            self.taken = self.taken.saturating_add(*result.as_ref().unwrap_or(&0));
            if self.taken >= WRITE_LEAST {
                self.rest();
            }
            return written;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client takes too little")))
    }

    fn rest(&mut self) {
        self.stalled = None;
        self.taken = 0;
    }
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
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        let written = ready!(self.watch(context, written))?;
        self.deliveries.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        let written = ready!(self.watch(context, written))?;
        self.deliveries.wrote(written);
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(context))?;
        self.rest();
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
    let io = TokioIo::new(Tracked { stream, deliveries: deliveries.clone(), stalled: None, taken: 0 });
    let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let mut request = request.map(|body| Body::new(Lingering::new(body)));
        request.extensions_mut().insert(deliveries.clone());
        app.clone().call(request)
    });
    // No `pipeline_flush`: it would let an answer wait in the buffer.
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_READ_MAX).max_buf_size(BUFFER_BYTES);
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_too_little_is_given_up_and_one_that_is_slow_is_not() {
        const PIECE: usize = WRITE_LEAST;
        let (mut client, stream) = duplex(PIECE);
        let mut tracked = Tracked { stream, deliveries: Deliveries::default(), stalled: None, taken: 0 };
        tracked.write_all(&[0; PIECE]).await.expect("there is room");
        for _ in 0..3 {
            let begun = tokio::time::Instant::now();
            let slow = async {
                tokio::time::advance(WRITE_STALL_MAX - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; PIECE]).await
            };
            let (written, read) = tokio::join!(tracked.write_all(&[0; PIECE]), slow);
            assert!(written.is_ok() && read.is_ok());
            assert_eq!(begun.elapsed(), WRITE_STALL_MAX - Duration::from_secs(1));
        }
        let begun = tokio::time::Instant::now();
        let trickle = async {
            loop {
                tokio::time::advance(Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 1]).await.expect("there is more");
            }
        };
        let written = tokio::select! {
            written = tracked.write_all(&[0; PIECE]) => written,
            () = trickle => Ok(()),
        };
        let error = written.expect_err("nobody reads to speak of");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        // The clock moves by whole seconds, perhaps before the write looks.
        let late = begun.elapsed() - WRITE_STALL_MAX;
        assert!(late < Duration::from_secs(5), "{late:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_one_answer_does_not_count_for_the_next() {
        let (mut client, stream) = duplex(4);
        let mut tracked = Tracked { stream, deliveries: Deliveries::default(), stalled: None, taken: 0 };
        for _ in 0..2 {
            let slow = async {
                tokio::time::advance(WRITE_STALL_MAX - Duration::from_secs(1)).await;
                client.read_exact(&mut [0; 8]).await
            };
            let (written, read) = tokio::join!(tracked.write_all(&[0; 8]), slow);
            assert!(written.is_ok() && read.is_ok());
            tracked.flush().await.expect("all is written");
        }
    }
}
