//! JSON written piece by piece, so that raw JSON can be put in as it is.
//!
//! serde's serializers can't splice borrowed text without a copy per value, and a lease answer is mostly
//! such text.

use std::fmt::Write as _;

/// Appends a JSON string.
///
/// Only what JSON demands is escaped. Everything else is copied in runs: most strings are one run.
pub(crate) fn push_string(out: &mut String, text: &str) {
    out.push('"');
    let mut run = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[run..at]);
        run = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            control => push_display(out, format_args!("\\u{control:04x}")),
        }
    }
    out.push_str(&text[run..]);
    out.push('"');
}

/// Appends anything that can be displayed.
pub(crate) fn push_display(out: &mut String, value: impl std::fmt::Display) {
    write!(out, "{value}").expect("writing to a string does not fail");
}

/// Appends `"name":`, after a comma unless it is the first in its object.
pub(crate) fn push_name(out: &mut String, name: &str) {
    if !out.ends_with('{') {
        out.push(',');
    }
    push_string(out, name);
    out.push(':');
}

/// Appends a field whose value is a string.
pub(crate) fn push_text_field(out: &mut String, name: &str, value: &str) {
    push_name(out, name);
    push_string(out, value);
}

/// Appends an array, each item by `push`.
pub(crate) fn push_list<T>(out: &mut String, items: &[T], mut push: impl FnMut(&mut String, &T)) {
    out.push('[');
    for (at, item) in items.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(']');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_object_has_commas_between_its_fields_only() {
        let mut out = String::from("{");
        push_text_field(&mut out, "a", "{");
        push_name(&mut out, "b");
        push_list(&mut out, &[1, 2], |out, item| push_display(out, item));
        out.push('}');
        assert_eq!(out, r#"{"a":"{","b":[1,2]}"#);
    }

    proptest! {
        #[test]
        fn any_string_is_read_back_by_a_json_parser(text in any::<String>()) {
            let mut out = String::new();
            push_string(&mut out, &text);
            prop_assert_eq!(serde_json::from_str::<String>(&out).expect("valid json"), text);
        }
    }
}
