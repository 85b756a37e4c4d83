//! Message ids: no text makes the parser fail in any other way than by refusing, and what it takes is shown as it came.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_core::id::MessageId;

fuzz_target!(|text: &str| {
    if let Ok(id) = text.parse::<MessageId>() {
        assert_eq!(id.to_string(), text);
    }
});
