//! `work`: what the command gets, what becomes of its message, and how the work ends.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use serde_json::{Value, json};

use crate::process::{Ran, Server};
use crate::schema;

fn server(options: &[&str]) -> (tempfile::TempDir, Server) {
    let directory = tempfile::tempdir().expect("a directory");
    let server = Server::start(&directory.path().join("data"));
    server.run(&[&["queue", "create", "mail"], options].concat()).done();
    (directory, server)
}

fn work<'a>(exec: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["work", "mail", "--exec", exec], more].concat()
}

fn status(server: &Server) -> Value {
    server.json_one("queue-show", &["mail"])["status"].clone()
}

#[test]
fn the_command_gets_the_data_and_the_attributes() {
    let (_directory, server) = server(&[]);
    let event = json!({"specversion": "1.0", "id": "7", "source": "/shop", "type": "paid", "subject": "a b",
        "time": "2026-10-07T12:30:00Z", "traceparent": "00-1", "data": {"to": "ada"}});
    let id = server.run(&["send", "mail", &event.to_string(), "--events"]).done();
    let exec = "cat; echo; env | grep ^MILLPOND_ | sort";
    let ran = server.run(&work(exec, &["--drain"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[0], r#"{"to":"ada"}"#);
    let find = |name: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("{name}: {lines:#?}"))
    };
    assert_eq!(find("MILLPOND_MESSAGE_ID"), id.trim_end());
    assert_eq!(find("MILLPOND_DELIVERY_COUNT"), "1");
    assert_eq!(find("MILLPOND_QUEUE"), "mail");
    assert_eq!(
        (find("MILLPOND_EVENT_ID"), find("MILLPOND_SOURCE"), find("MILLPOND_TYPE")),
        ("7", "/shop", "paid")
    );
    assert_eq!((find("MILLPOND_SUBJECT"), find("MILLPOND_TIME")), ("a b", "2026-10-07T12:30:00Z"));
    assert_eq!(find("MILLPOND_EXTENSION_TRACEPARENT"), "00-1");
    assert_eq!(find("MILLPOND_URL"), format!("http://{}", server.address));
    assert!(find("MILLPOND_LEASE_GENERATION").parse::<u64>().is_ok());
    assert!(ran.stderr.ends_with("mail: 1 done, 0 failed, 0 lost\n"), "{}", ran.stderr);
}

#[test]
fn text_and_bytes_arrive_as_they_were_sent() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "grüße"]).done();
    let line = json!({"data_base64": "AP8K", "data_content_type": "application/x-thing"}).to_string();
    server.run(&["send", "mail", &line, "--events"]).done();
    server.feed(&["send", "mail", "-", "--events"], "{\"id\": \"none\"}\n").done();
    let ran = server.run(&work(
        "printf '%s ' \"$MILLPOND_CONTENT_TYPE\"; od -An -tx1 | tr -d ' \\n'; echo",
        &["--drain"],
    ));
    assert_eq!(ran.stdout, "text/plain 6772c3bcc39f65\napplication/x-thing 00ff0a\n \n");
}

#[test]
fn a_command_that_fails_has_its_message_come_back() {
    let (_directory, server) = server(&["--set", "max_deliveries=3"]);
    server.feed(&["send", "mail", "-"], "1\n2\n").done();
    // The first message fails twice, then both are done.
    let exec = "test $(cat) != 1 -o $MILLPOND_DELIVERY_COUNT -ge 3";
    let ran = server.run(&work(exec, &["--drain", "--json"]));
    assert_eq!(ran.code, Some(4), "{ran:?}");
    let mut lines = schema::check("work", &ran.stdout);
    lines.sort_by_key(|line| line["outcome"].as_str().map(str::to_owned));
    let outcomes: Vec<_> =
        lines.iter().map(|line| (line["outcome"].as_str(), line["exit_code"].as_i64())).collect();
    let (acked, nacked) = ((Some("acked"), Some(0)), (Some("nacked"), Some(1)));
    assert_eq!(outcomes, [acked, acked, nacked, nacked]);
    assert!(ran.stderr.contains("the command ended with exit status: 1"), "{}", ran.stderr);
    assert!(ran.stderr.ends_with("mail: 2 done, 2 failed, 0 lost\n"), "{}", ran.stderr);
    assert_eq!(status(&server)["why"]["reason"], "empty");
}

