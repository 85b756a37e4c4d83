//! What ends a lease, and the transaction that completes it, in both orders: exactly one of them counts, and nobody waits.

use std::time::Instant;

use millpond_blackbox::client::{Client, Counts, Delivery};
use serde_json::json;

use super::settling::{AT_ONCE, LEASED};
use super::{LONG, PATIENCE, QUEUE, World, complete, event, number, send, state, take, until};

/// A queue whose messages are delivered once.
const ONCE: &str = "once";
const EFFECTS: &str = "select count(*) from effect";

/// Something that ends the lease of a delivery, for good by the time at which it returns.
type Ending = fn(&World, &mut Client, &Delivery);

/// What it is called, for how many seconds the lease is taken, and how it ends.
const ENDINGS: [(&str, u64, Ending); 5] = [
    ("acked", LONG, |_, client, held| {
        assert!(client.ack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer").is_empty());
    }),
    ("nacked", LONG, |_, client, held| {
        assert!(client.nack(QUEUE, std::slice::from_ref(&held.lease)).expect("an answer").is_empty());
    }),
    ("cancelled", LONG, |world, client, held| {
        let cancel = format!("select millpond.cancel('{QUEUE}', '{}')", held.lease.message_id);
        let mark = format!("select millpond.send('{QUEUE}', '1')");
        world.session().batch_execute(&format!("{cancel}; {mark}")).expect("it is asked for");
        assert_eq!(take(client, LONG).event["data"], 1, "what was asked before it was taken in before it");
    }),
    ("ran out", 1, |_, client, _| client.pass(2)),
    ("deleted with its queue", LONG, |_, client, _| {
        client.call("DELETE", &format!("/v1/queues/{QUEUE}"), &[], None).expect("it is deleted");
    }),
];

fn write(transaction: &mut postgres::Transaction<'_>) {
    transaction.execute("insert into effect values (1)", &[]).expect("it is written");
}

#[test]
fn what_ended_the_lease_first_undoes_the_transaction_that_completes_it() {
    let (world, server) = World::with_queue();
    let mut client = server.client();
    let mut session = world.session();
    session.batch_execute("create table effect (number bigint)").expect("it is made");
    for (ending, lease_seconds, end) in ENDINGS {
        send(&mut client, ending);
        let held = take(&mut client, lease_seconds);
        let mut open = session.transaction().expect("it begins");
        write(&mut open);
        end(&world, &mut client, &held);
        let refused = complete(&mut open, &held).expect_err(ending);
        assert_eq!(state(&refused), "MP010", "{ending}: {refused:?}");
        drop(open);
        assert_eq!(number(&mut session, EFFECTS), 0, "{ending}");
        if ending != "deleted with its queue" {
            client.call("POST", &format!("/v1/queues/{QUEUE}:purge"), &[], None).expect("it is emptied");
        }
    }
}

#[test]
fn a_purge_leaves_a_lease_to_its_holder_who_may_complete_it() {
    let (world, server) = World::with_queue();
    let mut client = server.client();
    let mut session = world.session();
    send(&mut client, "held");
    let held = take(&mut client, LONG);
    client.call("POST", &format!("/v1/queues/{QUEUE}:purge"), &[], None).expect("it is emptied");
    assert_eq!(client.counts(QUEUE).expect("counts"), LEASED);
    let mut open = session.transaction().expect("it begins");
    complete(&mut open, &held).expect("it is held");
    open.commit().expect("it commits");
    until(&Counts::default(), || client.counts(QUEUE));
}

#[test]
fn a_message_out_of_attempts_is_not_dead_while_a_transaction_completes_it() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        client.create_queue(ONCE, json!({"max_deliveries": 1})).expect("the queue is made");
        world.allow_on(&mut client, ONCE);
        client.send(ONCE, &[event("one", "one")], None).expect("it is sent");
        let held = client.lease_one(ONCE, 2, PATIENCE).expect("it comes");
        let mut session = world.session();
        let mut open = session.transaction().expect("it begins");
        complete(&mut open, &held).expect("it is held");
        // Over by the server's clock, and looked at again by the server, more than once.
        client.pass(4);
        assert!(client.lease_one(ONCE, LONG, 0).is_none());
        let leases = std::slice::from_ref(&held.lease);
        assert_eq!(client.nack(ONCE, leases).expect("an answer"), leases, "it is being settled");
        assert_eq!(client.counts(ONCE).expect("counts"), LEASED);
        if is_committed {
            open.commit().expect("it commits");
            until(&Counts::default(), || client.counts(ONCE));
        } else {
            open.rollback().expect("it is undone");
            until(&Counts { dead: 1, ..Counts::default() }, || client.counts(ONCE));
        }
    }
}

/// The handler's writes count although its message went with the queue: who deletes a queue waits for no handler, and undoes none.
#[test]
fn a_queue_is_deleted_beside_a_transaction_that_completes_a_message_of_it() {
    for is_committed in [true, false] {
        let (world, server) = World::with_queue();
        let mut client = server.client();
        let mut session = world.session();
        session.batch_execute("create table effect (number bigint)").expect("it is made");
        send(&mut client, "held");
        let held = take(&mut client, LONG);
        let mut open = session.transaction().expect("it begins");
        write(&mut open);
        complete(&mut open, &held).expect("it is held");
        let begun = Instant::now();
        client.call("DELETE", &format!("/v1/queues/{QUEUE}"), &[], None).expect("it is deleted");
        client.create_queue(QUEUE, json!({})).expect("one of the same name is another queue");
        assert!(begun.elapsed() < AT_ONCE, "something waited: {:?}", begun.elapsed());
        match is_committed {
            true => open.commit().expect("it commits"),
            false => open.rollback().expect("it is undone"),
        }
        assert_eq!(number(&mut session, EFFECTS), i64::from(is_committed));
        world.allow(&mut client);
        assert!(client.lease_one(QUEUE, LONG, 0).is_none(), "nothing came from the queue before");
        assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default());
    }
}
