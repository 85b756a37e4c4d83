//! `:send` in our own form: each event accepted is written back in a form that reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::event::sylphx;
use millpond_api::send::{SendForm, SendRequest};

fuzz_target!(|body: &[u8]| {
    let Ok(request) = SendRequest::parse(SendForm::Native, body) else { return };
    for event in request.events {
        assert_eq!(sylphx::parse(sylphx::render(&event).as_bytes()), Ok(event));
    }
});
