//! A CloudEvent: what a message carries.
//!
//! It is written in Millpond's own form (`event_time`, `data_content_type`, `extensions`) and read in that one or in
//! CloudEvents' JSON format, which has `specversion`.
//!
//! Invariant: data is passed on as it is. JSON keeps its text, so no number loses a digit.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{self, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

/// One event.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// Names the event within its source.
    pub id: String,
    /// Where it comes from.
    pub source: String,
    /// What kind it is of.
    pub kind: String,
    /// What it is about.
    pub subject: Option<String>,
    /// When it happened, in RFC 3339, as its sender wrote it.
    pub time: Option<String>,
    /// The media type of the data; none is JSON.
    pub data_content_type: Option<String>,
    /// The schema of the data.
    pub data_schema: Option<String>,
    /// Further attributes: names of lower-case letters and digits.
    pub extensions: BTreeMap<String, AttributeValue>,
    /// The data. None is none at all, which is not the same as `null`.
    pub data: Option<Data>,
}

/// The value of an extension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AttributeValue {
    /// True or false.
    Boolean(bool),
    /// 32 bits, signed.
    Integer(i32),
    /// Characters.
    String(String),
}

impl fmt::Display for AttributeValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AttributeValue::Boolean(flag) => flag.fmt(formatter),
            AttributeValue::Integer(number) => number.fmt(formatter),
            AttributeValue::String(text) => formatter.write_str(text),
        }
    }
}

/// The data of an event.
#[derive(Clone, Debug)]
pub enum Data {
    /// Bytes that are neither JSON nor text.
    Bytes(Vec<u8>),
    /// JSON, as its sender wrote it.
    Json(Box<RawValue>),
    /// Text, under a content type that is not JSON.
    Text(String),
    /// Too large for an answer: to be had with `Client::message_data`. Never sent.
    Url(String),
}

impl Data {
    /// The bytes as they were sent, or none if they are elsewhere.
    pub fn bytes(&self) -> Option<Cow<'_, [u8]>> {
        match self {
            Data::Bytes(bytes) => Some(Cow::Borrowed(bytes)),
            Data::Json(json) => Some(Cow::Borrowed(json.get().as_bytes())),
            Data::Text(text) => Some(Cow::Borrowed(text.as_bytes())),
            Data::Url(_) => None,
        }
    }
}

impl Event {
    /// An event with a new id and no data.
    pub fn new(source: impl Into<String>, kind: impl Into<String>) -> Self {
        Self {
            id: uuid::Uuid::now_v7().to_string(),
            source: source.into(),
            kind: kind.into(),
            ..Self::default()
        }
    }

    /// The same event with JSON data.
    ///
    /// # Panics
    /// The value cannot be written as JSON, as a map whose keys are no strings.
    #[must_use]
    pub fn json<T: Serialize + ?Sized>(mut self, value: &T) -> Self {
        let raw = serde_json::value::to_raw_value(value).expect("the value can be written as JSON");
        self.data = Some(Data::Json(raw));
        self
    }

    /// The same event with text data.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.data_content_type = Some("text/plain".to_owned());
        self.data = Some(Data::Text(text.into()));
        self
    }

    /// The same event with data of any kind.
    #[must_use]
    pub fn bytes(mut self, content_type: impl Into<String>, bytes: impl Into<Vec<u8>>) -> Self {
        self.data_content_type = Some(content_type.into());
        self.data = Some(Data::Bytes(bytes.into()));
        self
    }

    /// The data read from JSON.
    ///
    /// # Errors
    /// It is not JSON, or not of this type. No data at all is read as `null`.
    pub fn data_as<'de, T: Deserialize<'de>>(&'de self) -> serde_json::Result<T> {
        match &self.data {
            None => serde_json::from_str("null"),
            Some(Data::Json(json)) => serde_json::from_str(json.get()),
            Some(Data::Text(text)) => serde_json::from_str(text),
            Some(Data::Bytes(bytes)) => serde_json::from_slice(bytes),
            Some(Data::Url(_)) => Err(de::Error::custom("the data is not here but at its data_url")),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("id", &self.id)?;
        map.serialize_entry("source", &self.source)?;
        map.serialize_entry("type", &self.kind)?;
        for (name, value) in [
            ("subject", &self.subject),
            ("event_time", &self.time),
            ("data_content_type", &self.data_content_type),
            ("data_schema", &self.data_schema),
        ] {
            if let Some(value) = value {
                map.serialize_entry(name, value)?;
            }
        }
        if !self.extensions.is_empty() {
            map.serialize_entry("extensions", &self.extensions)?;
        }
        match &self.data {
            None => {}
            Some(Data::Bytes(bytes)) => map.serialize_entry("data_base64", &STANDARD.encode(bytes))?,
            Some(Data::Json(json)) => map.serialize_entry("data", json)?,
            Some(Data::Text(text)) => map.serialize_entry("data", text)?,
            Some(Data::Url(url)) => map.serialize_entry("data_url", url)?,
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Event {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor)
    }
}

struct EventVisitor;

impl<'de> Visitor<'de> for EventVisitor {
    type Value = Event;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Event, A::Error> {
        let mut event = Event::default();
        let mut members = Members::default();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => event.id = map.next_value()?,
                "source" => event.source = map.next_value()?,
                "type" => event.kind = map.next_value()?,
                "subject" => event.subject = map.next_value()?,
                "event_time" | "time" => event.time = map.next_value()?,
                "data_content_type" | "datacontenttype" => event.data_content_type = map.next_value()?,
                "data_schema" | "dataschema" => event.data_schema = map.next_value()?,
                "extensions" if members.specversion.is_none() => {
                    event.extensions = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                "specversion" => members.specversion = Some(map.next_value()?),
                "data" => members.data = Some(map.next_value()?),
                "data_base64" => members.data_base64 = map.next_value()?,
                "data_url" => members.data_url = map.next_value()?,
                _ => {
                    let value: Option<AttributeValue> = map.next_value()?;
                    members.others.extend(value.map(|value| (name, value)));
                }
            }
        }
        members.complete(event)
    }
}

