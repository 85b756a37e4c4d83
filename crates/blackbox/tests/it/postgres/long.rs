//! What takes longer than tests do that run all the time: `make soak` runs these.

use std::sync::Arc;
use std::time::{Duration, Instant};

use millpond_blackbox::client::{Counts, event};
use millpond_blackbox::server::Launch;
use millpond_test_postgres::{Apart, Cluster, Relay};
use serde_json::json;

use super::cut_off::take_over;
use super::ledger::assert_will_pass;
use super::timelines::{HEALED, present};
use super::{QUEUE, SCHEMA, World, number, send, take, until};

/// A server that was not there when the database went back has only the row of the one before to go by.
#[test]
fn a_server_that_is_started_after_a_recovery_goes_by_when_one_was_there_last() {
    let cases = [("-61 seconds", false, false), ("-61 seconds", true, true), ("1 hour", false, true)];
    for (seen, assumes, keeps) in cases {
        let mut world = World::on(Cluster::start_archived().expect("PostgreSQL is installed"));
        let base = world.cluster.base_backup().expect("it runs");
        let server = world.launch.start();
        let mut client = server.client();
        client.create_queue(QUEUE, json!({})).expect("the queue is made");
        let held = present(&mut client);
        server.kill();
        let last = format!("update millpond.server set seen_at = clock_timestamp() + interval '{seen}'");
        world.cluster.sql("postgres", &last).expect("it runs");
        let moment = world.cluster.name_moment().expect("it runs");
        world.cluster.go_back(&base, &moment).expect("the archive has it");
        let launch = match assumes {
            true => world.launch.clone().argument("--assume-restart"),
            false => world.launch.clone(),
        };
        let server = launch.start();
        let mut client = server.client();
        until(&2, || client.counts(QUEUE).map(|counts| counts.leased + counts.ready));
        let stale = client.ack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer");
        assert_eq!(stale.is_empty(), keeps, "{seen}, {assumes}");
        if !keeps {
            let again = client.lease(QUEUE, 10, 0).expect("an answer");
            assert_eq!(again.len(), 2, "{again:?}");
            assert!(again.iter().all(|next| next.delivery_count == 1), "{again:?}");
            assert!(again.iter().all(|next| next.lease.generation > held.lease.generation), "{again:?}");
        }
        let log = server.stop().log;
        assert_eq!(log.contains(HEALED), !keeps, "{seen}, {assumes}: {log}");
    }
}

/// A send that is under way on a connection that died without a word is told of in bounded time.
#[test]
fn a_commit_on_a_connection_that_died_silently_is_told_of_within_a_minute() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let relay = Relay::to(cluster.port()).expect("a port is free");
    let world = World::through(cluster, &relay);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    send(&mut client, "before");
    relay.vanish(true);
    let begun = Instant::now();
    let told = client.send(QUEUE, &[event("x", "lost")], None);
    relay.vanish(false);
    let waited = begun.elapsed();
    println!("told of after {waited:?}");
    assert_will_pass(&told.expect_err("it cannot be known"));
    assert!(waited < Duration::from_mins(1), "{waited:?}");
    until(&Counts { ready: 1, ..Counts::default() }, || client.counts(QUEUE));
    send(&mut client, "after");
    assert_eq!(take(&mut client, 60).event["data"], "before");
}

/// Files of a cluster that are copied and started elsewhere: the same system on the same timeline, which nothing tells from a
/// restart. Each server acts on its own database, and neither on the other's.
#[test]
fn a_copy_that_is_started_elsewhere_has_a_life_of_its_own() {
    let world = World::new();
    let first = world.launch.start();
    let mut client = first.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    let held = present(&mut client);
    let twin = World::on(world.cluster.twin().expect("it runs"));
    // Its row of the first one is renewed by nobody there.
    let second = twin.launch.start();
    let mut other = second.client();
    let both = Counts { leased: 1, ready: 1, ..Counts::default() };
    assert_eq!(other.counts(QUEUE).expect("counts"), both);
    assert_eq!(client.counts(QUEUE).expect("counts"), both);
    assert!(other.ack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer").is_empty());
    send(&mut other, "second");
    assert_eq!(client.counts(QUEUE).expect("counts"), both, "nothing of it is here");
    assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty());
    let [own, others] = [take(&mut client, 60), take(&mut other, 60)];
    assert_ne!(own.lease.generation, others.lease.generation, "what is leased since is told apart");
    for (server, database) in [(first, &world), (second, &twin)] {
        let log = server.stop().log;
        assert!(!log.contains("has taken the place") && !log.contains("store failed"), "{log}");
        assert_eq!(number(&mut database.session(), "select count(*) from millpond.server"), 1);
    }
}

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
