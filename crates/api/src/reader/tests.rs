//! The reader alone: paths, kinds, bounds.

use super::*;

fn read<T>(
    text: &str,
    read: impl FnOnce(Node<'static, '_>) -> Result<T, InputError>,
) -> Result<T, (String, Option<String>)> {
    Node::root(text.as_bytes()).and_then(read).map_err(|error| (error.detail, error.field))
}

fn detail<T: std::fmt::Debug>(
    text: &str,
    reading: impl FnOnce(Node<'static, '_>) -> Result<T, InputError>,
) -> String {
    read(text, reading).expect_err(text).0
}

#[test]
fn paths_name_fields_and_indexes() {
    let error = read(r#"{"a":[{"b":1},{"b":true}]}"#, |root| {
        let mut object = root.object(&["a"])?;
        let list = object.require("a")?;
        for item in list.list(0..=9)? {
            item.object(&["b"])?.require("b")?.integer(0..=9)?;
        }
        Ok(())
    });
    let (detail, field) = error.expect_err("b is a boolean");
    assert_eq!(detail, "a[1].b is true, expected an integer from 0 to 9");
    assert_eq!(field.as_deref(), Some("a[1].b"));
}

#[test]
fn unknown_missing_and_repeated_names_are_refused() {
    let object = |text| detail(text, |root| root.object(&["a", "b"])?.require("a").map(|_| ()));
    assert_eq!(object(r#"{"a":1,"c":2}"#), "c is not a field, known are a, b");
    assert_eq!(object(r#"{"b":1}"#), "a is missing");
    assert_eq!(object(r#"{"a":null}"#), "a is missing");
    assert_eq!(object(r#"{"a":1,"\u0061":2}"#), "a is given twice, expected to be given once");
    assert_eq!(object("[]"), "body is [], expected an object");
}

#[test]
fn collections_are_counted_beyond_what_is_kept() {
    let many = format!("[{}]", vec!["0"; 1_000].join(","));
    assert_eq!(
        detail(&many, |root| root.list(1..=3).map(|_| ())),
        "body is an array of 1000, expected an array of 1 to 3 items"
    );
    assert_eq!(read("[1,2,3]", |root| Ok(root.list(1..=3)?.count())), Ok(3));
    assert!(read("[]", |root| root.list(1..=3).map(|_| ())).is_err());
    let wide = r#"{"a":1,"b":2,"c":3}"#;
    assert_eq!(
        detail(wide, |root| root.map(2).map(|_| ())),
        "body is an object of 3, expected at most 2 names"
    );
    assert!(read(wide, |root| root.map(3).map(|_| ())).is_ok());
}

#[test]
fn scalars_take_their_own_kind_only() {
    for text in ["-1", "1.0", "1e1", "\"5\"", "4294967296", "11", "true"] {
        assert!(read(text, |root| root.integer(0..=10)).is_err(), "{text}");
    }
    assert_eq!(read("10", |root| root.integer(0..=10)), Ok(10));
    for (text, value) in [("18446744073709551615", u64::MAX), ("\"7\"", 7), ("0", 0)] {
        assert_eq!(read(text, |root| root.unsigned64()), Ok(value));
    }
    for text in ["18446744073709551616", "\"+7\"", "\"\"", "-1", "1.5", "null"] {
        assert!(read(text, |root| root.unsigned64()).is_err(), "{text}");
    }
    assert!(read("\"true\"", |root| root.boolean()).is_err());
    assert!(read(r#""\ud800""#, |root| root.string().map(|_| ())).is_err());
    assert_eq!(read(r#""\ud83d\ude00""#, |root| Ok(root.string()?.into_owned())), Ok("😀".to_owned()));
}

#[test]
fn thousandths_are_exact() {
    for (text, value) in [("0", 0), ("1.5", 1_500), ("0.001", 1), ("2.000", 2_000), ("10", 10_000)] {
        assert_eq!(read(text, |root| root.thousandths(0..=10_000)), Ok(value), "{text}");
    }
    for text in ["10.001", "0.0001", "-1", "1e1", "\"1\"", "99999999999"] {
        assert!(read(text, |root| root.thousandths(0..=10_000)).is_err(), "{text}");
    }
}

#[test]
fn what_is_not_json_is_malformed() {
    for body in [&b""[..], b"{", b"{} {}", b"\xff", b"01", b"\"\n\"", b"nul"] {
        let error = Node::root(body).map(|_| ()).expect_err("not json");
        assert_eq!(error.code, crate::ErrorCode::MalformedJson, "{body:?}");
    }
}

#[test]
fn a_body_is_refused_one_byte_beyond_its_limit() {
    let body = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    assert!(Node::root(body(CALL_BYTES_MAX).as_bytes()).is_ok());
    let error = Node::root(body(CALL_BYTES_MAX + 1).as_bytes()).map(|_| ()).expect_err("one too many");
    assert_eq!(error.detail, "body is 1048577 bytes, limit 1048576");
}