#[test]
fn a_drain_ends_only_when_nothing_is_left_not_even_delayed() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    server.run(&["send", "mail", "2", "--delay", "1.5s"]).done();
    let ran = server.run(&work("cat", &["--drain", "--concurrency", "4"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "12"));
    let again = server.run(&work("cat", &["--drain"]));
    assert_eq!((again.code, again.stdout.as_str()), (Some(0), ""));
}

#[test]
fn with_json_stdout_holds_nothing_but_json() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    let ran = server.run(&work("echo of the command", &["--drain", "--json"]));
    assert_eq!(schema::check("work", &ran.stdout).len(), 1);
    assert!(ran.stderr.contains("of the command\n"), "{}", ran.stderr);
}

#[test]
fn a_command_that_leaves_its_data_unread_is_done_all_the_same() {
    let (_directory, server) = server(&[]);
    // More than a pipe holds.
    server.feed(&["send", "mail", "-"], &format!("\"{}\"\n", "x".repeat(200 << 10))).done();
    let ran = server.run(&work("exec true", &["--drain"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    // What it leaves behind may hold the pipe.
    server.feed(&["send", "mail", "-"], &format!("\"{}\"\n", "x".repeat(200 << 10))).done();
    let ran = server.run(&work("(exec tail -f /dev/null >/dev/null 2>&1) & echo $!", &["--drain"]));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let left: i32 = ran.stdout.trim().parse().expect("a process id");
    // Safety: it is a process of this test's own making, which nobody else waits for.
    #[allow(unsafe_code)]
    unsafe {
        libc::kill(left, libc::SIGKILL);
    }
}

/// A worker that runs, and what its commands print.
struct Worker {
    child: Child,
    stdout: BufReader<std::process::ChildStdout>,
}

impl Worker {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        Self::of(server.command(arguments))
    }

    fn of(mut command: std::process::Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the binary runs");
        let stdout = BufReader::new(child.stdout.take().expect("it is piped"));
        Self { child, stdout }
    }

    /// Waits for a line that a command prints.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("utf-8");
        line.trim_end().to_owned()
    }

    fn signal(&self, signal: i32) {
        let id = i32::try_from(self.child.id()).expect("a process id");
        // Safety: the process is ours, has not been waited for, and so has its id still.
        #[allow(unsafe_code)]
        let sent = unsafe { libc::kill(id, signal) };
        assert_eq!(sent, 0, "it can be signalled");
    }

    /// Waits for a line on stderr that holds this.
    fn told(&mut self, text: &str) {
        let stderr = self.child.stderr.as_mut().expect("it is piped");
        // Byte by byte, as what follows the line is for others.
        let mut read = Vec::new();
        while !String::from_utf8_lossy(&read).contains(text) {
            let mut byte = [0];
            let count = std::io::Read::read(stderr, &mut byte).expect("readable");
            assert!(count > 0, "{}", String::from_utf8_lossy(&read));
            read.push(byte[0]);
        }
    }

    fn ended(self) -> Ran {
        // The rest of stdout is read by nobody; it is short.
        Ran::of(self.child.wait_with_output().expect("it ends"))
    }
}

#[test]
fn the_first_signal_lets_the_command_finish() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        let (directory, server) = server(&[]);
        server.feed(&["send", "mail", "-"], "1\n2\n").done();
        let gate = directory.path().join("gate");
        let made = std::process::Command::new("mkfifo").arg(&gate).status().expect("mkfifo runs");
        assert!(made.success());
        let exec = format!("echo begun; cat {}; echo finished", gate.display());
        let mut worker = Worker::start(&server, &work(&exec, &[]));
        assert_eq!(worker.line(), "begun");
        worker.signal(signal);
        worker.told("finishing what runs");
        std::fs::write(&gate, "go\n").expect("written");
        assert_eq!((worker.line(), worker.line()), ("go".to_owned(), "finished".to_owned()));
        let ran = worker.ended();
        assert_eq!(ran.code, Some(0), "{ran:?}");
        assert!(ran.stderr.contains("1 done, 0 failed, 0 lost"), "{}", ran.stderr);
        assert_eq!(
            (&status(&server)["ready_count"], &status(&server)["leased_count"]),
            (&json!("1"), &json!("0"))
        );
    }
}

