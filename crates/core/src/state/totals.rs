//! How much there is of messages: of an environment against its quotas, or of a part of it.
//!
//! Invariant: the environment's totals are the sums of its queues' counters; a deleted queue counts nothing.

use crate::row::{CountersRow, DeliveryRow, MessageContent};

/// Messages and the bytes of their contents.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Totals {
    /// What a queue or a log holds.
    pub(crate) fn of(counters: &CountersRow) -> Self {
        Self { messages: counters.messages(), bytes: counters.bytes() }
    }

    /// What a delivery stands for; a group's progress is counted with the message itself.
    pub(crate) fn of_row(row: &DeliveryRow) -> Self {
        if row.is_progress() {
            return Self::default();
        }
        Self { messages: 1, bytes: row.size_bytes }
    }

    pub(crate) fn of_content(content: &MessageContent) -> Self {
        Self { messages: 1, bytes: u64::try_from(content.size_bytes()).unwrap_or(u64::MAX) }
    }

    pub(crate) fn add(&mut self, more: Self) {
        self.messages += more.messages;
        self.bytes += more.bytes;
    }

    /// Takes away what was added before.
    pub(crate) fn remove(&mut self, less: Self) {
        assert!(self.messages >= less.messages, "{self:?} goes below zero by {less:?}");
        assert!(self.bytes >= less.bytes, "{self:?} goes below zero by {less:?}");
        self.messages -= less.messages;
        self.bytes -= less.bytes;
    }
}
