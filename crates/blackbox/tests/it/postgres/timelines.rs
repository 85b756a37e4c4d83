//! The database goes back in time under a server that lives on (design-holes A2, A4), in every way in which that happens: the
//! server notices by itself, takes what it finds for a restored copy, and works on without a restart.

use millpond_blackbox::client::{Client, Counts, Delivery, Lease};
use millpond_blackbox::server::Server;
use millpond_test_postgres::{Cluster, Relay};
use serde_json::json;

use super::outages::until_answered;
use super::{LONG, QUEUE, World, send, take, until};

/// What a server says of a copy.
pub(super) const HEALED: &str = "opened a restored copy";

#[test]
fn after_a_recovery_to_a_point_in_time_a_living_server_goes_on_with_what_there_was() {
    let (mut world, server) = on(Cluster::start_archived().expect("PostgreSQL is installed"));
    let base = world.cluster.base_backup().expect("it runs");
    let mut client = server.client();
    let held = present(&mut client);
    let moment = world.cluster.name_moment().expect("it runs");
    let leases = future(&mut client, held);
    world.cluster.go_back(&base, &moment).expect("the archive has it");
    assert_went_back(&world, server, &leases);
}

#[test]
fn files_that_are_put_back_under_a_living_server_are_an_older_database() {
    let (mut world, server) = on(Cluster::start().expect("PostgreSQL is installed"));
    let directory = tempfile::tempdir().expect("a directory can be made");
    let copy = directory.path().join("copy");
    let mut client = server.client();
    let held = present(&mut client);
    world.cluster.stop().expect("it runs");
    world.cluster.copy_of_data(&copy).expect("it is copied");
    world.cluster.run().expect("it can be started");
    until(&Vec::new(), || client.extend(QUEUE, std::slice::from_ref(&held.lease), LONG));
    let leases = future(&mut client, held);
    world.cluster.stop().expect("it runs");
    world.cluster.restore_data(&copy).expect("it is a copy");
    world.cluster.run().expect("it can be started");
    assert_went_back(&world, server, &leases);
}

#[test]
fn a_standby_that_lags_behind_is_an_older_database_when_it_is_promoted() {
    let mut primary = Cluster::start().expect("PostgreSQL is installed");
    let (to_primary, replication) =
        [primary.port(); 2].map(|port| Relay::to(port).expect("a port is free")).into();
    let mut standby = primary.standby("standby", replication.port()).expect("it follows");
    let (mut world, server) = {
        let world = World::through(primary, &to_primary);
        let server = world.launch.start();
        server.client().create_queue(QUEUE, json!({"max_deliveries": 100})).expect("the queue is made");
        (world, server)
    };
    let mut client = server.client();
    let held = present(&mut client);
    let reached = super::failovers::position(&world.cluster);
    super::failovers::wait_for(&standby, &format!("pg_last_wal_replay_lsn() >= '{reached}'"));
    replication.vanish(true);
    let leases = future(&mut client, held);
    world.cluster.kill().expect("it runs");
    standby.promote().expect("it is one");
    to_primary.lead_to(standby.port());
    primary = std::mem::replace(&mut world.cluster, standby);
    assert_went_back(&world, server, &leases);
    drop(primary);
}

/// A server with a queue.
fn on(cluster: Cluster) -> (World, Server) {
    let world = World::on(cluster);
    let server = world.launch.start();
    server.client().create_queue(QUEUE, json!({"max_deliveries": 100})).expect("the queue is made");
    (world, server)
}

/// What is there at the moment to which the database goes back: one message that is held and one that is ready.
pub(super) fn present(client: &mut Client) -> Delivery {
    send(client, "held");
    let held = take(client, LONG);
    send(client, "ready");
    held
}

/// What is lost after that moment; all leases that there ever were.
fn future(client: &mut Client, held: Delivery) -> Vec<Delivery> {
    let done = take(client, LONG);
    assert!(client.ack(QUEUE, std::slice::from_ref(&done.lease)).expect("an answer").is_empty());
    let mut leases = vec![done, held];
    for _ in 0..2 {
        let last = leases.last().expect("there are some").lease.clone();
        assert!(client.nack(QUEUE, &[last]).expect("an answer").is_empty());
        leases.push(take(client, LONG));
    }
    send(client, "lost");
    leases
}

/// The server noticed, without any call that changes something; what was done is to be done again, and no lease of before is good.
fn assert_went_back(world: &World, server: Server, leases: &[Delivery]) {
    let mut client = server.client();
    until(&Counts { ready: 2, ..Counts::default() }, || client.counts(QUEUE));
    let highest = leases.iter().map(|old| old.lease.generation).max().expect("there are some");
    let again = until_answered(|| client.lease(QUEUE, 10, 0));
    let mut tags: Vec<_> = again.iter().map(|next| next.event["data"].as_str().expect("the tag")).collect();
    tags.sort_unstable();
    assert_eq!(tags, ["held", "ready"]);
    for next in &again {
        assert_eq!(next.delivery_count, 1, "a lease that is over counts for nothing");
        assert!(next.lease.generation > highest, "{next:?} after {leases:?}");
    }
    for old in leases {
        let old = std::slice::from_ref(&old.lease);
        let stale = [client.ack(QUEUE, old), client.nack(QUEUE, old), client.extend(QUEUE, old, LONG)];
        assert_eq!(stale.map(|stale| stale.expect("an answer")), [old, old, old]);
    }
    let next: Vec<Lease> = again.into_iter().map(|next| next.lease).collect();
    assert!(client.ack(QUEUE, &next).expect("an answer").is_empty());
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    // And so does what SQL sends.
    let mut session = world.session();
    session.batch_execute(&format!("select millpond.send('{QUEUE}', '\"new\"')")).expect("it is sent");
    let new = take(&mut client, LONG);
    assert_eq!(new.event["data"], "new");
    assert!(client.ack(QUEUE, &[new.lease]).expect("an answer").is_empty());
    let log = server.stop().log;
    assert_eq!(log.matches(HEALED).count(), 1, "{log}");
}
