//! What is not done: by whom it was refused, with which exit code, and what people are told to do.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;

use crate::process::{Ran, Server, millpond, run};

fn server() -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(directory.path());
    server.run(&["queue", "create", "mail"]).done();
    (directory, server)
}

#[test]
fn without_a_terminal_what_cannot_be_taken_back_wants_yes() {
    let (_directory, server) = server();
    server.run(&["send", "mail", "1"]).done();
    for arguments in [
        &["queue", "delete", "mail"][..],
        &["queue", "purge", "mail"],
        &["queue", "replay", "mail"],
        &["queue", "redrive", "mail"],
        &["message", "delete", "mail", "msg_1"],
    ] {
        let stderr = server.run(arguments).failed(2);
        assert!(stderr.contains("there is no terminal to ask on"), "{stderr}");
        assert!(stderr.contains("what to do: add --yes"), "{stderr}");
    }
    assert_eq!(server.json_one("queue-show", &["mail"])["status"]["ready_count"], "1");
}

#[test]
fn a_queue_that_may_be_missing_and_is_needs_no_yes() {
    let (_directory, server) = server();
    let delete = |queue| server.run(&["queue", "delete", queue, "--allow-missing"]);
    assert_eq!(delete("post").done(), "deleted queue post\n");
    assert!(delete("mail").failed(2).contains("what to do: add --yes"));
    server.run(&["queue", "show", "mail"]);
}

