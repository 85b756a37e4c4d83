//! Senders of other people: the CloudEvents SDKs for Node, Python and Rust, in the folders of those names beside this one,
//! against the real binary. Each brings its packages at the versions that are pinned there.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use millpond_blackbox::binary;
use millpond_blackbox::server::Launch;

use crate::python;

/// Node's own test runner is in it from here on.
const NODE_MIN: u32 = 20;

#[test]
fn what_the_cloudevents_sdk_sends_is_what_it_gets_back() {
    let project = project("node");
    check_node();
    install_for_node(&project);
    let mut node = Command::new("node");
    node.current_dir(&project).args(["--test", "--test-reporter=spec"]);
    let output = against_a_server(&mut node);
    let text = String::from_utf8_lossy(&output.stdout);
    let passed =
        text.lines().find_map(|line| line.split_once(" pass ")).map(|(_, count)| count.trim().parse());
    assert!(matches!(passed, Some(Ok(49..))), "every test ran: {text}");
}

#[test]
fn what_the_cloudevents_sdk_for_python_sends_is_what_it_gets_back() {
    let project = project("python");
    let python = python::install(&project, "real-senders-python");
    let mut tests = Command::new(python);
    tests.current_dir(&project).args(["-B", "-m", "unittest", "real_senders"]);
    let output = against_a_server(&mut tests);
    let text = String::from_utf8_lossy(&output.stderr);
    let ran = text.lines().find_map(|line| line.strip_prefix("Ran ")).and_then(|rest| rest.split(' ').next());
    assert!(matches!(ran.map(str::parse), Some(Ok(133..))), "every test ran: {text}");
}

#[test]
fn what_the_cloudevents_sdk_for_rust_sends_is_what_it_gets_back() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut tests = Command::new(cargo);
    tests.args(["test", "--quiet", "--locked", "--manifest-path"]).arg(project("rust").join("Cargo.toml"));
    tests.arg("--target-dir").arg(binary::target().join("real-senders-rust"));
    let output = against_a_server(&mut tests);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("test result: ok. 4 passed; 0 failed; 0 ignored"), "every test ran: {text}");
}

fn project(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(language)
}

/// Runs tests that find the server in `MILLPOND_URL`.
#[track_caller]
pub(crate) fn against_a_server(tests: &mut Command) -> Output {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).argument("--runtime-cache=8388608").start();
    let tests = tests.env("MILLPOND_URL", format!("http://{}", server.address()));
    let output = tests.output().expect("the tests can be run");
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{tests:?}\n{out}\n{error}");
    server.stop();
    output
}

pub(crate) fn check_node() {
    let output = Command::new("node").arg("--version").output();
    let output = output.expect("Node is missing: these tests need version 20 or later");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    assert!(major.is_some_and(|major| major >= NODE_MIN), "Node is {version}, expected {NODE_MIN} or later");
}

/// Installs exactly what the lock file says, unless that is there already.
pub(crate) fn install_for_node(project: &Path) {
    let stamp = |path: &str| fs::metadata(project.join(path)).and_then(|found| found.modified()).ok();
    if stamp("node_modules/.package-lock.json") >= stamp("package-lock.json") {
        return;
    }
    let status = Command::new("npm").current_dir(project).args(["ci", "--ignore-scripts"]).status();
    assert!(status.is_ok_and(|status| status.success()), "npm ci failed in {}", project.display());
}
