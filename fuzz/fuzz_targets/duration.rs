//! Durations: what is accepted is written in a form that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::duration;

fuzz_target!(|text: &str| {
    if let Ok(value) = duration::parse(text) {
        assert_eq!(duration::parse(&duration::render(value)), Ok(value));
    }
});
