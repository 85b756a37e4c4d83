//! What people see: the first minute of the README, questions before what cannot be taken back, progress, and Ctrl-C.

use std::path::Path;
use std::process::Command;

use millpond_blackbox::client::Counts;
use millpond_blackbox::server::{Launch, Server};
use millpond_blackbox::terminal::Terminal;
use serde_json::json;

fn open() -> (tempfile::TempDir, Server, Terminal) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(&directory.path().join("data")).start();
    let terminal = Terminal::open(directory.path(), &format!("http://{}", server.address()));
    (directory, server, terminal)
}

/// The lines that `make run` prints to paste.
fn first_minute(server: &Server) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/first-minute");
    let output = Command::new(script).arg(server.address().to_string()).output().expect("it can be run");
    let text = String::from_utf8(output.stdout).expect("utf-8");
    let lines = text.split("\n\n").nth(1).expect("the lines stand between blank ones");
    assert_eq!(lines.lines().count(), 3, "send, lease, ack: {text}");
    lines.to_owned()
}

#[test]
fn the_lines_of_the_first_minute_send_lease_and_ack() {
    let (_directory, server, mut terminal) = open();
    let lines = first_minute(&server);
    let mut lines = lines.lines();
    let mut paste = |answer: &str| {
        terminal.paste(&format!("{}\n", lines.next().expect("a line")));
        terminal.wait_for(answer)
    };
    paste(r#"{"message_ids":["msg_"#);
    let counts = |client: &mut millpond_blackbox::client::Client| client.counts("hello").expect("counts");
    assert_eq!(counts(&mut server.client()), Counts { ready: 1, ..Counts::default() });
    let leased = paste(r#""delivery_count":1"#);
    assert!(leased.contains(r#"{"messages":[{"message_id":"msg_"#), "{leased}");
    assert_eq!(counts(&mut server.client()), Counts { leased: 1, ..Counts::default() });
    paste(r#"{"stale_leases":[]}"#);
    assert_eq!(counts(&mut server.client()), Counts::default());
    server.stop();
}

#[test]
fn what_cannot_be_taken_back_is_asked_for() {
    let (_directory, server, mut terminal) = open();
    server.client().create_queue("mail", json!({})).expect("it is made");
    terminal.run("millpond send mail 1 && millpond send mail 2");
    let counts = || server.client().counts("mail").expect("counts").ready;

    terminal.line("millpond queue purge mail; echo \"code:\"\" $?\"\".\"");
    terminal.wait_for("Remove 2 messages from queue mail? [y/N] ");
    terminal.line("n");
    let shown = terminal.wait_for("code: 1.");
    assert!(shown.contains("did not purge queue mail: it was not confirmed"), "{shown}");
    assert_eq!(counts(), 2);

    // Nothing but a yes is one.
    terminal.line("millpond queue delete mail; echo \"code:\"\" $?\"\".\"");
    terminal.wait_for("Delete queue mail with 2 messages? [y/N] ");
    terminal.key("Enter");
    terminal.wait_for("code: 1.");
    assert_eq!(counts(), 2);

    // A question can be left.
    terminal.line("millpond queue delete mail");
    terminal.wait_for("[y/N] ");
    terminal.key("C-c");
    terminal.wait_for("interrupted");

    terminal.line("millpond queue purge mail; echo \"code:\"\" $?\"\".\"");
    terminal.wait_for("[y/N] ");
    terminal.line("yes");
    let shown = terminal.wait_for("code: 0.");
    assert!(shown.contains("removed 2 messages"), "{shown}");
    assert_eq!(counts(), 0);

    // Who says so beforehand is not asked, and where nobody can answer nobody is.
    let shown = terminal.run("millpond queue purge mail --yes");
    assert!(shown.ends_with("0."), "{shown}");
    let shown = terminal.run("millpond queue purge mail < /dev/null");
    assert!(shown.ends_with("2."), "{shown}");
    server.stop();
}

#[test]
fn a_long_send_shows_how_far_it_is() {
    let (directory, server, mut terminal) = open();
    server.client().create_queue("mail", json!({})).expect("it is made");
    let file = directory.path().join("lines.jsonl");
    let lines: String = (0..20_000).map(|number| format!("{{\"number\": {number}}}\n")).collect();
    std::fs::write(&file, lines).expect("it can be written");
    terminal.line(&format!("millpond send mail --file {}", file.display()));
    terminal.wait_for(" KiB");
    terminal.wait_for("sent 20000 messages to mail");
    server.stop();
}

#[test]
fn ctrl_c_lets_the_command_of_a_worker_finish() {
    let (directory, server, mut terminal) = open();
    server.client().create_queue("mail", json!({})).expect("it is made");
    terminal.run("millpond send mail 1");
    let gate = directory.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo can be run").success());
    let exec = format!("echo be\"\"gun; cat {}", gate.display());
    terminal.line(&format!("millpond work mail --exec '{exec}'; echo \"code:\"\" $?\"\".\""));
    terminal.wait_for("begun");
    terminal.key("C-c");
    terminal.wait_for("finishing what runs; a second signal ends it");
    std::fs::write(&gate, "the gate is open\n").expect("it can be written");
    terminal.wait_for("the gate is open");
    let shown = terminal.wait_for("code: 0.");
    assert!(shown.contains("mail: 1 done, 0 failed, 0 lost"), "{shown}");
    assert_eq!(server.client().counts("mail").expect("counts"), Counts::default());
    server.stop();
}
