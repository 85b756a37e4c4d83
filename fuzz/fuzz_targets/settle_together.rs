//! `:settle`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::limits;
use millpond_api::name::Kind;
use millpond_api::settle::SettleRequest;

fuzz_target!(|body: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][body.len() % 3];
    let Ok(settle) = SettleRequest::parse(kind, body) else { return };
    let events = settle.sends.iter().map(|send| send.events.len()).sum::<usize>();
    assert!(settle.leases().count() <= limits::LEASES_PER_CALL_MAX);
    assert!(events <= limits::EVENTS_PER_CALL_MAX);
    assert!(settle.leases().count() + events > 0);
});
