//! The connection to the database is cut so that nobody hears of it (design-holes A7): a server that cannot know whether another
//! one has taken its place tells nothing from memory, while clients still reach it.

use millpond_blackbox::client::{Counts, event};
use millpond_blackbox::server::{Launch, Server};
use millpond_test_postgres::{Cluster, Loss, Relay};
use serde_json::json;

use super::takeover::tell_nothing;
use super::{LONG, QUEUE, World, number, send, take, until};

/// Where somebody stands: does the work there.
pub(super) type Place<'a> = &'a dyn Fn(&mut (dyn FnMut() + Send));

/// `near` and `far` are where the first and the second server are reached.
pub(super) fn take_over(
    first: &Server,
    launch: &Launch,
    near: Place<'_>,
    far: Place<'_>,
    cut: &dyn Fn(bool),
) {
    let mut client = first.client();
    let mut held = None;
    near(&mut || {
        client.create_queue(QUEUE, json!({})).expect("the queue is made");
        send(&mut client, "held");
        held = Some(take(&mut client, LONG).lease);
        send(&mut client, "ready");
    });
    let held = held.expect("it is taken");
    cut(true);
    // It waits until the first one's row is old.
    let second = launch.start();
    let mut other = second.client();
    let mut sent = Vec::new();
    far(&mut || {
        assert!(other.ack(QUEUE, std::slice::from_ref(&held)).expect("an answer").is_empty());
        let ready = take(&mut other, LONG);
        assert!(other.ack(QUEUE, &[ready.lease]).expect("an answer").is_empty());
        sent = other.send(QUEUE, &[event("new", "new")], None).expect("it is sent");
    });
    let left = Counts { ready: 1, ..Counts::default() };
    near(&mut || assert_eq!(tell_nothing(&mut client, &held), 7));
    cut(false);
    // Nor when it sees the database again, for as long as the other one is there.
    near(&mut || assert_eq!(tell_nothing(&mut client, &held), 7));
    far(&mut || assert_eq!(other.counts(QUEUE).expect("counts"), left));
    second.stop();
    near(&mut || {
        until(&left, || client.counts(QUEUE));
        let leases = std::slice::from_ref(&held);
        assert_eq!(client.ack(QUEUE, leases).expect("an answer"), leases);
        assert_eq!([take(&mut client, LONG).lease.message_id], *sent);
    });
}

/// A connection that is dead without anybody's saying so, as where something between forgot it: new ones would work.
#[test]
fn a_connection_that_died_silently_does_not_cost_the_place() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let relay = Relay::to(cluster.port()).expect("a port is free");
    let world = World::through(cluster, &relay);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    send(&mut client, "held");
    let held = take(&mut client, LONG);
    let mut session = world.session();
    let seen = "select (extract(epoch from max(seen_at)) * 1000)::bigint from millpond.server";
    relay.vanish(true);
    // Long enough for the renewal of each second to be among what is lost.
    let is_late =
        "select count(*) from millpond.server where clock_timestamp() - seen_at > interval '1500 ms'";
    while number(&mut session, is_late) == 0 {}
    relay.vanish(false);
    let last = number(&mut session, seen);
    while number(&mut session, seen) == last {}
    let gap = number(&mut session, seen) - last;
    println!("the place is renewed after {gap} ms; connections that died: {}", relay.vanished());
    until(&Counts { leased: 1, ..Counts::default() }, || client.counts(QUEUE));
    assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty());
    // Nobody waits for thirty seconds, as for the answer of a statement that may take its time.
    assert!(gap < 20_000, "{gap} ms");
}

/// The commit is done, and its answer lost: asked again, the database tells.
#[test]
fn a_send_whose_commit_was_not_answered_is_answered_all_the_same() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let relay = Relay::to(cluster.port()).expect("a port is free");
    let world = World::through(cluster, &relay);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    for round in 1..=10 {
        relay.lose(Loss::NextCommitted);
        let tag = round.to_string();
        let sent = client.send(QUEUE, &[event(&tag, &tag)], None);
        assert_eq!(relay.lost(), round, "an answer was lost");
        assert_eq!(sent.expect("it is answered").len(), 1);
        assert_eq!(client.counts(QUEUE).expect("counts").ready, round);
    }
    let came = client.lease(QUEUE, 100, 0).expect("an answer");
    let tags: Vec<_> =
        came.iter().map(|delivery| delivery.event["data"].as_str().expect("the tag")).collect();
    assert_eq!(tags, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
}
