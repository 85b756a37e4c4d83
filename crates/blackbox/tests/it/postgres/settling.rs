//! A lease whose end is part of an open transaction: nobody takes it away, and nobody waits for it.

use std::time::{Duration, Instant};

use millpond_blackbox::client::Counts;

use super::{LONG, QUEUE, World, complete, look_up, send, state, take};

/// Far more than a call takes, and far less than whoever waits for the transaction would wait.
const AT_ONCE: Duration = Duration::from_secs(5);
const LEASED: Counts = Counts { ready: 0, leased: 1, delayed: 0, dead: 0 };

#[test]
fn a_lease_that_an_open_transaction_ends_is_held_and_nobody_waits_for_it() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        send(&mut client, "held");
        let held = take(&mut client, 1);
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        complete(&mut open, &held).expect("it is held");

        // Over by the server's clock, and looked at again by the server, more than once.
        client.pass(3);
        assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "it is not handed out");
        assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
        let begun = Instant::now();
        let leases = std::slice::from_ref(&held.lease);
        assert_eq!(client.nack(QUEUE, leases).expect("an answer"), leases, "it is being settled");
        assert!(client.extend(QUEUE, leases, 1).expect("an answer").is_empty(), "a heartbeat");
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
