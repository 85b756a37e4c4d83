//! `multipart/mixed`: the parts of a batch as they come in, and messages as they go out.
//!
//! Real clients read what goes out more strictly than RFC 2046 has it: nothing may stand before the first delimiter, nor
//! behind the last, not even a line break.

use memchr::memmem;

use super::answer::Delivered;
use crate::input_error::{Fault, InputError};
use crate::limits::{VERCEL_BATCH_MESSAGES_MAX, VERCEL_PART_HEADER_BYTES_MAX, VERCEL_PART_HEADERS_MAX};
use crate::{ErrorCode, time};

/// The media type.
pub const MEDIA_TYPE: &str = "multipart/mixed";
/// Characters of a boundary (RFC 2046).
const BOUNDARY_CHARS_MAX: usize = 70;
const CONTENT_TYPE: &str = "Content-Type";

/// Names and values, as they came but for blanks around them.
pub type Headers<'b> = Vec<(&'b str, &'b [u8])>;

/// One part of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<'b> {
    /// Its headers.
    pub headers: Headers<'b>,
    /// The payload.
    pub payload: &'b [u8],
}

impl<'b> Part<'b> {
    /// The first header with this name, in any case.
    pub fn header(&self, name: &str) -> Option<&'b [u8]> {
        self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }
}

/// The boundary that a content type names.
pub fn boundary_of(content_type: &str) -> Result<String, InputError> {
    let refuse = |expected: &str| Err(Fault::new(expected).at(CONTENT_TYPE, content_type));
    let (essence, parameters) = content_type.split_once(';').unwrap_or((content_type, ""));
    if !essence.trim().eq_ignore_ascii_case(MEDIA_TYPE) {
        return refuse("multipart/mixed with a boundary");
    }
    let mut parameters = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let boundary = parameters.find(|(name, _)| name.trim().eq_ignore_ascii_case("boundary"));
    let boundary = boundary.map(|(_, value)| value.trim()).unwrap_or_default();
    let bare = boundary.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(boundary);
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || b"'()+_,-./:=? ".contains(&byte);
    if (1..=BOUNDARY_CHARS_MAX).contains(&bare.len()) && bare.bytes().all(legal) && !bare.ends_with(' ') {
        return Ok(bare.to_owned());
    }
    refuse("a boundary of 1 to 70 characters that may stand in one")
}

/// Takes a body apart: 1 to 100 parts, in order. What stands before the first delimiter and behind the last is passed over.
pub fn parse<'b>(body: &'b [u8], boundary: &str) -> Result<Vec<Part<'b>>, InputError> {
    let delimiters = Delimiters::of(body, boundary);
    let mut parts = Vec::new();
    let (mut at, mut is_last) = delimiters.first().ok_or_else(|| malformed("it has no boundary"))?;
    while !is_last {
        if parts.len() == VERCEL_BATCH_MESSAGES_MAX {
            let expected = format!("1 to {VERCEL_BATCH_MESSAGES_MAX} parts");
            return Err(Fault::beyond(VERCEL_BATCH_MESSAGES_MAX, expected).at("body", "more"));
        }
        let (headers, from) = read_headers(body, at)?;
        let (until, next) = delimiters.behind(from).ok_or_else(|| malformed("its last part has no end"))?;
        let payload = body.get(from..until).unwrap_or_default();
        parts.push(Part { headers, payload });
        (at, is_last) = next;
    }
    if parts.is_empty() {
        return Err(Fault::new(format!("1 to {VERCEL_BATCH_MESSAGES_MAX} parts")).at("body", "none"));
    }
    Ok(parts)
}

fn malformed(reason: &str) -> InputError {
    InputError {
        code: ErrorCode::InvalidField,
        field: None,
        value: None,
        detail: format!("body is not {MEDIA_TYPE}: {reason}"),
        limit: None,
    }
}

/// Where a line of delimiters ends, and whether it is the last.
type Delimiter = (usize, bool);

