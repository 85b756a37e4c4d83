//! Names: what is accepted has one spelling.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::name::{EnvironmentName, QueueName, QueueReference, split_verb};

fuzz_target!(|text: &str| {
    let _ = split_verb(text);
    if let Ok(name) = EnvironmentName::parse("name", text) {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(name) = QueueName::parse("name", text) {
        assert_eq!(name.to_string(), text);
    }
    if let Ok(reference) = QueueReference::parse("name", text) {
        assert_eq!(reference.to_string(), text);
    }
});
