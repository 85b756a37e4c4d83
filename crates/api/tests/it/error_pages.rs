//! Each error code has its page, each page its code, and what the page says is what the code does.

use std::collections::BTreeSet;
use std::path::PathBuf;

use millpond_api::ErrorCode;
use serde_json::Value;

fn pages() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/errors")
}

fn page(code: ErrorCode) -> String {
    let path = pages().join(format!("{code}.md"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_code_has_a_page_with_all_its_parts() {
    for code in ErrorCode::all() {
        let text = page(*code);
        let heading = format!("# {code}: {}\n", code.title());
        assert!(text.starts_with(&heading), "{code}: the page must start with {heading:?}");
        assert_eq!(text.lines().filter(|line| line.starts_with("# ")).count(), 1, "{code}: one H1");
        let parts: Vec<_> = text.lines().filter(|line| line.starts_with("## ")).collect();
        assert_eq!(parts, ["## Cause", "## What was stored", "## Remedy", "## Example"], "{code}");
    }
}

#[test]
fn every_page_has_a_code() {
    let codes: BTreeSet<_> = ErrorCode::all().iter().map(|code| format!("{code}.md")).collect();
    let entries = std::fs::read_dir(pages()).expect("docs/errors is there");
    let files: BTreeSet<_> =
        entries.map(|entry| entry.expect("readable").file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(files, codes);
}

#[test]
fn every_example_is_what_the_code_says() {
    for code in ErrorCode::all() {
        let text = page(*code);
        let example = text.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
        let body: Value = serde_json::from_str(example.expect("an example")).expect("valid json");
        let problem =
            millpond_api::Problem::new(*code, body["detail"].as_str().expect("a detail"), "req_01j9");
        let rendered: Value = serde_json::from_str(&problem.render()).expect("valid json");
        for (member, value) in rendered.as_object().expect("an object") {
            assert_eq!(&body[member], value, "{code}: {member}");
        }
        let known = ["retry_after_ms", "field", "value", "limit"];
        let extra = body.as_object().expect("an object").keys().filter(|key| rendered.get(key).is_none());
        assert!(extra.clone().all(|key| known.contains(&key.as_str())), "{code}: {extra:?}");
        assert_eq!(body.get("retry_after_ms").is_some(), code.retryable(), "{code}");
    }
}