/// Finds delimiters. Each is a line of its own; the line break before it belongs to it.
struct Delimiters<'b> {
    body: &'b [u8],
    dashes: String,
    finder: memmem::Finder<'static>,
}

impl<'b> Delimiters<'b> {
    fn of(body: &'b [u8], boundary: &str) -> Self {
        let finder = memmem::Finder::new(&format!("\r\n--{boundary}")).into_owned();
        Self { body, dashes: format!("--{boundary}"), finder }
    }

    fn first(&self) -> Option<Delimiter> {
        self.at_line(0).or_else(|| self.search(0).map(|(_, delimiter)| delimiter))
    }

    /// The first behind `from`, and where what stands before it ends. A payload that has no byte may lack the line break that
    /// would part it from its delimiter.
    fn behind(&self, from: usize) -> Option<(usize, Delimiter)> {
        match self.at_line(from) {
            Some(delimiter) => Some((from, delimiter)),
            None => self.search(from),
        }
    }

    fn search(&self, from: usize) -> Option<(usize, Delimiter)> {
        let rest = self.body.get(from..)?;
        let mut found = self.finder.find_iter(rest);
        found.find_map(|at| Some((from + at, self.at_line(from + at + 2)?)))
    }

    /// The delimiter whose line begins here, if that is one.
    fn at_line(&self, at: usize) -> Option<Delimiter> {
        let rest = self.body.get(at..)?.strip_prefix(self.dashes.as_bytes())?;
        if rest.starts_with(b"--") {
            return Some((self.body.len(), true));
        }
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let end = at + self.dashes.len() + blanks;
        self.body.get(end..)?.starts_with(b"\r\n").then_some((end + 2, false))
    }
}

/// The headers that begin here, and where the payload begins.
fn read_headers(body: &[u8], from: usize) -> Result<(Headers<'_>, usize), InputError> {
    let limit = from.saturating_add(VERCEL_PART_HEADER_BYTES_MAX).min(body.len());
    let mut headers = Vec::new();
    let mut at = from;
    loop {
        let rest = body.get(at..limit).unwrap_or_default();
        let Some(length) = memmem::find(rest, b"\r\n") else {
            return Err(malformed("the headers of a part do not end, or have more than 64 KiB"));
        };
        let line = rest.get(..length).unwrap_or_default();
        at += length + 2;
        if line.is_empty() {
            return Ok((headers, at));
        }
        let colon = line.iter().position(|byte| *byte == b':');
        let (name, value) = colon.and_then(|colon| line.split_at_checked(colon)).unwrap_or_default();
        let name = std::str::from_utf8(name).unwrap_or_default();
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed("a header of a part has no name"));
        }
        if headers.len() == VERCEL_PART_HEADERS_MAX {
            return Err(malformed("a part has more than 64 headers"));
        }
        headers.push((name, value.get(1..).unwrap_or_default().trim_ascii()));
    }
}

/// A part up to its payload; [`PART_END`] comes behind that.
pub fn push_part_head(out: &mut Vec<u8>, boundary: &str, message: &Delivered<'_>) {
    for text in ["--", boundary, "\r\n"] {
        out.extend_from_slice(text.as_bytes());
    }
    let mut header = |name: &str, value: &str| {
        for text in [name, ": ", value, "\r\n"] {
            out.extend_from_slice(text.as_bytes());
        }
    };
    header("Content-Type", message.content_type);
    header("Vqs-Message-Id", message.message_id);
    header("Vqs-Receipt-Handle", message.receipt_handle);
    header("Vqs-Timestamp", &time::render_millis(message.sent_at));
    header("Vqs-Delivery-Count", &message.delivery_count.to_string());
    header("Vqs-Expires-At", &time::render_millis(message.expires_at));
    out.extend_from_slice(b"\r\n");
}

/// What follows the payload of a part.
pub const PART_END: &[u8] = b"\r\n";

/// The end of the whole.
pub fn push_end(out: &mut Vec<u8>, boundary: &str) {
    for text in ["--", boundary, "--"] {
        out.extend_from_slice(text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
