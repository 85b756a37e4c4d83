//! What documents say is held against what there is. S24: the lines that they tell people to paste are run as they stand,
//! by sh and curl, against the real binary; only what cannot stand in a document is put in: the server's address, and a
//! message or lease where `msg_…` is written.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use millpond_blackbox::client::{Client, event};
use millpond_blackbox::server::{Launch, Server};
use serde_json::Value;

/// The server's address in documents.
const DOCUMENTED: &str = "http://127.0.0.1:8400";
/// Curl as people have it answers 0 to a refusal; this one does not.
const STRICT_CURL: &str = "#!/bin/sh\nexec CURL --fail-with-body --show-error --max-time 60 \"$@\"\n";

/// A group's lease in documents: that of the lease before it.
const GROUP_LEASE: &str = r#"{"message_id": "msg_…", "lease_generation": "…", "delivery": "…"}"#;

#[test]
fn s24_the_lines_of_the_documents_work() {
    let mut shell = Shell::new();
    // In this order: the second builds on the queue and the variable of the first.
    for (document, commands_min) in [("README.md", 7), ("docs/queues.md", 1), ("docs/topics.md", 5)] {
        let text = fs::read_to_string(root().join(document)).expect("the document can be read");
        let commands = commands(&text);
        let run = commands.iter().filter(|command| command.contains("curl ")).count();
        assert!(run >= commands_min, "{document}: {commands:?}");
        for command in commands {
            shell.run(document, &command);
        }
    }
}

#[test]
fn s24_the_lines_that_make_run_prints_work() {
    let shell = Shell::new();
    let address = shell.server.address().to_string();
    let printed = Command::new(root().join("scripts/first-minute")).arg(&address).output().expect("it runs");
    let text = String::from_utf8(printed.stdout).expect("text");
    let lines: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("curl ")).collect();
    let script = lines.join("\n");
    assert_eq!(script.trim_end().lines().count(), 3, "three lines to paste: {text}");
    let output = shell.sh(&script);
    let answer = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(answer.contains(r#""data":"hello""#), "the second line shows the message: {answer}");
    assert!(answer.trim_end().ends_with(r#"{"stale_leases":[]}"#), "the third one acks it: {answer}");
}

#[test]
fn the_page_on_sylphx_names_the_numbered_tests_that_there_are() {
    let page = fs::read_to_string(root().join("docs/compatibility/sylphx.md")).expect("the page can be read");
    let is_numbered = |name: &str| {
        let number = name.strip_prefix('s').and_then(|rest| rest.split_once('_')).map(|(number, _)| number);
        number.is_some_and(|number| number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let named: BTreeSet<&str> = page.split('`').filter(|word| is_numbered(word)).collect();
    let folders = ["crates/blackbox/tests/it", "crates/blackbox/tests/it/sylphx", "crates/server/tests/it"];
    let sources: Vec<String> = folders
        .iter()
        .flat_map(|folder| fs::read_dir(root().join(folder)).expect("the folder can be read"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .map(|path| fs::read_to_string(path).expect("a source can be read"))
        .collect();
    let functions = sources.iter().flat_map(|source| source.split("fn ").skip(1));
    let tests = functions.filter_map(|rest| rest.split('(').next()).filter(|name| is_numbered(name));
    assert_eq!(named, tests.collect());
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The commands of all `sh` blocks in which curl is called.
fn commands(document: &str) -> Vec<String> {
    let mut commands = Vec::new();
    for block in document.split("```sh\n").skip(1) {
        let block = block.split("\n```").next().unwrap_or_default();
        if !block.contains("curl ") {
            continue;
        }
        let joined = block.replace("\\\n", " ");
        let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        commands.extend(lines.map(str::to_owned));
    }
    commands
}

/// Runs lines against a server of its own.
struct Shell {
    directory: tempfile::TempDir,
    server: Server,
    client: Client,
    /// Assignments that later lines build on.
    variables: String,
    /// What was leased last.
    lease: Value,
}

impl Shell {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory can be made");
        let curl = directory.path().join("bin/curl");
        fs::create_dir(directory.path().join("bin")).expect("it is made");
        fs::write(&curl, STRICT_CURL.replace("CURL", &curl_of_the_system())).expect("it is written");
        fs::set_permissions(&curl, fs::Permissions::from_mode(0o755)).expect("it can be run");
        let server = Launch::of(&directory.path().join("data")).start();
        let client = server.client();
        Self { directory, server, client, variables: String::new(), lease: Value::Null }
    }

    fn sh(&self, script: &str) -> Output {
        let path = std::env::var("PATH").unwrap_or_default();
        Command::new("sh")
            .args(["-euc", script])
            .current_dir(self.directory.path())
            .env("PATH", format!("{}:{path}", self.directory.path().join("bin").display()))
            .output()
            .expect("sh can be run")
    }

    /// Runs one line of a document, which has to succeed.
    fn run(&mut self, document: &str, line: &str) {
        let line = line.replace(DOCUMENTED, &format!("http://{}", self.server.address()));
        if !line.contains("curl ") {
            self.variables.push_str(&line);
            self.variables.push('\n');
            return;
        }
        let filled = self.fill_in(&line);
        assert!(!filled.contains('…'), "{document}: nothing is known to put in: {line}");
        let output = self.sh(&format!("{}{filled}", self.variables));
        let answer = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{document}: {filled}\n{answer}\n{error}");
        let answer: Value = serde_json::from_str(&answer).unwrap_or_default();
        if let Some(lease) = answer.pointer("/messages/0/lease") {
            self.lease = lease.clone();
        }
        if let Some(stale) = answer.get("stale_leases") {
            assert_eq!(*stale, Value::Array(Vec::new()), "{document}: {filled}");
        }
    }

    /// Puts in a message where a line names one: a leased one where it names its lease, one that waits otherwise.
    fn fill_in(&mut self, line: &str) -> String {
        if !line.contains("msg_…") {
            return line.to_owned();
        }
        if line.contains(GROUP_LEASE) {
            return line.replace(GROUP_LEASE, &self.lease.to_string());
        }
        let named = line.split("$Q/").nth(1).and_then(|rest| rest.split([':', '/', '"']).next());
        let queue = named.unwrap_or_else(|| panic!("no queue in {line}")).to_owned();
        // What earlier lines left would be leased first.
        let purge = format!("/v1/queues/{queue}:purge");
        self.client.call("POST", &purge, &[], None).expect("it is purged");
        let sent = self.client.send(&queue, &[event("1", "documented")], None).expect("it is sent");
        let line = line.replace("msg_…", &sent[0]);
        if !line.to_ascii_lowercase().contains("generation") {
            return line;
        }
        let held = self.client.lease_one(&queue, 60, 0).expect("it is there");
        assert_eq!(held.lease.message_id, sent[0]);
        line.replace('…', &held.lease.generation.to_string())
    }
}

fn curl_of_the_system() -> String {
    let found = Command::new("sh").args(["-c", "command -v curl"]).output().expect("sh can be run");
    let path = String::from_utf8_lossy(&found.stdout).trim().to_owned();
    assert!(found.status.success() && !path.is_empty(), "curl is missing");
    path
}
