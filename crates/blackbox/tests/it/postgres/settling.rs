//! A lease whose end is part of an open transaction: nobody takes it away, and nobody waits for it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millpond_blackbox::client::{Client, Counts, Delivery};

use millpond_test_postgres::Cluster;
use serde_json::json;

use super::{LATEST, LONG, QUEUE, World, complete, event, look_up, number, send, state, take, until};

/// Far more than a call takes, and far less than whoever waits for the transaction would wait.
pub(super) const AT_ONCE: Duration = Duration::from_secs(5);
pub(super) const LEASED: Counts = Counts { ready: 0, leased: 1, delayed: 0, dead: 0 };
/// Leases that one transaction ends, and of how many messages a call speaks.
const MANY: u64 = 1_000;
const PART: u64 = 100;
/// More than a lease call takes on any machine, and less than it waited behind all that are held.
const OTHERS_WAIT: Duration = Duration::from_secs(1);

#[test]
fn a_lease_that_an_open_transaction_ends_is_held_and_nobody_waits_for_it() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        send(&mut client, "held");
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        let held = take(&mut client, 2);
        complete(&mut open, &held).expect("it is held");

        // Over by the server's clock, and looked at again by the server, more than once.
        client.pass(4);
        assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "it is not handed out");
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
        let begun = Instant::now();
        let leases = std::slice::from_ref(&held.lease);
        assert_eq!(client.nack(QUEUE, leases).expect("an answer"), leases, "it is being settled");
        // For a moment after its end it is not known yet that it is held.
        while !client.extend(QUEUE, leases, 1).expect("an answer").is_empty() {
            assert!(begun.elapsed() < AT_ONCE, "a heartbeat");
        }
        let target = format!("/v1/queues/{QUEUE}/messages/{}", held.lease.message_id);
        let refused = client.call("DELETE", &target, &[], None).expect_err("it is leased");
        assert_eq!(refused.code(), "invalid_state");
        send(&mut client, "other");
        let other = take(&mut client, LONG);
        assert_eq!(other.event["data"], "other");
        assert!(client.ack(QUEUE, &[other.lease]).expect("an answer").is_empty());
        assert!(begun.elapsed() < AT_ONCE, "something waited: {:?}", begun.elapsed());

        if is_committed {
            open.commit().expect("it commits");
            // What is sent behind it comes behind it.
            session.execute(&format!("select millpond.send('{QUEUE}', '1')"), &[]).expect("it is sent");
            let behind = take(&mut client, LONG);
            assert_ne!(behind.lease.message_id, held.lease.message_id);
            assert!(client.ack(QUEUE, &[behind.lease]).expect("an answer").is_empty());
            assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
            let shown = client.call("GET", &target, &[], None);
            let is_gone = shown.as_ref().map_or_else(
                |error| error.code() == "message_not_found",
                |shown| shown["state"] == "completed",
            );
            assert!(is_gone, "{shown:?}");
        } else {
            open.rollback().expect("it is undone");
            let again = take(&mut client, LONG);
            assert_eq!(again.lease.message_id, held.lease.message_id);
            assert_eq!(again.delivery_count, 2);
            let shown = look_up(&mut client, QUEUE, &again.lease.message_id);
            assert_eq!(shown["lost_lease_count"], 1, "{shown}");
        }
    }
}

/// Who holds a lease may end it in both ways; the message is done once.
#[test]
fn an_ack_beside_the_transaction_that_completes_is_an_ack() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        send(&mut client, "held");
        let held = take(&mut client, LONG);
        complete(&mut open, &held).expect("it is held");
        assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty(), "its holder says so");
        assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
        match is_committed {
            true => open.commit().expect("it commits"),
            false => open.rollback().expect("it is undone"),
        }
        // What is sent behind it comes behind it.
        session.execute(&format!("select millpond.send('{QUEUE}', '1')"), &[]).expect("it is sent");
        let behind = take(&mut client, LONG);
        assert_eq!(behind.event["data"], 1);
        assert!(client.ack(QUEUE, &[behind.lease]).expect("an answer").is_empty());
        // With what showed that the queue was allowed.
        assert_eq!(number(&mut session, "select total_acked from millpond.stats"), 3);
    }
}

#[test]
fn a_snapshot_that_is_older_than_the_lease_is_told_so() {
    for isolation in ["repeatable read", "serializable"] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        send(&mut client, "one");
        let (mut session, begin) = (world.session(), format!("begin isolation level {isolation}; select 1"));
        session.batch_execute(&begin).expect("it begins");
        let held = take(&mut client, LONG);
        let sql = format!("select millpond.complete('{}', {})", held.lease.message_id, held.lease.generation);
        let refused = session.batch_execute(&sql).expect_err("it does not see the lease");
        assert_eq!(state(&refused), "MP011", "{refused:?}");
        session.batch_execute("rollback").expect("it is over");
        // Begun anew it does.
        session.batch_execute(&format!("{begin}; {sql}; commit")).expect("it is held");
        let mut other = world.session();
        other.batch_execute(&format!("select millpond.send('{QUEUE}', '1')")).expect("it is sent");
        assert_ne!(take(&mut client, LONG).lease.message_id, held.lease.message_id);
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
    }
}

