//! The payload of an event: which kind it is, and which member of the JSON forms carries it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::value::RawValue;

use super::portable;
use crate::input_error::{Fault, InputError};
use crate::reader::Node;
use crate::writer;

/// How the bytes are to be understood, and so where they stand in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DataKind {
    /// Valid JSON text: stands in `data` as it is.
    Json,
    /// UTF-8 text: stands in `data` as a string.
    Text,
    /// Anything: stands in `data_base64`.
    Binary,
}

/// A payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventData {
    /// What the bytes are. Whoever says [`DataKind::Json`] has checked that they are JSON that clients can parse.
    pub kind: DataKind,
    /// The bytes, exactly as sent.
    pub bytes: Vec<u8>,
}

impl EventData {
    /// The payload of binary mode: bytes and their content type.
    ///
    /// JSON that isn't valid or that ordinary parsers refuse, text that isn't UTF-8 and bytes without a content type are binary, so that they
    /// come back as they were. An empty body is no payload, as HTTP can't tell the two apart.
    pub fn from_body(content_type: Option<&str>, bytes: Vec<u8>) -> Option<EventData> {
        if bytes.is_empty() {
            return None;
        }
        let kind = match content_type {
            Some(media) if is_json(media) && is_portable_json(&bytes) => DataKind::Json,
            Some(media) if is_utf8_text(media) && std::str::from_utf8(&bytes).is_ok() => DataKind::Text,
            _ => DataKind::Binary,
        };
        Some(EventData { kind, bytes })
    }

    /// The payload from the members `data` and `data_base64` of a JSON form, at most one of which is given.
    ///
    /// A string under a content type that isn't JSON is text; any other value is JSON and not decoded, so a
    /// string that looks like JSON stays a string. A null `data_base64` is an absent one; a null `data` is
    /// JSON. JSON that ordinary parsers refuse is refused.
    pub(crate) fn from_members(
        data: Option<Node<'_, '_>>,
        data_base64: Option<Node<'_, '_>>,
        content_type: Option<&str>,
    ) -> Result<Option<EventData>, InputError> {
        match (data, data_base64) {
            (None, None) => Ok(None),
            (Some(_), Some(node)) => Err(node.refuse(Fault::new("to be absent where data is given"))),
            (None, Some(node)) => {
                let decoded = STANDARD.decode(node.string()?.as_bytes());
                let bytes = decoded.map_err(|_| node.refuse(Fault::new("standard base64 with padding")))?;
                Ok(Some(EventData { kind: DataKind::Binary, bytes }))
            }
            (Some(node), None) if node.is_string() && !content_type.is_none_or(is_json) => {
                let bytes = node.string()?.into_owned().into_bytes();
                Ok(Some(EventData { kind: DataKind::Text, bytes }))
            }
            (Some(node), None) => {
                portable::check(node.text()).map_err(|fault| node.refuse(fault))?;
                Ok(Some(EventData { kind: DataKind::Json, bytes: node.text().into() }))
            }
        }
    }

    /// Appends `"data":…` or `"data_base64":…` to an object.
    ///
    /// Kinds that a reader would take for another one under this content type (JSON text under `text/plain`
    /// that is a string, say) go as base64: bytes matter more than looks.
    pub(crate) fn push_member(&self, out: &mut String, content_type: Option<&str>) {
        let json = content_type.is_none_or(is_json);
        let text = std::str::from_utf8(&self.bytes).ok();
        match (self.kind, text) {
            (DataKind::Json, Some(text)) if json || !text.trim_start().starts_with('"') => {
                writer::push_name(out, "data");
                out.push_str(text);
            }
            (DataKind::Text, Some(text)) if !json => writer::push_text_field(out, "data", text),
            _ => {
                writer::push_name(out, "data_base64");
                out.push('"');
                STANDARD.encode_string(&self.bytes, out);
                out.push('"');
            }
        }
    }
}

/// Whether a body is JSON that every ordinary parser takes.
fn is_portable_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<&RawValue>(bytes).is_ok_and(|raw| portable::check(raw.get()).is_ok())
}

/// Whether a media type declares JSON: subtype `json`, or one that ends with `+json`.
pub(crate) fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    subtype == "json" || subtype.ends_with("+json")
}

/// Whether a media type declares text whose bytes, if they are UTF-8, may be shown as such.
fn is_utf8_text(media_type: &str) -> bool {
    let lower = media_type.to_ascii_lowercase();
    let mut parts = lower.split(';').map(str::trim);
    let text = parts.next().is_some_and(|essence| essence.starts_with("text/"));
    let charset = parts.find_map(|parameter| parameter.strip_prefix("charset="));
    let known = charset.is_none_or(|name| matches!(name.trim_matches('"'), "utf-8" | "utf8" | "us-ascii"));
    text && known
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(content_type: Option<&str>, bytes: &[u8]) -> Option<DataKind> {
        EventData::from_body(content_type, bytes.to_vec()).map(|data| data.kind)
    }

    #[test]
    fn the_kind_of_a_body_follows_content_type_and_bytes() {
        for (content_type, bytes, expected) in [
            (Some("application/json"), &b" {\"a\": 1}\n"[..], DataKind::Json),
            (Some("Application/JSON; charset=utf-8"), b"null", DataKind::Json),
            (Some("application/vnd.x+json"), b"\"{}\"", DataKind::Json),
            (Some("application/json"), b"{", DataKind::Binary),
            (Some("application/json"), b"\xef\xbb\xbf{}", DataKind::Binary),
            (Some("application/json"), b"[1e999]", DataKind::Binary),
            (Some("application/json"), b"\"\\ud800\"", DataKind::Binary),
            (Some("application/json"), &b"[".repeat(65)[..], DataKind::Binary),
            (Some("text/plain"), "grüße".as_bytes(), DataKind::Text),
            (Some("text/csv; charset=\"UTF-8\""), b"a,b", DataKind::Text),
            (Some("text/plain; charset=iso-8859-1"), b"abc", DataKind::Binary),
            (Some("text/plain"), b"\xff", DataKind::Binary),
            (Some("application/octet-stream"), b"{}", DataKind::Binary),
            (Some("application/jsonx"), b"{}", DataKind::Binary),
            (None, b"{}", DataKind::Binary),
        ] {
            assert_eq!(kind(content_type, bytes), Some(expected), "{content_type:?}");
        }
        assert_eq!(kind(Some("text/plain"), b""), None);
    }

    #[test]
    fn a_kind_that_would_be_misread_goes_as_base64() {
        let member = |kind, bytes: &[u8], content_type| {
            let mut out = String::from("{");
            EventData { kind, bytes: bytes.to_vec() }.push_member(&mut out, content_type);
            out
        };
        assert_eq!(member(DataKind::Json, b"{\"a\" :1}", None), "{\"data\":{\"a\" :1}");
        assert_eq!(member(DataKind::Json, b"{}", Some("text/plain")), "{\"data\":{}");
        assert_eq!(member(DataKind::Json, b"\"x\"", Some("text/plain")), "{\"data_base64\":\"Ingi\"");
        assert_eq!(member(DataKind::Text, b"x", Some("text/plain")), "{\"data\":\"x\"");
        assert_eq!(member(DataKind::Text, b"x", None), "{\"data_base64\":\"eA==\"");
        assert_eq!(member(DataKind::Text, b"\xff", Some("text/plain")), "{\"data_base64\":\"/w==\"");
        assert_eq!(member(DataKind::Binary, b"", None), "{\"data_base64\":\"\"");
    }
}
