//! A full disk (B15): sends are refused with `storage_full`, what was taken is handed out and acked all the same, and
//! once that made room sends are taken again.
//!
//! The server gets a small file system of its own: a tmpfs in a mount namespace that nobody else sees and that ends with
//! it. Its files are reached through `/proc/PID/root`.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use millpond_blackbox::client::{CallError, Client, Counts, Lease, event};
use millpond_blackbox::server::{Launch, Server};
use serde_json::{Value, json};

const QUEUE: &str = "work";
/// What the server keeps free (64 MiB), its reserve (32 MiB), and 64 MiB for what is sent and for the log.
const FILE_SYSTEM_MIB: usize = 160;
const EVENT_BYTES: usize = 100_000;
const EVENTS_PER_CALL: usize = 10;
/// Free space is measured each second.
const PATIENCE_SECONDS: u64 = 10;

#[test]
fn sends_are_refused_while_the_disk_is_full_and_acks_make_room() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = on_small_file_system(directory.path());
    let mut client = server.client();
    client.create_queue(QUEUE, json!({"visibility_timeout": "3600s"})).expect("the queue is made");
    let sent = fill(&mut client);
    assert!(sent > 20, "only {sent} calls were taken");

    // The rest of the file system goes to someone else, to the last byte.
    let junk = seen_from_outside(&server, &directory.path().join("junk"));
    fill_up(&junk);
    refused(&mut client);
    let held = take(&mut client, 30);
    ack(&mut client, &held[..15]);
    let nacked = client.nack(QUEUE, &held[15..]).expect("a nack is taken");
    assert_eq!(nacked, []);
    refused(&mut client);

    // Emptied with the disk still full: that takes room in the log, and the reserve is there for it.
    let left = drain(&mut client);
    assert_eq!(left + 15, sent * EVENTS_PER_CALL, "nothing is lost");
    std::fs::remove_file(junk).expect("it is removed");
    for second in 0.. {
        match send(&mut client) {
            Ok(_) => break,
            Err(error) => assert_eq!(error.code(), "storage_full", "{error:?}"),
        }
        assert!(second < PATIENCE_SECONDS, "an empty queue takes no sends");
        // Answered after a second, the queue being empty.
        client.lease(QUEUE, 1, 1).expect("an answer");
    }
    assert_eq!(drain(&mut client), EVENTS_PER_CALL);
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    server.stop();
}

/// Room that acks make is room for sends, although a database does not give it back to the file system.
#[test]
fn what_acks_free_is_used_again_without_help_from_outside() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = on_small_file_system(directory.path());
    let mut client = server.client();
    client.create_queue(QUEUE, json!({"visibility_timeout": "3600s"})).expect("the queue is made");
    let first = fill(&mut client);
    assert_eq!(drain(&mut client), first * EVENTS_PER_CALL);
    for second in 0.. {
        if send(&mut client).is_ok() {
            break;
        }
        assert!(second < PATIENCE_SECONDS, "an empty queue takes no sends");
        client.lease(QUEUE, 1, 1).expect("an answer");
    }
    let again = fill(&mut client);
    assert!(again * 2 > first, "{first} calls were taken at first, {again} after that");
}

fn on_small_file_system(mount: &Path) -> Server {
    let user = Command::new("id").arg("-u").output().expect("id can be run");
    let script =
        format!("mount -t tmpfs -o size={FILE_SYSTEM_MIB}m none '{}' && exec \"$@\"", mount.display());
    let mut words = vec!["unshare", "--mount"];
    if user.stdout != b"0\n" {
        words.extend(["--user", "--map-root-user"]);
    }
    words.extend(["sh", "-c", &script, "sh"]);
    Launch::on_files(&mount.join("data")).run_by(&words).start()
}

fn seen_from_outside(server: &Server, path: &Path) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{}/root", server.id()));
    root.join(path.strip_prefix("/").expect("an absolute path"))
}

fn fill_up(path: &Path) {
    let mut file = File::create(path).expect("it can be made");
    for size in [1 << 20, 1 << 12] {
        let chunk = vec![0_u8; size];
        let error = loop {
            if let Err(error) = file.write_all(&chunk) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::StorageFull, "{error}");
    }
}

fn send(client: &mut Client) -> Result<Vec<String>, CallError> {
    let data = "x".repeat(EVENT_BYTES);
    let events: Vec<Value> = (0..EVENTS_PER_CALL).map(|number| event(&number.to_string(), &data)).collect();
    client.send(QUEUE, &events, None)
}

/// Sends until that is refused; returns how many calls were taken.
fn fill(client: &mut Client) -> usize {
    for calls in 0..FILE_SYSTEM_MIB {
        if let Err(error) = send(client) {
            assert_full(&error);
            return calls;
        }
    }
    panic!("more was taken than there is room for");
}

fn refused(client: &mut Client) {
    assert_full(&send(client).expect_err("there is no room"));
}

fn assert_full(error: &CallError) {
    let CallError::Refused { status: 507, code, text } = error else { panic!("{error:?}") };
    assert_eq!(code, "storage_full", "{text}");
    let problem: Value = serde_json::from_str(text).expect("JSON");
    assert_eq!((&problem["effect"], &problem["retryable"]), (&json!("none"), &json!(true)), "{text}");
}

fn take(client: &mut Client, count: usize) -> Vec<Lease> {
    let mut leases = Vec::new();
    while leases.len() < count {
        let max = (count - leases.len()).min(EVENTS_PER_CALL);
        let taken = client.lease(QUEUE, max as u64, 0).expect("a lease is granted");
        assert!(!taken.is_empty(), "there are messages");
        leases.extend(taken.into_iter().map(|delivery| delivery.lease));
    }
    leases
}

fn ack(client: &mut Client, leases: &[Lease]) {
    assert_eq!(client.ack(QUEUE, leases).expect("an ack is taken"), []);
}

/// Leases and acks all there is; returns how much that was.
fn drain(client: &mut Client) -> usize {
    let mut count = 0;
    loop {
        let taken = client.lease(QUEUE, EVENTS_PER_CALL as u64, 0).expect("a lease is granted");
        if taken.is_empty() {
            return count;
        }
        count += taken.len();
        let leases: Vec<Lease> = taken.into_iter().map(|delivery| delivery.lease).collect();
        ack(client, &leases);
    }
}