#[test]
fn the_second_signal_ends_the_command_and_its_message_comes_back() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    // The shell and what it waits for are both ended.
    let mut worker = Worker::start(&server, &work("echo begun; tail -f /dev/null", &["--drain"]));
    assert_eq!(worker.line(), "begun");
    worker.signal(libc::SIGINT);
    worker.told("finishing what runs");
    worker.signal(libc::SIGINT);
    assert_eq!(worker.line(), "", "nothing holds its stdout any more");
    let ran = worker.ended();
    assert_eq!(ran.code, Some(130), "{ran:?}");
    assert_eq!(status(&server)["ready_count"], "1");
}

#[test]
fn what_a_command_has_started_is_killed_although_its_shell_ends_at_once() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    // What is ignored stays so in what is started; the shell itself ends at the first signal.
    let exec = "sh -c 'trap \"\" TERM; echo begun; sleep 120; echo outlived it'; echo done";
    let mut worker = Worker::start(&server, &work(exec, &["--drain"]));
    assert_eq!(worker.line(), "begun");
    worker.signal(libc::SIGINT);
    worker.told("finishing what runs");
    worker.signal(libc::SIGINT);
    assert_eq!(worker.line(), "", "nothing holds its stdout any more");
    assert_eq!(worker.ended().code, Some(130));
    assert_eq!(status(&server)["ready_count"], "1");
}

#[test]
fn a_third_signal_waits_for_nothing() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    let exec = "trap '' TERM; echo begun; sleep 120; echo outlived it";
    let mut worker = Worker::start(&server, &work(exec, &["--visibility-timeout", "12h"]));
    assert_eq!(worker.line(), "begun");
    // Nothing is settled any more.
    server.signal(libc::SIGSTOP);
    worker.signal(libc::SIGTERM);
    worker.told("finishing what runs");
    worker.signal(libc::SIGTERM);
    worker.told("ending what runs");
    worker.signal(libc::SIGTERM);
    assert_eq!(worker.line(), "", "the command is killed");
    assert_eq!(worker.ended().code, Some(130));
}

#[test]
fn a_signal_is_heard_while_the_server_does_not_answer() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("it listens");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    for (more, code) in [(&[][..], 0), (&["--drain"], 130)] {
        let mut command = crate::process::millpond();
        command.args(work("true", more)).env("MILLPOND_URL", &url);
        let worker = Worker::of(command);
        let (mut stream, _) = listener.accept().expect("a connection");
        std::io::Read::read_exact(&mut stream, &mut [0; 3]).expect("it asks for the queue");
        worker.signal(libc::SIGTERM);
        assert_eq!(worker.ended().code, Some(code));
    }
}

#[test]
fn a_hangup_means_nothing_to_a_worker_that_was_started_to_outlive_it() {
    let (directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    let gate = directory.path().join("gate");
    assert!(std::process::Command::new("mkfifo").arg(&gate).status().expect("mkfifo runs").success());
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_millpond")]);
    command.args(work(&format!("echo begun; cat {}", gate.display()), &[]));
    command.env("MILLPOND_URL", format!("http://{}", server.address));
    let mut worker = Worker::of(command);
    assert_eq!(worker.line(), "begun");
    worker.signal(libc::SIGHUP);
    worker.signal(libc::SIGTERM);
    worker.told("finishing what runs");
    std::fs::write(&gate, "go\n").expect("written");
    let ran = worker.ended();
    // Two signals that count would have ended it.
    assert!(ran.code == Some(0) && ran.stderr.contains("1 done, 0 failed"), "{ran:?}");
}

#[test]
fn a_machine_that_can_run_nothing_gives_its_messages_back_and_stops() {
    let (_directory, server) = server(&["--set", "max_deliveries=2"]);
    server.feed(&["send", "mail", "-"], "1\n2\n3\n").done();
    let mut command = server.command(&work("true", &["--drain"]));
    // There is no shell.
    command.env("PATH", "/nowhere");
    let ran = Ran::of(crate::process::run(&mut command));
    assert_eq!(ran.code, Some(3), "{ran:?}");
    assert!(ran.stderr.contains("millpond: cannot work on mail: sh cannot be run"), "{ran:?}");
    assert!(ran.stderr.contains("what to do: mend this machine"), "{ran:?}");
    let status = status(&server);
    let counts = ["ready_count", "delayed_count", "dead_letter_count"].map(|name| status[name].as_str());
    assert_eq!(counts, [Some("2"), Some("1"), Some("0")]);
}

#[test]
fn the_work_is_done_although_nobody_reads_of_it() {
    let (_directory, server) = server(&[]);
    server.feed(&["send", "mail", "-"], "1\n2\n3\n").done();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = server.command(&work("true", &["--drain", "--json"]));
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::piped()).spawn();
    let ran = Ran::of(child.expect("the binary runs").wait_with_output().expect("it ends"));
    assert!(ran.code == Some(0) && ran.stderr.ends_with("mail: 3 done, 0 failed, 0 lost\n"), "{ran:?}");
    assert_eq!(status(&server)["why"]["reason"], "empty");
}

