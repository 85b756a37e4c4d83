//! Contents of messages that were sent lately, so that a lease soon after need not read them. Bounded by bytes; what a
//! commit under way carries is never let go, because the store cannot be asked for it yet.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;

#[derive(Debug, Default)]
pub(crate) struct Contents {
    map: HashMap<Sequence, Arc<MessageContent>>,
    /// In order of arrival, with the commit that carries it.
    order: VecDeque<(CommitSequence, Sequence)>,
    bytes: usize,
}

/// What an entry costs beyond its content.
const ENTRY_BYTES: usize = 128;

fn cost(content: &MessageContent) -> usize {
    content.size_bytes() + ENTRY_BYTES
}

impl Contents {
    pub(crate) fn insert(
        &mut self,
        commit: CommitSequence,
        sequence: Sequence,
        content: Arc<MessageContent>,
    ) {
        self.bytes += cost(&content);
        self.order.push_back((commit, sequence));
        if let Some(old) = self.map.insert(sequence, content) {
            self.bytes -= cost(&old);
        }
    }

    pub(crate) fn get(&self, sequence: Sequence) -> Option<&Arc<MessageContent>> {
        self.map.get(&sequence)
    }

    /// The message is gone.
    pub(crate) fn remove(&mut self, sequence: Sequence) {
        if let Some(old) = self.map.remove(&sequence) {
            self.bytes -= cost(&old);
        }
    }

    /// Lets the oldest go until at most `most` bytes are held.
    pub(crate) fn shrink(&mut self, most: usize, durable: CommitSequence) {
        while let Some(&(commit, sequence)) = self.order.front() {
            let gone = !self.map.contains_key(&sequence);
            if !gone && (self.bytes <= most || commit > durable) {
                return;
            }
            self.order.pop_front();
            self.remove(sequence);
        }
    }
}
