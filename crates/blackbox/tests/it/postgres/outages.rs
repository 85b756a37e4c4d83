//! The database is gone for a while under a running server: calls fail so that who calls may try again, and what was
//! answered is there afterwards, without a restart of the server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use millpond_blackbox::client::{CallError, Client, Counts, Lease, event};
use millpond_blackbox::journal::Pulse;
use millpond_test_postgres::Cluster;
use serde_json::json;

use super::ledger::assert_will_pass;
use super::{LONG, QUEUE, World, send, take};

const SENDERS: u64 = 3;
/// Answered calls between two outages.
const BETWEEN: u64 = 60;
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

#[test]
fn what_sql_committed_comes_after_a_crash_even_if_numbers_go_back() {
    let (mut world, server) = World::with_queue();
    let mut client = server.client();
    for round in 0..3 {
        // Drawn and undone: what the database knows of it may be gone with the crash.
        let undone = format!(
            "begin; select millpond.send('{QUEUE}', to_jsonb(n)) from generate_series(1, 200) n; rollback"
        );
        world.session().batch_execute(&undone).expect("it is undone");
        world.cluster.kill().expect("it runs");
        world.cluster.run().expect("it can be started again");
        let sql = format!("select millpond.send('{QUEUE}', '{round}')");
        for _ in 0..40 {
            world.session().batch_execute(&sql).expect("it is sent");
        }
        for _ in 0..40 {
            let options = json!({"wait": "20s"});
            let came = until_answered(|| client.lease_with(QUEUE, &options)).pop().expect("all of them come");
            assert_eq!(came.event["data"], round);
            assert!(until_answered(|| client.ack(QUEUE, std::slice::from_ref(&came.lease))).is_empty());
        }
    }
}

/// Tags that were answered. What failed is left alone: it may be there.
fn send_until(client: &mut Client, sender: u64, pulse: &Pulse, are_over: &AtomicBool) -> Vec<String> {
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

/// Makes a call again until there is an answer; that of errors there are only those that will pass is seen to.
fn until_answered<T>(mut call: impl FnMut() -> Result<T, CallError>) -> T {
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(error) => assert_will_pass(&error),
        }
    }
}

/// Takes and acks all; how often each came.
fn drain(client: &mut Client) -> BTreeMap<String, u64> {
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
