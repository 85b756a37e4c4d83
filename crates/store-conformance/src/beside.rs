//! Transactions beside the owner, as a backend has them: what the rules about external commands are carried out with.

use std::time::Duration;

use millpond_core::command::LeaseRef;
use millpond_core::external::ExternalSend;
use millpond_core::id::MessageId;
use millpond_store::{BesideError, MemoryBeside};

/// A transaction. Dropped, it is rolled back. Nothing here waits for the owner, nor the owner for it.
pub trait Beside {
    /// Sends a message; answers the id that it got, that in `send` is passed over.
    ///
    /// # Errors
    /// [`BesideError::NoQueue`], as far as committed rows can tell.
    fn send(&mut self, send: ExternalSend) -> Result<MessageId, BesideError>;

    /// Ends a lease whose work is done.
    ///
    /// # Errors
    /// [`BesideError::NotAllowed`], [`BesideError::Stale`]; [`BesideError::Waits`] where it would wait for another transaction.
    fn complete(&mut self, lease: LeaseRef) -> Result<(), BesideError>;

    /// Ends a lease whose work failed.
    ///
    /// # Errors
    /// As [`Beside::complete`].
    fn fail(&mut self, lease: LeaseRef, delay: Option<Duration>) -> Result<(), BesideError>;

    /// Makes a lease last longer.
    ///
    /// # Errors
    /// What committed rows can tell.
    fn extend(&mut self, queue: &str, lease: LeaseRef, by: Duration) -> Result<(), BesideError>;

    /// Ends a message before it is done.
    ///
    /// # Errors
    /// What committed rows can tell.
    fn cancel(&mut self, queue: &str, message: MessageId) -> Result<(), BesideError>;

    /// Lets leases of a queue or group be settled from beside.
    ///
    /// # Errors
    /// What committed rows can tell.
    fn allow_settle(&mut self, queue: &str) -> Result<(), BesideError>;

    /// Makes all of it durable.
    ///
    /// # Errors
    /// [`BesideError::Over`].
    fn commit(self: Box<Self>) -> Result<(), BesideError>;

    /// Undoes all of it.
    fn roll_back(self: Box<Self>);
}

impl Beside for MemoryBeside {
    fn send(&mut self, send: ExternalSend) -> Result<MessageId, BesideError> {
        Self::send(self, send)
    }

    fn complete(&mut self, lease: LeaseRef) -> Result<(), BesideError> {
        Self::complete(self, lease, None)
    }

    fn fail(&mut self, lease: LeaseRef, delay: Option<Duration>) -> Result<(), BesideError> {
        Self::fail(self, lease, delay)
    }

    fn extend(&mut self, queue: &str, lease: LeaseRef, by: Duration) -> Result<(), BesideError> {
        Self::extend(self, queue, lease, by)
    }

    fn cancel(&mut self, queue: &str, message: MessageId) -> Result<(), BesideError> {
        Self::cancel(self, queue, message)
    }

    fn allow_settle(&mut self, queue: &str) -> Result<(), BesideError> {
        Self::allow_settle(self, queue)
    }

    fn commit(self: Box<Self>) -> Result<(), BesideError> {
        Self::commit(*self)
    }

    fn roll_back(self: Box<Self>) {
        Self::roll_back(*self);
    }
}
