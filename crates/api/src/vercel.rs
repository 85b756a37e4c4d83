//! The wire of Vercel Queues (`/api/v3/topic/…`): paths, headers, multipart bodies, receipt handles, answers. And that of
//! Vercel's runtime cache, where results of tasks are kept.
//!
//! What is the same here as there, and what is not, is in `docs/compatibility/vercel.md`. Nothing here knows HTTP beyond
//! names and bytes, nor topics beyond their names.
//!
//! | module | holds |
//! | --- | --- |
//! | [`answer`] | bodies of answers, errors among them |
//! | [`cache`] | the runtime cache: keys, tags, times to live |
//! | [`handle`] | receipt handles, and the ids of duplicates |
//! | [`header`] | what stands in headers, and its bounds |
//! | [`multipart`] | batches that come in, messages that go out |
//! | [`path`] | endpoints, and what their paths name |
//! | [`visibility`] | the body that extends a lease or gives it back |

pub mod answer;
pub mod cache;
pub mod handle;
pub mod header;
pub mod multipart;
pub mod path;
pub mod visibility;

use crate::event::{AttributeValue, DataKind, Event};
use crate::input_error::{Fault, InputError};
use crate::limits::ATTRIBUTE_VALUE_BYTES_MAX;

/// The type of a message that was sent in this way, where it is shown as a CloudEvent. Vercel's own name for it.
pub const EVENT_TYPE: &str = "com.vercel.queue.v2beta";

/// Headers of a send that go with the message, and the attributes that hold them.
pub const TRACE_HEADERS: [&str; 3] = ["traceparent", "tracestate", "baggage"];

/// A message as it is stored, but for its data: an event without an id, which is the message's own.
///
/// The content type is kept as it came. A trace header that would not fit into an attribute is left out: it is for tools to
/// look at, and a message that was taken must not be lost over it.
pub fn event<'h>(topic: &str, header: impl Fn(&str) -> Option<&'h [u8]>) -> Result<Event, InputError> {
    let mut attributes = vec![
        ("source".to_owned(), AttributeValue::String(format!("/topics/{topic}"))),
        ("type".to_owned(), EVENT_TYPE.into()),
    ];
    if let Some(value) = header("content-type") {
        let text = printable(value).filter(|text| !text.is_empty()).ok_or_else(|| {
            let expected = format!("up to {ATTRIBUTE_VALUE_BYTES_MAX} printable ascii characters");
            Fault::beyond(ATTRIBUTE_VALUE_BYTES_MAX, expected)
                .at("Content-Type", &String::from_utf8_lossy(value))
        })?;
        attributes.push(("datacontenttype".to_owned(), text.into()));
    }
    for name in TRACE_HEADERS {
        if let Some(text) = header(name).and_then(printable).filter(|text| !text.is_empty()) {
            attributes.push((name.to_owned(), text.into()));
        }
    }
    Ok(Event { attributes, data: None })
}

/// The content type that a message is handed out with: as it was sent, in this way or any other. JSON has one even if its
/// event does not say. `kind` is that of its data.
pub fn content_type(event: &Event, kind: Option<DataKind>) -> &str {
    let by_kind = match kind {
        Some(DataKind::Json) => "application/json",
        Some(DataKind::Binary | DataKind::Text) | None => "application/octet-stream",
    };
    let given = event.text("datacontenttype");
    given.and_then(|text| printable(text.as_bytes())).unwrap_or(by_kind)
}

/// The trace headers of a message, by name, but for what cannot stand in a header.
pub fn trace_headers(event: &Event) -> impl Iterator<Item = (&'static str, &str)> {
    let values = TRACE_HEADERS.into_iter().filter_map(|name| Some((name, event.text(name)?)));
    values.filter(|(_, text)| !text.is_empty() && printable(text.as_bytes()).is_some())
}

/// What can stand in an attribute and in a header alike.
fn printable(value: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(value).ok()?;
    let fits = text.len() <= ATTRIBUTE_VALUE_BYTES_MAX;
    (fits && text.bytes().all(|byte| (0x20..0x7f).contains(&byte))).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(headers: &[(&str, &'static [u8])]) -> Result<String, InputError> {
        let header = |name: &str| headers.iter().find(|(own, _)| *own == name).map(|(_, value)| *value);
        event("orders", header).map(|event| event.attributes_json())
    }

    #[test]
    fn a_message_is_an_event_with_what_was_said_of_it() {
        let plain = r#"{"source":"/topics/orders","type":"com.vercel.queue.v2beta"}"#;
        assert_eq!(made(&[]).as_deref(), Ok(plain));
        let headers: [(&str, &[u8]); 4] = [
            ("content-type", b"Text/Plain;charset=\"UTF-8\""),
            ("traceparent", b"00-aa-bb-01"),
            ("baggage", b"a=1"),
            ("x-other", b"no"),
        ];
        let expected = concat!(
            r#"{"source":"/topics/orders","type":"com.vercel.queue.v2beta","#,
            r#""datacontenttype":"Text/Plain;charset=\"UTF-8\"","traceparent":"00-aa-bb-01","baggage":"a=1"}"#
        );
        assert_eq!(made(&headers).as_deref(), Ok(expected));
    }

    #[test]
    fn a_message_is_handed_out_with_what_it_was_sent_with() {
        let event = |attributes: &str| Event::from_stored(attributes, None).expect("stored attributes");
        let typed = |text: &str| event(&format!(r#"{{"datacontenttype":"{text}"}}"#));
        for kind in [None, Some(DataKind::Binary), Some(DataKind::Json), Some(DataKind::Text)] {
            assert_eq!(content_type(&typed("text/plain; charset=utf-8"), kind), "text/plain; charset=utf-8");
            let untyped = event("{}");
            let by_kind = content_type(&untyped, kind);
            let is_json = kind == Some(DataKind::Json);
            assert_eq!(by_kind, if is_json { "application/json" } else { "application/octet-stream" });
            assert_eq!(content_type(&typed("text/é"), kind), by_kind);
        }
        let traces = |attributes: &str| -> Vec<_> {
            let event = event(attributes);
            trace_headers(&event).map(|(name, text)| (name, text.to_owned())).collect()
        };
        let sent = r#"{"baggage":"a=1","traceparent":"00-aa-bb-01","tracestate":"","other":"x"}"#;
        assert_eq!(traces(sent), [("traceparent", "00-aa-bb-01".to_owned()), ("baggage", "a=1".to_owned())]);
        assert_eq!(traces(r#"{"baggage":"é","traceparent":7,"tracestate":true}"#), []);
    }

    #[test]
    fn a_content_type_that_no_header_could_give_back_is_refused_and_a_trace_left_out() {
        let long: &'static [u8] = Box::leak(vec![b'a'; ATTRIBUTE_VALUE_BYTES_MAX + 1].into());
        for value in [&b""[..], b"text/\xff", "text/é".as_bytes(), b"a\tb", long] {
            let error = made(&[("content-type", value)]).expect_err("no such type");
            assert_eq!(error.field.as_deref(), Some("Content-Type"));
            assert_eq!(made(&[("tracestate", value)]), made(&[]));
        }
        assert!(made(&[("content-type", &long[1..])]).is_ok());
    }
}
