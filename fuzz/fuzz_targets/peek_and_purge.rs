//! `:peek` and `:purge`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::limits;
use millpond_api::message::PeekRequest;
use millpond_api::name::Kind;
use millpond_api::purge::PurgeRequest;

fuzz_target!(|body: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][body.len() % 3];
    if let Ok(peek) = PeekRequest::parse(kind, body) {
        assert!((1..=limits::PEEK_MESSAGES_MAX).contains(&peek.max_messages));
    }
    if let Err(error) = PurgeRequest::parse(body) {
        assert!(!error.detail.is_empty());
    }
});
