//! Page tokens: one that is taken is written back unchanged.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::page;

fuzz_target!(|text: &str| {
    let scope = ["orgs/a/projects/b/envs/c/queues", ""];
    if let Ok(position) = page::read_token(&scope, text) {
        assert_eq!(page::token(&scope, &position), text);
    }
    let _ = page::read_token(&scope, &page::token(&scope, text));
    let _ = page::read_size(Some(text), 100);
});
