//! A file of the project that is read, and how what is wrong in it is told.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::exit::{Failure, Outcome};

/// The most that is read of a file of settings.
const BYTES_MAX: u64 = 1 << 20;

/// A file of settings.
#[derive(Clone, Debug)]
pub(super) struct Source {
    path: PathBuf,
}

impl Source {
    pub(super) fn new(directory: &Path, name: &str) -> Self {
        Self { path: directory.join(name) }
    }

    /// What it holds, unless it is not there.
    pub(super) fn text(&self) -> Outcome<Option<String>> {
        if !self.path.try_exists().map_err(|error| self.unreadable(&error.to_string()))? {
            return Ok(None);
        }
        let read = std::fs::metadata(&self.path).and_then(|metadata| {
            if metadata.len() > BYTES_MAX {
                return Err(std::io::Error::other(format!(
                    "has {} bytes, limit {BYTES_MAX}",
                    metadata.len()
                )));
            }
            std::fs::read_to_string(&self.path)
        });
        read.map(Some).map_err(|error| self.unreadable(&error.to_string()))
    }

    /// What is wrong with the file as a whole.
    pub(super) fn unreadable(&self, why: &str) -> Failure {
        Failure::usage(format!("cannot read {}", self.path.display()), why)
    }

    /// What is wrong at a place in the file. `why` completes a sentence about it.
    pub(super) fn refuse(&self, place: &str, why: impl AsRef<str>) -> Failure {
        let why = format!("{place} {}", why.as_ref());
        Failure::usage(format!("cannot use {}", self.path.display()), why)
    }

    /// The object at a place.
    pub(super) fn object<'a>(&self, place: &str, value: &'a Value) -> Outcome<&'a Map<String, Value>> {
        value.as_object().ok_or_else(|| self.wrong_kind(place, value, "an object"))
    }

    /// The list at a place.
    pub(super) fn list<'a>(&self, place: &str, value: &'a Value) -> Outcome<&'a [Value]> {
        value.as_array().map(Vec::as_slice).ok_or_else(|| self.wrong_kind(place, value, "a list"))
    }

    /// The text of a field, which must be there and hold something.
    pub(super) fn text_of<'a>(
        &self,
        place: &str,
        fields: &'a Map<String, Value>,
        name: &str,
    ) -> Outcome<&'a str> {
        match fields.get(name) {
            None => Err(self.refuse(place, format!("has no {name}"))),
            Some(Value::String(text)) if !text.is_empty() => Ok(text),
            Some(other) => {
                Err(self.wrong_kind(&format!("{place}.{name}"), other, "a text of one character or more"))
            }
        }
    }

    /// Refuses fields that nobody knows.
    pub(super) fn only(&self, place: &str, fields: &Map<String, Value>, known: &[&str]) -> Outcome<()> {
        match fields.keys().find(|name| !known.contains(&name.as_str())) {
            None => Ok(()),
            Some(name) => {
                let failure = self.refuse(place, format!("has the unknown key {name}"));
                Err(failure.advise(format!("correct or remove it; known are {}", known.join(", "))))
            }
        }
    }

    fn wrong_kind(&self, place: &str, value: &Value, expected: &str) -> Failure {
        let found = match value {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Number(_) => "a number",
            Value::String(text) if text.is_empty() => "an empty text",
            Value::String(_) => "a text",
            Value::Array(_) => "a list",
            Value::Object(_) => "an object",
        };
        self.refuse(place, format!("is {found}, expected {expected}"))
    }
}
