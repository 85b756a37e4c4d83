//! The server on a PostgreSQL of its own, whatever store the other tests run on: what SQL does beside it, and what becomes of
//! it when the database is gone for a while, or another server takes its place.

mod crowded;
mod cut_off;
mod expiry;
mod failovers;
mod full;
mod ledger;
mod long;
mod low_water;
mod notifications;
mod orders;
mod outages;
mod pooler;
mod roles;
mod sends;
mod settling;
mod takeover;
mod timelines;

use std::time::{Duration, Instant};

use millpond_blackbox::client::{Called, Client, Delivery, event};
use millpond_blackbox::server::{Launch, Server};
use millpond_test_postgres::{Cluster, Relay};
use postgres::NoTls;
use serde_json::{Value, json};

const QUEUE: &str = "work";
const SCHEMA: &str = "millpond";
/// Longer than any test.
const LONG: u64 = 3_600;
/// How long an answer is waited for that has to come.
const PATIENCE: u64 = 20;
/// What has to happen by itself has happened by then, on any machine.
const LATEST: Duration = Duration::from_secs(120);

/// A database, and how servers on it are started. It outlives them: it has to be made first.
struct World {
    launch: Launch,
    cluster: Cluster,
}

impl World {
    fn new() -> Self {
        Self::on(Cluster::start().expect("PostgreSQL is installed"))
    }

    fn on(cluster: Cluster) -> Self {
        Self { launch: Launch::on_database(&cluster.url("postgres"), SCHEMA), cluster }
    }

    /// With servers that reach the database through a relay.
    fn through(cluster: Cluster, relay: &Relay) -> Self {
        Self { launch: Launch::on_database(&relay.url("postgres"), SCHEMA), cluster }
    }

    /// With a server, and a queue whose leases may be ended by SQL.
    fn with_queue() -> (Self, Server) {
        Self::with_queue_on(Cluster::start().expect("PostgreSQL is installed"))
    }

    fn with_queue_on(cluster: Cluster) -> (Self, Server) {
        let own = Self::on(cluster);
        let server = own.launch.start();
        let mut client = server.client();
        client.create_queue(QUEUE, json!({"max_deliveries": 100})).expect("the queue is made");
        own.allow(&mut client);
        (own, server)
    }

    /// A session of somebody's.
    fn session(&self) -> postgres::Client {
        postgres::Client::connect(&self.cluster.url("postgres"), NoTls).expect("the database runs")
    }

    /// Lets SQL end leases of the queue. What comes with it shows that it was taken in.
    fn allow(&self, client: &mut Client) {
        self.allow_on(client, QUEUE);
    }

    fn allow_on(&self, client: &mut Client, queue: &str) {
        let allow = format!("select millpond.allow_sql_settle('{queue}'), millpond.send('{queue}', '0')");
        self.session().batch_execute(&allow).expect("it is allowed");
        let mark = client.lease_one(queue, LONG, PATIENCE).expect("a message comes");
        assert!(client.ack(queue, &[mark.lease]).expect("it is acked").is_empty());
    }
}

/// Asks until the answer is this one. What fails says that it will pass; what does not come in time has failed.
fn until<T: PartialEq + std::fmt::Debug>(wanted: &T, mut call: impl FnMut() -> Called<T>) {
    let begun = Instant::now();
    loop {
        let answer = call();
        match &answer {
            Ok(answer) if answer == wanted => return,
            Ok(_) => {}
            Err(error) => ledger::assert_will_pass(error),
        }
        assert!(begun.elapsed() < LATEST, "not within {LATEST:?}: {answer:?} in place of {wanted:?}");
    }
}

/// Sends a message over HTTP.
fn send(client: &mut Client, data: &str) {
    client.send(QUEUE, &[event(data, data)], None).expect("it is sent");
}

/// The next message, as soon as there is one.
fn take(client: &mut Client, lease_seconds: u64) -> Delivery {
    client.lease_one(QUEUE, lease_seconds, PATIENCE).expect("a message comes")
}

/// A message as HTTP shows it.
fn look_up(client: &mut Client, queue: &str, message: &str) -> Value {
    let shown = client.call("GET", &format!("/v1/queues/{queue}/messages/{message}"), &[], None);
    shown.expect("it is found")
}

/// Ends a lease within a transaction.
fn complete(transaction: &mut postgres::Transaction<'_>, delivery: &Delivery) -> Result<(), postgres::Error> {
    let generation = delivery.lease.generation.cast_signed();
    let sql = "select millpond.complete($1, $2)";
    transaction.execute(sql, &[&delivery.lease.message_id, &generation]).map(drop)
}

/// The SQLSTATE of what the database refused.
fn state(error: &postgres::Error) -> &str {
    error.code().map_or("", postgres::error::SqlState::code)
}

/// A number that a query answers.
fn number(session: &mut postgres::Client, sql: &str) -> i64 {
    session.query_one(sql, &[]).expect("it can be asked").get(0)
}
