//! A server that was stopped while another took its place tells nothing from memory (design-holes A7).

use std::thread::JoinHandle;

use millpond_blackbox::client::{CallError, Client, Counts, Lease, event};
use millpond_blackbox::http::{Connection, Request};
use millpond_blackbox::server::Server;
use rustix::process::Signal;
use serde_json::json;

use super::{LONG, QUEUE, World, send, take};

#[test]
fn a_server_that_was_stopped_tells_nothing_of_what_another_has_changed() {
    let (world, first) = World::with_queue();
    let mut client = first.client();
    send(&mut client, "held");
    send(&mut client, "ready");
    let held = take(&mut client, LONG);
    // A lease call that waits in the first server, and one that it will find when it goes on.
    client.create_queue("empty", json!({})).expect("the queue is made");
    let waiting = wait_on(&first, "empty");
    first.signal(Signal::STOP);
    let mut unread = Connection::open(first.address()).expect("the kernel answers");
    unread.send(&Request { body: b"{\"max_messages\": 10}", ..lease_call() }).expect("it is written");

    // It waits until the first one's row is old.
    let second = world.launch.start();
    let mut other = second.client();
    assert!(other.ack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer").is_empty());
    let ready = take(&mut other, LONG);
    assert_eq!(ready.event["data"], "ready");
    assert!(other.ack(QUEUE, &[ready.lease]).expect("an answer").is_empty());
    let sent = other.send(QUEUE, &[event("new", "new")], None).expect("it is sent");

    first.signal(Signal::CONT);
    assert_refused(&unread.receive().map(|response| response.status));
    assert_refused(&waiting.join().expect("it ends"));
    let ways = tell_nothing(&mut client, &held.lease);
    assert_eq!(ways, 7);
    // It stays so for as long as the other one is there.
    assert_eq!(tell_nothing(&mut client, &held.lease), ways);
    assert_eq!(other.counts(QUEUE).expect("counts"), Counts { ready: 1, ..Counts::default() });

    // With the place it has what the other one left, and nothing of what it remembered.
    second.stop();
    let counts = loop {
        match client.counts(QUEUE) {
            Ok(counts) => break counts,
            Err(CallError::Refused { status: 503, .. }) => {}
            Err(error) => panic!("{error:?}"),
        }
    };
    assert_eq!(counts, Counts { ready: 1, ..Counts::default() });
    assert_eq!(client.ack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer"), [held.lease]);
    let new = take(&mut client, LONG);
    assert_eq!([new.lease.message_id], *sent);
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts { leased: 1, ..Counts::default() });
}

/// A lease call that waits; the status that it gets.
fn wait_on(server: &Server, queue: &str) -> JoinHandle<std::io::Result<u16>> {
    let mut connection = Connection::open(server.address()).expect("it listens");
    let target = format!("/v1/queues/{queue}:lease");
    let call = Request { target: &target, body: b"{\"wait\": \"20s\"}", ..lease_call() };
    connection.send(&call).expect("it is written");
    server.wait_until_read(&connection);
    std::thread::spawn(move || connection.receive().map(|response| response.status))
}

fn lease_call() -> Request<'static> {
    let headers = &[("content-type", "application/json")];
    Request { method: "POST", target: "/v1/queues/work:lease", headers, body: &[] }
}

fn assert_refused(status: &std::io::Result<u16>) {
    assert!(matches!(status, Ok(503) | Err(_)), "it told something: {status:?}");
}

/// Every kind of call, none of which may be answered; how many there are.
pub(super) fn tell_nothing(client: &mut Client, held: &Lease) -> usize {
    let leases = std::slice::from_ref(held);
    let target = format!("/v1/queues/{QUEUE}/messages/{}", held.message_id);
    let all = [
        client.counts(QUEUE).map(drop),
        client.lease(QUEUE, 10, 0).map(drop),
        client.ack(QUEUE, leases).map(drop),
        client.nack(QUEUE, leases).map(drop),
        client.extend(QUEUE, leases, LONG).map(drop),
        client.call("GET", &target, &[], None).map(drop),
        client.send(QUEUE, &[event("late", "late")], None).map(drop),
    ];
    for (number, told) in all.iter().enumerate() {
        let is_refused = matches!(told, Err(CallError::Refused { status: 503, .. }));
        assert!(is_refused, "call {number} was answered: {told:?}");
    }
    all.len()
}
