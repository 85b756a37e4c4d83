//! The database is gone for a while under a running server: calls fail so that who calls may try again, and what was
//! answered is there afterwards, without a restart of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use millpond_blackbox::client::{CallError, Client, Counts, Lease, event};
use millpond_blackbox::journal::Pulse;
use millpond_test_postgres::Cluster;
use serde_json::json;

use super::ledger::assert_will_pass;
use super::{LONG, PATIENCE, QUEUE, World, number, send, take};

const SENDERS: u64 = 3;
/// Answered calls between two outages.
const BETWEEN: u64 = 60;
/// Databases that are crashed until the numbers of one have gone back, and how often each is: whether they do is chance, mostly at the first.
const DATABASES_MOST: u64 = 20;
const CRASHES: u64 = 3;
/// Numbers that are drawn and undone, and drawn after that.
const UNDONE: usize = 100;
const MORE: usize = UNDONE + 20;
/// Longer than a database takes to be gone; each part of the server tries again several times a second.
const AWAY: Duration = Duration::from_secs(3);
const OUTAGES: [fn(&mut Cluster) -> anyhow::Result<()>; 4] =
    [Cluster::stop, Cluster::kill, Cluster::kill, Cluster::stop];

#[test]
fn what_was_answered_is_there_after_restarts_and_crashes_of_the_database() {
    let (mut world, server) = World::with_queue();
    let mut client = server.client();
    send(&mut client, "held");
    let held = take(&mut client, LONG);
    let (pulse, are_over) = (Pulse::default(), AtomicBool::new(false));
    let sent = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|number| {
                let (mut own, pulse, are_over) = (server.client(), &pulse, &are_over);
                scope.spawn(move || send_until(&mut own, number, pulse, are_over))
            })
            .collect();
        for end in OUTAGES {
            pulse.wait_for(BETWEEN);
            end(&mut world.cluster).expect("it runs");
            // Nothing is there to answer from.
            let refused = client.send(QUEUE, &[event("x", "gone")], None).expect_err("the database is gone");
            assert_will_pass(&refused);
            assert!(!refused.code().is_empty(), "the server answers: {refused:?}");
            world.cluster.run().expect("it can be started again");
            let counted = until_answered(|| client.counts(QUEUE));
            assert_eq!(counted.leased, 1, "the lease is still held");
        }
        pulse.wait_for(BETWEEN);
        are_over.store(true, Ordering::SeqCst);
        senders.into_iter().flat_map(|sender| sender.join().expect("it sends")).collect::<BTreeSet<_>>()
    });
    assert!(sent.len() as u64 > BETWEEN * OUTAGES.len() as u64);
    assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty(), "the lease outlived it all");
    let came = drain(&mut client);
    let lost: Vec<_> = sent.iter().filter(|tag| !came.contains_key(*tag)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let twice: Vec<_> = came.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}

/// Numbers that only transactions drew which were undone may be drawn again after a crash: that the server knew of them
/// must not hide who has them then.
#[test]
fn what_sql_committed_comes_after_a_crash_although_numbers_went_back() {
    let went_back = (0..DATABASES_MOST).any(|_| went_back_and_all_came());
    assert!(went_back, "no number went back");
}

/// Whether they did in any of the crashes. All that is committed comes in any case.
fn went_back_and_all_came() -> bool {
    // What was not committed stays where a crash loses it.
    let mut world =
        World::on(Cluster::start_with(&[("wal_writer_delay", "10s")]).expect("PostgreSQL is installed"));
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    let drawn = "select last_value from millpond.intake_id";
    let mut went_back = false;
    for round in 0..CRASHES {
        let mut session = world.session();
        let send = format!("select millpond.send('{QUEUE}', '{round}')");
        session.batch_execute(&send).expect("it is sent");
        receive(&mut client, round, 1);
        // It looks at each number now, and it has looked often enough once it sleeps.
        let undone = format!("begin; {} rollback", format!("{send};").repeat(UNDONE));
        session.batch_execute(&undone).expect("it is undone");
        let before = number(&mut session, drawn);
        while number(&mut session, "select count(*) from millpond.watcher where asleep") == 0 {}
        world.cluster.kill().expect("it runs");
        world.cluster.run().expect("it can be started again");
        let mut session = world.session();
        went_back |= number(&mut session, drawn) < before;
        // All of them again, and more, before the server looks; the first is committed long after the others.
        let mut late = world.session();
        let mut late = late.transaction().expect("it begins");
        late.batch_execute(&send).expect("it is sent");
        session.batch_execute(&format!("{send};").repeat(MORE)).expect("they are sent");
        receive(&mut client, round, MORE);
        late.commit().expect("it commits");
        receive(&mut client, round, 1);
    }
    went_back
}

