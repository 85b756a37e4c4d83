//! The queue resource.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::name::Kind;
use millpond_api::queue::QueueBody;

fuzz_target!(|body: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][body.len() % 3];
    if let Err(error) = QueueBody::parse(kind, body) {
        assert!(!error.detail.is_empty());
    }
});