/// Takes all of them, each once.
fn take_many(client: &mut Client, lease_seconds: u64) -> Vec<Delivery> {
    let begun = Instant::now();
    let mut taken = BTreeMap::new();
    while (taken.len() as u64) < MANY {
        let options =
            json!({"max_messages": PART, "visibility_timeout": format!("{lease_seconds}s"), "wait": "1s"});
        for held in client.lease_with(QUEUE, &options).expect("an answer") {
            let id = held.lease.message_id.clone();
            assert!(taken.insert(id, held).is_none(), "it was taken twice");
        }
        assert!(begun.elapsed() < LATEST, "{} came in {LATEST:?}", taken.len());
    }
    taken.into_values().collect()
}

#[test]
fn a_transaction_that_ends_very_many_leases_keeps_no_other_queue_waiting() {
    const OTHER: &str = "other";
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        client.create_queue(OTHER, json!({})).expect("the queue is made");
        for part in 0..MANY / PART {
            let events: Vec<_> = (0..PART).map(|n| event(&format!("{part}-{n}"), "held")).collect();
            client.send(QUEUE, &events, None).expect("they are sent");
        }
        let held = take_many(&mut client, 5);
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        for held in &held {
            complete(&mut open, held).expect("it is held");
        }

        // Over by the server's clock, and looked at again by the server, more than once.
        let mut longest = Duration::ZERO;
        for second in 0..10 {
            client.pass(1);
            for number in 0..20 {
                client.send(OTHER, &[event(&format!("{second}-{number}"), "")], None).expect("it is sent");
                let begun = Instant::now();
                let taken = client.lease_one(OTHER, LONG, 0).expect("it is there");
                longest = longest.max(begun.elapsed());
                assert!(client.ack(OTHER, &[taken.lease]).expect("an answer").is_empty());
            }
        }
        println!("lease calls of another queue took {longest:?} at most");
        assert!(longest < OTHERS_WAIT, "{longest:?}");
        let leased = Counts { leased: MANY, ..Counts::default() };
        assert_eq!(client.counts(QUEUE).expect("counts"), leased);

        if is_committed {
            open.commit().expect("it commits");
            until(&Counts::default(), || client.counts(QUEUE));
        } else {
            open.rollback().expect("it is undone");
            let again = take_many(&mut client, LONG);
            assert!(again.iter().all(|again| again.delivery_count == 2));
        }
    }
}

#[test]
fn a_purge_beside_an_open_transaction_leaves_what_that_ends() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        send(&mut client, "held");
        let held = take(&mut client, 3);
        let waiting: Vec<_> = (0..3).map(|n| event(&format!("waits-{n}"), "waits")).collect();
        client.send(QUEUE, &waiting, None).expect("they are sent");
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        complete(&mut open, &held).expect("it is held");

        let begun = Instant::now();
        let purged = client.call("POST", &format!("/v1/queues/{QUEUE}:purge"), &[], None).expect("an answer");
        assert_eq!(purged["purged_count"], "3", "{purged}");
        assert!(begun.elapsed() < AT_ONCE, "something waited: {:?}", begun.elapsed());
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
        client.pass(5);
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED, "also after its end");
        if is_committed {
            open.commit().expect("it commits");
        } else {
            open.rollback().expect("it is undone");
        }
        // What was leased leaves with its lease.
        until(&Counts::default(), || client.counts(QUEUE));
    }
}

#[test]
fn why_tells_of_a_prepared_transaction_that_holds_a_lease() {
    let cluster =
        Cluster::start_with(&[("max_prepared_transactions", "1")]).expect("PostgreSQL is installed");
    let (world, server) = World::with_queue_on(cluster);
    let mut client = server.client();
    send(&mut client, "held");
    let mut session = world.session();
    let held = take(&mut client, 2);
    let (id, generation) = (&held.lease.message_id, held.lease.generation);
    // A transaction that notified cannot be prepared.
    let sql = format!(
        "begin; set local millpond.notify = off; select millpond.complete('{id}', {generation}); \
         prepare transaction 'forgotten'"
    );
    while number(&mut session, "select count(*) from millpond.watcher where asleep") == 0 {}
    session.batch_execute(&sql).expect("it is held");
    let target = format!("/v1/queues/{QUEUE}:why");
    let mut why = || client.call("GET", &target, &[], None).map(|shown| shown["why"]["reason"].clone());
    until(&json!("held_by_transactions"), &mut why);
    session.batch_execute("commit prepared 'forgotten'").expect("it is prepared");
    until(&json!("empty"), &mut why);
}
