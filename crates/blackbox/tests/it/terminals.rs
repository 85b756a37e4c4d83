//! What people see: the first minute of the README, questions before what cannot be taken back, progress, and Ctrl-C.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_blackbox::binary;
use millpond_blackbox::client::Counts;
use millpond_blackbox::server::{Launch, Server};
use millpond_blackbox::terminal::{Terminal, looks_like};
use rustix::process::Signal;
use serde_json::json;

fn open() -> (tempfile::TempDir, Server, Terminal) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(&directory.path().join("data")).start();
    let terminal = Terminal::open(directory.path(), &format!("http://{}", server.address()));
    (directory, server, terminal)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn readme() -> String {
    std::fs::read_to_string(root().join("README.md")).expect("it can be read")
}

/// The block of the README's start that is pasted, and the one that says what it shows.
fn first_minute(readme: &str) -> (String, Vec<String>) {
    let (_, start) = readme.split_once("\n## Start\n").expect("the section");
    let blocks: Vec<&str> = start.split("```").skip(1).step_by(2).collect();
    let find = |has: &str| *blocks.iter().find(|block| block.contains(has)).expect("the block");
    let pasted = find("millpond work").strip_prefix("sh\n").expect("it is for a shell");
    let shown = find("made queue").trim().lines().map(str::to_owned).collect();
    (pasted.to_owned(), shown)
}

/// What `make run` prints.
fn printed(address: &str) -> String {
    let output = Command::new(root().join("scripts/first-minute")).arg(address).output();
    String::from_utf8(output.expect("it can be run").stdout).expect("utf-8")
}

/// The whole of it as a newcomer has it, in a copy of what `make run` uses. Only the build is stood in for, as it takes
/// minutes: what it would make is linked to its place.
#[test]
fn the_first_minute_of_the_readme_shows_what_it_says() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let (tree, programs) = (directory.path().join("millpond"), directory.path().join("bin"));
    for made in [&tree.join("scripts"), &tree.join("target/release"), &programs] {
        std::fs::create_dir_all(made).expect("it can be made");
    }
    for file in ["Makefile", "scripts/first-minute"] {
        std::fs::copy(root().join(file), tree.join(file)).expect("it can be copied");
    }
    let link = format!("#!/bin/sh\nexec ln -s '{}' target/release/millpond\n", binary::millpond().display());
    std::fs::write(programs.join("cargo"), link).expect("it can be written");
    std::fs::set_permissions(programs.join("cargo"), std::fs::Permissions::from_mode(0o755)).expect("set");

    let mut server = Terminal::open_with(&tree, &programs, &[]);
    // Any port that is free, in place of the one that everybody uses.
    server.line("make run LISTEN=127.0.0.1:0");
    server.wait_for("listening on ");
    let url = server.wait_for("\r\n").trim().to_owned();
    let mut terminal = Terminal::open_with(&tree, &programs, &[("MILLPOND_URL", &url)]);
    let (pasted, shown) = first_minute(&readme());
    assert_eq!((pasted.lines().count(), shown.len()), (6, 6));
    // The quotes keep what is pasted from looking like the end.
    terminal.paste(&format!("{pasted}echo 'that was'' all'\n"));
    let (mut seen, mut expected) = (Vec::new(), shown.iter());
    let mut next = expected.next();
    while seen.last().is_none_or(|line| line != "that was all") {
        let line = terminal.next_line();
        // What is pasted is shown too, somewhere between.
        if next.is_some_and(|next| looks_like(&line, next)) {
            next = expected.next();
        }
        seen.push(line);
    }
    assert_eq!(next, None, "{seen:#?}");
    server.key("C-c");
    server.line("echo 'it has'' ended'");
    server.wait_for("it has ended");
    let refused = terminal.run("millpond queue list");
    assert!(refused.contains("cannot reach") && refused.ends_with("3."), "{refused}");
}

#[test]
fn make_run_prints_the_lines_of_the_readme() {
    let (pasted, _) = first_minute(&readme());
    let printed = printed("127.0.0.1:9");
    let block = printed.split("\n\n").nth(1).expect("the lines stand between blank ones");
    let (first, rest) = block.split_once('\n').expect("lines");
    assert!(first.contains("/target/release:\"$PATH\"") && first.ends_with("=http://127.0.0.1:9"), "{first}");
    assert_eq!(rest, pasted.trim_end().split_once('\n').expect("lines").1);
}

#[test]
fn the_lines_by_curl_send_lease_and_ack() {
    let (_directory, server, mut terminal) = open();
    let printed = printed(&server.address().to_string());
    let lines: Vec<&str> = printed.lines().skip_while(|line| !line.starts_with("curl ")).collect();
    let mut lines = lines.into_iter().filter(|line| !line.is_empty());
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
    assert_eq!(lines.next(), None, "send, lease, ack");
    server.stop();
}

#[test]
fn a_queue_says_why_as_the_readme_shows() {
    let (_directory, server, mut terminal) = open();
    let readme = readme();
    let sessions: Vec<&str> = readme.split("```console\n").skip(1).collect();
    let mut asked = 0;
    for session in sessions {
        let session = session.split("```").next().unwrap_or_default();
        for part in session.split("$ ").skip(1) {
            let (command, expected) = part.split_once('\n').expect("a line");
            asked += usize::from(command.starts_with("millpond why "));
            let shown = terminal.lines_of(command);
            let expected: Vec<&str> = expected.lines().collect();
            let alike = shown.len() == expected.len()
                && shown.iter().zip(&expected).all(|(line, pattern)| looks_like(line, pattern));
            assert!(alike, "{command} shows {shown:#?}\nand not {expected:#?}");
        }
    }
    assert_eq!(asked, 4, "four reasons");
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

#[test]
fn a_long_drain_shows_how_far_it_is() {
    let (directory, server, mut terminal) = open();
    server.client().create_queue("mail", json!({})).expect("it is made");
    terminal.run("printf '1\\n2\\n3\\n' | millpond send mail -");
    let gate = directory.path().join("gate");
    assert!(Command::new("mkfifo").arg(&gate).status().expect("mkfifo can be run").success());
    // The first is done at once, the second when the gate opens.
    let exec = format!("test $(cat) != 2 || cat {}", gate.display());
    terminal.line(&format!("millpond work mail --exec '{exec}' --drain"));
    terminal.wait_for(" 1/3 ");
    std::fs::write(&gate, "").expect("it can be written");
    terminal.wait_for("mail: 3 done, 0 failed, 0 lost");
    server.stop();
}

#[test]
fn a_long_purge_shows_how_far_it_is() {
    let (_directory, server, mut terminal) = open();
    server.client().create_queue("mail", json!({})).expect("it is made");
    terminal.run("millpond send mail 1");
    // A server that is stopped takes as long as the test wants.
    server.signal(Signal::STOP);
    terminal.line("millpond queue purge mail --yes");
    terminal.wait_for(" purging ");
    server.signal(Signal::CONT);
    terminal.wait_for("removed 1 message");
    server.stop();
}
