//! The connection to the database is cut so that nobody hears of it (design-holes A7): a server that cannot know whether another
//! one has taken its place tells nothing from memory, while clients still reach it.

use std::sync::Arc;

use millpond_blackbox::client::{CallError, Client, Counts, event};
use millpond_blackbox::server::{Launch, Server};
use millpond_test_postgres::{Apart, Cluster, Loss, Relay};
use serde_json::json;

use super::takeover::tell_nothing;
use super::{LONG, QUEUE, SCHEMA, World, number, send, take, until};

#[test]
fn a_server_whose_packets_vanish_tells_nothing_of_what_another_has_changed() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let relay = Relay::to(cluster.port()).expect("a port is free");
    let world = World::through(cluster, &relay);
    let first = world.launch.start();
    let near = |work: &mut (dyn FnMut() + Send)| work();
    let launch = Launch::on_database(&world.cluster.url("postgres"), SCHEMA);
    take_over(&first, &launch, &near, &near, &|is_cut| relay.vanish(is_cut));
}

/// A cable that is pulled: the kernel itself does not know.
#[test]
fn a_server_in_a_network_that_is_cut_tells_nothing_of_what_another_has_changed() {
    let [servers, databases] = [(); 2].map(|()| Apart::with_network().expect("this is root").into());
    let (servers, databases): (Arc<Apart>, Arc<Apart>) = (servers, databases);
    servers.join("10.77.0.1", &databases, "10.77.0.2").expect("the kernel has cables");
    let cluster = databases.within(|| Cluster::start_within(Arc::clone(&databases), &[]));
    let cluster = cluster.expect("it is there").expect("PostgreSQL is installed");
    let far = format!("postgres://postgres@10.77.0.2:{}/postgres", cluster.port());
    let first = Launch::on_database(&far, SCHEMA).run_by(&servers.words()).start();
    let launch = Launch::on_database(&cluster.url("postgres"), SCHEMA).run_by(&databases.words());
    let near = |work: &mut (dyn FnMut() + Send)| servers.within(work).expect("it is there");
    let other = |work: &mut (dyn FnMut() + Send)| databases.within(work).expect("it is there");
    take_over(&first, &launch, &near, &other, &|is_cut| databases.pull(is_cut).expect("there is a cable"));
}

type Place<'a> = &'a dyn Fn(&mut (dyn FnMut() + Send));

/// `near` and `far` are where the first and the second server are reached.
fn take_over(first: &Server, launch: &Launch, near: Place<'_>, far: Place<'_>, cut: &dyn Fn(bool)) {
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
        assert_eq!(client.ack(QUEUE, std::slice::from_ref(&held)).expect("an answer"), [held.clone()]);
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
    // The one that listens, and the one that renews the place; those that are free are not used.
    while relay.vanished() < 2 {}
    relay.vanish(false);
    let last = number(&mut session, seen);
    while number(&mut session, seen) == last {}
    let gap = number(&mut session, seen) - last;
    println!("the place is renewed again after {gap} ms");
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
    assert_none_twice(&mut client);
}

fn assert_none_twice(client: &mut Client) {
    let came = match client.lease(QUEUE, 100, 0) {
        Ok(came) => came,
        Err(error @ (CallError::Unanswered(_) | CallError::Refused { .. })) => panic!("{error:?}"),
    };
    let tags: Vec<_> = came.iter().map(|delivery| delivery.event["data"].as_str().expect("the tag")).collect();
    assert_eq!(tags, ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10"]);
}
