//! Vercel's own clients, in `tests/vercel`, against the real binary: the one for Node, the one for Python, Celery and
//! Dramatiq over it; and the same requests to the binary and to the server that ships in the package for Python. Each
//! brings its packages at the versions that are pinned there.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use millpond_blackbox::server::Launch;
use serde_json::Value;

use crate::{python, real_senders};

#[test]
fn the_client_for_node_sends_polls_and_settles() {
    let project = project("node");
    real_senders::check_node();
    real_senders::install_for_node(&project);
    let mut node = Command::new("node");
    node.current_dir(&project).args(["--test", "--test-reporter=spec"]).env_remove("ORACLE");
    let output = real_senders::against_a_server(&mut node);
    let text = String::from_utf8_lossy(&output.stdout);
    let count = |what: &str| {
        let counted = text.lines().find_map(|line| line.split_once(what)).map(|(_, count)| count.trim());
        counted.and_then(|count| count.parse::<u32>().ok())
    };
    assert!(matches!(count(" pass "), Some(72..)), "every test ran: {text}");
    assert_eq!(count(" skipped "), Some(0), "{text}");
}

#[test]
fn the_client_for_python_sends_polls_and_settles() {
    let text = python_tests("requirements.txt", "vercel-python", "pollers");
    assert!(ran(&text) >= 64 && !text.contains("skipped"), "every test ran: {text}");
}

#[test]
fn the_runtime_cache_is_what_the_client_for_python_and_result_backends_need() {
    let text = python_tests("requirements-workers.txt", "vercel-workers", "cache_test");
    assert!(ran(&text) >= 7, "every test ran: {text}");
}

#[test]
fn celery_works_over_the_client_for_python() {
    let text = python_tests("requirements-workers.txt", "vercel-workers", "celery_test");
    assert!(ran(&text) >= 2, "every test ran: {text}");
}

#[test]
fn dramatiq_works_over_the_client_for_python() {
    let text = python_tests("requirements-workers.txt", "vercel-workers", "dramatiq_test");
    assert!(ran(&text) >= 4, "every test ran: {text}");
}

#[test]
fn answers_are_those_of_vercels_own_server_but_where_it_is_said() {
    let project = project("python");
    let python = python::install(&project, "vercel-python");
    let oracle = Oracle::start(&python);
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).start();
    let mut comparison = Command::new(&python);
    comparison.current_dir(&project).args(["-B", "differential.py", &oracle.url]);
    let output = comparison.arg(format!("http://{}", server.address())).output().expect("it can be run");
    let [out, error] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{out}\n{error}");
    let passed = out.lines().last().and_then(|line| line.strip_suffix(" passed, 0 failed"));
    assert!(matches!(passed.map(str::parse), Some(Ok(231..))), "every case was compared: {out}");
    server.stop();
}

fn project(language: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("vercel").join(language)
}

/// Runs a module of tests for Python against a server; what it says.
#[track_caller]
fn python_tests(requirements: &str, environment: &str, module: &str) -> String {
    let project = project("python");
    let python = python::install_from(&project.join(requirements), environment);
    let mut tests = Command::new(python);
    tests.current_dir(&project).args(["-B", "-m", "unittest", module]).env_remove("ORACLE");
    let output = real_senders::against_a_server(&mut tests);
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// How many tests unittest says that it ran.
fn ran(text: &str) -> u32 {
    let count =
        text.lines().find_map(|line| line.strip_prefix("Ran ")).and_then(|rest| rest.split(' ').next());
    count.and_then(|count| count.parse().ok()).unwrap_or(0)
}

/// The server that ships in Vercel's package for Python, on any free port. Dropped, it is killed.
struct Oracle {
    child: Child,
    url: String,
}

impl Oracle {
    fn start(python: &Path) -> Self {
        let mut command = Command::new(python);
        command.args(["-B", "-m", "vercel.queue.devserver"]).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("the package's server can be run");
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        stdout.read_line(&mut line).expect("stdout can be read");
        let ready: Value = serde_json::from_str(&line).expect("it says where it listens");
        let url = ready["baseUrl"].as_str().expect("a URL").to_owned();
        Self { child, url }
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Neither can fail in a way that matters here: a process that has ended is what is wanted.
        let _: std::io::Result<()> = self.child.kill();
        let _: std::io::Result<std::process::ExitStatus> = self.child.wait();
    }
}
