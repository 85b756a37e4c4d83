//! A batch over Vercel's wire: the first line is the content type, the rest the body. What is read is within its limits, and
//! lies in the body where it was.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::limits;
use millpond_api::vercel::answer::Delivered;
use millpond_api::vercel::header::SendOptions;
use millpond_api::vercel::{event, multipart};

fuzz_target!(|input: &[u8]| {
    let split = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (content_type, body) = input.split_at(split);
    let named = std::str::from_utf8(content_type).ok().and_then(|text| multipart::boundary_of(text).ok());
    let boundary = named.as_deref().unwrap_or("vqs-b");
    let Ok(parts) = multipart::parse(body, boundary) else { return };
    assert!((1..=limits::VERCEL_BATCH_MESSAGES_MAX).contains(&parts.len()));
    let mut at = 0;
    let mut written = Vec::new();
    let message = Delivered {
        message_id: "msg_1",
        receipt_handle: "h",
        delivery_count: 1,
        sent_at: 0,
        expires_at: 1,
        content_type: "text/plain",
    };
    for part in &parts {
        let place = part.payload.as_ptr() as usize - body.as_ptr() as usize;
        assert!(place >= at && place + part.payload.len() <= body.len());
        at = place + part.payload.len();
        let _ = (SendOptions::read(|name| part.header(name)), event("t", |name| part.header(name)));
        multipart::push_part_head(&mut written, boundary, &message);
        written.extend_from_slice(part.payload);
        written.extend_from_slice(multipart::PART_END);
    }
    multipart::push_end(&mut written, boundary);
    let again = multipart::parse(&written, boundary).expect("what is written is read");
    assert!(again.iter().map(|part| part.payload).eq(parts.iter().map(|part| part.payload)));
});
