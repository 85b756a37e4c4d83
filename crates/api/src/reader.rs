//! The one way to read JSON that a client sent: a typed reader that knows where it is.
//!
//! A [`Node`] is a piece of JSON text and its path. Reading it as something either yields the value or an
//! [`InputError`] with path, text and expectation. Text is borrowed and kept raw, so `data` can be taken out
//! byte for byte. Paths are linked on the stack and only rendered when something is refused.
//!
//! Derived deserializers were rejected: their messages differ by type and version, they have no path, and
//! they decode `data`.
//!
//! Invariant: the text of every node below a root was checked for syntax when the root was made.

mod raw;

use std::borrow::Cow;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde_json::value::RawValue;

use crate::duration;
use crate::input_error::{Fault, InputError};
use crate::limits::CALL_BYTES_MAX;
use crate::time;

/// Where a node stands. Covariant, so that a path may be extended by one on a shorter-lived frame.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Name(&'p str),
    Index(usize),
}

impl Path<'_> {
    fn render(&self) -> String {
        let mut text = self.parent.map(Path::render).unwrap_or_default();
        match self.step {
            Step::Root => {}
            Step::Name(name) if text.is_empty() => text.push_str(name),
            Step::Name(name) => {
                text.push('.');
                text.push_str(name);
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
        text
    }
}

/// A JSON value as text, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Node<'p, 'a> {
    path: Path<'p>,
    raw: &'a RawValue,
}

impl<'p, 'a> Node<'p, 'a> {
    /// The whole body of a call. Checks size, UTF-8 and syntax.
    pub(crate) fn root(body: &'a [u8]) -> Result<Node<'static, 'a>, InputError> {
        if body.len() > CALL_BYTES_MAX {
            return Err(InputError::too_large(String::new(), body.len(), CALL_BYTES_MAX));
        }
        let text = std::str::from_utf8(body).map_err(|error| {
            InputError::malformed(format_args!("not utf-8 at byte {}", error.valid_up_to()))
        })?;
        Node::text_root(text)
    }

    /// The body of a call all of whose fields have defaults: no body at all stands for `{}`.
    pub(crate) fn optional_root(body: &'a [u8]) -> Result<Node<'static, 'a>, InputError> {
        Node::root(if body.trim_ascii().is_empty() { b"{}" } else { body })
    }

    /// Text of our own, without a limit on its size.
    pub(crate) fn text_root(text: &'a str) -> Result<Node<'static, 'a>, InputError> {
        let raw = serde_json::from_str(text).map_err(InputError::malformed)?;
        Ok(Node { path: Path { parent: None, step: Step::Root }, raw })
    }

