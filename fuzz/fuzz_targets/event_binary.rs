//! Binary mode: `name: value` lines, an empty line, the body.
#![no_main]

use libfuzzer_sys::fuzz_target;
use millpond_api::event::{binary, structured};

fuzz_target!(|input: &[u8]| {
    let split = input.windows(2).position(|pair| pair == b"\n\n");
    let (head, body) = split.map_or((input, &[][..]), |at| (&input[..at], &input[at + 2..]));
    let lines = head.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((std::str::from_utf8(&line[..colon]).ok()?, &line[colon + 1..]))
    });
    let headers: Vec<_> = lines.collect();
    let content_type = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    let content_type = content_type.map(|(_, value)| *value);
    if let Ok(event) = binary::parse(headers.iter().copied(), content_type, body.to_vec()) {
        assert_eq!(event.data.as_ref().map_or(&[][..], |data| &data.bytes), body);
        let received = structured::parse(structured::render(&event).as_bytes()).expect("what is written is valid");
        assert_eq!(received.attributes, event.attributes);
    }
});