/// Takes and acks so many messages with this data.
fn receive(client: &mut Client, data: u64, count: usize) {
    let mut left = count;
    while left > 0 {
        let came = until_answered(|| client.lease(QUEUE, 100, PATIENCE));
        assert!(!came.is_empty(), "{left} of {count} do not come");
        assert!(came.iter().all(|delivery| delivery.event["data"] == data), "{came:?}");
        left = left.checked_sub(came.len()).expect("no more than were sent");
        let leases: Vec<Lease> = came.into_iter().map(|delivery| delivery.lease).collect();
        assert!(until_answered(|| client.ack(QUEUE, &leases)).is_empty());
    }
}

/// Tags that were answered. What failed is left alone: it may be there.
pub(super) fn send_until(
    client: &mut Client,
    sender: u64,
    pulse: &Pulse,
    are_over: &AtomicBool,
) -> Vec<String> {
    let mut sent = Vec::new();
    for number in 0_u64.. {
        if are_over.load(Ordering::SeqCst) {
            break;
        }
        let tag = format!("{sender}-{number}");
        match client.send(QUEUE, &[event(&tag, &tag)], None) {
            Ok(_) => {
                sent.push(tag);
                pulse.beat();
            }
            Err(error) => assert_will_pass(&error),
        }
    }
    sent
}

/// Makes a call until there is an answer that is no error which will pass.
pub(super) fn until_answered<T>(mut call: impl FnMut() -> Result<T, CallError>) -> T {
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(error) => assert_will_pass(&error),
        }
    }
}

/// Takes and acks all; how often each came.
pub(super) fn drain(client: &mut Client) -> BTreeMap<String, u64> {
    let mut came = BTreeMap::new();
    loop {
        let deliveries = client.lease(QUEUE, 100, 0).expect("a lease call is answered");
        if deliveries.is_empty() {
            return came;
        }
        for delivery in &deliveries {
            *came.entry(delivery.event["data"].as_str().expect("the tag").to_owned()).or_default() += 1;
        }
        let leases: Vec<Lease> = deliveries.into_iter().map(|delivery| delivery.lease).collect();
        assert!(client.ack(QUEUE, &leases).expect("an answer").is_empty());
    }
}

#[test]
fn an_outage_is_told_when_it_begins_and_when_it_is_over_and_not_with_each_attempt() {
    let mut world = World::new();
    let launch = world.launch.clone().argument("--log").argument("info");
    let server = launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    world.cluster.kill().expect("it runs");
    // Calls, too, make it try.
    let begun = Instant::now();
    while begun.elapsed() < AWAY {
        client.send(QUEUE, &[event("x", "gone")], None).expect_err("the database is gone");
    }
    world.cluster.run().expect("it can be started again");
    until_answered(|| client.counts(QUEUE));
    world.session().batch_execute(&format!("select millpond.send('{QUEUE}', '1')")).expect("it is sent");
    receive(&mut client, 1, 1);
    let log = server.stop().log;
    let told = |what: &str| log.lines().filter(|line| line.contains(what)).count();
    for (begins, ends) in [
        ("what SQL sends is not noticed", "what SQL sends is noticed again"),
        ("store failed; environment is opened again", ": opened again"),
    ] {
        assert_eq!((told(begins), told(ends)), (1, 1), "{begins}: {log}");
    }
    for attempt in ["store not opened", "due environments not known", "room not known"] {
        assert!(told(attempt) <= 1, "{attempt}: {log}");
    }
}
