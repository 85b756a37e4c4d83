//! The primary is lost and a standby promoted: what was answered is there if the standby had to have it. A standby that is not
//! promoted is not served.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use millpond_blackbox::client::{Counts, event};
use millpond_blackbox::journal::Pulse;
use millpond_blackbox::server::Launch;
use millpond_test_postgres::{Cluster, Relay};
use serde_json::json;

use super::ledger::assert_will_pass;
use super::outages::{drain, send_until};
use super::timelines::HEALED;
use super::{LONG, QUEUE, SCHEMA, World, send, take, until};

const SENDERS: u64 = 3;
/// Answered calls before and after.
const CALLS: u64 = 60;

/// Asks until the database says so.
pub(super) fn wait_for(cluster: &Cluster, condition: &str) {
    let sql = format!("select {condition}");
    while cluster.sql("postgres", &sql).expect("it runs") != [[Some("t".to_owned())]] {}
}

/// How far the log is written.
pub(super) fn position(cluster: &Cluster) -> String {
    let mut rows = cluster.sql("postgres", "select pg_current_wal_lsn()").expect("it runs");
    rows.remove(0).remove(0).expect("it is known")
}

#[test]
fn nothing_that_was_answered_is_lost_with_a_primary_that_waits_for_its_standby() {
    let mut primary = Cluster::start().expect("PostgreSQL is installed");
    let mut standby = primary.standby("standby", primary.port()).expect("it follows");
    primary.sql("postgres", "alter system set synchronous_standby_names = 'standby'").expect("it runs");
    primary.sql("postgres", "select pg_reload_conf()").expect("it runs");
    wait_for(&primary, "exists (select from pg_stat_replication where sync_state = 'sync')");
    let both = format!("127.0.0.1:{},127.0.0.1:{}", primary.port(), standby.port());
    let server = Launch::on_database(&format!("postgres://postgres@{both}/postgres"), SCHEMA).start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({"max_deliveries": 100})).expect("the queue is made");
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
        pulse.wait_for(CALLS);
        primary.kill().expect("it runs");
        standby.promote().expect("it is one");
        until(&1, || client.counts(QUEUE).map(|counts| counts.leased));
        pulse.wait_for(CALLS);
        are_over.store(true, Ordering::SeqCst);
        senders.into_iter().flat_map(|sender| sender.join().expect("it sends")).collect::<BTreeSet<_>>()
    });
    assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty(), "the lease is good");
    let came = drain(&mut client);
    let lost: Vec<_> = sent.iter().filter(|tag| !came.contains_key(*tag)).collect();
    assert!(lost.is_empty(), "{lost:?}");
    let twice: Vec<_> = came.iter().filter(|(_, count)| **count > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    let log = server.stop().log;
    assert!(!log.contains(HEALED), "{log}");
}

#[test]
fn a_standby_is_not_served_and_a_server_that_is_led_to_one_waits_for_a_primary() {
    let primary = Cluster::start().expect("PostgreSQL is installed");
    let standby = primary.standby("standby", primary.port()).expect("it follows");
    let refused = Launch::on_database(&standby.url("postgres"), SCHEMA).run();
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("the database is read-only: it is a standby"), "{said}");
    assert_eq!(refused.status.code(), Some(1), "{said}");

    let relay = Relay::to(primary.port()).expect("a port is free");
    let world = World::through(primary, &relay);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    send(&mut client, "held");
    let held = take(&mut client, LONG);
    relay.lead_to(standby.port());
    relay.cut();
    // The first may be under way when the connection is cut.
    let refused = loop {
        let refused = client.send(QUEUE, &[event("x", "refused")], None).expect_err("it cannot be written");
        assert_will_pass(&refused);
        if refused.code() != "outcome_unknown" {
            break refused;
        }
    };
    assert_eq!(refused.code(), "storage_unavailable", "{refused:?}");
    // Nor does it tell of what it remembers, once somebody else could have changed it.
    while let Ok(counts) = client.counts(QUEUE) {
        assert_eq!(counts, Counts { leased: 1, ..Counts::default() });
    }
    relay.lead_to(world.cluster.port());
    until(&Counts { leased: 1, ..Counts::default() }, || client.counts(QUEUE));
    assert!(client.ack(QUEUE, &[held.lease]).expect("an answer").is_empty(), "the lease is good");
    send(&mut client, "new");
    let log = server.stop().log;
    assert!(!log.contains(HEALED), "{log}");
}
