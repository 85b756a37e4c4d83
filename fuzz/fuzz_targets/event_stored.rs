//! Stored attributes: what is accepted is written back in a form that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::Event;

fuzz_target!(|text: &str| {
    if let Ok(event) = Event::from_stored(text, None) {
        assert_eq!(Event::from_stored(&event.attributes_json(), None), Ok(event));
    }
});
