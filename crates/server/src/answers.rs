//! Answers on their way out: how much memory they may take together.
//!
//! An answer that is written as one piece is held until the kernel has all of it, however slowly its client reads. Small
//! ones are not counted: the bound on connections bounds them. What is streamed holds little at a time.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::delivery::Deliveries;
use crate::error::ApiError;

/// Bytes of all answers that are being written at once, small ones left out.
pub const ANSWERS_BYTES_MAX: usize = 256 << 20;
/// An answer of at most so many bytes is small.
const SMALL_BYTES: u64 = 16 << 10;
/// What shares are counted in.
const UNIT_BYTES: u64 = 1 << 10;

/// On a response whose body is streamed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streamed;

/// The bound, and what is left of it.
#[derive(Debug)]
pub(crate) struct Answers {
    units: Arc<Semaphore>,
    bytes_max: usize,
}

impl Default for Answers {
    fn default() -> Self {
        Self::bounded(ANSWERS_BYTES_MAX)
    }
}

impl Answers {
    fn bounded(bytes_max: usize) -> Self {
        let unit = usize::try_from(UNIT_BYTES).unwrap_or(1);
        Self { units: Arc::new(Semaphore::new(bytes_max / unit)), bytes_max }
    }

    /// The answer with its share, which it holds until `deliveries` has written it; refused if too much is held already.
    /// What a refused answer granted is taken back, its body being dropped.
    pub(crate) fn hold(
        &self,
        response: Response,
        deliveries: Option<&Deliveries>,
    ) -> Result<Response, ApiError> {
        let bytes = response.body().size_hint().exact().unwrap_or(0);
        if bytes <= SMALL_BYTES || response.extensions().get::<Streamed>().is_some() {
            return Ok(response);
        }
        let share = self.share_of(bytes)?;
        let deliveries = deliveries.cloned();
        Ok(response.map(|body| Body::new(HeldBody { body, share: Some(share), deliveries })))
    }

    /// A share for what is held beside a stream, to be kept as long as that is; none is needed for little.
    pub(crate) fn share(&self, bytes: usize) -> Result<Option<OwnedSemaphorePermit>, ApiError> {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes <= SMALL_BYTES { Ok(None) } else { self.share_of(bytes).map(Some) }
    }

    fn share_of(&self, bytes: u64) -> Result<OwnedSemaphorePermit, ApiError> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        Arc::clone(&self.units).try_acquire_many_owned(units).map_err(|_| {
            ApiError::overloaded("too many bytes of answers are being written".to_owned(), self.bytes_max)
        })
    }
}

/// A body and its share, which goes over to the connection with its bytes.
#[derive(Debug)]
struct HeldBody {
    body: Body,
    share: Option<OwnedSemaphorePermit>,
    deliveries: Option<Deliveries>,
}

impl http_body::Body for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &frame
            && let Some(data) = frame.data_ref()
            && let (Some(deliveries), Some(share)) = (&self.deliveries.clone(), self.share.take())
        {
            deliveries.hold(data.len(), share);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use millpond_api::ErrorCode;

    use super::*;

    const BIG: usize = 32 << 10;

    fn answer(bytes: usize) -> Response {
        Response::new(Body::from(vec![b'x'; bytes]))
    }

    #[tokio::test]
    async fn a_share_is_held_until_the_bytes_are_written() {
        let answers = Answers::bounded(2 * BIG);
        let deliveries = Deliveries::default();
        let first = answers.hold(answer(BIG), Some(&deliveries)).expect("there is room");
        let second = answers.hold(answer(BIG), None).expect("there is room");
        let error = answers.hold(answer(BIG), None).expect_err("there is none");
        assert_eq!(error.code(), ErrorCode::ServerOverloaded);
        assert!(answers.hold(answer(16 << 10), None).is_ok(), "it is small");

        assert_eq!(to_bytes(first.into_body(), usize::MAX).await.expect("whole").len(), BIG);
        deliveries.flushed();
        assert_eq!(answers.units.available_permits(), 0, "nothing of it was written");
        deliveries.wrote(BIG);
        deliveries.flushed();
        assert_eq!(answers.units.available_permits(), 32);
        drop(second);
        assert_eq!(answers.units.available_permits(), 64);
    }

    #[tokio::test]
    async fn what_is_streamed_takes_no_share_and_a_connection_that_ends_gives_it_back() {
        let answers = Answers::bounded(BIG);
        let mut streamed = answer(BIG);
        streamed.extensions_mut().insert(Streamed);
        answers.hold(streamed, None).expect("it takes none");
        assert_eq!(answers.units.available_permits(), 32);
        let deliveries = Deliveries::default();
        let held = answers.hold(answer(BIG), Some(&deliveries)).expect("there is room");
        to_bytes(held.into_body(), usize::MAX).await.expect("whole");
        deliveries.end();
        assert_eq!(answers.units.available_permits(), 32);
    }
}
