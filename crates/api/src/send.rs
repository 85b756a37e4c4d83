//! `:send`: which form a body is in, the call it makes, and the answer.
//!
//! Only our own form has room for options; with the standard ones the server passes `delay` by a query
//! parameter, which [`parse_delay`] reads by the same rule.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::duration;
use crate::event::{Event, batch, binary, structured, sylphx};
use crate::input_error::{Fault, InputError};
use crate::limits::{DELAY_MAX, EVENTS_PER_CALL_MAX, TTL_MAX, TTL_MIN};
use crate::reader::Node;
use crate::writer;

/// Delays that a send may have.
pub const DELAY: RangeInclusive<Duration> = Duration::ZERO..=DELAY_MAX;
/// Times to live that a send may give.
pub const TTL: RangeInclusive<Duration> = TTL_MIN..=TTL_MAX;

/// Names of the parameters.
pub const SEND_PARAMETERS: &[&str] = &["delay", "priority", "ttl"];
/// Those of a send to a topic, which has no priorities.
pub const TOPIC_SEND_PARAMETERS: &[&str] = &["delay", "partition", "ttl"];
/// Fields of a send in our own form.
pub(crate) const SEND_NAMES: &[&str] = &["events", "delay"];

/// The form of a body of `:send`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendForm {
    /// `application/cloudevents-batch+json`.
    Batch,
    /// `ce-` headers, any content type: read it with [`binary::parse`].
    Binary,
    /// `application/json`: our own.
    Native,
    /// `application/cloudevents+json`.
    Structured,
}

impl SendForm {
    /// Chooses by content type, then by whether the headers hold an event ([`binary::is_marker`]).
    ///
    /// A content type of CloudEvents wins over headers, which may repeat the attributes of the body.
    pub fn choose(content_type: Option<&str>, has_event_headers: bool) -> Result<SendForm, InputError> {
        let given = content_type.unwrap_or_default();
        let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        match essence.as_str() {
            batch::MEDIA_TYPE => check_charset(given).map(|()| SendForm::Batch),
            structured::MEDIA_TYPE => check_charset(given).map(|()| SendForm::Structured),
            other if other.starts_with("application/cloudevents") => {
                Err(InputError::unsupported_media_type(given, "an event in the json format"))
            }
            _ if has_event_headers => Ok(SendForm::Binary),
            "application/json" => check_charset(given).map(|()| SendForm::Native),
            _ => Err(InputError::unsupported_media_type(
                given,
                "application/json, a content type of cloudevents, or ce- headers",
            )),
        }
    }
}

/// JSON is UTF-8; a body that says otherwise would be misread.
fn check_charset(content_type: &str) -> Result<(), InputError> {
    let lower = content_type.to_ascii_lowercase();
    let charset = lower.split(';').skip(1).find_map(|parameter| parameter.trim().strip_prefix("charset="));
    if charset.is_none_or(|name| matches!(name.trim_matches('"'), "utf-8" | "utf8" | "us-ascii")) {
        return Ok(());
    }
    Err(InputError::unsupported_media_type(content_type, "charset utf-8"))
}

/// What `:send` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The events, in the order in which their ids are answered.
    pub events: Vec<Event>,
    /// How long they stay hidden. None is the queue's own delay; zero is none at all.
    pub delay: Option<Duration>,
}

impl SendRequest {
    /// Reads a body in one of the JSON forms.
    ///
    /// # Errors
    ///
    /// Any fault refuses the whole call. [`SendForm::Binary`] is not JSON: its body is an unsupported media
    /// type here.
    pub fn parse(form: SendForm, body: &[u8]) -> Result<SendRequest, InputError> {
        match form {
            SendForm::Batch => Ok(SendRequest { events: batch::parse(body)?, delay: None }),
            SendForm::Binary => Err(InputError::unsupported_media_type("ce- headers", "a json form")),
            SendForm::Native => SendRequest::parse_native(body),
            SendForm::Structured => Ok(SendRequest { events: vec![structured::parse(body)?], delay: None }),
        }
    }

    fn parse_native(body: &[u8]) -> Result<SendRequest, InputError> {
        let root = Node::root(body)?;
        let mut object = root.object(SEND_NAMES)?;
        let delay = object.optional("delay", |node| node.duration(DELAY))?;
        let list = object.require("events")?;
        let events = list.list(1..=EVENTS_PER_CALL_MAX)?.map(|node| sylphx::parse_node(&node));
        Ok(SendRequest { events: events.collect::<Result<_, _>>()?, delay })
    }
}

/// Reads a delay that stands outside a body, in the query parameter `field`.
pub fn parse_delay(field: &str, text: &str) -> Result<Duration, InputError> {
    duration::parse_within(text, DELAY).map_err(|fault| fault.at(field, text))
}

/// The same for a time to live.
pub fn parse_time_to_live(field: &str, text: &str) -> Result<Duration, InputError> {
    duration::parse_within(text, TTL).map_err(|fault| fault.at(field, text))
}

/// The same for a priority.
pub fn parse_priority(field: &str, text: &str) -> Result<i32, InputError> {
    text.parse().map_err(|_| Fault::new("a whole number of 32 bits").at(field, text))
}

/// The answer: message ids in the order of the events.
pub fn render_sent<Id: AsRef<str>>(message_ids: &[Id]) -> String {
    let mut out = String::new();
    push_sent(&mut out, message_ids);
    out
}

/// Appends the answer to one send.
pub(crate) fn push_sent<Id: AsRef<str>>(out: &mut String, message_ids: &[Id]) {
    out.push('{');
    writer::push_name(out, "message_ids");
    writer::push_list(out, message_ids, |out, id| writer::push_string(out, id.as_ref()));
    out.push('}');
}

/// Whether a request with these headers is a binary event; see [`SendForm::choose`].
pub fn has_event_headers<'h>(headers: impl IntoIterator<Item = &'h str>) -> bool {
    headers.into_iter().any(binary::is_marker)
}
