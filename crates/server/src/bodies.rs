//! Bodies on their way in: how much memory they may take together, and how long each may take.
//!
//! A body's share of the budget is what it may come to: its length where that is told, else its limit. It is held while
//! the body is read, and not after: what is done with a whole body has bounds of its own. Whoever sends a body slowly
//! keeps a share for [`BODY_READ_MAX`] at most.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http_body::Body as _;
use millpond_api::ErrorCode;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::ApiError;
use crate::extract;
use crate::metrics::HttpMetrics;
use crate::request::Phases;

/// Bytes of all bodies that are being read at once.
pub const BODIES_BYTES_MAX: usize = 64 << 20;
/// How long a body may take, from the end of the request's head to its own.
pub const BODY_READ_MAX: Duration = Duration::from_secs(30);
/// What shares are counted in; a body that has any byte has one at least.
const UNIT_BYTES: usize = 1 << 10;
/// By how much a share grows with its body.
const GROWTH_BYTES: usize = 64 << 10;

/// The bounds, and what is left of them.
#[derive(Debug)]
pub(crate) struct Bodies {
    units: Semaphore,
    bytes_max: usize,
    read_max: Duration,
    http: Arc<HttpMetrics>,
}

impl Bodies {
    pub(crate) fn new(http: Arc<HttpMetrics>) -> Self {
        Self::bounded(BODIES_BYTES_MAX, BODY_READ_MAX, http)
    }

    fn bounded(bytes_max: usize, read_max: Duration, http: Arc<HttpMetrics>) -> Self {
        Self { units: Semaphore::new(bytes_max / UNIT_BYTES), bytes_max, read_max, http }
    }

    /// Reads a body, at most `limit` bytes of it.
    pub(crate) async fn read(&self, body: Body, limit: usize) -> Result<Bytes, ApiError> {
        let _share = self.share(extract::check_told_length(&body, limit)?)?;
        self.in_time(extract::read_body(body, limit, |_| Ok(()))).await
    }

    /// The same, of a body whose length is seldom told and far below its limit: its share grows with it.
    pub(crate) async fn read_growing(&self, body: Body, limit: usize) -> Result<Bytes, ApiError> {
        if body.size_hint().exact().is_some() {
            return self.read(body, limit).await;
        }
        let mut shares = Vec::new();
        let grow = |bytes: usize| {
            while shares.len() * GROWTH_BYTES < bytes {
                shares.push(self.share(GROWTH_BYTES)?);
            }
            Ok(())
        };
        self.in_time(extract::read_body(body, limit, grow)).await
    }

    async fn in_time(
        &self,
        reading: impl Future<Output = Result<Bytes, ApiError>>,
    ) -> Result<Bytes, ApiError> {
        let read = Phases::body(tokio::time::timeout(self.read_max, reading)).await.unwrap_or_else(|_| {
            let detail = format!("the body was not there after {:?}", self.read_max);
            Err(ApiError::retryable(ErrorCode::RequestTimeout, detail))
        })?;
        self.came(read.len());
        Ok(read)
    }

    /// So many bytes of a body were read.
    pub(crate) fn came(&self, bytes: usize) {
        self.http.body_came(bytes);
    }

    /// A share of so many bytes, until it is dropped.
    pub(crate) fn share(&self, bytes: usize) -> Result<SemaphorePermit<'_>, ApiError> {
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES)).unwrap_or(u32::MAX);
        self.units.try_acquire_many(units).map_err(|_| {
            ApiError::overloaded("too many bytes of bodies are being read".to_owned(), self.bytes_max)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures_util::FutureExt as _;
    use http_body::{Frame, SizeHint};

    use super::*;

    const LIMIT: usize = 4 << 10;

    /// Nothing of it ever comes.
    struct Stalled {
        told: Option<u64>,
    }

    impl http_body::Body for Stalled {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            self.told.map(SizeHint::with_exact).unwrap_or_default()
        }
    }

    fn stalled(told: Option<u64>) -> Body {
        Body::new(Stalled { told })
    }

    #[tokio::test]
    async fn bodies_share_a_budget_by_what_they_may_come_to() {
        let bodies = Bodies::bounded(2 * LIMIT, BODY_READ_MAX, Arc::default());
        let mut untold = Box::pin(bodies.read(stalled(None), LIMIT));
        assert!(untold.as_mut().now_or_never().is_none());
        let mut told = Box::pin(bodies.read(stalled(Some(3 << 10)), LIMIT));
        assert!(told.as_mut().now_or_never().is_none());

        assert_eq!(bodies.read(Body::from("x"), LIMIT).await.expect("1 KiB is left"), "x");
        let error = bodies.read(Body::from(vec![0; 1_025]), LIMIT).await.expect_err("2 KiB are not");
        assert_eq!(error.code(), ErrorCode::ServerOverloaded);
        let problem = error.problem("id");
        assert_eq!(problem.limit.as_deref(), Some("8192"));
        assert!(problem.retry_after_ms.is_some() && problem.detail.ends_with("limit 8192"), "{problem:?}");

        drop(told);
        assert_eq!(bodies.read(Body::from(vec![0; 4_096]), LIMIT).await.expect("it is back").len(), 4_096);
        drop(untold);
        assert_eq!(bodies.units.available_permits(), 8);
    }

    #[tokio::test]
    async fn a_share_grows_with_a_body_whose_length_is_not_told() {
        let bodies = Bodies::bounded(2 * GROWTH_BYTES, BODY_READ_MAX, Arc::default());
        let chunked = |chunks: usize| {
            let chunk = Ok::<_, Infallible>(Bytes::from(vec![b'x'; GROWTH_BYTES]));
            Body::from_stream(futures_util::stream::iter(vec![chunk; chunks]))
        };
        let mut idle = Box::pin(bodies.read_growing(stalled(None), 1 << 20));
        assert!(idle.as_mut().now_or_never().is_none());
        assert_eq!(
            bodies.read_growing(chunked(2), 1 << 20).await.expect("there is room").len(),
            2 * GROWTH_BYTES
        );
        let error = bodies.read_growing(chunked(3), 1 << 20).await.expect_err("there is none");
        assert_eq!(error.code(), ErrorCode::ServerOverloaded);
        let error = bodies.read_growing(chunked(2), GROWTH_BYTES).await.expect_err("beyond its limit");
        assert_eq!(error.code(), ErrorCode::PayloadTooLarge);
        assert_eq!(bodies.units.available_permits(), 128);
        let told = bodies.read_growing(Body::from("told"), 1 << 20).await;
        assert_eq!(told.expect("there is room"), "told");
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_given_up() {
        let bodies = Bodies::bounded(LIMIT, Duration::ZERO, Arc::default());
        for told in [None, Some(9)] {
            let error = bodies.read(stalled(told), LIMIT).await.expect_err("it never comes");
            assert_eq!(error.code(), ErrorCode::RequestTimeout);
            assert!(error.problem("id").retry_after_ms.is_some());
            assert_eq!(bodies.units.available_permits(), 4);
        }
        assert_eq!(bodies.read(Body::from("here"), LIMIT).await.expect("it is there"), "here");
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_by_its_own_word_takes_no_share() {
        let bodies = Bodies::bounded(LIMIT, BODY_READ_MAX, Arc::default());
        let error = bodies.read(stalled(Some(1 << 40)), LIMIT).await.expect_err("too long");
        assert_eq!(error.code(), ErrorCode::PayloadTooLarge);
    }
}
