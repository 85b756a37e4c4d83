//! A change of a queue: its body, and its mask behind the last newline.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::name::Kind;
use millpond_api::queue::{Naming, QueueBody, QueueUpdate, UpdateMask};

fuzz_target!(|input: &[u8]| {
    let kind = [Kind::Group, Kind::Queue, Kind::Topic][input.len() % 3];
    let at = input.iter().rposition(|byte| *byte == b'\n').unwrap_or(input.len());
    let (body, mask) = input.split_at(at);
    let mask = std::str::from_utf8(mask).ok().and_then(|mask| mask.strip_prefix('\n'));
    let whole = QueueBody::parse(kind, body);
    assert_eq!(QueueUpdate::parse(kind, body, None).map(|update| update.body), whole);
    if let Ok(update) = QueueUpdate::parse(kind, body, mask) {
        assert!(mask.is_none() || update.mask.of("backoff") != Naming::Parts);
    }
    if let Some(mask) = mask {
        let _ = UpdateMask::parse(kind, mask);
    }
});
