//! A transaction beside the owner of an environment of a [`MemoryDisk`], as a database's SQL functions would run in one.

use millpond_core::command::{LeaseRef, MessageRef};
use millpond_core::external::{External, ExternalAction, ExternalCommand, ExternalSend, ExternalSettle};
use millpond_core::id::MessageId;
use millpond_core::time::Timestamp;
use millpond_core::{LeaseKey, mix};
use std::time::Duration;

use super::intake::TransactionId;
use super::{Contents, Known, MemoryDisk};

/// Why a transaction could not do something. Whether it can go on after that is the backend's to say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BesideError {
    /// The queue's leases may not be settled from beside.
    NotAllowed,
    /// There is no such queue, or it cannot be sent to.
    NoQueue,
    /// The lease is not held any more, is settled, or is the owner's to end.
    Stale,
    /// Another open transaction has the lease: a database would wait here until that ends.
    Waits,
    /// A copy was restored in place of what the transaction began with.
    Over,
}

/// A transaction. Nothing that it does can be seen before it commits, except that the leases that it settles are held. Dropped, it
/// is rolled back.
#[derive(Debug)]
pub struct MemoryBeside {
    disk: MemoryDisk,
    environment: String,
    transaction: TransactionId,
    restores: u64,
    now: Timestamp,
    commands: Vec<External>,
}

impl MemoryDisk {
    /// Begins a transaction beside the owner. The environment becomes known, but is not opened.
    #[must_use]
    pub fn beside(&self, environment: &str) -> MemoryBeside {
        let mut contents = self.lock();
        let restores = contents.restores;
        let known = contents.environments.entry(environment.to_owned()).or_default();
        MemoryBeside {
            disk: self.clone(),
            environment: environment.to_owned(),
            transaction: known.data.intake.begin(),
            restores,
            now: Timestamp::ZERO,
            commands: Vec::new(),
        }
    }
}

impl MemoryBeside {
    /// The time by the database's clock, which does not run by itself.
    pub fn set_now(&mut self, now: Timestamp) {
        self.now = now;
    }

    /// Sends a message; answers its id. That which `send` brings is passed over.
    ///
    /// # Errors
    /// [`BesideError::NoQueue`], [`BesideError::Over`].
    pub fn send(&mut self, mut send: ExternalSend) -> Result<MessageId, BesideError> {
        let now = self.now;
        let message = self.with(|known| {
            if !known.data.takes_messages(&send.queue) {
                return Err(BesideError::NoQueue);
            }
            let sequence = known.data.intake.draw_sequence();
            let nonce = mix(sequence.0) >> (u64::BITS - MessageId::NONCE_BITS);
            Ok(MessageId { sent_at: now, sequence, nonce })
        })?;
        send.message = message;
        self.add(ExternalCommand::Send(Box::new(send)))?;
        Ok(message)
    }

    /// Ends a lease whose work is done.
    ///
    /// # Errors
    /// All of [`BesideError`] but `NoQueue`.
    pub fn complete(&mut self, lease: LeaseRef, output: Option<Box<str>>) -> Result<(), BesideError> {
        self.settle(ExternalSettle { lease, action: ExternalAction::Complete { output } })
    }

    /// Ends a lease whose work failed.
    ///
    /// # Errors
    /// As [`MemoryBeside::complete`].
    pub fn fail(&mut self, lease: LeaseRef, delay: Option<Duration>) -> Result<(), BesideError> {
        self.settle(ExternalSettle { lease, action: ExternalAction::Fail { output: None, delay } })
    }

    fn settle(&mut self, settle: ExternalSettle) -> Result<(), BesideError> {
        let LeaseRef { delivery, generation, .. } = settle.lease;
        let (transaction, now) = (self.transaction, self.now);
        self.with(|known| {
            known.data.check_settlement(&settle.lease, now)?;
            known.data.intake.hold(LeaseKey { delivery, generation }, transaction)
        })?;
        self.add(ExternalCommand::Settle(settle))
    }

    /// Makes a lease last longer.
    ///
    /// # Errors
    /// [`BesideError::Over`].
    pub fn extend(&mut self, queue: &str, lease: LeaseRef, by: Duration) -> Result<(), BesideError> {
        self.add(ExternalCommand::Extend { queue: queue.into(), lease, by })
    }

    /// Ends a message before it is done.
    ///
    /// # Errors
    /// [`BesideError::Over`].
    pub fn cancel(&mut self, queue: &str, message: MessageId) -> Result<(), BesideError> {
        self.add(ExternalCommand::Cancel(MessageRef { queue: queue.into(), message }))
    }

    /// Lets leases of a queue or group be settled from beside.
    ///
    /// # Errors
    /// [`BesideError::Over`].
    pub fn allow_settle(&mut self, queue: &str) -> Result<(), BesideError> {
        self.add(ExternalCommand::AllowSettle { queue: queue.into() })
    }

    /// Makes all of it durable, and wakes whoever watches the disk.
    ///
    /// # Errors
    /// [`BesideError::Over`]: nothing of it is there.
    pub fn commit(mut self) -> Result<(), BesideError> {
        let commands = std::mem::take(&mut self.commands);
        let adds = !commands.is_empty();
        let transaction = self.transaction;
        self.with(|known| {
            known.data.intake.commit(transaction, commands);
            Ok(())
        })?;
        if adds {
            self.disk.wake(&self.environment);
        }
        Ok(())
    }

    /// Undoes all of it.
    pub fn roll_back(self) {}

    fn add(&mut self, command: ExternalCommand) -> Result<(), BesideError> {
        let id = self.with(|known| Ok(known.data.intake.draw_id()))?;
        self.commands.push(External { id, command });
        Ok(())
    }

    fn with<T>(&self, act: impl FnOnce(&mut Known) -> Result<T, BesideError>) -> Result<T, BesideError> {
        let contents: &mut Contents = &mut self.disk.lock();
        if contents.restores != self.restores {
            return Err(BesideError::Over);
        }
        contents.environments.get_mut(&self.environment).ok_or(BesideError::Over).and_then(act)
    }
}

impl Drop for MemoryBeside {
    fn drop(&mut self) {
        let transaction = self.transaction;
        // One that is over holds nothing.
        let _ = self.with(|known| {
            known.data.intake.roll_back(transaction);
            Ok(())
        });
    }
}
