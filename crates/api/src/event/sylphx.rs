//! Our own form of an event, with the names of the Sylphx documents.
//!
//! `{id, source, type, subject, event_time, data_content_type, data_schema, data, extensions}`. Beyond those
//! documents, `data_base64` carries bytes that are neither JSON nor text, and an extension may be an integer
//! or a boolean. Names outside this list are refused by path; a null is the same as absent, save for `data`.

use super::{AttributeValue, Attributes, Event, EventData, attributes, push_value};
use crate::input_error::InputError;
use crate::limits::EXTENSIONS_MAX;
use crate::reader::Node;
use crate::writer;

/// Our names of the core attributes and CloudEvents' own, in the order in which they are written.
const NAMES: [(&str, &str); 7] = [
    ("id", "id"),
    ("source", "source"),
    ("type", "type"),
    ("subject", "subject"),
    ("event_time", "time"),
    ("data_content_type", "datacontenttype"),
    ("data_schema", "dataschema"),
];

/// Fields of an event.
pub(crate) const FIELDS: &[&str] = &[
    "id",
    "source",
    "type",
    "subject",
    "event_time",
    "data_content_type",
    "data_schema",
    "data",
    "data_base64",
    "extensions",
];

/// Reads one event from a body.
pub fn parse(body: &[u8]) -> Result<Event, InputError> {
    parse_node(&Node::root(body)?)
}

/// Reads one event that stands inside something else.
pub(crate) fn parse_node(node: &Node<'_, '_>) -> Result<Event, InputError> {
    super::check_size(node)?;
    let mut object = node.object(FIELDS)?;
    let mut attributes = Attributes::default();
    for (ours, name) in NAMES {
        if let Some(value) = object.take(ours) {
            let text = AttributeValue::String(value.string()?.into_owned());
            attributes.put(name, text).map_err(|fault| value.refuse(fault))?;
        }
    }
    if let Some(extensions) = object.take("extensions") {
        read_extensions(&extensions, &mut attributes)?;
    }
    let (data, data_base64) = (object.take_nullable("data"), object.take("data_base64"));
    let data = EventData::from_members(data, data_base64, attributes.content_type())?;
    // The three required attributes have the same name in both forms.
    attributes.finish(data).map_err(|name| InputError::missing(node.path_of(name)))
}

fn read_extensions(node: &Node<'_, '_>, attributes: &mut Attributes) -> Result<(), InputError> {
    for (name, value) in node.map(EXTENSIONS_MAX)?.rest() {
        if value.is_null() {
            continue;
        }
        if attributes::is_reserved(name) {
            return Err(value.refuse(attributes::reserved()));
        }
        let fault = |fault| value.refuse(fault);
        attributes.put(name, attributes::read_value(&value)?).map_err(fault)?;
    }
    Ok(())
}

/// Writes one event.
pub fn render(event: &Event) -> String {
    let mut out = String::new();
    render_into(&mut out, event);
    out
}

/// Appends one event.
pub fn render_into(out: &mut String, event: &Event) {
    out.push('{');
    for (ours, name) in NAMES {
        if let Some(value) = event.attribute(name) {
            writer::push_name(out, ours);
            push_value(out, value);
        }
    }
    let mut extensions =
        event.attributes.iter().filter(|(name, _)| !attributes::is_reserved(name)).peekable();
    if extensions.peek().is_some() {
        writer::push_name(out, "extensions");
        out.push('{');
        for (name, value) in extensions {
            writer::push_name(out, name);
            push_value(out, value);
        }
        out.push('}');
    }
    if let Some(data) = &event.data {
        data.push_member(out, event.text("datacontenttype"));
    }
    out.push('}');
}
