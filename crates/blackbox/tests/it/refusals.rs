//! What `serve` refuses: one line on stderr that says why, nothing on stdout, exit code 1, or 2 where it was asked for in
//! a wrong way; and that a stop answers who waits.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use millpond_blackbox::binary;
use millpond_blackbox::client::{deliveries, event};
use millpond_blackbox::http::{Connection, Request};
use millpond_blackbox::server::Launch;
use serde_json::json;

const FAILED: i32 = 1;
const WRONG_USAGE: i32 = 2;
const POLLS: usize = 50;
/// A long poll may wait for 20 s; one that is answered by the stop does not.
const STOP_MAX: Duration = Duration::from_secs(5);
/// No user's files belong to it.
const NOBODY: &str = "65534";

/// The server ends with this code and one line that holds each of `words`.
fn assert_refused(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    assert_eq!(output.stdout, b"", "{text}");
    assert_eq!(text.lines().count(), 1, "one line: {text}");
    assert!(text.starts_with("millpond: "), "{text}");
    for word in words {
        assert!(text.contains(word), "{word:?} is in {text}");
    }
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory can be made")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

#[test]
fn a_second_server_on_the_same_directory() {
    let directory = directory();
    let launch = Launch::on_files(directory.path());
    let first = launch.start();
    assert_refused(&launch.run(), FAILED, &["another process serves", text(directory.path())]);
    first.client().create_queue("work", json!({})).expect("the first goes on");
    first.stop();
    launch.start().stop();
}

#[test]
fn a_directory_of_someone_else() {
    let directory = directory();
    fs::write(directory.path().join("thesis.doc"), "chapter one").expect("it is written");
    let output = Launch::on_files(directory.path()).run();
    assert_refused(&output, FAILED, &["thesis.doc", text(directory.path())]);
    let left: Vec<_> = fs::read_dir(directory.path()).expect("it can be read").collect();
    assert_eq!(left.len(), 1, "nothing was made in it");
    assert_eq!(fs::read(directory.path().join("thesis.doc")).expect("it is there"), b"chapter one");
}

#[test]
fn a_directory_of_a_later_version() {
    let directory = directory();
    fs::write(directory.path().join("format"), "millpond data directory, sqlite, layout 999\n").expect("ok");
    assert_refused(
        &Launch::on_files(directory.path()).run(),
        FAILED,
        &["layout 999", text(directory.path())],
    );
}

#[test]
fn a_file_in_the_place_of_the_directory() {
    let directory = directory();
    let file = directory.path().join("data");
    fs::write(&file, "mine").expect("it is written");
    assert_refused(&Launch::on_files(&file).run(), FAILED, &[text(&file)]);
    assert_refused(&Launch::on_files(&file.join("below")).run(), FAILED, &[text(&file)]);
    assert_eq!(fs::read(&file).expect("it is there"), b"mine");
}

/// Root may write anywhere, so the server runs as nobody, from a place where nobody may read it.
#[test]
fn a_directory_that_it_may_not_write() {
    let directory = directory();
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ok");
    mode(directory.path(), 0o755);
    let program = directory.path().join("millpond");
    fs::copy(binary::millpond(), &program).expect("it is copied");
    mode(&program, 0o755);
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).expect("it is made");
    mode(&closed, 0o555);
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n");
    for data_dir in [closed.clone(), closed.join("data")] {
        let mut launch = Launch::on_files(&data_dir).program(program.clone());
        if is_root {
            launch = launch.run_by(&["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        }
        assert_refused(&launch.run(), FAILED, &[text(&data_dir), "ermission denied"]);
    }
    mode(&closed, 0o755);
}

#[test]
fn a_port_that_is_taken() {
    let directory = directory();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = taken.local_addr().expect("an address").to_string();
    let launch = Launch::of(directory.path());
    assert_refused(&launch.clone().listen(&address).run(), FAILED, &[&address, "in use"]);
    launch.start().stop();
}

#[test]
fn an_address_that_others_can_reach() {
    let directory = directory();
    for address in ["0.0.0.0:0", "[::]:0"] {
        let output = Launch::of(directory.path()).listen(address).run();
        assert_refused(&output, WRONG_USAGE, &[address, "others can reach"]);
    }
    assert_refused(&Launch::of(directory.path()).listen("nonsense").run(), WRONG_USAGE, &["nonsense"]);
    assert_eq!(fs::read_dir(directory.path()).expect("it can be read").count(), 0, "nothing was made");
}

#[test]
fn an_option_that_does_not_exist() {
    let directory = directory();
    let output = Launch::of(directory.path()).argument("--no-such-option").run();
    assert_eq!(output.status.code(), Some(WRONG_USAGE));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--no-such-option"));
}

#[test]
fn a_stop_answers_waiting_long_polls_and_exits() {
    let directory = directory();
    let launch = Launch::of(directory.path());
    let mut server = launch.start();
    let mut client = server.client();
    client.create_queue("work", json!({})).expect("the queue is made");
    let mut polls: Vec<Connection> = (0..POLLS)
        .map(|_| {
            let mut poll = Connection::open(server.address()).expect("it connects");
            let headers = [("content-type", "application/json")];
            let body = br#"{"wait": "20s"}"#;
            let request =
                Request { method: "POST", target: "/v1/queues/work:lease", headers: &headers, body };
            poll.send(&request).expect("it is sent");
            server.wait_until_read(&poll);
            poll
        })
        .collect();
    let begun = Instant::now();
    server.signal_stop();
    for poll in &mut polls {
        let response = poll.receive().expect("it is answered");
        let body = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!((response.status, deliveries(&body).len()), (200, 0));
    }
    let ended = server.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.log);
    assert!(begun.elapsed() < STOP_MAX, "it took {:?}", begun.elapsed());
    let server = launch.start();
    let mut client = server.client();
    client.send("work", &[event("1", "one")], None).expect("it is sent");
    assert_eq!(client.lease_one("work", 60, 0).expect("a message").delivery_count, 1);
}
