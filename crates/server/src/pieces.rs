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
use crate::handlers::send::SendDigest;

/// How long a piece may take.
pub(crate) const PIECE_READ_MAX: Duration = UPLOAD_STALL_MAX;

/// What is left of a body.
pub(crate) struct Pieces {
    body: Body,
    /// What the last frame brought beyond the last piece.
    rest: Bytes,
    piece: BytesMut,
    /// Of all that was read.
    pub(crate) digest: SendDigest,
    /// The same, counted.
    pub(crate) bytes: u64,
    limit: usize,
}

impl Pieces {
    /// Of a body that may have so many bytes; the digest goes on from here.
    pub(crate) fn new(body: Body, limit: usize, digest: SendDigest) -> Self {
        Self { body, rest: Bytes::new(), piece: BytesMut::new(), digest, bytes: 0, limit }
    }

    /// The next piece: a whole chunk, or what is left; `None` at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<Arc<[u8]>>, ApiError> {
        tokio::time::timeout(PIECE_READ_MAX, self.fill()).await.unwrap_or_else(|_| {
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
            self.digest.add_body(&data);
            return Ok(Some(data));
        }
        Ok(None)
    }
}
