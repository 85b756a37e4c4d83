//! `:send` as a batch: what is accepted is written back in a form that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::event::batch;

fuzz_target!(|body: &[u8]| {
    if let Ok(events) = batch::parse(body) {
        let with_extra: Vec<_> = events.iter().map(|event| (event, Vec::new())).collect();
        assert_eq!(batch::parse(batch::render(&with_extra).as_bytes()), Ok(events));
    }
});
