//! A body on its way in, chunk by chunk: so that whoever sends 100 MB holds less than one.
//!
//! Of each body one chunk is being filled and one being stored. Each has to be whole within [`PIECE_READ_MAX`]: a client
//! that is slower than that holds an upload that others wait for.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body as _;
use millpond_api::ErrorCode;
use millpond_core::limits::{CHUNK_BYTES, UPLOAD_STALL_MAX};

use crate::error::ApiError;
use crate::idempotency::CallDigest;
use crate::request::Phases;

/// How long a piece may take.
pub(crate) const PIECE_READ_MAX: Duration = UPLOAD_STALL_MAX;

/// What is left of a body.
pub(crate) struct Pieces {
    body: Body,
    /// What the last frame brought beyond the last piece.
    rest: Bytes,
    piece: BytesMut,
    /// Of all that was read, if that is wanted.
    pub(crate) digest: Option<CallDigest>,
    /// The same, counted.
    pub(crate) bytes: u64,
    limit: usize,
}

impl Pieces {
    /// Of a body that may have so many bytes; the digest goes on from here.
    pub(crate) fn new(body: Body, limit: usize, digest: Option<CallDigest>) -> Self {
        Self { body, rest: Bytes::new(), piece: BytesMut::new(), digest, bytes: 0, limit }
    }

    /// The next piece: a whole chunk, or what is left; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<[u8]>>, ApiError> {
        let filled = Phases::body(tokio::time::timeout(PIECE_READ_MAX, self.fill())).await;
        filled.unwrap_or_else(|_| {
            let detail =
                format!("{CHUNK_BYTES} bytes more of the body were not there after {PIECE_READ_MAX:?}");
            Err(ApiError::retryable(ErrorCode::RequestTimeout, detail))
        })?;
        let piece: Arc<[u8]> = self.piece[..].into();
        self.piece.clear();
        Ok((!piece.is_empty()).then_some(piece))
    }

    async fn fill(&mut self) -> Result<(), ApiError> {
        while self.piece.len() < CHUNK_BYTES {
            if self.rest.is_empty() {
                let Some(data) = self.read_frame().await? else { return Ok(()) };
                self.rest = data;
                continue;
            }
            let taken = self.rest.len().min(CHUNK_BYTES - self.piece.len());
            self.piece.reserve(CHUNK_BYTES - self.piece.len());
            self.piece.extend_from_slice(&self.rest[..taken]);
            self.rest.advance(taken);
        }
        Ok(())
    }

    /// The next bytes of the body, as they come; `None` at its end.
    async fn read_frame(&mut self) -> Result<Option<Bytes>, ApiError> {
        while let Some(frame) = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await {
            let frame = frame.map_err(|error| {
                let detail = format!("body could not be read to its end: {error}");
                ApiError::new(ErrorCode::MalformedJson, detail)
            })?;
            let Ok(data) = frame.into_data() else { continue };
            self.bytes += u64::try_from(data.len()).unwrap_or(u64::MAX);
            if self.bytes > u64::try_from(self.limit).unwrap_or(u64::MAX) {
                let limit = self.limit;
                return Err(ApiError::too_large("body", format_args!("more than {limit} bytes"), limit));
            }
            if let Some(digest) = &mut self.digest {
                digest.add_body(&data);
            }
            return Ok(Some(data));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::http::Request;
    use futures_util::stream::{self, StreamExt as _};

    use super::*;

    fn pieces(body: Body, limit: usize) -> Pieces {
        let (parts, ()) = Request::new(()).into_parts();
        Pieces::new(body, limit, Some(CallDigest::of(&parts)))
    }

    fn frames(lengths: &[usize]) -> Vec<Result<Bytes, Infallible>> {
        lengths.iter().map(|&length| Ok(Bytes::from(vec![1; length]))).collect()
    }

    async fn lengths(mut pieces: Pieces) -> Result<Vec<usize>, ErrorCode> {
        let mut lengths = Vec::new();
        while let Some(piece) = pieces.next().await.map_err(|error| error.code())? {
            lengths.push(piece.len());
        }
        Ok(lengths)
    }

    #[tokio::test]
    async fn pieces_are_whole_chunks_and_a_rest() {
        let whole = CHUNK_BYTES;
        for (sent, expected) in [
            (vec![], vec![]),
            (vec![5, 6], vec![11]),
            (vec![whole], vec![whole]),
            (vec![whole - 1, 2], vec![whole, 1]),
            (vec![3 * whole + 9], vec![whole, whole, whole, 9]),
            (vec![1, 0, whole, 0], vec![whole, 1]),
        ] {
            let body = Body::from_stream(stream::iter(frames(&sent)));
            assert_eq!(lengths(pieces(body, usize::MAX)).await, Ok(expected), "{sent:?}");
        }
    }

    #[tokio::test]
    async fn a_body_beyond_the_limit_is_refused_where_it_goes_beyond() {
        for (limit, expected) in [(10, Ok(vec![10])), (9, Err(ErrorCode::PayloadTooLarge))] {
            let body = Body::from_stream(stream::iter(frames(&[5, 5])));
            assert_eq!(lengths(pieces(body, limit)).await, expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_piece_that_does_not_come_is_given_up() {
        let begun = tokio::time::Instant::now();
        let stalled = stream::iter(frames(&[CHUNK_BYTES, 1])).chain(stream::pending());
        let mut pieces = pieces(Body::from_stream(stalled), usize::MAX);
        assert!(pieces.next().await.is_ok_and(|piece| piece.is_some()));
        let error = pieces.next().await.expect_err("the rest never comes");
        assert_eq!((error.code(), begun.elapsed().as_secs()), (ErrorCode::RequestTimeout, 60));
        assert!(error.problem("id").retry_after_ms.is_some());
    }
}
