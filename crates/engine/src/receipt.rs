//! What an answer leaves open: grants on their way to somebody (design-holes B13), an upload that is to be finished, data
//! that is being read.

use std::sync::Arc;

use millpond_core::Command;
use millpond_core::command::{LeaseRef, PinId};
use millpond_core::id::UploadId;
use tokio::sync::oneshot;

use crate::EngineError;
use crate::driver::{ReadJob, ReadWork, Slot, unavailable};

/// Stands for what an answer gave and what is taken back unless it is told otherwise. Dropped without
/// [`Receipt::delivered`], grants become ready again, the delivery not counted, and an upload is given up.
#[derive(Debug)]
pub struct Receipt {
    slot: Arc<Slot>,
    given: Given,
}

#[derive(Debug)]
enum Given {
    Leases(Vec<LeaseRef>),
    Upload(UploadId),
    /// It need not be taken back any more.
    Nothing,
}

impl Receipt {
    pub(crate) fn of_leases(slot: Arc<Slot>, leases: Vec<LeaseRef>) -> Self {
        Self { slot, given: Given::Leases(leases) }
    }

    pub(crate) fn of_upload(slot: Arc<Slot>, upload: UploadId) -> Self {
        Self { slot, given: Given::Upload(upload) }
    }

    /// The answer reached its consumer, as far as that can be known; or the upload was finished.
    pub fn delivered(mut self) {
        self.given = Given::Nothing;
    }

    /// The receipt of one of these grants, apart from the others: for an answer that is written piece by piece.
    #[must_use = "the grant is taken back if this is dropped"]
    pub fn split(&mut self, lease: &LeaseRef) -> Receipt {
        let mut given = Vec::new();
        if let Given::Leases(leases) = &mut self.given {
            given.extend(leases.extract_if(.., |own| own == lease));
        }
        Self::of_leases(Arc::clone(&self.slot), given)
    }

    /// These grants were not put into the answer: they go back at once.
    pub(crate) fn give_back(&mut self, given_back: Vec<LeaseRef>) {
        if let Given::Leases(leases) = &mut self.given {
            leases.retain(|lease| !given_back.contains(lease));
        }
        self.slot.notify(Command::Undo(given_back));
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        match std::mem::replace(&mut self.given, Given::Nothing) {
            Given::Leases(leases) if !leases.is_empty() => {
                self.slot.count_undone(leases.len());
                self.slot.notify(Command::Undo(leases));
            }
            Given::Upload(upload) => self.slot.notify(Command::CancelUpload(upload)),
            Given::Leases(_) | Given::Nothing => {}
        }
    }
}

/// Keeps the chunks of a message until it is dropped, and reads them.
#[derive(Debug)]
pub struct Pin {
    slot: Arc<Slot>,
    /// A stream does not go on in the next opening: there the same sequence may be another message.
    opening: u64,
    pin: PinId,
}

impl Pin {
    pub(crate) fn new(slot: Arc<Slot>, opening: u64, pin: PinId) -> Self {
        Self { slot, opening, pin }
    }

    /// Reads one chunk, from 0.
    ///
    /// # Errors
    /// `Unavailable` or `Corrupt`: there is no such chunk, or it cannot be read any more.
    pub async fn chunk(&self, number: u32) -> Result<Vec<u8>, EngineError> {
        let (reply, receiver) = oneshot::channel();
        let work = ReadWork::Chunk(self.pin.sequence, number, reply);
        self.slot.read(ReadJob { slot: Arc::clone(&self.slot), opening: self.opening, work });
        match receiver.await {
            Ok(Ok(Some(chunk))) => Ok(chunk),
            Ok(Ok(None)) => {
                Err(EngineError::Unavailable(format!("no chunk {number} of {}", self.pin.sequence)))
            }
            Ok(Err(error)) => Err(unavailable(&error)),
            Err(_) => Err(EngineError::ShuttingDown),
        }
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        self.slot.notify(Command::CloseData(self.pin));
    }
}
