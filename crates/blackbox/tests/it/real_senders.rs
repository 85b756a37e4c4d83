//! Senders of other people: the CloudEvents SDK for Node, in `tests/node`, against the real binary.

use std::path::Path;
use std::process::Command;

use millpond_blackbox::server::Launch;

/// Node's own test runner is in it from here on.
const NODE_MIN: u32 = 20;

#[test]
fn what_the_cloudevents_sdk_sends_is_what_it_gets_back() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/node");
    check_node();
    install(&project);
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).start();
    let output = Command::new("node")
        .current_dir(&project)
        .args(["--test", "--test-reporter=spec"])
        .env("MILLPOND_URL", format!("http://{}", server.address()))
        .output()
        .expect("node can be run");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    let passed =
        text.lines().find_map(|line| line.split_once(" pass ")).map(|(_, count)| count.trim().parse());
    assert!(matches!(passed, Some(Ok(49..))), "every test ran: {text}");
    server.stop();
}

fn check_node() {
    let output = Command::new("node").arg("--version").output();
    let output = output.expect("Node is missing: these tests need version 20 or later");
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    assert!(major.is_some_and(|major| major >= NODE_MIN), "Node is {version}, expected {NODE_MIN} or later");
}

/// Installs exactly what the lock file says, unless that is there already.
fn install(project: &Path) {
    let stamp = |path: &str| std::fs::metadata(project.join(path)).and_then(|found| found.modified()).ok();
    if stamp("node_modules/.package-lock.json") >= stamp("package-lock.json") {
        return;
    }
    let status = Command::new("npm").current_dir(project).args(["ci", "--ignore-scripts"]).status();
    assert!(status.is_ok_and(|status| status.success()), "npm ci failed in {}", project.display());
}
