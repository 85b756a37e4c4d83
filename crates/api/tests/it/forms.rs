//! Any event, through each form and through the store, comes back the same.

use millpond_api::event::{batch, binary, structured, sylphx};
use millpond_api::{AttributeValue, DataKind, Event, EventData};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use serde_json::Value;

/// Characters that an attribute may hold.
fn characters(length: std::ops::RangeInclusive<usize>) -> impl Strategy<Value = String> {
    let legal = any::<char>().prop_filter("legal", |character| {
        let code = u32::from(*character);
        !character.is_control() && code & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&code)
    });
    vec(legal, length).prop_map(|characters| characters.into_iter().collect())
}

fn value() -> impl Strategy<Value = AttributeValue> {
    prop_oneof![
        characters(0..=20).prop_map(AttributeValue::String),
        any::<i32>().prop_map(AttributeValue::Integer),
        any::<bool>().prop_map(AttributeValue::Boolean),
    ]
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(Value::from),
            btree_map(any::<String>(), inner, 0..6).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// JSON text in both common spellings.
fn json_text() -> impl Strategy<Value = String> {
    (json(), any::<bool>()).prop_map(|(value, pretty)| {
        if pretty { serde_json::to_string_pretty(&value).expect("valid") } else { value.to_string() }
    })
}

/// A content type and data that can stand under it.
fn data() -> impl Strategy<Value = (Option<&'static str>, Option<EventData>)> {
    let of = |kind: DataKind| move |bytes: Vec<u8>| Some(EventData { kind, bytes });
    let any_type = prop_oneof![
        Just(None),
        Just(Some("application/json")),
        Just(Some("text/plain; charset=utf-8")),
        Just(Some("application/octet-stream")),
    ];
    let json_type =
        prop_oneof![Just(None), Just(Some("application/json")), Just(Some("application/vnd.acme+json; v=1"))];
    prop_oneof![
        (any_type.clone(), Just(None)),
        (json_type, json_text().prop_map(String::into_bytes).prop_map(of(DataKind::Json))),
        (Just(Some("text/csv")), any::<String>().prop_map(String::into_bytes).prop_map(of(DataKind::Text))),
        (any_type, vec(any::<u8>(), 0..64).prop_map(of(DataKind::Binary))),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    let required = (characters(1..=20), characters(1..=20), characters(1..=20));
    let optional = (proptest::option::of(characters(1..=20)), proptest::option::of(characters(1..=20)));
    let time = proptest::option::of(-62_167_219_200_000i64..=253_402_300_799_999);
    let extensions = btree_map("x[a-z0-9]{0,8}", value(), 0..6);
    (required, optional, time, extensions, data()).prop_map(|(required, optional, time, extensions, data)| {
        let text = |name: &str, text: String| (name.to_owned(), AttributeValue::String(text));
        let mut attributes =
            vec![text("id", required.0), text("source", required.1), text("type", required.2)];
        attributes.extend(optional.0.map(|subject| text("subject", subject)));
        attributes.extend(time.map(|millis| text("time", millpond_api::time::render(millis))));
        attributes.extend(data.0.map(|media_type| text("datacontenttype", media_type.to_owned())));
        attributes.extend(optional.1.map(|schema| text("dataschema", schema)));
        attributes.extend(extensions);
        Event { attributes, data: data.1 }
    })
}

/// What binary mode keeps: values as strings, a content type for JSON, no empty data, and the kind that
/// follows from content type and bytes.
fn through_headers(event: &Event) -> Event {
    let mut attributes: Vec<_> = event.attributes.clone();
    let json = event.data.as_ref().is_some_and(|data| data.kind == DataKind::Json);
    if json && event.text("datacontenttype").is_none() {
        let core = ["id", "source", "type", "subject", "time"];
        let at = attributes.iter().take_while(|(name, _)| core.contains(&name.as_str())).count();
        attributes.insert(at, ("datacontenttype".to_owned(), "application/json".into()));
    }
    for (_, value) in &mut attributes {
        *value = AttributeValue::String(value.to_string());
    }
    let mut expected = Event { attributes, data: None };
    expected.data = event
        .data
        .as_ref()
        .and_then(|data| EventData::from_body(expected.text("datacontenttype"), data.bytes.clone()));
    expected
}

proptest! {
    #[test]
    fn the_structured_form_keeps_everything(event in event()) {
        let text = structured::render(&event);
        prop_assert_eq!(structured::parse(text.as_bytes()), Ok(event));
    }

    #[test]
    fn the_batch_form_keeps_everything(events in vec(event(), 1..4)) {
        let with_extra: Vec<_> = events.iter().map(|event| (event, Vec::new())).collect();
        prop_assert_eq!(batch::parse(batch::render(&with_extra).as_bytes()), Ok(events));
    }

    #[test]
    fn our_form_keeps_everything(event in event()) {
        let text = sylphx::render(&event);
        prop_assert_eq!(sylphx::parse(text.as_bytes()), Ok(event));
    }

    #[test]
    fn the_binary_form_keeps_bytes_and_characters(event in event()) {
        let rendered = binary::render(&event);
        let ascii = |text: &str| text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
        prop_assert!(rendered.headers.iter().all(|(name, value)| ascii(name) && ascii(value)));
        let headers = rendered.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
        let parsed = binary::parse(headers, rendered.content_type.map(str::as_bytes), rendered.body.to_vec());
        prop_assert_eq!(parsed, Ok(through_headers(&event)));
    }

    #[test]
    fn the_stored_form_keeps_everything(event in event()) {
        let attributes = event.attributes_json();
        let data = event.data.clone().map(|data| (data.kind, data.bytes));
        prop_assert_eq!(Event::from_stored(&attributes, data), Ok(event));
    }

    #[test]
    fn a_body_in_binary_mode_is_given_back_equal_by_the_json_forms(
        content_type in prop_oneof![Just("application/json"), Just("text/plain"), Just("image/png")],
        body in prop_oneof![json_text().prop_map(String::into_bytes), vec(any::<u8>(), 1..64)],
    ) {
        let headers = [("ce-specversion", &b"1.0"[..]), ("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t")];
        let sent = binary::parse(headers, Some(content_type.as_bytes()), body.clone()).expect("valid");
        for text in [structured::render(&sent), sylphx::render(&sent)] {
            let value: Value = serde_json::from_str(&text).expect("what is written is json");
            match sent.data.as_ref().map(|data| data.kind) {
                Some(DataKind::Json) => {
                    prop_assert_eq!(&value["data"], &serde_json::from_slice::<Value>(&body).expect("json"));
                    prop_assert!(text.contains(std::str::from_utf8(&body).expect("utf-8")));
                }
                Some(DataKind::Text) => {
                    prop_assert_eq!(value["data"].as_str().map(str::as_bytes), Some(body.as_slice()));
                }
                _ => prop_assert!(value["data_base64"].is_string()),
            }
        }
        let received = structured::parse(structured::render(&sent).as_bytes()).expect("valid");
        prop_assert_eq!(received.data, sent.data);
    }
}
