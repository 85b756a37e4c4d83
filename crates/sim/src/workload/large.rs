//! Data in chunks, made from the token of its message, so that whoever reads it knows what it has to be.

use std::sync::Arc;

use millpond_core::CoreSettings;
use millpond_core::command::{BeginUpload, Idempotency, NewMessage, Send};
use millpond_core::row::{Data, DataKind, MessageContent};

use crate::auditor::{Token, attributes_of, token_of};

fn chunk_bytes(settings: &CoreSettings) -> u64 {
    u64::try_from(settings.chunk_bytes).unwrap_or(u64::MAX)
}

/// How much the message of a token has: two chunks, or up to five. Failures leave little time for more.
#[must_use]
pub fn bytes_of(token: Token, settings: &CoreSettings) -> u64 {
    let chunk = chunk_bytes(settings);
    let most = if token.is_multiple_of(4) { 4 * chunk } else { chunk };
    chunk + 1 + millpond_core::mix(token) % most
}

/// One chunk of it; empty behind the end.
#[must_use]
pub fn data_of(token: Token, number: u32, settings: &CoreSettings) -> Vec<u8> {
    let chunk = chunk_bytes(settings);
    let begin = u64::from(number) * chunk;
    let end = (begin + chunk).min(bytes_of(token, settings));
    (begin..end).map(|at| millpond_core::mix(token ^ (at << 32)).to_le_bytes()[0]).collect()
}

/// A message with this much data elsewhere.
pub(super) fn content(token: Token, bytes: u64) -> Arc<MessageContent> {
    let data = Data::Chunked { bytes };
    Arc::new(MessageContent { attributes: attributes_of(token), data_kind: DataKind::Binary, data })
}

/// The send that ends an upload of so many bytes.
pub(super) fn send(begin: &BeginUpload, bytes: u64) -> Send {
    let token = token_of(&begin.message.content);
    let message = NewMessage { content: content(token, bytes), ..begin.message.clone() };
    let digest = u128::from(token % 2);
    let idempotency = begin.key.clone().map(|key| Idempotency { key, digest });
    Send { queue: begin.queue.clone(), messages: vec![message], idempotency }
}
