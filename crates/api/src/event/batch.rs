//! The batch form: a JSON array of structured events, `application/cloudevents-batch+json`.
//!
//! CloudEvents allows an empty batch; a call that sends nothing is refused here like in our own form.

use super::{AttributeValue, Event, structured};
use crate::input_error::InputError;
use crate::limits::EVENTS_PER_CALL_MAX;
use crate::reader::Node;
use crate::writer;

/// The content type of this form.
pub const MEDIA_TYPE: &str = "application/cloudevents-batch+json";

/// An event with the attributes that are added to it on its way out.
pub type WithExtra<'a> = (&'a Event, Vec<(&'a str, AttributeValue)>);

/// Reads 1 to 100 events from a body.
pub fn parse(body: &[u8]) -> Result<Vec<Event>, InputError> {
    let root = Node::root(body)?;
    root.list(1..=EVENTS_PER_CALL_MAX)?.map(|node| structured::parse_node(&node)).collect()
}

/// Writes a batch. It may be empty.
pub fn render(events: &[WithExtra<'_>]) -> String {
    let mut out = String::new();
    writer::push_list(&mut out, events, |out, (event, extra)| structured::render_into(out, event, extra));
    out
}
