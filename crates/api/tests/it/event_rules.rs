//! The rules of events, each at its limit and one past it.

use millpond_api::event::{batch, binary, structured, sylphx};
use millpond_api::send::{SendForm, SendRequest};
use millpond_api::{AttributeValue, DataKind, ErrorCode, Event, InputError, limits};
use serde_json::{Value, json};

/// A valid event in the standard form, with these members put in; null takes one out.
fn standard(changes: Value) -> String {
    changed(json!({"specversion": "1.0", "id": "1", "source": "/s", "type": "t"}), changes)
}

/// A valid event in our form, with these members put in; null takes one out.
fn native(changes: Value) -> String {
    changed(json!({"id": "1", "source": "/s", "type": "t"}), changes)
}

fn changed(mut event: Value, changes: Value) -> String {
    for (name, value) in changes.as_object().expect("an object") {
        match value {
            Value::Null => event.as_object_mut().expect("an object").remove(name),
            value => event.as_object_mut().expect("an object").insert(name.clone(), value.clone()),
        };
    }
    event.to_string()
}

fn structured_error(changes: Value) -> InputError {
    let text = standard(changes);
    structured::parse(text.as_bytes()).expect_err(&text)
}

fn native_error(changes: Value) -> InputError {
    let text = native(changes);
    sylphx::parse(text.as_bytes()).expect_err(&text)
}

/// Checks code, field and sentence of a refusal.
fn check(error: InputError, code: ErrorCode, field: &str, detail: &str) {
    assert_eq!((error.code, error.field.as_deref(), error.detail.as_str()), (code, Some(field), detail));
}

#[test]
fn required_attributes_must_be_there_and_non_empty_in_every_form() {
    for name in ["id", "source", "type"] {
        check(
            structured_error(json!({name: null})),
            ErrorCode::MissingField,
            name,
            &format!("{name} is missing"),
        );
        check(
            native_error(json!({name: null})),
            ErrorCode::MissingField,
            name,
            &format!("{name} is missing"),
        );
        let empty = format!("{name} is \"\", expected a non-empty string");
        check(structured_error(json!({name: ""})), ErrorCode::InvalidField, name, &empty);
        check(native_error(json!({name: ""})), ErrorCode::InvalidField, name, &empty);
        let number = format!("{name} is 5, expected a string");
        check(structured_error(json!({name: 5})), ErrorCode::InvalidField, name, &number);
        check(native_error(json!({name: 5})), ErrorCode::InvalidField, name, &number);

        let headers = [("ce-specversion", "1.0"), ("Ce-Id", "1"), ("CE-SOURCE", "/s"), ("ce-type", "t")];
        let header = format!("ce-{name}");
        let without = headers.iter().filter(|(other, _)| !other.eq_ignore_ascii_case(&header));
        let error = binary_event(without.copied(), None).expect_err("one is missing");
        check(error, ErrorCode::MissingField, &header, &format!("{header} is missing"));
    }
}

fn binary_event<'h>(
    headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    content_type: Option<&str>,
) -> Result<Event, InputError> {
    let headers = headers.into_iter().map(|(name, value)| (name, value.as_bytes()));
    binary::parse(headers, content_type.map(str::as_bytes), b"{}".to_vec())
}

#[test]
fn specversion_is_1_0_in_the_standard_forms_and_unknown_in_ours() {
    check(
        structured_error(json!({"specversion": null})),
        ErrorCode::MissingField,
        "specversion",
        "specversion is missing",
    );
    check(
        structured_error(json!({"specversion": "0.3"})),
        ErrorCode::InvalidField,
        "specversion",
        "specversion is \"0.3\", expected \"1.0\"",
    );
    assert_eq!(structured_error(json!({"specversion": 1.0})).code, ErrorCode::InvalidField);
    assert_eq!(native_error(json!({"specversion": "1.0"})).code, ErrorCode::UnknownField);
    let error =
        binary_event([("ce-id", "1"), ("ce-source", "/s"), ("ce-type", "t")], None).expect_err("no version");
    check(error, ErrorCode::MissingField, "ce-specversion", "ce-specversion is missing");
}

