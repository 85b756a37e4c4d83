//! What a path over Vercel's wire names: receipt handles and ids of duplicates are written as they were read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::vercel::handle::{ReceiptHandle, duplicate_id, original_of};
use millpond_api::vercel::path::Place;

fuzz_target!(|text: &str| {
    if let Some(handle) = ReceiptHandle::parse(text) {
        assert_eq!(handle.render(), text);
    }
    if let Some(original) = original_of(text) {
        let salt = text.rsplit('_').next().and_then(|salt| u64::from_str_radix(salt, 16).ok());
        assert_eq!(duplicate_id(&original, salt.expect("hex digits")), text);
    }
    if let Some(place) = Place::of(text) {
        let _ = (place.region(), place.names());
    }
});