/// A pipe that holds as much as it can.
fn full_pipe() -> (std::io::PipeReader, std::io::PipeWriter, usize) {
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let set = |flags: libc::c_int| {
        // Safety: the descriptor is open, and the call takes nothing else.
        #[allow(unsafe_code)]
        let set = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETFL, flags) };
        assert_eq!(set, 0, "it can be set");
    };
    set(libc::O_NONBLOCK);
    let mut written = 0;
    while let Ok(more) = (&writer).write(b"\n") {
        written += more;
    }
    set(0);
    (reader, writer, written)
}

#[test]
fn leases_are_extended_while_nobody_reads_the_output() {
    let options = ["--set", "visibility_timeout=1s", "--set", "max_deliveries=1"];
    let (_directory, server) = server(&options);
    server.feed(&["send", "mail", "-"], "0\n3\n").done();
    let (mut reader, writer, held) = full_pipe();
    let mut command = server.command(&work("sleep $(cat)", &["--drain", "--json", "--concurrency", "2"]));
    let child = command.stdin(Stdio::null()).stdout(writer).stderr(Stdio::null()).spawn();
    // The parent's own end of the pipe goes with the command.
    drop(command);
    let mut child = child.expect("the binary runs");
    // The first is told of, in vain, while the second runs for three timeouts.
    while status(&server)["why"]["reason"] != "empty" {}
    let mut told = String::new();
    std::io::Read::read_to_string(&mut reader, &mut told).expect("utf-8");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
    let lines = schema::check("work", &told[held..]);
    assert_eq!(lines.iter().map(|line| line["outcome"].as_str()).collect::<Vec<_>>(), [Some("acked"); 2]);
}

#[test]
fn a_command_knows_nothing_of_another_message() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    let mut command = server.command(&work("env | grep -c 'outer message' || true", &["--drain"]));
    for name in ["SUBJECT", "TIME", "DATA_SCHEMA", "EXTENSION_TRACE"] {
        command.env(format!("MILLPOND_{name}"), "outer message");
    }
    let ran = Ran::of(crate::process::run(&mut command));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "0\n"), "{ran:?}");
}

#[test]
fn a_command_whose_lease_is_lost_is_ended() {
    let (_directory, server) = server(&["--set", "visibility_timeout=1s"]);
    server.run(&["send", "mail", "1"]).done();
    let exec = "echo $MILLPOND_MESSAGE_ID@$MILLPOND_LEASE_GENERATION; exec tail -f /dev/null";
    let mut worker = Worker::start(&server, &work(exec, &["--drain"]));
    let lease = worker.line();
    assert_eq!(server.run(&["ack", "mail", &lease]).done(), "acked 1 message\n");
    assert_eq!(worker.line(), "", "it was ended");
    let ran = worker.ended();
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr.contains("its lease was lost") && ran.stderr.contains("0 done, 0 failed, 1 lost"),
        "{ran:?}"
    );
}

#[test]
fn a_slow_command_keeps_its_message() {
    let (_directory, server) = server(&["--set", "visibility_timeout=1s", "--set", "max_deliveries=1"]);
    server.run(&["send", "mail", "1"]).done();
    // The server's own clock tells when it has run for three timeouts.
    let exec = "sleep 3; echo $MILLPOND_DELIVERY_COUNT";
    let ran = server.run(&work(exec, &["--drain"]));
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
}

#[test]
fn a_paused_queue_is_told_by_a_drain() {
    let (_directory, server) = server(&[]);
    server.run(&["send", "mail", "1"]).done();
    server.run(&["queue", "pause", "mail"]).done();
    let mut worker = Worker::start(&server, &work("cat", &["--drain"]));
    worker.told("mail is paused; `millpond queue resume mail` lets it deliver again");
    server.run(&["queue", "resume", "mail"]).done();
    let ran = worker.ended();
    assert_eq!(ran.code, Some(0), "{ran:?}");
}
