//! The binary form: attributes in `ce-` headers, data as the body, `datacontenttype` as the content type.
//!
//! A header's value is taken out of its quotes if it has any, then percent-decoded once; what results must be
//! UTF-8. A `%` that no two hex digits follow stands for itself, as some senders do not encode it.

use super::{AttributeValue, Attributes, Event, EventData};
use crate::input_error::{Fault, InputError};
use crate::limits::BINARY_BODY_BYTES_MAX;

/// What every header of an attribute starts with, in any case.
pub const HEADER_PREFIX: &str = "ce-";

/// Whether this header makes a request a binary event.
pub fn is_marker(header: &str) -> bool {
    header.eq_ignore_ascii_case("ce-specversion") || header.eq_ignore_ascii_case("ce-id")
}

/// Reads one event. Headers other than `ce-` ones may be among `headers`; they are passed over.
pub fn parse<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    content_type: Option<&[u8]>,
    body: Vec<u8>,
) -> Result<Event, InputError> {
    if body.len() > BINARY_BODY_BYTES_MAX {
        return Err(InputError::too_large(String::new(), body.len(), BINARY_BODY_BYTES_MAX));
    }
    let mut event = parse_attributes(headers, content_type)?;
    event.data = EventData::from_body(event.text("datacontenttype"), body);
    Ok(event)
}

/// Reads the attributes alone, for a body that is not at hand; [`EventData::from_body`] does the rest.
pub fn parse_attributes<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    content_type: Option<&[u8]>,
) -> Result<Event, InputError> {
    let mut attributes = Attributes::default();
    let mut seen = Vec::new();
    for (header, value) in headers {
        let header = header.to_ascii_lowercase();
        let Some(name) = header.strip_prefix(HEADER_PREFIX) else { continue };
        let refuse = |fault: Fault| fault.at(header.as_str(), &shown(value));
        if seen.iter().any(|other| other == name) {
            return Err(refuse(Fault::new("to be given once")));
        }
        let text = decode(value).map_err(refuse)?;
        match name {
            "specversion" if text != "1.0" => return Err(refuse(Fault::new("1.0"))),
            "specversion" => {}
            "datacontenttype" => return Err(refuse(Fault::new("to be sent as content-type"))),
            _ => attributes.put(name, AttributeValue::String(text)).map_err(refuse)?,
        }
        seen.push(name.to_owned());
    }
    if !seen.iter().any(|name| name == "specversion") {
        return Err(InputError::missing("ce-specversion".to_owned()));
    }
    if let Some(value) = content_type {
        let refuse = |fault: Fault| fault.at("content-type", &shown(value));
        let text = std::str::from_utf8(value).map_err(|_| refuse(Fault::new("ascii")))?;
        attributes.put("datacontenttype", text.trim().into()).map_err(refuse)?;
    }
    attributes.finish(None).map_err(|name| InputError::missing(format!("{HEADER_PREFIX}{name}")))
}

/// An event ready to be sent in binary mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendered<'a> {
    /// `ce-` headers, values encoded.
    pub headers: Vec<(String, String)>,
    /// The content type. JSON data has one even if the event does not say.
    pub content_type: Option<&'a str>,
    /// The body.
    pub body: &'a [u8],
}

/// Writes one event.
pub fn render(event: &Event) -> Rendered<'_> {
    let mut headers = vec![("ce-specversion".to_owned(), "1.0".to_owned())];
    for (name, value) in event.attributes.iter().filter(|(name, _)| name != "datacontenttype") {
        headers.push((format!("{HEADER_PREFIX}{name}"), encode(&value.to_string())));
    }
    let json = event.data.as_ref().filter(|data| data.kind == super::DataKind::Json);
    let content_type = event.text("datacontenttype").or(json.map(|_| "application/json"));
    Rendered { headers, content_type, body: event.data.as_ref().map_or(&[], |data| &data.bytes) }
}

fn decode(value: &[u8]) -> Result<String, Fault> {
    let bytes = percent_decode(&unquote(value.trim_ascii()));
    String::from_utf8(bytes).map_err(|_| Fault::new("percent-encoded utf-8"))
}

/// Takes `"…"` off a value, and the backslashes off what they escape.
fn unquote(value: &[u8]) -> Vec<u8> {
    let [b'"', inner @ .., b'"'] = value else { return value.to_vec() };
    let mut out = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => out.extend(bytes.next()),
            byte => out.push(*byte),
        }
    }
    out
}

pub(crate) fn percent_decode(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some((first, others)) = rest.split_first() {
        let escaped = match others {
            [high, low, ..] if *first == b'%' => hex(*high).zip(hex(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                out.push(high << 4 | low);
                rest = &others[2..];
            }
            None => {
                out.push(*first);
                rest = others;
            }
        }
    }
    out
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'"' | b'%' => out.push_str(&format!("%{byte:02X}")),
            0x21..=0x7e => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn shown(value: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_unquoted_then_decoded_once() {
        for (value, expected) in [
            ("Euro%20%E2%82%AC%20%F0%9F%98%80", "Euro € 😀"),
            ("\"Euro \\\"%e2%82%ac\\\"\"", "Euro \"€\""),
            ("%2541", "%41"),
            ("100%", "100%"),
            ("%zz%4", "%zz%4"),
            ("\"", "\""),
            ("\"\\\"", ""),
            ("  a ", "a"),
            ("grün", "grün"),
            ("%61", "a"),
        ] {
            assert_eq!(decode(value.as_bytes()), Ok(expected.to_owned()), "{value}");
        }
    }

    #[test]
    fn bytes_that_are_not_utf8_are_refused() {
        for value in [&b"%C0%A0"[..], b"\xff", b"%ff", b"%ED%A0%80"] {
            assert!(decode(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn what_must_be_encoded_is() {
        assert_eq!(encode("Euro € 😀"), "Euro%20%E2%82%AC%20%F0%9F%98%80");
        assert_eq!(encode("\"%~!"), "%22%25~!");
    }
}
