//! Times: what is accepted is written in a form that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::time;

fuzz_target!(|text: &str| {
    if let Ok(millis) = time::parse(text) {
        assert_eq!(time::parse(&time::render(millis)), Ok(millis));
    }
});
