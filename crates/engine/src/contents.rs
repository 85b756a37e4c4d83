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
/// Places of contents that are gone which are not worth a walk.
const COMPACT_ENTRIES: usize = 4_096;

fn cost(content: &MessageContent) -> usize {
    content.held_bytes() + ENTRY_BYTES
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
        self.compact();
        while let Some(&(commit, sequence)) = self.order.front() {
            let gone = !self.map.contains_key(&sequence);
            if !gone && (self.bytes <= most || commit > durable) {
                return;
            }
            self.order.pop_front();
            self.remove(sequence);
        }
    }

    /// Forgets the places of what is gone, once they are the most: an old content that stays would keep all that came
    /// after it in line.
    fn compact(&mut self) {
        if self.order.len() > 2 * self.map.len() + COMPACT_ENTRIES {
            self.order.retain(|(_, sequence)| self.map.contains_key(sequence));
        }
    }
}

#[cfg(test)]
mod tests {
    use millpond_core::row::DataKind;

    use super::*;

    #[test]
    fn one_content_that_stays_does_not_keep_the_places_of_all_that_go() {
        let content = Arc::new(MessageContent {
            attributes: "{}".into(),
            data_kind: DataKind::None,
            data: Vec::new().into(),
        });
        let mut contents = Contents::default();
        for number in 1..=100_000 {
            contents.insert(CommitSequence(number), Sequence(number), Arc::clone(&content));
            if number > 1 {
                contents.remove(Sequence(number));
            }
            contents.shrink(1 << 20, CommitSequence(number));
        }
        assert!(contents.get(Sequence(1)).is_some());
        assert!(contents.order.len() <= COMPACT_ENTRIES + 2, "{}", contents.order.len());
    }
}
