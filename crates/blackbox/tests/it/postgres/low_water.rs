//! A transaction that is open keeps what is gone from being removed. A server that starts beside one does not walk over it.

use serde_json::json;

use super::{QUEUE, World, event, number};

/// Messages that come and go before the restart.
const PASSED: u64 = 6_000;
/// Those that stay.
const LEFT: u64 = 10;
/// Index entries that the orders of a queue may cost a server that starts: the pace at which marks are raised (a tenth of a window of
/// 10,000), for each of two orders, and as much again for all else.
const READ_MAX: i64 = 4_000;
/// Without marks each of two orders would begin with all that has passed.
const READ_WITHOUT: i64 = 2 * PASSED.cast_signed();

#[test]
fn a_start_beside_an_old_transaction_walks_over_little_of_what_is_gone() {
    const { assert!(READ_MAX < READ_WITHOUT / 2) };
    let world = World::new();
    let server = world.launch.start();
    let mut client = server.client();
    client.create_queue(QUEUE, json!({})).expect("the queue is made");
    let mut old = world.session();
    old.batch_execute("begin isolation level repeatable read; select count(*) from millpond.delivery")
        .expect("it has a snapshot");
    for batch in 0..PASSED / 100 {
        let events: Vec<_> = (0..100).map(|n| event(&format!("{batch}-{n}"), "passes")).collect();
        client.send(QUEUE, &events, None).expect("they are sent");
        let leases: Vec<_> =
            client.lease(QUEUE, 100, 0).expect("they are there").into_iter().map(|held| held.lease).collect();
        assert_eq!(leases.len(), 100);
        assert!(client.ack(QUEUE, &leases).expect("an answer").is_empty());
    }
    let events: Vec<_> = (0..LEFT).map(|n| event(&format!("left-{n}"), "stays")).collect();
    client.send(QUEUE, &events, None).expect("they are sent");
    assert_eq!(client.lease(QUEUE, LEFT / 2, 0).expect("they are there").len() as u64, LEFT / 2);
    server.stop();

    let server = world.launch.start();
    let mut client = server.client();
    let found = client.lease(QUEUE, LEFT, 0).expect("they are there");
    assert_eq!(found.len() as u64, LEFT - LEFT / 2, "the others are held");
    server.stop();
    // What a session has read is counted at its end. The first server knew both orders without reading.
    let mut session = world.session();
    let orders = "from pg_stat_user_indexes where indexrelname in ('delivery_ready', 'delivery_due')";
    while number(&mut session, &format!("select count(*) {orders} and idx_scan > 0")) < 2 {}
    let walked = number(&mut session, &format!("select sum(idx_tup_read)::bigint {orders}"));
    println!("{walked} index entries of {READ_WITHOUT} were read");
    assert!(walked < READ_MAX, "{walked} index entries were read");
    old.batch_execute("rollback").expect("it was open all the time");
}

/// Messages by SQL that come and go.
const SENT: i64 = 6_000;
/// The pace at which the floor of the intake is raised, and as much again for what the server reads besides.
const INTAKE_READ_MAX: i64 = 2_000;

#[test]
fn a_start_beside_an_old_transaction_walks_over_little_of_what_sql_sent_before() {
    const { assert!(INTAKE_READ_MAX < SENT / 2) };
    let (world, server) = World::with_queue();
    let mut old = world.session();
    old.batch_execute("begin isolation level repeatable read; select count(*) from millpond.intake")
        .expect("it has a snapshot");
    let mut session = world.session();
    let send = format!("select millpond.send('{QUEUE}', '1') from generate_series(1, 100)");
    for _ in 0..SENT / 100 {
        session.batch_execute(&send).expect("they are sent");
    }
    let taken = format!("select total_sent - 1 from millpond.stats where queue = '{QUEUE}'");
    while number(&mut session, &taken) < SENT {}
    server.stop();
    let order = "from pg_stat_user_indexes where indexrelname = 'intake_environment'";
    let read = format!("select sum(idx_tup_read)::bigint {order}");
    let scans = format!("select sum(idx_scan)::bigint {order}");
    let before = (settled(&mut session, &read), number(&mut session, &scans));

    let server = world.launch.start();
    let mut client = server.client();
    session.batch_execute(&send).expect("they are sent");
    while number(&mut session, &taken) < SENT + 100 {}
    assert!(!client.lease(QUEUE, 1, 0).expect("they are there").is_empty());
    server.stop();
    while number(&mut session, &scans) == before.1 {}
    let walked = settled(&mut session, &read) - before.0;
    println!("{walked} index entries of {SENT} were read");
    assert!(walked < INTAKE_READ_MAX, "{walked} index entries were read");
    old.batch_execute("rollback").expect("it was open all the time");
}

/// A count of the database once no session of a server is left that could add to it.
fn settled(session: &mut postgres::Client, count: &str) -> i64 {
    let others = "select count(*) from pg_stat_activity where application_name like 'millpond%'";
    while number(session, others) > 0 {}
    number(session, count)
}
