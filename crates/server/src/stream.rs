//! Data on its way out, chunk by chunk: the next one is read when the connection has taken the last.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use millpond_engine::EngineError;

type Reading = Pin<Box<dyn Future<Output = Result<Vec<u8>, EngineError>> + Send>>;

/// Bytes `at` to `until` of data in chunks. The chunks stay until this is dropped.
pub(crate) struct DataStream {
    pin: Arc<millpond_engine::Pin>,
    chunk_bytes: u64,
    at: u64,
    until: u64,
    reading: Option<Reading>,
}

impl DataStream {
    pub(crate) fn new(pin: millpond_engine::Pin, chunk_bytes: u64, at: u64, until: u64) -> Self {
        Self { pin: Arc::new(pin), chunk_bytes: chunk_bytes.max(1), at, until, reading: None }
    }

    fn read(&self) -> Reading {
        let pin = Arc::clone(&self.pin);
        let number = u32::try_from(self.at / self.chunk_bytes).unwrap_or(u32::MAX);
        Box::pin(async move { pin.chunk(number).await })
    }

    /// What of a chunk is wanted.
    fn cut(&self, chunk: Vec<u8>) -> Result<Bytes, EngineError> {
        let offset = usize::try_from(self.at % self.chunk_bytes).unwrap_or(usize::MAX);
        let chunk = Bytes::from(chunk);
        if offset >= chunk.len() {
            return Err(EngineError::Corrupt(format!(
                "a chunk of {} bytes ends before {offset}",
                chunk.len()
            )));
        }
        let left = usize::try_from(self.until - self.at).unwrap_or(usize::MAX);
        let end = chunk.len().min(offset.saturating_add(left));
        Ok(chunk.slice(offset..end))
    }
}

impl Body for DataStream {
    type Data = Bytes;
    type Error = EngineError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, EngineError>>> {
        if self.at >= self.until {
            return Poll::Ready(None);
        }
        let mut reading = self.reading.take().unwrap_or_else(|| self.read());
        let read = match reading.as_mut().poll(context) {
            Poll::Ready(read) => read,
            Poll::Pending => {
                self.reading = Some(reading);
                return Poll::Pending;
            }
        };
        let part = read.and_then(|chunk| self.cut(chunk));
        match &part {
            Ok(part) => self.at += u64::try_from(part.len()).unwrap_or(u64::MAX),
            Err(error) => tracing::warn!(%error, "a stream of data breaks off"),
        }
        Poll::Ready(Some(part.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        self.at >= self.until
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.until - self.at)
    }
}
