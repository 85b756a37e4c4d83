//! The queue resource.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::queue::QueueBody;

fuzz_target!(|body: &[u8]| {
    if let Err(error) = QueueBody::parse(body) {
        assert!(!error.detail.is_empty());
    }
});
