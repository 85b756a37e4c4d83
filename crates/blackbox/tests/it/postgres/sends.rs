//! What SQL sends comes if it was committed, and never otherwise; what cannot come is found, with the reason.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use millpond_blackbox::client::{Client, Counts, Lease};
use millpond_blackbox::http::{Connection, Request};
use millpond_blackbox::server::Server;
use serde_json::json;

use super::{PATIENCE, QUEUE, World, look_up, number, take};

const CONNECTIONS: u64 = 8;
const TRANSACTIONS: u64 = 10_000;

/// Every second transaction is rolled back. Of the others one in three undoes a part of itself.
#[test]
fn committed_messages_come_once_and_no_others() {
    let world = World::new();
    let server = world.launch.start();
    server.client().create_queue(QUEUE, json!({})).expect("the queue is made");
    let are_sent = AtomicBool::new(false);
    let (committed, came) = std::thread::scope(|scope| {
        let senders: Vec<_> = (0..CONNECTIONS)
            .map(|number| {
                scope.spawn({
                    let world = &world;
                    move || send_all(world, number)
                })
            })
            .collect();
        let (mut client, are_sent) = (server.client(), &are_sent);
        let worker = scope.spawn(move || work(&mut client, are_sent));
        let committed: Vec<_> =
            senders.into_iter().flat_map(|sender| sender.join().expect("it sends")).collect();
        are_sent.store(true, Ordering::SeqCst);
        (committed, worker.join().expect("it works"))
    });
    let mut session = world.session();
    let left = number(&mut session, "select count(*) from millpond.intake");
    let (wanted, found): (BTreeSet<_>, BTreeSet<_>) = (committed.iter().collect(), came.iter().collect());
    let missing: Vec<_> = wanted.difference(&found).collect();
    let undone: Vec<_> = found.difference(&wanted).collect();
    assert!(
        missing.is_empty() && undone.is_empty() && left == 0,
        "{left} are left in the intake; missing {missing:?}; rolled back and there: {undone:?}"
    );
    assert_eq!(wanted.len() as u64, TRANSACTIONS, "two of every second");
    assert_eq!(came.len(), found.len(), "none came twice");
    assert_eq!(server.client().counts(QUEUE).expect("counts"), Counts::default());
}

/// Tags of what was committed.
fn send_all(world: &World, connection: u64) -> Vec<String> {
    let mut session = world.session();
    let mut committed = Vec::new();
    for transaction in 0..TRANSACTIONS / CONNECTIONS {
        let tags = ["a", "b"].map(|which| format!("{connection}-{transaction}-{which}"));
        let [one, other] = tags.clone().map(|tag| format!("select millpond.send('{QUEUE}', '\"{tag}\"');"));
        let undone = format!("select millpond.send('{QUEUE}', '\"{connection}-{transaction}-undone\"');");
        let middle = match transaction % 3 {
            0 => format!("savepoint part; {undone} rollback to part;"),
            _ => String::new(),
        };
        let is_committed = (connection + transaction).is_multiple_of(2);
        let end = if is_committed { "commit" } else { "rollback" };
        session.batch_execute(&format!("begin; {one} {middle} {other} {end}")).expect("it is sent");
        if is_committed {
            committed.extend(tags);
        }
    }
    committed
}

/// Takes and acks all until nothing comes any more; tags in their order.
fn work(client: &mut Client, are_sent: &AtomicBool) -> Vec<String> {
    let mut came = Vec::new();
    loop {
        let was_over = are_sent.load(Ordering::SeqCst);
        let deliveries = client.lease(QUEUE, 100, 2).expect("a lease call is answered");
        if deliveries.is_empty() && was_over {
            return came;
        }
        let tag = |event: &serde_json::Value| event["data"].as_str().expect("the tag").to_owned();
        came.extend(deliveries.iter().map(|delivery| tag(&delivery.event)));
        let leases: Vec<Lease> = deliveries.into_iter().map(|delivery| delivery.lease).collect();
        if !leases.is_empty() {
            assert!(client.ack(QUEUE, &leases).expect("an answer").is_empty());
        }
    }
}

