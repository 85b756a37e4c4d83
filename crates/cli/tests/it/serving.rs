//! A server that runs: what it keeps, and how it stops.

use std::fs::File;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::{Server, answer, millpond};

/// Far below the longest wait of a long poll, 20 s.
const SOON: Duration = Duration::from_secs(10);

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn send(server: &Server, id: &str) -> Value {
    let event = json!({ "id": id, "source": "/s", "type": "t" });
    let (status, sent) = server.post("/v1/queues/q:send", &json!({ "events": [event] }));
    assert_eq!(status, 200, "{sent}");
    sent["message_ids"][0].clone()
}

#[test]
fn what_was_answered_is_there_after_a_kill() {
    let directory = directory();
    let server = Server::start(directory.path());
    assert_eq!(server.post("/v1/queues?queue_id=q", &json!({})).0, 200);
    let sent = send(&server, "1");
    server.signal(libc::SIGKILL);
    assert!(!server.ended().0.success());

    let server = Server::start(directory.path());
    let (_, leased) = server.post("/v1/queues/q:lease", &json!({}));
    assert_eq!(leased["messages"][0]["message_id"], sent);
}

#[test]
fn both_signals_stop_it_and_end_long_polls() {
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let directory = directory();
        let server = Server::start(directory.path());
        assert_eq!(server.post("/v1/queues?queue_id=q", &json!({})).0, 200);
        send(&server, "1");
        // One message is there and two are wanted: somebody waits as soon as it counts as being handed out.
        let call = json!({ "max_messages": 2, "min_messages": 2, "wait": "20s" });
        let waiting = server.begin_post("/v1/queues/q:lease", &call);
        let reason = || server.get("/v1/queues/q:why").1["why"]["reason"].clone();
        let begun = Instant::now();
        while reason() != "delivering" {
            assert!(begun.elapsed() < SOON);
        }
        let begun = Instant::now();
        server.signal(signal);
        assert_eq!(answer(waiting), (200, json!({ "messages": [] })));
        let (status, stderr) = server.ended();
        assert_eq!((status.code(), stderr.as_str()), (Some(0), ""));
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    }
}

#[test]
fn after_a_stop_leases_and_messages_are_as_they_were() {
    let directory = directory();
    let server = Server::start(directory.path());
    assert_eq!(server.post("/v1/queues?queue_id=q", &json!({})).0, 200);
    send(&server, "1");
    send(&server, "2");
    let (_, held) = server.post("/v1/queues/q:lease", &json!({}));
    server.signal(libc::SIGTERM);
    assert!(server.ended().0.success());

    let server = Server::start(directory.path());
    let (_, queue) = server.get("/v1/queues/q");
    assert_eq!(
        (&queue["status"]["ready_count"], &queue["status"]["leased_count"]),
        (&json!("1"), &json!("1"))
    );
    let leases = json!({ "leases": [held["messages"][0]["lease"]] });
    assert_eq!(server.post("/v1/queues/q:ack", &leases), (200, json!({ "stale_leases": [] })));
}

#[test]
fn settings_come_from_the_environment_too() {
    let directory = directory();
    let mut command = millpond();
    command
        .arg("serve")
        .env("MILLPOND_LISTEN", "localhost:0")
        .env("MILLPOND_DATA_DIR", directory.path().join("deep/data"))
        .env("MILLPOND_DEFAULT_ENVIRONMENT", "orgs/acme/projects/shop/envs/prod");
    let server = Server::start_by(&mut command);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.address);
    let (_, made) = server.post("/v1/queues?queue_id=q", &json!({}));
    assert_eq!(made["name"], "orgs/acme/projects/shop/envs/prod/queues/q");
    assert!(directory.path().join("deep/data/format").exists());
}

/// A device on which every write fails.
fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("it is there").into()
}

#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let closed_pipe = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    for stderr in [full(), closed_pipe()] {
        let directory = directory();
        let mut command = millpond();
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "trace", "--data-dir"])
            .arg(directory.path());
        let server = Server::start_with_stderr(&mut command, stderr);
        assert_eq!(server.post("/v1/queues?queue_id=q", &json!({})).0, 200);
        let sent = send(&server, "1");
        let (_, leased) = server.post("/v1/queues/q:lease", &json!({}));
        assert_eq!(leased["messages"][0]["message_id"], sent);
        server.signal(libc::SIGTERM);
        assert_eq!(server.ended().0.code(), Some(0));
    }
}

