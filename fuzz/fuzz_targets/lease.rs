//! `:lease`: what is accepted is within its bounds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::lease::LeaseRequest;
use millpond_api::limits;
use millpond_api::name::Kind;

fuzz_target!(|body: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][body.len() % 3];
    if let Ok(request) = LeaseRequest::parse(kind, body) {
        assert!((1..=request.max_messages).contains(&request.min_messages));
        assert!(request.max_messages <= limits::LEASE_MESSAGES_MAX);
        assert!(request.wait <= limits::WAIT_MAX);
    }
});
