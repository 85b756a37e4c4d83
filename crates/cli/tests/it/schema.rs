//! The committed schemas of `--json`, and whether lines of output follow them.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use serde_json::Value;

/// Where the schemas are.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas")
}

/// Checks each line of a command's output against its schema, and returns the lines.
#[track_caller]
pub(crate) fn check(command: &str, output: &str) -> Vec<Value> {
    static SCHEMAS: LazyLock<Mutex<HashMap<String, Value>>> = LazyLock::new(Mutex::default);
    let mut schemas = SCHEMAS.lock().expect("nobody panics with it");
    let schema = schemas.entry(command.to_owned()).or_insert_with(|| read(command)).clone();
    drop(schemas);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let lines: Vec<Value> =
        output.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    for line in &lines {
        let faults: Vec<String> =
            validator.iter_errors(line).map(|fault| format!("{}: {fault}", fault.instance_path())).collect();
        assert!(faults.is_empty(), "{command}: {faults:#?}\n{line:#}");
    }
    lines
}

fn read(command: &str) -> Value {
    let path = directory().join(format!("{command}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn a_schema_refuses_what_it_does_not_describe() {
    check("queue-purge", "{\"purged_count\": \"12\"}");
    for wrong in ["{\"purged_count\": 12}", "{}", "{\"purged_count\": \"12\", \"more\": 1}", "[]"] {
        let checked = std::panic::catch_unwind(|| check("queue-purge", wrong));
        assert!(checked.is_err(), "{wrong}");
    }
}