#[test]
fn what_cannot_be_said_is_in_the_exit_code() {
    let directory = directory();
    let serve = || {
        let mut command = millpond();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
        command
    };
    let output = serve().stdin(Stdio::null()).stdout(full()).stderr(Stdio::piped()).spawn();
    let output = output.expect("the binary runs").wait_with_output().expect("it ends");
    let stderr = String::from_utf8(output.stderr).expect("utf-8");
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("cannot write to stdout") && stderr.lines().count() == 1, "{stderr}");

    let status =
        serve().stdin(Stdio::null()).stdout(full()).stderr(full()).status().expect("the binary runs");
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_signal_counts_from_before_the_data_is_touched() {
    let directory = directory();
    let data = directory.path().join("data");
    let mut command = millpond();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the binary runs");
    let id = i32::try_from(child.id()).expect("a process id");
    let begun = Instant::now();
    loop {
        // In this order: data that is there means handlers that were there before.
        let has_data = data.exists();
        if catches(id, libc::SIGTERM) {
            break;
        }
        assert!(!has_data && begun.elapsed() < SOON);
    }
    // Safety: the process is ours, has not been waited for, and so has its id still.
    #[allow(unsafe_code)]
    let sent = unsafe { libc::kill(id, libc::SIGTERM) };
    assert_eq!(sent, 0, "it can be signalled");
    assert_eq!(child.wait().expect("it ends").code(), Some(0));
}

/// Whether the process has a handler for the signal.
fn catches(id: i32, signal: i32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).expect("a mask");
    u64::from_str_radix(mask.trim(), 16).expect("hex") & (1 << (signal - 1)) != 0
}

#[test]
fn the_log_is_text_or_json_and_as_loud_as_asked() {
    for (arguments, variables, lines) in [
        (&[][..], &[][..], 0),
        (&[], &[("RUST_LOG", "info")], 1),
        (&["--log", "warn"], &[("RUST_LOG", "info")], 0),
        (&["--log", "info"], &[], 1),
        (&[], &[("MILLPOND_LOG", "info"), ("RUST_LOG", "warn")], 1),
    ] {
        for format in ["text", "json"] {
            let directory = directory();
            let mut command = millpond();
            command.args(["serve", "--listen", "127.0.0.1:0", "--log-format", format]).args(arguments);
            command.arg("--data-dir").arg(directory.path()).envs(variables.iter().copied());
            let server = Server::start_by(&mut command);
            assert_eq!(server.get("/healthz").0, 200);
            server.signal(libc::SIGTERM);
            let (_, stderr) = server.ended();
            let answered: Vec<_> = stderr.lines().filter(|line| line.contains("answered")).collect();
            assert_eq!(answered.len(), lines, "{arguments:?} {variables:?}: {stderr}");
            for line in answered {
                let parsed = serde_json::from_str::<Value>(line);
                assert_eq!(parsed.is_ok(), format == "json", "{line}");
                assert!(line.contains("healthz") && line.contains("req_"), "{line}");
            }
        }
    }
}

#[test]
fn connections_fit_into_the_descriptors_there_may_be() {
    let directory = directory();
    let mut command = std::process::Command::new("sh");
    let serve =
        "ulimit -n 256; exec \"$0\" serve --listen 127.0.0.1:0 --max-connections 300 --data-dir \"$1\"";
    command.args(["-c", serve]).arg(millpond().get_program()).arg(directory.path());
    let server = Server::start_by(&mut command);
    assert_eq!(server.metric("process_max_fds"), 256.0);
    assert_eq!(server.metric("millpond_http_connections_max"), 128.0);
    server.signal(libc::SIGTERM);
    let (status, stderr) = server.ended();
    assert_eq!(status.code(), Some(0));
    assert!(stderr.contains("fewer connections than set") && stderr.contains("descriptors=256"), "{stderr}");
}

#[test]
fn a_low_limit_on_descriptors_is_raised_as_far_as_it_may_be() {
    let directory = directory();
    let mut command = std::process::Command::new("sh");
    let serve = "ulimit -S -n 256; exec \"$0\" serve --listen 127.0.0.1:0 --data-dir \"$1\"";
    command.args(["-c", serve]).arg(millpond().get_program()).arg(directory.path());
    let server = Server::start_by(&mut command);
    assert!(server.metric("process_max_fds") > 256.0);
    assert!(server.metric("process_open_fds") > 3.0);
}

#[test]
fn the_runtime_cache_is_there_if_it_is_asked_for() {
    let directory = directory();
    let serve = || {
        let mut command = millpond();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory.path());
        command
    };
    let keep = |server: &Server| server.post("/v1/cache/k", &json!({ "n": 1 })).0;
    assert_eq!(keep(&Server::start(directory.path())), 404);
    for command in
        [serve().args(["--runtime-cache", "8388608"]), serve().env("MILLPOND_RUNTIME_CACHE", "8388608")]
    {
        let server = Server::start_by(command);
        assert_eq!(server.get("/v1/cache/k").0, 404, "nothing of it outlives a server");
        assert_eq!(keep(&server), 200);
        assert_eq!(server.get("/v1/cache/k"), (200, json!({ "n": 1 })));
    }
}