    /// The JSON text, exactly as sent.
    pub(crate) fn text(&self) -> &'a str {
        self.raw.get()
    }

    pub(crate) fn path(&self) -> String {
        self.path.render()
    }

    /// The path of a field that this node has not.
    pub(crate) fn path_of(&self, name: &str) -> String {
        Path { parent: Some(&self.path), step: Step::Name(name) }.render()
    }

    pub(crate) fn is_null(&self) -> bool {
        self.text() == "null"
    }

    pub(crate) fn is_string(&self) -> bool {
        self.text().starts_with('"')
    }

    pub(crate) fn refuse(&self, fault: Fault) -> InputError {
        fault.at(self.path(), self.text())
    }

    fn expect<T>(&self, value: Option<T>, expected: &str) -> Result<T, InputError> {
        value.ok_or_else(|| self.refuse(Fault::new(expected)))
    }

    /// An object of ours: only `known` names, each at most once.
    pub(crate) fn object<'n>(&'n self, known: &'static [&'static str]) -> Result<Object<'n, 'a>, InputError> {
        let object = self.open_object(known.len())?;
        for (name, _) in &object.fields {
            if !known.contains(&name.as_ref()) {
                return Err(InputError::unknown(self.path_of(name), known));
            }
        }
        object.check_count("fields")
    }

    /// An object whose names the caller checks: at most `names_max`, each at most once.
    pub(crate) fn map<'n>(&'n self, names_max: usize) -> Result<Object<'n, 'a>, InputError> {
        self.open_object(names_max)?.check_count("names")
    }

    fn open_object<'n>(&'n self, names_max: usize) -> Result<Object<'n, 'a>, InputError> {
        if !self.text().starts_with('{') {
            return Err(self.refuse(Fault::new("an object")));
        }
        let (fields, count) = raw::fields(self.raw, names_max.saturating_add(1))
            .map_err(|error| self.refuse(Fault::new(format!("an object with valid names ({error})"))))?;
        for (at, (name, _)) in fields.iter().enumerate() {
            if fields[..at].iter().any(|(earlier, _)| earlier == name) {
                let field = self.path_of(name);
                return Err(Fault::new("to be given once").at(field, "given twice"));
            }
        }
        Ok(Object { path: &self.path, fields, count, names_max })
    }

    /// An array of `length` items.
    pub(crate) fn list<'n>(
        &'n self,
        length: RangeInclusive<usize>,
    ) -> Result<impl Iterator<Item = Node<'n, 'a>>, InputError> {
        if !self.text().starts_with('[') {
            return Err(self.refuse(Fault::new("an array")));
        }
        let (items, count) = raw::items(self.raw, *length.end())
            .map_err(|error| self.refuse(Fault::new(format!("an array ({error})"))))?;
        if !length.contains(&count) {
            let (least, most) = length.into_inner();
            let fault = Fault::beyond(most, format!("an array of {least} to {most} items"));
            return Err(fault.at(self.path(), &format!("an array of {count}")));
        }
        let nodes = items.into_iter().enumerate();
        Ok(nodes.map(|(index, raw)| Node {
            path: Path { parent: Some(&self.path), step: Step::Index(index) },
            raw,
        }))
    }

    pub(crate) fn string(&self) -> Result<Cow<'a, str>, InputError> {
        if !self.is_string() {
            return Err(self.refuse(Fault::new("a string")));
        }
        self.expect(raw::string(self.raw), "a string without lone surrogates")
    }

    /// A string of `bytes` bytes.
    pub(crate) fn string_of(&self, bytes: RangeInclusive<usize>) -> Result<String, InputError> {
        let text = self.string()?;
        if bytes.contains(&text.len()) {
            return Ok(text.into_owned());
        }
        let (least, most) = bytes.into_inner();
        Err(self.refuse(Fault::beyond(most, format!("a string of {least} to {most} bytes"))))
    }

    pub(crate) fn boolean(&self) -> Result<bool, InputError> {
        let value = match self.text() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        };
        self.expect(value, "true or false")
    }

    /// A whole JSON number, without fraction or exponent.
    pub(crate) fn integer(&self, range: RangeInclusive<u32>) -> Result<u32, InputError> {
        let value = self.text().parse::<u32>().ok().filter(|value| range.contains(value));
        value.ok_or_else(|| {
            let (least, most) = range.into_inner();
            self.refuse(Fault::beyond(most, format!("an integer from {least} to {most}")))
        })
    }

    /// A whole JSON number of 32 bits, with a sign.
    pub(crate) fn signed(&self) -> Result<i32, InputError> {
        self.expect(self.text().parse().ok(), "a whole number of 32 bits")
    }

    /// A 64-bit count: a JSON number, or the same digits as a string, which is how we write them.
    pub(crate) fn unsigned64(&self) -> Result<u64, InputError> {
        let digits = if self.is_string() { self.string()? } else { Cow::Borrowed(self.text()) };
        let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
        let value = digits.parse::<u64>().ok().filter(|_| plain);
        self.expect(value, "a 64-bit unsigned integer as a string or number")
    }

    /// A number with at most three decimals, in thousandths.
    pub(crate) fn thousandths(&self, range: RangeInclusive<u32>) -> Result<u32, InputError> {
        let value = raw::thousandths(self.text()).filter(|value| range.contains(value));
        value.ok_or_else(|| {
            let [least, most] = [range.start(), range.end()].map(|bound| f64::from(*bound) / 1_000.0);
            let expected = format!("a number from {least} to {most} with at most three decimals");
            self.refuse(Fault::beyond(most, expected))
        })
    }

    pub(crate) fn duration(&self, range: RangeInclusive<Duration>) -> Result<Duration, InputError> {
        let text = self.string()?;
        duration::parse_within(&text, range).map_err(|fault| self.refuse(fault))
    }

    /// An RFC 3339 time, in Unix milliseconds.
    pub(crate) fn time(&self) -> Result<i64, InputError> {
        time::parse(&self.string()?).map_err(|fault| self.refuse(fault))
    }

    /// One of a closed set of words.
    pub(crate) fn word<T: Copy>(&self, words: &[(&str, T)]) -> Result<T, InputError> {
        let text = self.string()?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, value)| *value);
        found.ok_or_else(|| {
            let names: Vec<_> = words.iter().map(|(word, _)| *word).collect();
            self.refuse(Fault::new(format!("one of {}", names.join(", "))))
        })
    }
}

/// The fields of an object, taken out one by one.
pub(crate) struct Object<'p, 'a> {
    path: &'p Path<'p>,
    fields: Vec<(Cow<'a, str>, &'a RawValue)>,
    count: usize,
    names_max: usize,
}

impl<'p, 'a> Object<'p, 'a> {
    fn check_count(self, noun: &str) -> Result<Self, InputError> {
        if self.count <= self.names_max {
            return Ok(self);
        }
        let fault = Fault::beyond(self.names_max, format!("at most {} {noun}", self.names_max));
        Err(fault.at(self.path.render(), &format!("an object of {}", self.count)))
    }

    /// The field's node, its null included.
    pub(crate) fn take_nullable(&mut self, name: &'static str) -> Option<Node<'p, 'a>> {
        let at = self.fields.iter().position(|(field, _)| field == name)?;
        let (_, raw) = self.fields.remove(at);
        Some(Node { path: Path { parent: Some(self.path), step: Step::Name(name) }, raw })
    }

    /// The field's node; null is the same as absent.
    pub(crate) fn take(&mut self, name: &'static str) -> Option<Node<'p, 'a>> {
        self.take_nullable(name).filter(|node| !node.is_null())
    }

    /// The field's node, or a refusal that says it is missing.
    pub(crate) fn require(&mut self, name: &'static str) -> Result<Node<'p, 'a>, InputError> {
        self.take(name).ok_or_else(|| {
            InputError::missing(Path { parent: Some(self.path), step: Step::Name(name) }.render())
        })
    }

    /// Reads the field if it is there.
    pub(crate) fn optional<T>(
        &mut self,
        name: &'static str,
        read: impl FnOnce(Node<'p, 'a>) -> Result<T, InputError>,
    ) -> Result<Option<T>, InputError> {
        self.take(name).map(read).transpose()
    }

    /// What was not taken, in the order sent, nulls included.
    pub(crate) fn rest<'n>(&'n self) -> impl Iterator<Item = (&'n str, Node<'n, 'a>)> {
        self.fields.iter().map(|(name, raw)| {
            let path = Path { parent: Some(self.path), step: Step::Name(name) };
            (name.as_ref(), Node { path, raw })
        })
    }
}

#[cfg(test)]
mod tests;
