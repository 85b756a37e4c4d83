//! schemathesis, which draws calls from the OpenAPI document, against the real binary: no server error, and no answer that is
//! not documented. `MILLPOND_EXAMPLES=n` draws so many calls for each operation and phase, `MILLPOND_SEED=n` others.

use std::path::Path;
use std::process::Command;

use millpond_blackbox::server::Launch;
use serde_json::json;

use crate::python;

const EXAMPLES_BY_DEFAULT: &str = "10";
const SEED_BY_DEFAULT: &str = "1";
/// Operations that are documented, those on what an environment holds twice: by their short and by their long paths.
const OPERATIONS: &str = "Tested: 123";

#[test]
fn every_answer_is_a_documented_one() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("schemathesis");
    let python = python::install(&project, "schemathesis");
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).argument("--runtime-cache=8388608").start();
    let url = format!("http://{}", server.address());
    server.client().create_queue("q", json!({})).expect("it is made");
    server.client().call("POST", "/v1/topics?topic_id=t", &[], Some(&json!({}))).expect("it is made");
    let trigger = json!({ "topic": "t", "group": "g", "target": "http://127.0.0.1:9/" });
    server.client().call("POST", "/v1/triggers?trigger_id=trg", &[], Some(&trigger)).expect("it is made");
    let triggers = json!({ "triggers": [trigger] });
    server
        .client()
        .call("POST", "/v1/deployments?deployment_id=d", &[], Some(&triggers))
        .expect("it is made");
    let examples = std::env::var("MILLPOND_EXAMPLES").unwrap_or_else(|_| EXAMPLES_BY_DEFAULT.to_owned());
    let seed = std::env::var("MILLPOND_SEED").unwrap_or_else(|_| SEED_BY_DEFAULT.to_owned());
    let mut tests = Command::new(python);
    tests.current_dir(directory.path()).args(["-B", "-m", "schemathesis.cli", "--config-file"]);
    tests.arg(project.join("schemathesis.toml")).env("SCHEMATHESIS_HOOKS", project.join("hooks.py"));
    tests
        .args(["run", "--url", &url, "--max-examples", &examples, "--seed", &seed, "--no-color"])
        .arg(url.clone() + "/openapi.json");
    let output = tests.output().expect("schemathesis can be run");
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success() && out.contains(OPERATIONS), "{out}\n{error}");
    server.stop();
}
