//! A CloudEvent, its attributes and its data, whatever form it came in.
//!
//! Four forms: [`structured`] JSON, [`batch`], [`binary`] (attributes in headers) and our own, [`sylphx`].
//! Attributes are kept under their CloudEvents names, the seven core ones first and in a fixed order, then
//! extensions as sent; `specversion` is always 1.0 and not kept.
//!
//! Invariant: data bytes are kept exactly as sent and are what every form gives back (`tests/it/forms.rs`).
//! JSON data keeps its text (spaces around the value excepted in the JSON forms, where they are not part of
//! it), text its characters, and no data is not the same as `null`.

mod attributes;
pub mod batch;
pub mod binary;
mod data;
mod portable;
pub mod structured;
pub mod sylphx;

use crate::input_error::InputError;
use crate::limits::EVENT_JSON_BYTES_MAX;
use crate::reader::Node;
use crate::writer;

pub(crate) use attributes::Attributes;
pub use data::{DataKind, EventData};
pub(crate) use sylphx::FIELDS;

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Every attribute but `specversion`, by its CloudEvents name; each name at most once.
    pub attributes: Vec<(String, AttributeValue)>,
    /// The payload. None is no payload, which is not the same as an empty one or as `null`.
    pub data: Option<EventData>,
}

/// The value of an attribute. CloudEvents' other types travel as strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// Characters, none of them control characters.
    String(String),
    /// 32 bits, signed.
    Integer(i32),
    /// True or false.
    Boolean(bool),
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> AttributeValue {
        AttributeValue::String(text.to_owned())
    }
}

impl std::fmt::Display for AttributeValue {
    /// The canonical string of CloudEvents, as it stands in a header.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AttributeValue::String(text) => formatter.write_str(text),
            AttributeValue::Integer(number) => number.fmt(formatter),
            AttributeValue::Boolean(flag) => flag.fmt(formatter),
        }
    }
}

impl Event {
    /// The attribute with this CloudEvents name.
    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|(own, _)| own == name).map(|(_, value)| value)
    }

    /// The attribute with this name, if it is a string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.attribute(name)? {
            AttributeValue::String(text) => Some(text),
            AttributeValue::Integer(_) | AttributeValue::Boolean(_) => None,
        }
    }

    /// The attributes as one flat JSON object, without `specversion` and data.
    ///
    /// Persisted: stored beside the data of each message. What is written here must be readable by
    /// [`Event::from_stored`] for ever; limits on input may change, so reading knows none.
    pub fn attributes_json(&self) -> String {
        let mut out = String::from("{");
        for (name, value) in &self.attributes {
            writer::push_name(&mut out, name);
            push_value(&mut out, value);
        }
        out.push('}');
        out
    }

    /// The event from what was stored. Only text that [`Event::attributes_json`] never writes is refused.
    pub fn from_stored(
        attributes_json: &str,
        data: Option<(DataKind, Vec<u8>)>,
    ) -> Result<Event, InputError> {
        let root = Node::text_root(attributes_json)?;
        let object = root.map(usize::MAX)?;
        let mut attributes = Vec::new();
        for (name, node) in object.rest() {
            attributes.push((name.to_owned(), attributes::read_value(&node)?));
        }
        Ok(Event { attributes, data: data.map(|(kind, bytes)| EventData { kind, bytes }) })
    }
}

/// Refuses an event whose JSON text is too long.
pub(crate) fn check_size(node: &Node<'_, '_>) -> Result<(), InputError> {
    match node.text().len() {
        bytes if bytes > EVENT_JSON_BYTES_MAX => {
            Err(InputError::too_large(node.path(), bytes, EVENT_JSON_BYTES_MAX))
        }
        _ => Ok(()),
    }
}

/// Appends an attribute's value as JSON.
pub(crate) fn push_value(out: &mut String, value: &AttributeValue) {
    match value {
        AttributeValue::String(text) => writer::push_string(out, text),
        other => writer::push_display(out, other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_attributes_are_read_back_in_order() {
        let text = r#"{"id":"1","source":"/s","type":"t","flag":true,"n":-2147483648,"q":"\"\n"}"#;
        let event = Event::from_stored(text, Some((DataKind::Json, b"{\"a\" : 1}".to_vec()))).expect("valid");
        assert_eq!(event.attributes_json(), text);
        assert_eq!(event.text("id"), Some("1"));
        assert_eq!(event.attribute("flag"), Some(&AttributeValue::Boolean(true)));
        assert_eq!(event.text("flag"), None);
        assert_eq!(event.data.map(|data| data.bytes), Some(b"{\"a\" : 1}".to_vec()));
    }

    #[test]
    fn damaged_stored_attributes_are_refused() {
        for text in ["", "[]", "{", r#"{"a":{}}"#, r#"{"a":1,"a":2}"#, r#"{"a":null}"#, r#"{"a":1.5}"#] {
            assert!(Event::from_stored(text, None).is_err(), "{text}");
        }
    }
}
