//! Bodies that nobody wants to the end: the call was refused while its sender goes on sending.
//!
//! A connection that is closed with bytes unread is reset, and many clients take that for their answer and never look for
//! the refusal. So what is left is read and thrown away, for a while, and the connection lives on.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

/// How long the rest of a body is read.
const LINGER_MAX: Duration = Duration::from_secs(10);

/// A body whose rest is read when it is dropped.
pub(crate) struct Lingering<B: Body<Data = Bytes> + Unpin + Send + 'static> {
    /// `None`: there is no rest.
    body: Option<B>,
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Lingering<B> {
    pub(crate) fn new(body: B) -> Self {
        Self { body: (!body.is_end_stream()).then_some(body) }
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Body for Lingering<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        let frame = Pin::new(&mut *body).poll_frame(context);
        if matches!(frame, Poll::Ready(None | Some(Err(_)))) || body.is_end_stream() {
            self.body = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or(SizeHint::with_exact(0), Body::size_hint)
    }
}

impl<B: Body<Data = Bytes> + Unpin + Send + 'static> Drop for Lingering<B> {
    fn drop(&mut self) {
        // Without a runtime the connection is being dropped, too.
        if let (Some(body), Ok(runtime)) = (self.body.take(), tokio::runtime::Handle::try_current()) {
            // Whether the rest came does not matter: nobody wants it.
            drop(runtime.spawn(tokio::time::timeout(LINGER_MAX, read_to_end(body))));
        }
    }
}

async fn read_to_end(mut body: impl Body<Data = Bytes> + Unpin) {
    while let Some(Ok(_)) = std::future::poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {}
}
