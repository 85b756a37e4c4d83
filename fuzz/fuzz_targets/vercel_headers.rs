//! Headers and bodies over Vercel's wire: what is read is within its bounds. Each line is the value of one header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::limits;
use millpond_api::vercel::header::{ReceiveOptions, SendOptions, client_time, deployment};
use millpond_api::vercel::visibility;

const NAMES: [&str; 9] = [
    "accept",
    "vqs-client-ts",
    "vqs-cursor-fallback",
    "vqs-delay-seconds",
    "vqs-deployment-id",
    "vqs-idempotency-key",
    "vqs-max-concurrency",
    "vqs-max-messages",
    "vqs-visibility-timeout-seconds",
];

fuzz_target!(|input: &[u8]| {
    let lines: Vec<_> = input.split(|byte| *byte == b'\n').collect();
    let header = |name: &str| {
        let at = NAMES.iter().position(|own| *own == name);
        at.map_or(lines.first(), |at| lines.get(at)).copied()
    };
    if let Ok(options) = SendOptions::read(header) {
        assert!((limits::VERCEL_RETENTION_MIN..=limits::VERCEL_RETENTION_MAX).contains(&options.time_to_live));
        assert!(options.delay.is_none_or(|delay| delay <= options.time_to_live));
    }
    if let Ok(options) = ReceiveOptions::read(header) {
        assert!((1..=limits::VERCEL_RECEIVE_MESSAGES_MAX).contains(&options.max_messages));
        assert!(options.visibility.is_none_or(|held| !held.is_zero() && held <= limits::VERCEL_VISIBILITY_MAX));
        assert_ne!(options.max_concurrency, Some(0));
    }
    let _ = (deployment(header), client_time(header));
    if let Ok(timeout) = visibility::parse(input) {
        assert!(timeout <= limits::VERCEL_VISIBILITY_MAX);
    }
});
