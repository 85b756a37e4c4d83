//! The structured form: one JSON object, attributes and extensions flat, `application/cloudevents+json`.
//!
//! Names that CloudEvents does not define are extensions, so no name is unknown here, only illegal.

use super::{AttributeValue, Attributes, Event, EventData, attributes, push_value};
use crate::input_error::{Fault, InputError};
use crate::limits::EXTENSIONS_MAX;
use crate::reader::Node;
use crate::writer;

/// The content type of this form.
pub const MEDIA_TYPE: &str = "application/cloudevents+json";

/// Names beside the extensions: seven core attributes, `specversion`, `data`, `data_base64`. Null members are
/// allowed in addition, within reason.
const NAMES_MAX: usize = EXTENSIONS_MAX + 10 + EXTENSIONS_MAX;

/// Reads one event from a body.
pub fn parse(body: &[u8]) -> Result<Event, InputError> {
    parse_node(&Node::root(body)?)
}

/// Reads one event that stands inside something else.
pub(crate) fn parse_node(node: &Node<'_, '_>) -> Result<Event, InputError> {
    super::check_size(node)?;
    let mut object = node.map(NAMES_MAX)?;
    let version = object.require("specversion")?;
    if version.string()? != "1.0" {
        return Err(version.refuse(Fault::new("\"1.0\"")));
    }
    let data = object.take_nullable("data");
    let data_base64 = object.take("data_base64");
    let mut attributes = Attributes::default();
    for (name, value) in object.rest() {
        if value.is_null() {
            continue;
        }
        let fault = |fault| value.refuse(fault);
        attributes.put(name, attributes::read_value(&value)?).map_err(fault)?;
    }
    let data = EventData::from_members(data, data_base64, attributes.content_type())?;
    attributes.finish(data).map_err(|name| InputError::missing(node.path_of(name)))
}

/// Writes one event.
pub fn render(event: &Event) -> String {
    let mut out = String::new();
    render_into(&mut out, event, &[]);
    out
}

/// Appends one event, with `extra` attributes that stand in for the event's own of the same name.
pub fn render_into(out: &mut String, event: &Event, extra: &[(&str, AttributeValue)]) {
    out.push_str(r#"{"specversion":"1.0""#);
    for (name, value) in &event.attributes {
        if extra.iter().any(|(other, _)| other == name) {
            continue;
        }
        writer::push_name(out, name);
        push_value(out, value);
    }
    for (name, value) in extra {
        writer::push_name(out, name);
        push_value(out, value);
    }
    if let Some(data) = &event.data {
        data.push_member(out, event.text("datacontenttype"));
    }
    out.push('}');
}
