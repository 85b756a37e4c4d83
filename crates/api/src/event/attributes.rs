//! The rules of attributes, the same for all forms.
//!
//! Stricter than CloudEvents only in sizes. `source`, `dataschema` and the like are not parsed as URIs: what
//! senders put there in practice isn't always one, and nothing here depends on it.

use super::{AttributeValue, Event, EventData};
use crate::input_error::{Fault, InputError};
use crate::limits::{
    ATTRIBUTE_NAME_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, EVENT_ID_BYTES_MAX, EXTENSIONS_MAX,
};
use crate::reader::Node;
use crate::time;

/// The core attributes but `specversion`, in the order in which they are kept. The first three are required.
const CORE: [&str; 7] = ["id", "source", "type", "subject", "time", "datacontenttype", "dataschema"];
const REQUIRED: usize = 3;

/// The attributes of one event while it is being read.
#[derive(Default)]
pub(crate) struct Attributes {
    core: [Option<String>; CORE.len()],
    extensions: Vec<(String, AttributeValue)>,
}

impl Attributes {
    /// Adds an attribute under its CloudEvents name, which must be new.
    pub(crate) fn put(&mut self, name: &str, value: AttributeValue) -> Result<(), Fault> {
        match CORE.iter().position(|core| *core == name) {
            Some(at) => {
                let AttributeValue::String(text) = value else { return Err(Fault::new("a string")) };
                check_core(name, &text)?;
                self.core[at] = Some(text);
            }
            None => {
                check_name(name)?;
                if let AttributeValue::String(text) = &value {
                    check_text(text, ATTRIBUTE_VALUE_BYTES_MAX)?;
                }
                if self.extensions.len() == EXTENSIONS_MAX {
                    return Err(Fault::beyond(
                        EXTENSIONS_MAX,
                        format!("at most {EXTENSIONS_MAX} extensions"),
                    ));
                }
                self.extensions.push((name.to_owned(), value));
            }
        }
        Ok(())
    }

    pub(crate) fn content_type(&self) -> Option<&str> {
        self.core[5].as_deref()
    }

    /// The event, or the CloudEvents name of a required attribute that is missing.
    pub(crate) fn finish(self, data: Option<EventData>) -> Result<Event, &'static str> {
        if let Some(at) = self.core[..REQUIRED].iter().position(Option::is_none) {
            return Err(CORE[at]);
        }
        let core = CORE.into_iter().zip(self.core);
        let core = core.filter_map(|(name, value)| Some((name.to_owned(), AttributeValue::String(value?))));
        Ok(Event { attributes: core.chain(self.extensions).collect(), data })
    }
}

/// Whether CloudEvents gives this name a meaning, so that no extension may have it.
pub(crate) fn is_reserved(name: &str) -> bool {
    CORE.contains(&name) || matches!(name, "data" | "specversion")
}

pub(crate) fn reserved() -> Fault {
    Fault::new("a name that is not reserved")
}

fn check_name(name: &str) -> Result<(), Fault> {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    if name.is_empty() || !name.bytes().all(legal) {
        return Err(Fault::new("an attribute name of lower-case letters and digits"));
    }
    if is_reserved(name) {
        return Err(reserved());
    }
    if name.len() > ATTRIBUTE_NAME_BYTES_MAX {
        let expected = format!("an attribute name of at most {ATTRIBUTE_NAME_BYTES_MAX} bytes");
        return Err(Fault::beyond(ATTRIBUTE_NAME_BYTES_MAX, expected));
    }
    Ok(())
}

fn check_core(name: &str, text: &str) -> Result<(), Fault> {
    if text.is_empty() {
        return Err(Fault::new("a non-empty string"));
    }
    check_text(text, if name == "id" { EVENT_ID_BYTES_MAX } else { ATTRIBUTE_VALUE_BYTES_MAX })?;
    match name {
        "time" => time::parse(text).map(|_| ()),
        "datacontenttype" => check_content_type(text),
        _ => Ok(()),
    }
}

/// A media type that can stand in a header, which is where binary mode puts it.
fn check_content_type(text: &str) -> Result<(), Fault> {
    let (kind, subtype) = text.split_once('/').unwrap_or_default();
    let printable = text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    if printable && !kind.trim().is_empty() && !subtype.trim().is_empty() && text.trim() == text {
        return Ok(());
    }
    Err(Fault::new("a media type like application/json"))
}

/// CloudEvents strings have no control characters and no code points that are no characters.
fn check_text(text: &str, bytes_max: usize) -> Result<(), Fault> {
    if text.len() > bytes_max {
        return Err(Fault::beyond(bytes_max, format!("a string of at most {bytes_max} bytes")));
    }
    let noncharacter = |code: u32| (0xfdd0..=0xfdef).contains(&code) || code & 0xfffe == 0xfffe;
    if text.chars().any(|character| character.is_control() || noncharacter(u32::from(character))) {
        return Err(Fault::new("a string without control characters"));
    }
    Ok(())
}

/// Reads a JSON value as an attribute's.
pub(crate) fn read_value(node: &Node<'_, '_>) -> Result<AttributeValue, InputError> {
    match node.text() {
        "true" => Ok(AttributeValue::Boolean(true)),
        "false" => Ok(AttributeValue::Boolean(false)),
        _ if node.is_string() => Ok(AttributeValue::String(node.string()?.into_owned())),
        number => match number.parse() {
            Ok(number) => Ok(AttributeValue::Integer(number)),
            Err(_) => Err(node.refuse(Fault::new("a string, a boolean or a 32-bit integer"))),
        },
    }
}