/// Many pages of the intake, and no more than comes at once.
const TOGETHER: i64 = 4_000;
const ROUNDS: i64 = 5;

#[test]
fn what_one_transaction_sends_is_seen_at_once() {
    let (world, server) = World::with_queue();
    server.client().create_queue("together", json!({})).expect("the queue is made");
    let all = "select total_sent from millpond.stats where queue = 'together'";
    let half = format!("select millpond.send('together', '1') from generate_series(1, {})", TOGETHER / 2);
    let beside = format!("select millpond.send('{QUEUE}', '1') from generate_series(1, 10)");
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut session = world.session();
            let mut seen = BTreeSet::new();
            while seen.last() != Some(&(ROUNDS * TOGETHER)) {
                seen.insert(number(&mut session, all));
            }
            seen
        });
        let (mut session, mut other) = (world.session(), world.session());
        for _ in 0..ROUNDS {
            // Numbers of another transaction between its own.
            let mut large = session.transaction().expect("it begins");
            large.batch_execute(&half).expect("they are sent");
            other.batch_execute(&beside).expect("they are sent");
            large.batch_execute(&half).expect("they are sent");
            large.commit().expect("it commits");
        }
        let seen = looks.join().expect("it looks");
        assert!(seen.iter().all(|count| count % TOGETHER == 0), "a part was seen: {seen:?}");
    });
}

#[test]
fn what_cannot_be_sent_any_more_is_found_as_cancelled_with_the_reason() {
    let (world, server) = World::with_queue();
    let mut client = server.client();
    client.create_queue("gone", json!({})).expect("the queue is made");
    let mut session = world.session();
    let sent = |session: &mut postgres::Transaction<'_>, queue: &str, options: &str| -> String {
        let sql = format!("select millpond.send('{queue}', '1', '{options}')");
        session.query_one(&sql, &[]).expect("it is sent").get(0)
    };
    let mut late = session.transaction().expect("it begins");
    let to_nowhere = sent(&mut late, "gone", "{}");
    let first = sent(&mut late, QUEUE, r#"{"idempotency_key": "k"}"#);
    let again = sent(&mut late, QUEUE, r#"{"idempotency_key": "k"}"#);
    client.call("DELETE", "/v1/queues/gone", &[], None).expect("it is deleted");
    late.commit().expect("it commits");
    // All of the transaction is taken in at once.
    let came = take(&mut client, PATIENCE);
    assert_eq!(came.lease.message_id, first);
    for (queue, message, reason) in [("gone", &to_nowhere, "queue_deleted"), (QUEUE, &again, "deduplicated")]
    {
        let shown = look_up(&mut client, queue, message);
        assert_eq!(
            (shown["state"].as_str(), shown["dead_letter_reason"].as_str()),
            (Some("cancelled"), Some(reason))
        );
    }
    let list = "select message_id, queue, reason, source from millpond.refused order by queue";
    let list: Vec<_> = session.query(list, &[]).expect("it can be asked").iter().map(listed).collect();
    let expected = [(&to_nowhere, "gone", "queue deleted"), (&again, QUEUE, "deduplicated")];
    assert_eq!(list, expected.map(|(id, queue, reason)| [id, queue, reason, "sql"].map(str::to_owned)));
    for (reason, count) in [("deduplicated", 1), ("queue_deleted", 1), ("refused", 0)] {
        let line = format!("millpond_external_refused_total{{reason=\"{reason}\"}} {count}");
        assert!(metrics(&server).lines().any(|shown| shown == line), "{line}");
    }
    // Nor does it become a message when the server begins anew.
    drop(server);
    let server = world.launch.start();
    let mut client = server.client();
    let shown = look_up(&mut client, "gone", &to_nowhere);
    assert_eq!(shown["dead_letter_reason"], "queue_deleted");
}

fn listed(row: &postgres::Row) -> [String; 4] {
    std::array::from_fn(|column| row.get(column))
}

fn metrics(server: &Server) -> String {
    let mut connection = Connection::open(server.address()).expect("it is connected");
    let request = Request { method: "GET", target: "/metrics", headers: &[], body: &[] };
    let page = connection.exchange(&request).expect("it answers");
    String::from_utf8(page.body).expect("it is text")
}
