//! When an answer with grants counts as delivered (design-holes B13).
//!
//! 1. The handler puts the grants' [`Receipt`] into the answer's body, a [`ReceiptBody`]. If that is dropped unread, the
//!    connection having failed or the handler having been given up, so is the receipt, and the grants are taken back.
//! 2. When hyper takes the bytes out of the body, to put them into its write buffer, the receipt goes over to the
//!    connection's [`Deliveries`], with the number of bytes that the connection must have written by the time that all
//!    of the body is: those written so far and those of the body. (What precedes the body in the buffer only makes it
//!    more.)
//! 3. hyper flushes the connection once its write buffer is empty. A flush that succeeds after that many bytes confirms
//!    the receipt: the kernel has all of the answer.
//! 4. A connection that ends before drops its receipts.
//!
//! Invariant: a receipt is confirmed only after every byte of its answer was written.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use millpond_engine::Receipt;
use tokio::sync::OwnedSemaphorePermit;

/// What one connection owes: receipts and shares of memory whose answers are being written. A clone is another handle.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deliveries {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    written: AtomicU64,
    /// Spares the lock where nothing is open, which is nearly always.
    any_open: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    ended: bool,
    receipts: Vec<(u64, Receipt)>,
    shares: Vec<(u64, OwnedSemaphorePermit)>,
}

impl Deliveries {
    /// Takes charge of a receipt whose answer's last `bytes` bytes go into the write buffer now.
    pub(crate) fn begin(&self, bytes: usize, receipt: Receipt) {
        let due = self.due(bytes);
        let mut open = self.open();
        if !open.ended {
            open.receipts.push((due, receipt));
            self.shared.any_open.store(true, Ordering::Release);
        }
    }

    /// Keeps a share of memory for as long as the answer that it is for, whose last `bytes` bytes go into the write buffer
    /// now.
    pub(crate) fn hold(&self, bytes: usize, share: OwnedSemaphorePermit) {
        let due = self.due(bytes);
        let mut open = self.open();
        if !open.ended {
            open.shares.push((due, share));
            self.shared.any_open.store(true, Ordering::Release);
        }
    }

    /// How much will have been written once `bytes` more are.
    fn due(&self, bytes: usize) -> u64 {
        let written = self.shared.written.load(Ordering::Relaxed);
        written.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX))
    }

    /// The kernel took so many bytes.
    pub(crate) fn wrote(&self, bytes: usize) {
        self.shared.written.fetch_add(u64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    /// All that was in the write buffer was written.
    pub(crate) fn flushed(&self) {
        if !self.shared.any_open.load(Ordering::Acquire) {
            return;
        }
        let written = self.shared.written.load(Ordering::Relaxed);
        let mut open = self.open();
        for (_, receipt) in open.receipts.extract_if(.., |(due, _)| *due <= written) {
            receipt.delivered();
        }
        open.shares.retain(|(due, _)| *due > written);
        let any_open = !open.receipts.is_empty() || !open.shares.is_empty();
        self.shared.any_open.store(any_open, Ordering::Release);
    }

    /// Nothing will be written any more: what is not confirmed is taken back.
    pub(crate) fn end(&self) {
        let mut open = self.open();
        open.ended = true;
        open.shares.clear();
        let undelivered = std::mem::take(&mut open.receipts);
        drop(open);
        drop(undelivered);
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.shared.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The body of an answer with grants: bytes and the receipt that goes with them.
#[derive(Debug)]
pub(crate) struct ReceiptBody {
    bytes: Bytes,
    receipt: Option<Receipt>,
    /// Without a connection (a router called directly) whoever takes the bytes is the consumer.
    deliveries: Option<Deliveries>,
}

impl ReceiptBody {
    pub(crate) fn new(bytes: Bytes, receipt: Receipt, deliveries: Option<Deliveries>) -> Self {
        Self { bytes, receipt: Some(receipt), deliveries }
    }
}

impl Body for ReceiptBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let bytes = std::mem::take(&mut self.bytes);
        if let Some(receipt) = self.receipt.take() {
            match &self.deliveries {
                Some(deliveries) => deliveries.begin(bytes.len(), receipt),
                None => receipt.delivered(),
            }
        }
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(u64::try_from(self.bytes.len()).unwrap_or(u64::MAX))
    }
}
