//! Leases are fenced over the real binary and real files: who holds one that is over can neither ack, nack nor extend,
//! whatever happened to the server in between.
//!
//! Time passes by the server's own clock: a message that becomes visible again, or one sent with a delay, is waited for.

use std::path::Path;
use std::process::Command;

use millpond_blackbox::client::{Client, Counts, Delivery, Lease, event};
use millpond_blackbox::server::{Launch, Server};
use serde_json::json;

const QUEUE: &str = "work";
/// Longer than any test.
const LONG: u64 = 3_600;
const LEASED: Counts = Counts { ready: 0, leased: 1, delayed: 0, dead: 0 };

/// What may happen to a server while a lease is held.
type Between = fn(&Launch, Server) -> Server;

const NOTHING: Between = |_, server| server;
const RESTART: Between = |launch, server| {
    server.stop();
    launch.start()
};
const KILL: Between = |launch, server| {
    server.kill();
    launch.start()
};

#[test]
fn a_lease_that_ran_out_is_stale_before_anyone_else_has_the_message() {
    for between in [NOTHING, RESTART, KILL] {
        let (_directory, launch, server) = with_a_message();
        let first = take(&mut server.client(), 1);
        let server = between(&launch, server);
        let mut client = server.client();
        client.pass(1);
        assert_stale(&mut client, &first.lease);
        let again = take(&mut client, LONG);
        assert_eq!(again.delivery_count, 2);
        assert_good(&mut client, &again.lease);
    }
}

#[test]
fn a_lease_is_stale_once_another_one_has_begun() {
    for between in [NOTHING, RESTART, KILL] {
        let (_directory, launch, server) = with_a_message();
        let first = take(&mut server.client(), 1);
        let server = between(&launch, server);
        let mut client = server.client();
        // Answered as soon as the first lease is over.
        let second = client.lease_one(QUEUE, LONG, 10).expect("it comes back");
        assert!(second.lease.generation > first.lease.generation);
        assert_stale(&mut client, &first.lease);
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED, "a stale nack gives nothing back");
        let server = between(&launch, server);
        let mut client = server.client();
        assert_stale(&mut client, &first.lease);
        assert_good(&mut client, &second.lease);
        assert_stale(&mut client, &second.lease);
    }
}

#[test]
fn a_nacked_lease_is_stale_and_the_next_one_is_another() {
    let (_directory, _, server) = with_a_message();
    let mut client = server.client();
    let first = take(&mut client, LONG);
    assert!(client.nack(QUEUE, std::slice::from_ref(&first.lease)).expect("an answer").is_empty());
    assert_stale(&mut client, &first.lease);
    let second = take(&mut client, LONG);
    assert!(second.lease.generation > first.lease.generation);
    assert_stale(&mut client, &first.lease);
    assert_good(&mut client, &second.lease);
}

#[test]
fn a_restart_keeps_leases() {
    for between in [RESTART, KILL] {
        let (_directory, launch, server) = with_a_message();
        let held = take(&mut server.client(), LONG);
        let server = between(&launch, server);
        let mut client = server.client();
        assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "it is held");
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
        assert!(client.extend(QUEUE, std::slice::from_ref(&held.lease), LONG).expect("ok").is_empty());
        assert_good(&mut client, &held.lease);
        assert_eq!(server.stop().log, "", "a restart is nothing to speak of");
    }
}

#[test]
fn a_moved_directory_keeps_leases_if_it_is_said_to_be_the_same() {
    for assumed in [true, false] {
        let (directory, launch, server) = with_a_message_on(Launch::on_files);
        let held = take(&mut server.client(), LONG);
        server.stop();
        let moved = directory.path().join("moved");
        copy(&directory.path().join("data"), &moved);
        drop(launch);
        let launch = Launch::on_files(&moved);
        let first = if assumed { launch.clone().argument("--assume-restart") } else { launch.clone() };
        let server = first.start();
        let mut client = server.client();
        // Leases of a copy end in the first step after the start.
        let wait = if assumed { 0 } else { 5 };
        assert_eq!(client.lease_one(QUEUE, LONG, wait).is_none(), assumed);
        let server = RESTART(&launch, server);
        let mut client = server.client();
        assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "from then on it is a restart");
        if assumed {
            assert_good(&mut client, &held.lease);
        } else {
            assert_stale(&mut client, &held.lease);
        }
    }
}

/// A server with one message in one queue.
fn with_a_message() -> (tempfile::TempDir, Launch, Server) {
    with_a_message_on(Launch::of)
}

/// The same, launched in this way on the directory `data`.
fn with_a_message_on(launch: fn(&Path) -> Launch) -> (tempfile::TempDir, Launch, Server) {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let launch = launch(&directory.path().join("data"));
    let server = launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    client.send(QUEUE, &[event("1", "one")], None).expect("it is sent");
    (directory, launch, server)
}

fn take(client: &mut Client, lease_seconds: u64) -> Delivery {
    client.lease_one(QUEUE, lease_seconds, 0).expect("a message is ready")
}

fn assert_stale(client: &mut Client, lease: &Lease) {
    let leases = std::slice::from_ref(lease);
    assert_eq!(client.nack(QUEUE, leases).expect("an answer"), leases, "nack");
    assert_eq!(client.extend(QUEUE, leases, LONG).expect("an answer"), leases, "extend");
    assert_eq!(client.ack(QUEUE, leases).expect("an answer"), leases, "ack");
}

/// Acks it, which leaves the queue empty.
fn assert_good(client: &mut Client, lease: &Lease) {
    assert_eq!(client.ack(QUEUE, std::slice::from_ref(lease)).expect("an answer"), []);
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}

/// As `cp -a` does it.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("cp can be run");
    assert!(status.success());
}
