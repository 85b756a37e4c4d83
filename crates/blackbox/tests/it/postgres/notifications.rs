//! A notification that never arrives costs a moment: what SQL sends is noticed without.

use millpond_test_postgres::{Cluster, Loss, Relay};
use serde_json::json;

use super::{LONG, QUEUE, World, number, take};

const ROUNDS: u64 = 20;

#[test]
fn what_sql_sends_comes_within_a_second_although_no_notification_arrives() {
    let cluster = Cluster::start().expect("PostgreSQL is installed");
    let relay = Relay::to(cluster.port()).expect("a port is free");
    relay.lose(Loss::Notifications);
    let world = World::through(cluster, &relay);
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    let mut session = world.session();
    let now = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
    let mut delays = Vec::new();
    for round in 0..ROUNDS {
        // While it is awake it looks all the time, and nobody notifies it.
        while number(&mut session, "select count(*) from millpond.watcher where asleep") == 0 {}
        session.batch_execute(&format!("select millpond.send('{QUEUE}', '{round}')")).expect("it is sent");
        let committed = number(&mut session, now);
        while number(&mut session, "select count(*) from millpond.intake") > 0 {}
        delays.push(number(&mut session, now) - committed);
        let came = take(&mut client, LONG);
        assert_eq!(came.event["data"], round);
    }
    assert_eq!(relay.lost(), ROUNDS, "each was notified of");
    delays.sort_unstable();
    let (median, longest) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    println!("taken in without a notification after {median} ms, the latest after {longest} ms");
    assert!(median <= 1_000, "{delays:?}");
}
