//! Pushes to apps that wait to be called, with the packages they are written with, in `tests/vercel/push`: Vercel's client
//! for Node and the one for Python behind Vercel's own receiver, Celery, Dramatiq and Django's tasks. The tests there start
//! the binary themselves, as they kill it too.

use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_blackbox::binary;

use crate::{python, real_senders};

#[test]
fn handlers_of_the_client_for_node_are_pushed_to() {
    let text = node_tests(&["push.test.mjs"]);
    assert!(passed(&text) >= 41, "every test ran: {text}");
}

#[test]
fn deployments_of_the_client_for_node_get_what_is_theirs() {
    let text = node_tests(&["deployments.test.mjs"]);
    assert!(passed(&text) >= 9, "every test ran: {text}");
}

#[test]
fn pushes_go_on_when_either_side_is_killed_and_their_signatures_verify() {
    let text = node_tests(&["restarts.test.mjs", "signatures.test.mjs"]);
    assert!(passed(&text) >= 9, "every test ran: {text}");
}

#[test]
fn no_more_handlers_work_at_once_than_may_and_nothing_acknowledged_comes_again_however_often_either_side_is_killed()
 {
    let text = node(&["kills.mjs"]);
    assert!(text.ends_with("all kept\n"), "it came to its end: {text}");
    // What it did: the seed, how often what was killed.
    eprint!("{text}");
}

#[test]
fn subscribers_of_the_client_for_python_are_pushed_to() {
    assert!(python_tests("subscribers_test") >= 17, "every test ran");
}

#[test]
fn signatures_verify_in_python() {
    assert!(python_tests("signatures_test") >= 2, "every test ran");
}

#[test]
fn celery_is_pushed_to() {
    assert!(python_tests("celery_test") >= 6, "every test ran");
}

#[test]
fn dramatiq_is_pushed_to() {
    assert!(python_tests("dramatiq_test") >= 4, "every test ran");
}

#[test]
fn tasks_of_django_are_pushed_to() {
    assert!(python_tests("django_test") >= 4, "every test ran");
}

fn project(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vercel/push").join(language)
}

fn node_tests(files: &[&str]) -> String {
    let text = node(&[&["--test", "--test-reporter=spec"], files].concat());
    assert_eq!(count(&text, " skipped "), Some(0), "{text}");
    text
}

/// Runs Node with these words; what it says.
#[track_caller]
fn node(words: &[&str]) -> String {
    let project = project("node");
    real_senders::check_node();
    real_senders::install_for_node(&project);
    let mut node = Command::new("node");
    node.current_dir(&project).args(words);
    run(&mut node).0
}

fn passed(text: &str) -> u32 {
    count(text, " pass ").unwrap_or(0)
}

/// A figure of the summary that Node's test runner prints.
fn count(text: &str, what: &str) -> Option<u32> {
    // Handlers may use the same words.
    let counts = text.lines().filter_map(|line| line.split_once(what));
    counts.filter_map(|(_, count)| count.trim().parse().ok()).next_back()
}

/// Runs a module of tests for Python; how many ran.
#[track_caller]
fn python_tests(module: &str) -> u32 {
    let project = project("python");
    // Vercel's receiver and Django need that version.
    let interpreter = python::since(12);
    let python = python::install_by(&interpreter, &project.join("requirements.txt"), "vercel-push");
    let mut tests = Command::new(python);
    tests.current_dir(&project).args(["-B", "-W", "ignore::ResourceWarning", "-m", "unittest", module]);
    let (_, text) = run(&mut tests);
    assert!(!text.contains("skipped"), "{text}");
    let ran = text.lines().find_map(|line| line.strip_prefix("Ran ")).and_then(|rest| rest.split(' ').next());
    ran.and_then(|ran| ran.parse().ok()).unwrap_or(0)
}

/// Runs tests that start the binary in `MILLPOND_BIN`; what they say on stdout and stderr.
#[track_caller]
fn run(tests: &mut Command) -> (String, String) {
    let output = tests.env("MILLPOND_BIN", binary::millpond()).output().expect("the tests can be run");
    let [out, error] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    assert!(output.status.success(), "{tests:?}\n{out}\n{error}");
    (out, error)
}