#[test]
fn what_was_settled_before_a_failure_is_told() {
    // The first call is answered, the second is refused.
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let served = std::thread::spawn(move || {
        let refusal = r#"{"status": 404, "code": "queue_not_found", "retryable": false, "effect": "none"}"#;
        for (status, body) in [(200, r#"{"stale_leases": []}"#), (404, refusal)] {
            let (mut stream, _) = listener.accept().expect("a connection");
            let mut text = Vec::new();
            while !text.ends_with(b"}") {
                let mut bytes = [0; 4_096];
                let read = std::io::Read::read(&mut stream, &mut bytes).expect("readable");
                assert!(read > 0, "the whole request comes");
                text.extend_from_slice(&bytes[..read]);
            }
            let head =
                format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
            std::io::Write::write_all(&mut stream, (head + body).as_bytes()).expect("written");
        }
    });
    let leases: Vec<String> = (0..150).map(|number| format!("msg_{number}@1")).collect();
    let mut command = millpond();
    command.args(["ack", "mail"]).args(&leases).env("MILLPOND_URL", &url);
    let ran = Ran::of(run(&mut command));
    served.join().expect("no panic");
    assert_eq!(ran.stdout, "acked 100 messages\n");
    assert!(ran.failed(1).contains("the last 50 leases given may still be held"));
}

#[test]
fn settings_that_serve_would_refuse_are_not_printed() {
    for (option, value, code) in [
        ("--max-connections", "0", 2),
        ("--max-queues", "0", 2),
        ("--listen", "0.0.0.0:1", 2),
        ("--default-environment", "home", 2),
        ("--log", "a=b=c", 2),
        ("--server", "https://h", 2),
    ] {
        let ran = Ran::of(run(millpond().args(["config", "print", option, value])));
        assert_eq!(ran.stdout, "", "{option}");
        ran.failed(code);
    }
}

#[test]
fn what_a_server_says_does_nothing_to_the_terminal() {
    let (_directory, server) = server();
    server.run(&["queue", "update", "mail", "--label", "team=\u{9b}2J"]).done();
    let shown = server.run(&["queue", "show", "mail"]).done();
    assert!(shown.contains("team= 2J"), "{shown:?}");
    let ran = server.run(&["queue", "show", "mail", "--environment", "orgs/a\u{9b}2J/projects/b/envs/c"]);
    assert!(!ran.stderr.chars().any(|character| character.is_control() && character != '\n'), "{ran:?}");
}

#[test]
fn a_refusal_of_the_server_is_told_with_its_code_and_what_to_do() {
    let (_directory, server) = server();
    for (arguments, code, advice) in [
        (&["queue", "show", "post"][..], "queue_not_found", "`millpond queue list`"),
        (&["send", "post", "1"], "queue_not_found", "`millpond queue create QUEUE`"),
        (&["why", "post"], "queue_not_found", "`millpond queue list`"),
        (&["work", "post", "--exec", "true"], "queue_not_found", "`millpond queue list`"),
        (&["queue", "create", "mail"], "queue_already_exists", "`millpond queue update`"),
        (&["queue", "create", "Mail"], "invalid_field", "docs/queues.md"),
        (&["queue", "create", "post", "--set", "max_deliveries=101"], "invalid_field", "docs/queues.md"),
        (&["queue", "create", "post", "--set", "colour=red"], "unknown_field", "docs/queues.md"),
        (&["lease", "mail", "--max", "101"], "invalid_field", "docs/queues.md"),
        (
            &["queue", "show", "mail", "--environment", "orgs/a/projects/b/envs/c"],
            "environment_not_found",
            "--environment",
        ),
    ] {
        let stderr = server.run(arguments).failed(1);
        assert!(stderr.contains(&format!("({code})")), "{arguments:?}: {stderr}");
        let told =
            stderr.lines().nth(1).and_then(|line| line.strip_prefix("  what to do: ")).expect("advice");
        assert!(told.contains(advice), "{arguments:?}: {stderr}");
    }
}

#[test]
fn wrong_usage_is_told_before_anything_is_sent() {
    // Nobody listens there: a call would end with another code.
    let refused = |arguments: &[&str]| {
        let mut command = millpond();
        command.args(arguments).env("MILLPOND_URL", "http://127.0.0.1:1");
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        String::from_utf8(output.stderr).expect("utf-8")
    };
    for (arguments, said) in [
        (
            &["queue", "create", "mail", "--set", "max_deliveries=many"][..],
            "cannot set max_deliveries to \"many\"",
        ),
        (&["queue", "create", "mail", "--set", "delay=soon"], "cannot set delay to \"soon\""),
        (&["queue", "create", "mail", "--set", "max_deliveries"], "expected KEY=VALUE"),
        (&["queue", "update", "mail"], "nothing was named to change"),
        (&["queue", "show", "mail", "--environment", "prod"], "orgs/{org}/projects/{project}/envs/{env}"),
        (&["queue", "show", "mail", "--server", "https://example.com"], "expected http://HOST:PORT"),
        (&["send", "mail"], "required"),
        (&["send", "mail", "1", "--file", "x"], "cannot be used with"),
        (&["send", "mail", "1", "--delay", "soon"], "expected a duration like 30s"),
        (&["send", "mail", "{}", "--events", "--file", "/nowhere/at/all"], "cannot be used with"),
        (&["send", "mail", "--file", "/nowhere/at/all"], "cannot read /nowhere/at/all"),
        (&["ack", "mail", "msg_1"], "expected MESSAGE_ID@GENERATION"),
        (&["dead", "list", "mail", "--since", "yesterday"], "neither a time"),
        (&["peek", "mail", "--state", "lost"], "possible values"),
        (&["work", "mail"], "--exec"),
        (&["work", "mail", "--exec", "true", "--concurrency", "0"], "1..=1000"),
        (&["message", "show", "mail", "msg_1", "--lease-generation", "1"], "--data"),
        (&["completions", "tcsh"], "possible values"),
        (&["queue"], "Usage"),
        (&["serve", "--json"], "unexpected argument"),
    ] {
        let stderr = refused(arguments);
        assert!(stderr.contains(said), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_server_that_cannot_be_reached_has_its_own_exit_code() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    drop(listener);
    for arguments in [
        &["queue", "list"][..],
        &["send", "mail", "1"],
        &["work", "mail", "--exec", "true"],
        &["work", "mail", "--exec", "true", "--drain"],
        &["queue", "purge", "mail", "--yes"],
    ] {
        let stderr = Ran::of(run(millpond().args(arguments).args(["--server", &url]))).failed(3);
        assert!(stderr.contains(&format!("cannot reach {url}: ")), "{stderr}");
        assert!(stderr.contains("what to do: start a server with `millpond serve`"), "{stderr}");
    }
}

#[test]
fn an_address_of_something_else_is_told() {
    use std::io::{Read as _, Write as _};
    let listener = TcpListener::bind("127.0.0.1:0").expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let other = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let read = stream.read(&mut [0; 4_096]).expect("a request");
        assert!(read > 0);
        let answer = "HTTP/1.1 404 x\r\ncontent-length: 14\r\nconnection: close\r\n\r\n<h1>Hello</h1>";
        stream.write_all(answer.as_bytes()).expect("written");
    });
    let stderr = Ran::of(run(millpond().args(["queue", "show", "mail", "--server", &url]))).failed(3);
    other.join().expect("no panic");
    assert!(stderr.contains("<h1>Hello</h1>") && stderr.contains("check that --server"), "{stderr}");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (_directory, server) = server();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = server.command(&["queue", "show", "mail"]);
    let output =
        command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn().expect("the binary runs");
    let output = output.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn an_interrupt_ends_a_wait_with_its_own_code() {
    let (_directory, server) = server();
    let mut command = server.command(&["lease", "mail", "--wait", "20s"]);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.expect("the binary runs");
    while !catches(child.id(), libc::SIGINT) {
        std::thread::yield_now();
    }
    let id = i32::try_from(child.id()).expect("a process id");
    // Safety: the process is ours, has not been waited for, and so has its id still.
    #[allow(unsafe_code)]
    let sent = unsafe { libc::kill(id, libc::SIGINT) };
    assert_eq!(sent, 0, "it can be signalled");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.signal(), None);
    let stderr = Ran::of(output).failed(130);
    assert!(stderr.contains("interrupted"), "{stderr}");
}

/// Whether the process has a handler for the signal.
fn catches(id: u32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hex") & (1 << (signal - 1)) != 0
}

#[test]
fn what_is_beyond_the_limits_of_an_environment_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut command = millpond();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
    let server =
        Server::start_by(command.args(["--max-queues", "1", "--max-messages", "2", "--max-bytes", "9000"]));
    server.run(&["queue", "create", "mail"]).done();
    server.run(&["send", "mail", "1"]).done();
    let large = format!("\"{}\"", "x".repeat(9_000));
    // Workers make room for messages, so those may be sent later; nothing but a delete makes room for a queue.
    for (arguments, code, exit) in
        [(&["queue", "create", "post"][..], "queue_limit", 1), (&["send", "mail", &large], "byte_limit", 3)]
    {
        let stderr = server.run(arguments).failed(exit);
        assert!(stderr.contains(&format!("({code})")) && stderr.contains("higher limits"), "{stderr}");
    }
    let stderr = server.feed(&["send", "mail", "-"], "2\n3\n").failed(3);
    assert!(stderr.contains("(message_limit)") && stderr.contains("0 messages sent so far"), "{stderr}");
    assert_eq!(server.json_one("queue-show", &["mail"])["status"]["ready_count"], "1");
}