#[test]
fn unknown_names_are_extensions_in_the_standard_forms_and_refused_in_ours() {
    let event = structured::parse(standard(json!({"traceparent": "00-1", "n": -5, "b": false})).as_bytes());
    let event = event.expect("extensions pass");
    assert_eq!(event.text("traceparent"), Some("00-1"));
    assert_eq!(event.attribute("n"), Some(&AttributeValue::Integer(-5)));
    assert_eq!(event.attribute("b"), Some(&AttributeValue::Boolean(false)));

    let body =
        json!({"events": [{"id": "1", "source": "/s", "type": "t"}, {"id": "2", "foo": 1}]}).to_string();
    let error = SendRequest::parse(SendForm::Native, body.as_bytes()).expect_err("foo is unknown");
    assert_eq!((error.code, error.field.as_deref()), (ErrorCode::UnknownField, Some("events[1].foo")));
    let error = SendRequest::parse(SendForm::Native, br#"{"events":[],"dealy":"5s"}"#).expect_err("unknown");
    assert_eq!(error.detail, "dealy is not a field, known are events, delay");
}

#[test]
fn attribute_names_are_lower_case_letters_and_digits() {
    for name in ["a", "9", "com123", &"x".repeat(limits::ATTRIBUTE_NAME_BYTES_MAX)] {
        assert!(structured::parse(standard(json!({name: "v"})).as_bytes()).is_ok(), "{name}");
        assert!(sylphx::parse(native(json!({"extensions": {name: "v"}})).as_bytes()).is_ok(), "{name}");
    }
    let long = "x".repeat(limits::ATTRIBUTE_NAME_BYTES_MAX + 1);
    for name in ["", "A", "trace_id", "trace-id", "ä", "a.b", "a b", &long] {
        assert_eq!(structured_error(json!({name: "v"})).code, ErrorCode::InvalidField, "{name}");
        assert_eq!(native_error(json!({"extensions": {name: "v"}})).code, ErrorCode::InvalidField, "{name}");
    }
    for name in ["data", "specversion", "id", "time", "datacontenttype"] {
        let error = native_error(json!({"extensions": {name: "v"}}));
        check(
            error,
            ErrorCode::InvalidField,
            &format!("extensions.{name}"),
            &format!("extensions.{name} is \"v\", expected a name that is not reserved"),
        );
    }
}

#[test]
fn attribute_values_are_strings_booleans_or_32_bit_integers() {
    for value in [json!(2_147_483_647), json!(-2_147_483_648_i64), json!(true), json!("")] {
        assert!(structured::parse(standard(json!({"x": value})).as_bytes()).is_ok(), "{value}");
    }
    for value in [json!(2_147_483_648_u64), json!(-2_147_483_649_i64), json!(1.5), json!([]), json!({})] {
        let error = structured_error(json!({"x": value}));
        assert!(
            error.detail.ends_with("expected a string, a boolean or a 32-bit integer"),
            "{}",
            error.detail
        );
    }
    for text in ["a\u{0}b", "a\nb", "\u{7f}", "\u{85}", "\u{fffe}", "\u{fdd0}"] {
        assert_eq!(structured_error(json!({"x": text})).code, ErrorCode::InvalidField, "{text:?}");
        assert_eq!(native_error(json!({"subject": text})).code, ErrorCode::InvalidField, "{text:?}");
    }
}

#[test]
fn attribute_values_have_sizes() {
    let id = |bytes| json!({"id": "i".repeat(bytes)});
    assert!(sylphx::parse(native(id(limits::EVENT_ID_BYTES_MAX)).as_bytes()).is_ok());
    assert_eq!(native_error(id(limits::EVENT_ID_BYTES_MAX + 1)).limit.as_deref(), Some("1024"));
    let subject = |bytes| json!({"subject": "s".repeat(bytes)});
    assert!(sylphx::parse(native(subject(limits::ATTRIBUTE_VALUE_BYTES_MAX)).as_bytes()).is_ok());
    assert_eq!(native_error(subject(limits::ATTRIBUTE_VALUE_BYTES_MAX + 1)).limit.as_deref(), Some("4096"));
    let extension = |bytes| json!({"x": "s".repeat(bytes)});
    assert!(structured::parse(standard(extension(limits::ATTRIBUTE_VALUE_BYTES_MAX)).as_bytes()).is_ok());
    assert_eq!(
        structured_error(extension(limits::ATTRIBUTE_VALUE_BYTES_MAX + 1)).limit.as_deref(),
        Some("4096")
    );
}

#[test]
fn an_event_has_at_most_64_extensions() {
    let extensions = |count: usize| -> Value { (0..count).map(|n| (format!("x{n}"), json!("v"))).collect() };
    assert!(structured::parse(standard(extensions(64)).as_bytes()).is_ok());
    assert!(sylphx::parse(native(json!({"extensions": extensions(64)})).as_bytes()).is_ok());
    let error = structured_error(extensions(65));
    assert!(error.detail.ends_with("expected at most 64 extensions"), "{}", error.detail);
    assert_eq!(native_error(json!({"extensions": extensions(65)})).limit.as_deref(), Some("64"));
}

#[test]
fn null_is_unset_but_null_data_is_data() {
    let text =
        r#"{"specversion":"1.0","id":"1","source":"/s","type":"t","subject":null,"x":null,"data":null}"#;
    let event = structured::parse(text.as_bytes()).expect("valid");
    assert_eq!(event.attributes.len(), 3);
    let data = event.data.expect("null is data");
    assert_eq!((data.kind, data.bytes.as_slice()), (DataKind::Json, &b"null"[..]));
    assert_eq!(structured::parse(standard(json!({})).as_bytes()).expect("valid").data, None);
    let text =
        r#"{"id":"1","source":"/s","type":"t","subject":null,"extensions":{"x":null},"data_base64":null}"#;
    assert_eq!(sylphx::parse(text.as_bytes()).expect("valid").data, None);
}

#[test]
fn data_keeps_its_text_and_its_kind() {
    let data = |content_type: Option<&str>, member: &str| {
        let content_type =
            content_type.map(|text| format!(r#""datacontenttype":"{text}","#)).unwrap_or_default();
        let text =
            format!(r#"{{"specversion":"1.0","id":"1","source":"/s","type":"t",{content_type}{member}}}"#);
        let standard = structured::parse(text.as_bytes()).expect(&text);
        let ours =
            text.replace(r#""specversion":"1.0","#, "").replace("datacontenttype", "data_content_type");
        let native = sylphx::parse(ours.as_bytes()).expect(&ours);
        assert_eq!(native, standard);
        let data = standard.data.expect("there is data");
        (data.kind, String::from_utf8(data.bytes).expect("utf-8"))
    };
    let spaced = "{\"b\" : 1.0e5,\n\t\"a\":\"\\u00e9\", \"a\":12345678901234567890123}";
    assert_eq!(data(None, &format!("\"data\": {spaced} ")), (DataKind::Json, spaced.to_owned()));
    assert_eq!(data(None, r#""data":"{\"a\":1}""#), (DataKind::Json, r#""{\"a\":1}""#.to_owned()));
    assert_eq!(data(Some("application/json"), r#""data":"x""#), (DataKind::Json, "\"x\"".to_owned()));
    assert_eq!(data(Some("text/plain"), r#""data":"\u00e9\n""#), (DataKind::Text, "é\n".to_owned()));
    assert_eq!(data(Some("text/plain"), r#""data":"""#), (DataKind::Text, String::new()));
    assert_eq!(data(Some("application/xml"), r#""data":{"a":1}"#), (DataKind::Json, "{\"a\":1}".to_owned()));
    assert_eq!(data(None, r#""data_base64":"aGk=""#), (DataKind::Binary, "hi".to_owned()));
    assert_eq!(data(None, r#""data_base64":"""#), (DataKind::Binary, String::new()));
}

#[test]
fn data_is_given_once_and_base64_is_standard() {
    let both = structured_error(json!({"data": 1, "data_base64": "aGk="}));
    assert_eq!(both.field.as_deref(), Some("data_base64"));
    for text in ["aGk", "aGk=\n", "aG-_", "====", "a"] {
        assert_eq!(native_error(json!({"data_base64": text})).code, ErrorCode::InvalidField, "{text}");
    }
    assert_eq!(native_error(json!({"data_base64": 5})).detail, "data_base64 is 5, expected a string");
    let twice = br#"{"specversion":"1.0","id":"1","source":"/s","type":"t","data":1,"data":2}"#;
    assert_eq!(structured::parse(twice).expect_err("twice").field.as_deref(), Some("data"));
    let lone = br#"{"id":"1","source":"/s","type":"t","data_content_type":"text/plain","data":"\ud800"}"#;
    assert_eq!(sylphx::parse(lone).expect_err("lone surrogate").field.as_deref(), Some("data"));
}

/// JSON that is valid, but that ordinary parsers do not take.
fn not_portable() -> [String; 3] {
    [
        format!("{}{}", "[".repeat(5_000), "]".repeat(5_000)),
        r#"{"a":"\ud800"}"#.to_owned(),
        "1e999".to_owned(),
    ]
}

#[test]
fn json_that_parsers_do_not_take_is_refused_by_its_path_in_every_json_form() {
    let good = r#""id":"1","source":"/s","type":"t""#;
    let standard = |data: &str| format!(r#"{{"specversion":"1.0",{good},"data":{data}}}"#);
    for data in not_portable() {
        let native =
            format!(r#"{{"events":[{{{good}}},{{{good},"data":1}},{{{good}}},{{{good},"data":{data}}}]}}"#);
        let batch = format!("[{},{}]", standard("1"), standard(&data));
        for (form, body, field) in [
            (SendForm::Native, native, "events[3].data"),
            (SendForm::Batch, batch, "[1].data"),
            (SendForm::Structured, standard(&data), "data"),
        ] {
            let error = SendRequest::parse(form, body.as_bytes()).expect_err(&body);
            assert_eq!(
                (error.code, error.field.as_deref()),
                (ErrorCode::InvalidField, Some(field)),
                "{error}"
            );
        }
    }
}

#[test]
fn json_that_parsers_do_not_take_comes_back_as_base64_if_it_was_sent_as_a_body() {
    let headers = [("ce-specversion", &b"1.0"[..]), ("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t")];
    for data in not_portable() {
        let event =
            binary::parse(headers, Some(b"application/json"), data.clone().into_bytes()).expect("valid");
        assert_eq!(event.data.as_ref().map(|data| data.kind), Some(DataKind::Binary), "{data}");
        for text in [structured::render(&event), sylphx::render(&event)] {
            let value: Value = serde_json::from_str(&text).expect("a parser takes it");
            assert!(value["data_base64"].is_string() && value.get("data").is_none(), "{text}");
        }
    }
}

#[test]
fn time_and_content_type_have_a_shape() {
    let ok = json!({"event_time": "2026-10-07T12:30:00.123456789+02:00", "data_content_type": "text/x; a=b"});
    let event = sylphx::parse(native(ok).as_bytes()).expect("valid");
    assert_eq!(event.text("time"), Some("2026-10-07T12:30:00.123456789+02:00"));
    assert_eq!(native_error(json!({"event_time": "yesterday"})).field.as_deref(), Some("event_time"));
    assert_eq!(structured_error(json!({"time": 1})).field.as_deref(), Some("time"));
    for text in ["json", "/json", "a/", "a/b\u{e9}", " a/b"] {
        assert_eq!(
            native_error(json!({"data_content_type": text})).field.as_deref(),
            Some("data_content_type")
        );
    }
}

#[test]
fn an_event_is_refused_one_byte_beyond_its_limit_and_64_kib_pass() {
    let event = |bytes: usize| {
        let bare = native(json!({"data": ""})).len();
        native(json!({"data": "x".repeat(bytes - bare)}))
    };
    assert!(sylphx::parse(event(64 << 10).as_bytes()).is_ok());
    assert!(sylphx::parse(event(limits::EVENT_JSON_BYTES_MAX).as_bytes()).is_ok());
    let body = format!("{{\"events\":[{},{}]}}", event(100), event(limits::EVENT_JSON_BYTES_MAX + 1));
    let error = SendRequest::parse(SendForm::Native, body.as_bytes()).expect_err("too large");
    check(error, ErrorCode::PayloadTooLarge, "events[1]", "events[1] is 262145 bytes, limit 262144");
}

#[test]
fn a_call_takes_1_to_100_events_in_every_form_that_has_many() {
    let many = |count: usize, event: &str| vec![event; count].join(",");
    for (count, fits) in [(0, false), (1, true), (100, true), (101, false)] {
        let body = format!("{{\"events\":[{}]}}", many(count, &native(json!({}))));
        assert_eq!(SendRequest::parse(SendForm::Native, body.as_bytes()).is_ok(), fits, "{count}");
        let body = format!("[{}]", many(count, &standard(json!({}))));
        assert_eq!(SendRequest::parse(SendForm::Batch, body.as_bytes()).is_ok(), fits, "{count}");
    }
    let error =
        batch::parse(format!("[{},{{}}]", standard(json!({}))).as_bytes()).expect_err("second is empty");
    assert_eq!(error.detail, "[1].specversion is missing");
}

#[test]
fn headers_of_binary_mode_are_checked() {
    let base = [("ce-specversion", "1.0"), ("ce-id", "a%20b"), ("ce-source", "/s"), ("ce-type", "t")];
    let with = |extra: (&'static str, &'static str)| base.into_iter().chain([extra]);
    let event = binary_event(with(("Ce-Flag", "true")), Some(" application/json ")).expect("valid");
    assert_eq!(event.text("id"), Some("a b"));
    assert_eq!(event.text("flag"), Some("true"), "types are lost in headers");
    assert_eq!(event.text("datacontenttype"), Some("application/json"));
    assert!(binary_event(with(("x-other", "\u{ff}")), None).is_ok(), "other headers are passed over");
    for (header, value) in [
        ("ce-datacontenttype", "text/plain"),
        ("ce-data", "x"),
        ("ce-data_base64", "x"),
        ("ce-ID", "2"),
        ("ce-", "x"),
        ("ce-specversion", "1.0"),
        ("ce-time", "yesterday"),
        ("ce-subject", ""),
        ("ce-x", "%00"),
        ("ce-x", "%C0%A0"),
    ] {
        let error = binary_event(with((header, value)), None).expect_err(header);
        assert_eq!(error.field, Some(header.to_ascii_lowercase()), "{}", error.detail);
    }
    assert_eq!(
        binary_event(base, Some("json")).expect_err("no media type").field.as_deref(),
        Some("content-type")
    );
}

#[test]
fn a_body_in_binary_mode_is_refused_one_byte_beyond_its_limit() {
    let headers = || {
        [("ce-specversion", &b"1.0"[..]), ("ce-id", b"1"), ("ce-source", b"/s"), ("ce-type", b"t")]
            .into_iter()
    };
    let event = binary::parse(headers(), None, vec![0; limits::BINARY_BODY_BYTES_MAX]).expect("fits");
    assert_eq!(event.data.map(|data| data.bytes.len()), Some(limits::BINARY_BODY_BYTES_MAX));
    let error =
        binary::parse(headers(), None, vec![0; limits::BINARY_BODY_BYTES_MAX + 1]).expect_err("too large");
    assert_eq!(error.code, ErrorCode::PayloadTooLarge);
}
