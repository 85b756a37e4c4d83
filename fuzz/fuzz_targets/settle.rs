//! `:ack`, `:nack` and `:extend`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::limits;
use millpond_api::name::Kind;
use millpond_api::settle::{AckRequest, ExtendRequest, NackRequest};

fuzz_target!(|body: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][body.len() % 3];
    let leases = [
        AckRequest::parse(kind, body).map(|request| request.leases),
        NackRequest::parse(kind, body).map(|request| request.leases),
        ExtendRequest::parse(kind, body).map(|request| request.leases),
    ];
    for leases in leases.into_iter().flatten() {
        assert!((1..=limits::LEASES_PER_CALL_MAX).contains(&leases.len()));
    }
});