/// What can be understood only when all of an event was read.
#[derive(Default)]
struct Members {
    specversion: Option<String>,
    data: Option<Box<RawValue>>,
    data_base64: Option<String>,
    data_url: Option<String>,
    others: BTreeMap<String, AttributeValue>,
}

impl Members {
    fn complete<E: de::Error>(self, mut event: Event) -> Result<Event, E> {
        match &self.specversion {
            Some(version) if version != "1.0" => {
                return Err(E::invalid_value(de::Unexpected::Str(version), &"specversion 1.0"));
            }
            Some(_) => event.extensions.extend(self.others),
            None => {
                if let Some(name) = self.others.keys().next() {
                    return Err(E::custom(format_args!("{name} is not a field of an event")));
                }
            }
        }
        let is_json = event.data_content_type.as_deref().is_none_or(is_json);
        event.data = match (self.data, self.data_base64, self.data_url) {
            (Some(_), Some(_), _) => return Err(E::custom("an event has data or data_base64, not both")),
            (Some(raw), None, _) if !is_json && raw.get().starts_with('"') => {
                Some(Data::Text(serde_json::from_str(raw.get()).map_err(E::custom)?))
            }
            (Some(raw), None, _) => Some(Data::Json(raw)),
            (None, Some(text), _) => {
                Some(Data::Bytes(STANDARD.decode(text).map_err(|_| E::custom("data_base64 is not base64"))?))
            }
            (None, None, url) => url.map(Data::Url),
        };
        Ok(event)
    }
}

/// Whether a media type declares JSON: subtype `json`, or one that ends with `+json`.
fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let subtype = essence.split_once('/').map_or("", |(_, subtype)| subtype);
    subtype == "json" || subtype.ends_with("+json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Event {
        serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refusal(text: &str) -> String {
        serde_json::from_str::<Event>(text).map(|_| ()).expect_err("refused").to_string()
    }

    #[test]
    fn our_form_is_read_and_written_alike() {
        let text = concat!(
            r#"{"id":"1","source":"/s","type":"t","subject":"u","event_time":"2026-10-07T12:30:00Z","#,
            r#""data_content_type":"application/json","data_schema":"/d","extensions":{"a":true,"b":-7,"c":"x"},"#,
            r#""data":{"n": 12345678901234567890.10, "a":1}}"#
        );
        assert_eq!(serde_json::to_string(&read(text)).expect("json"), text);
    }

    #[test]
    fn cloudevents_own_form_is_read_wherever_specversion_stands() {
        let first = r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","time":"2026-10-07T12:30:00Z","traceparent":"00","n":3}"#;
        let last = r#"{"traceparent":"00","n":3,"time":"2026-10-07T12:30:00Z","id":"1","source":"/s","type":"t","specversion":"1.0"}"#;
        let written = r#"{"id":"1","source":"/s","type":"t","event_time":"2026-10-07T12:30:00Z","extensions":{"n":3,"traceparent":"00"}}"#;
        for text in [first, last] {
            assert_eq!(serde_json::to_string(&read(text)).expect("json"), written);
        }
        assert!(refusal(r#"{"specversion":"0.3","id":"1"}"#).contains("0.3"));
        assert!(refusal(r#"{"id":"1","traceparent":"00"}"#).contains("traceparent is not a field"));
    }

    #[test]
    fn data_comes_back_as_the_bytes_that_were_sent() {
        let bytes = |text: &str| read(text).data.and_then(|data| data.bytes().map(Cow::into_owned));
        assert_eq!(bytes(r#"{"data": {"a" : 1.0}}"#), Some(br#"{"a" : 1.0}"#.to_vec()));
        assert_eq!(bytes(r#"{"data": null}"#), Some(b"null".to_vec()));
        assert_eq!(bytes(r#"{"data": "x"}"#), Some(br#""x""#.to_vec()));
        assert_eq!(bytes(r#"{"data": "x", "data_content_type": "text/plain"}"#), Some(b"x".to_vec()));
        assert_eq!(bytes(r#"{"data_base64": "/w=="}"#), Some(vec![0xff]));
        assert_eq!(bytes("{}"), None);
        assert!(refusal(r#"{"data": 1, "data_base64": ""}"#).contains("not both"));
        assert!(refusal(r#"{"data_base64": "?"}"#).contains("not base64"));
    }

    #[test]
    fn data_is_read_as_what_it_was_written_as() {
        let event = Event::new("/s", "t").json(&[1, 2]);
        assert_eq!(event.data_as::<Vec<u8>>().expect("a list"), [1, 2]);
        assert_eq!(Event::new("/s", "t").data_as::<Option<u8>>().expect("nothing"), None);
        let sent = serde_json::to_string(&Event::new("/s", "t").text("\"x\"")).expect("json");
        assert!(matches!(read(&sent).data, Some(Data::Text(text)) if text == "\"x\""));
    }
}
