//! The examples of `docs/cli.md` and of the README run as they stand. What they speak of is made before each of them: the queues, a message in
//! the place of `msg_…`, a lease in that of `msg_…@1048577`, files and programs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::process::Server;
use crate::triggers::deploy;

#[test]
fn the_examples_of_the_document_work() {
    let stage = Stage::new();
    let page = include_str!("../../../../docs/cli.md");
    let mut run = 0;
    for section in page.split("\n### millpond ").skip(1) {
        let (name, text) = section.split_once('\n').expect("a heading");
        // One does not end by itself, the other takes its time; both have tests of their own.
        if !matches!(name, "bench" | "serve") {
            run += shell_lines(text).map(|line| stage.run(line)).count();
        }
    }
    assert!(run >= 24, "{run} examples");
}

#[test]
fn the_examples_of_the_readme_work() {
    let stage = Stage::new();
    let page = include_str!("../../../../README.md");
    let (_, text) = page.split_once("\n## Use\n").expect("the section");
    let text = text.split("\n## ").next().unwrap_or_default();
    let lines = shell_lines(text).filter(|line| line.starts_with("millpond "));
    let run = lines.map(|line| stage.run(line)).count();
    assert!(run >= 4, "{run} examples");
}

fn shell_lines(text: &str) -> impl Iterator<Item = &str> {
    let blocks = text.split("```sh\n").skip(1).filter_map(|block| block.split("\n```").next());
    blocks.flat_map(str::lines)
}

/// A server, and a directory with what the examples name.
struct Stage {
    directory: tempfile::TempDir,
    server: Server,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let server = Server::start(&directory.path().join("data"));
        prepare(directory.path());
        // One that nobody serves.
        let served = Server::start(&directory.path().join("pond"));
        served.run(&["queue", "create", "mail"]).done();
        served.signal(libc::SIGTERM);
        assert!(served.ended().0.success());
        Self { directory, server }
    }

    fn run(&self, line: &str) {
        let directory = self.directory.path();
        let line = fill_in(&self.server, line);
        let ran = Command::new("sh")
            .args(["-euc", &line])
            .current_dir(directory)
            .env("PATH", path(directory))
            .env("HOME", directory)
            .env("MILLPOND_URL", format!("http://{}", self.server.address))
            .output()
            .expect("sh runs");
        assert!(ran.status.success(), "{line}: {ran:?}");
    }
}

/// Programs and files that the examples name.
fn prepare(directory: &Path) {
    let completions = directory.join(".local/share/bash-completion/completions");
    fs::create_dir_all(completions).expect("it is made");
    fs::create_dir(directory.join("bin")).expect("it is made");
    for (program, script) in [("bin/producer", "echo 1; echo 2"), ("write-letter", "cat > /dev/null")] {
        let program = directory.join(program);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be run");
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_millpond"), directory.join("bin/millpond"))
        .expect("linked");
    for source in ["api/mail.ts", "web/api/orders.ts"] {
        let source = directory.join(source);
        fs::create_dir_all(source.parent().expect("a directory")).expect("it is made");
        fs::write(source, "").expect("written");
    }
    let triggers = json!({ "experimentalTriggers": [{ "type": "queue/v2beta", "topic": "orders" }] });
    let project = json!({
        "functions": { "api/mail.ts": triggers },
        "services": { "web": { "root": "web", "functions": { "api/orders.ts": triggers } } },
    });
    fs::write(directory.join("vercel.json"), project.to_string()).expect("written");
    fs::write(directory.join("customers.jsonl"), "{\"to\": \"ada\"}\n").expect("written");
    fs::write(directory.join("letter.pdf"), b"%PDF-1.7\xff").expect("written");
}

fn path(directory: &Path) -> String {
    let inherited = std::env::var("PATH").unwrap_or_default();
    format!("{}:{inherited}", directory.join("bin").display())
}

/// The line with what it speaks of, all of which is there afterwards: a queue with a message that has one attempt.
fn fill_in(server: &Server, line: &str) -> String {
    // This one builds on the example before it.
    if line.contains("< leased") {
        return line.to_owned();
    }
    if ["trigger", "deployment", "signing-secret"]
        .iter()
        .any(|noun| line.starts_with(&format!("millpond {noun} ")))
    {
        server.run(&["trigger", "delete", "mail", "--yes", "--allow-missing"]).done();
        if !line.contains("trigger create") {
            let target = ["--topic", "mail", "--group", "mailer", "--target", "http://127.0.0.1:9/"];
            server.run(&[&["trigger", "create", "mail"], &target[..]].concat()).done();
        }
        deploy(server, "dpl_1", 1);
        return line.to_owned();
    }
    if line.contains("topic") {
        server.run(&["topic", "delete", "news", "--yes", "--allow-missing"]).done();
        server.run(&["topic", "create", "news"]).done();
        server.run(&["group", "create", "billing", "--topic", "news"]).done();
        server.run(&["send", "--topic", "news", "1"]).done();
        return line.to_owned();
    }
    server.run(&["queue", "delete", "mail", "--yes", "--allow-missing"]).done();
    if line.contains("queue create") {
        return line.to_owned();
    }
    for queue in ["mail-by-hand", "mail-dead"] {
        // They are there from the second example on.
        server.run(&["queue", "create", queue]);
    }
    server.run(&["queue", "create", "mail", "--set", "max_deliveries=1"]).done();
    let sent = server.json_one("send", &["mail", "1"]);
    let id = sent["message_id"].as_str().expect("an id");
    if !line.contains('@') && !line.contains("redrive") {
        return line.replace("msg_…", id);
    }
    let leased = server.json_one("lease", &["mail"]);
    let generation = leased["lease"]["lease_generation"].as_str().expect("a number");
    let lease = format!("{id}@{generation}");
    if line.contains('@') {
        return line.replace("msg_…@1048577", &lease);
    }
    server.run(&["nack", "mail", &lease]).done();
    assert_eq!(server.json_one("message-show", &["mail", id])["state"], "dead");
    line.replace("msg_…", id)
}
