//! A backup taken under full load ends, opens, and holds everything that was answered before it began (B15); what is leased after a
//! restore is above what a lost future may have given (A2).

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use millpond_blackbox::binary;
use millpond_blackbox::client::{Client, event};
use millpond_blackbox::server::Launch;
use serde_json::{Value, json};

const QUEUE: &str = "work";
const LONG: u64 = 3_600;
const SENDERS: u64 = 8;
/// Messages that are there before the backup begins, some 40 MB.
const BEFORE: u64 = 10_000;
const BATCH: u64 = 100;
/// Messages of each sender at most, so that a backup that does not end fills no disk.
const MOST: u64 = 20_000;

/// Runs a command that has to succeed, and reads what it prints.
fn millpond(arguments: &[&str]) -> Value {
    let output = Command::new(binary::millpond()).args(arguments).arg("--json").output().expect("it runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn text(path: &Path) -> &str {
    path.to_str().expect("utf-8")
}

/// Sends batches until it is told to stop, or so many.
fn send(mut client: Client, from: u64, most: u64, over: &AtomicBool, sent: &AtomicU64) {
    let filler = "x".repeat(4_000);
    let mut next = from;
    while next < from + most && !over.load(Ordering::Acquire) {
        let events: Vec<Value> = (next..next + BATCH).map(|id| event(&id.to_string(), &filler)).collect();
        client.send(QUEUE, &events, None).expect("it is sent");
        next += BATCH;
        sent.fetch_add(BATCH, Ordering::AcqRel);
    }
}

/// Takes all that is there and returns the ids of the events.
fn drain(client: &mut Client) -> Vec<u64> {
    let mut ids = Vec::new();
    loop {
        let taken = client.lease(QUEUE, 100, 0).expect("an answer");
        if taken.is_empty() {
            return ids;
        }
        ids.extend(
            taken
                .iter()
                .map(|delivery| delivery.event["id"].as_str().expect("an id").parse::<u64>().expect("ours")),
        );
        let leases: Vec<_> = taken.into_iter().map(|delivery| delivery.lease).collect();
        assert_eq!(client.ack(QUEUE, &leases).expect("an answer"), []);
    }
}

#[test]
fn a_backup_under_full_load_ends_and_holds_what_was_answered_before() {
    let directory = tempfile::tempdir().expect("a directory");
    let (data, other) = (directory.path().join("data"), directory.path().join("other"));
    let server = Launch::of(&data).start();
    server.client().create_queue(QUEUE, json!({})).expect("it is made");
    let (over, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    send(server.client(), 0, BEFORE, &over, &sent);
    assert_eq!(sent.swap(0, Ordering::AcqRel), BEFORE);
    let (over, sent) = (Arc::new(over), Arc::new(sent));
    let senders: Vec<_> = (1..=SENDERS)
        .map(|sender| {
            let (client, over, sent) = (server.client(), Arc::clone(&over), Arc::clone(&sent));
            std::thread::spawn(move || send(client, sender << 32, MOST, &over, &sent))
        })
        .collect();
    // Full load: every sender has been answered.
    while sent.load(Ordering::Acquire) < 2 * SENDERS * BATCH {
        std::thread::yield_now();
    }
    let url = format!("http://{}", server.address());
    let made = millpond(&["backup", "--server", &url]);
    let meanwhile = sent.load(Ordering::Acquire);
    over.store(true, Ordering::Release);
    senders.into_iter().for_each(|sender| sender.join().expect("it sends"));
    let load = 2 * SENDERS * BATCH..SENDERS * MOST;
    assert!(load.contains(&meanwhile), "{meanwhile}: it was made under load");
    server.stop();

    let backup = made["directory"].as_str().expect("a path");
    millpond(&["restore", "--from", backup, "--data-dir", text(&other)]);
    let server = Launch::of(&other).start();
    let mut client = server.client();
    let ids = drain(&mut client);
    let stated: u64 =
        made["environments"][0]["delivery_count"].as_str().expect("a count").parse().expect("a number");
    assert_eq!(ids.len() as u64, stated, "it holds what it says");
    let before = ids.iter().filter(|id| **id < BEFORE).count() as u64;
    assert_eq!(before, BEFORE, "all that was answered before it began");
}

#[test]
fn a_lease_after_a_restore_is_above_the_time_that_is_told() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let server = Launch::of(&data).start();
    server.client().create_queue(QUEUE, json!({"visibility_timeout": "30s"})).expect("it is made");
    server.client().send(QUEUE, &[event("1", "a")], None).expect("it is sent");
    let url = format!("http://{}", server.address());
    let made = millpond(&["backup", "--server", &url]);
    let lost = server.client().lease_one(QUEUE, LONG, 5).expect("a message is ready");
    server.stop();

    // A clock that stood a day ahead may have given anything up to then.
    let ahead = SystemTime::now() + Duration::from_secs(86_400);
    let seconds = ahead.duration_since(UNIX_EPOCH).expect("it is later").as_secs();
    let after = date(seconds);
    let backup = made["directory"].as_str().expect("a path");
    millpond(&["restore", "--from", backup, "--data-dir", text(&data), "--after", &after, "--yes"]);
    let server = Launch::of(&data).start();
    let mut client = server.client();
    let next = client.lease_one(QUEUE, LONG, 5).expect("the message is ready again");
    // Eighths of a second since 2020, times 2^20 (decision 0007).
    let floor = ((seconds - 1_577_836_800) * 8) << 20;
    assert!(next.lease.generation > floor, "{next:?} is not above {floor}");
    assert!(next.lease.generation > lost.lease.generation);
    assert_eq!(next.delivery_count, 1, "the lost future counts for nothing");
    let stale = client.ack(QUEUE, std::slice::from_ref(&lost.lease)).expect("an answer");
    assert_eq!(stale, [lost.lease]);
    assert_eq!(client.ack(QUEUE, &[next.lease]).expect("an answer"), []);
}

/// A time as `--after` takes it, by the system's `date`.
fn date(seconds: u64) -> String {
    let output =
        Command::new("date").args(["-u", "-d", &format!("@{seconds}"), "+%Y-%m-%dT%H:%M:%SZ"]).output();
    let output = output.expect("date can be run");
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}
