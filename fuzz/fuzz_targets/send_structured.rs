//! `:send` of one structured event: what is accepted reads the same in every JSON form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::event::{structured, sylphx};

fuzz_target!(|body: &[u8]| {
    if let Ok(event) = structured::parse(body) {
        assert_eq!(structured::parse(structured::render(&event).as_bytes()).as_ref(), Ok(&event));
        assert_eq!(sylphx::parse(sylphx::render(&event).as_bytes()), Ok(event));
    }
});
