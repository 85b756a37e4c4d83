//! Others on the same database get in the way: they take all of its connections, or lock the server's tables the other way round.
//! Calls fail so that who calls may try again, and all goes on once they are gone.

use std::time::Instant;

use millpond_blackbox::client::{Counts, event};
use millpond_test_postgres::Cluster;
use postgres::NoTls;

use super::ledger::assert_will_pass;
use super::outages::{drain, until_answered};
use super::{LATEST, QUEUE, World, number, send, state};

/// Those of the server.
const OWN: &str = "from pg_stat_activity where application_name = 'millpond'";

#[test]
fn a_server_that_gets_no_connection_goes_on_when_there_are_some_again() {
    let settings = [("max_connections", "40"), ("superuser_reserved_connections", "0")];
    let (world, server) =
        World::with_queue_on(Cluster::start_with(&settings).expect("PostgreSQL is installed"));
    let mut client = server.client();
    send(&mut client, "before");
    let mut own = world.session();
    let mut others = Vec::new();
    // Until they have those of the server, too, which keeps trying.
    let begun = Instant::now();
    loop {
        let refused = loop {
            match postgres::Client::connect(&world.cluster.url("postgres"), NoTls) {
                Ok(other) => others.push(other),
                Err(error) => break error,
            }
        };
        assert_eq!(state(&refused), "53300", "{refused:?}");
        if number(&mut own, &format!("select count(*) {OWN}")) == 0 {
            break;
        }
        own.execute(&format!("select pg_terminate_backend(pid) {OWN}"), &[]).expect("they are ended");
        assert!(begun.elapsed() < LATEST);
    }
    let refused = client.send(QUEUE, &[event("x", "x")], None).expect_err("there is no connection");
    assert_will_pass(&refused);
    assert!(!refused.code().is_empty(), "the server answers: {refused:?}");
    drop(others);
    until_answered(|| client.send(QUEUE, &[event("after", "after")], None));
    let came = drain(&mut client);
    assert!(came["before"] == 1 && came["after"] == 1, "{came:?}");
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}

#[test]
fn a_commit_that_a_deadlock_ended_is_made_again_or_said_to_have_failed() {
    // Time for whoever locks to ask for the second table. It is the server that looks for a deadlock, and that gives way.
    let cluster = Cluster::start_with(&[("deadlock_timeout", "3s")]).expect("PostgreSQL is installed");
    let (world, server) = World::with_queue_on(cluster);
    let mut client = server.client();
    let deadlocks = "select deadlocks from pg_stat_database where datname = current_database()";
    let mut session = world.session();
    session.batch_execute("set deadlock_timeout = '1h'").expect("it is set");
    let mut open = session.transaction().expect("it begins");
    open.batch_execute("lock table millpond.delivery in share row exclusive mode").expect("it is locked");
    std::thread::scope(|scope| {
        let mut own = server.client();
        let sent = scope.spawn(move || own.send(QUEUE, &[event("in between", "in between")], None));
        let waits = format!("select count(*) {OWN} and wait_event_type = 'Lock' and query like '%delivery%'");
        let mut other = world.session();
        let begun = Instant::now();
        while number(&mut other, &waits) == 0 {
            assert!(begun.elapsed() < LATEST, "the server does not wait");
        }
        open.batch_execute("lock table millpond.head in share row exclusive mode")
            .expect("the server gives way");
        while number(&mut other, deadlocks) == 0 {
            assert!(begun.elapsed() < LATEST, "no deadlock was counted");
        }
        open.commit().expect("it commits");
        if let Err(error) = sent.join().expect("it sends") {
            assert_will_pass(&error);
        }
    });
    until_answered(|| client.send(QUEUE, &[event("after", "after")], None));
    let came = drain(&mut client);
    assert!(came["after"] == 1 && came.values().all(|count| *count == 1), "{came:?}");
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
}
