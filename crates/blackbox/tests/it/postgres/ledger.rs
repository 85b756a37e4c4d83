//! Exactly once: workers write a row for each message and complete it in one transaction, while their connections, the server
//! and the database are killed. In the end there is one row for each message, and nobody ever tried to write a second.
//!
//! `MILLPOND_KILLS` sets how often (24), `MILLPOND_SEED` chooses what is killed and when.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use millpond_blackbox::client::{CallError, Client, Counts, Delivery};
use millpond_blackbox::journal::Pulse;
use millpond_blackbox::random::{Random, seed};
use millpond_blackbox::server::Server;
use millpond_test_postgres::Cluster;
use postgres::NoTls;
use serde_json::json;

use super::{QUEUE, World, complete, number, state};

const WORKERS: u64 = 4;
const KILLS: u64 = 24;
const MESSAGES_PER_KILL: u64 = 40;
const UNIQUE_VIOLATION: &str = "23505";
/// The drain takes seconds; the bound is for a run that hangs.
const DRAIN_MAX: Duration = Duration::from_secs(120);

#[test]
fn every_message_has_one_row_however_much_is_killed() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let seed = seed();
    eprintln!("MILLPOND_SEED={seed} MILLPOND_KILLS={kills}");
    let (mut world, server) = World::with_queue();
    world.session().batch_execute("create table ledger (message text primary key)").expect("it is made");
    let run = Run::new(world.cluster.url("postgres"), server.address());
    let mut random = Random::new(seed);
    let (server, sent) = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|number| {
                let (own, run) = (random.fork(number), &run);
                scope.spawn(move || run.work(own))
            })
            .collect();
        let killed = run.kill(&mut world, server, &mut random, kills);
        run.drains.store(true, Ordering::SeqCst);
        for worker in workers {
            worker.join().expect("no worker fails");
        }
        killed
    });
    let mut session = world.session();
    let rows = session.query("select message from ledger", &[]).expect("it can be asked");
    let rows: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(rows, sent, "MILLPOND_SEED={seed} MILLPOND_KILLS={kills}");
    assert_eq!(number(&mut session, "select count(*) from millpond.intake"), 0);
    assert_eq!(server.client().counts(QUEUE).expect("counts"), Counts::default());
    let (done, cut) = (run.done.load(Ordering::SeqCst), run.cut.load(Ordering::SeqCst));
    eprintln!("{} messages, {done} commits that were answered, {cut} transactions cut", sent.len());
    assert!(cut > 0, "no kill met a transaction");
}

/// What all threads share.
struct Run {
    url: String,
    pulse: Pulse,
    /// Where the server is, unless it or the database is gone.
    place: Mutex<Option<SocketAddr>>,
    moved: Condvar,
    drains: AtomicBool,
    done: AtomicU64,
    cut: AtomicU64,
}

impl Run {
    fn new(url: String, server: SocketAddr) -> Self {
        Self {
            url,
            pulse: Pulse::default(),
            place: Mutex::new(Some(server)),
            moved: Condvar::new(),
            drains: AtomicBool::new(false),
            done: AtomicU64::new(0),
            cut: AtomicU64::new(0),
        }
    }

    fn place_is(&self, place: Option<SocketAddr>) {
        *self.place.lock().expect("no thread panics") = place;
        self.moved.notify_all();
    }

    /// A client of the server, once there is one.
    fn client(&self) -> Client {
        let place = self.place.lock().expect("no thread panics");
        let place = self.moved.wait_while(place, |place| place.is_none()).expect("no thread panics");
        Client::new(place.expect("it was waited for"))
    }

    /// Sends and kills; the last server, and what was sent.
    fn kill(
        &self,
        world: &mut World,
        mut server: Server,
        random: &mut Random,
        kills: u64,
    ) -> (Server, BTreeSet<String>) {
        let mut sent = BTreeSet::new();
        for _ in 0..kills {
            sent.extend(send_some(&mut world.session()));
            self.pulse.wait_for(1 + random.below(MESSAGES_PER_KILL / 2));
            match random.below(4) {
                0 => {
                    self.place_is(None);
                    server.kill();
                    server = world.launch.start();
                }
                1 => {
                    self.place_is(None);
                    restart(&mut world.cluster, Cluster::kill);
                }
                _ => {
                    let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
                               where application_name = 'worker' order by random() limit 2";
                    world.session().batch_execute(cut).expect("it may");
                }
            }
            self.place_is(Some(server.address()));
        }
        (server, sent)
    }

    fn work(&self, mut random: Random) {
        let mut client = self.client();
        let mut session = None;
        let mut drain_begun = None;
        loop {
            let options =
                json!({"max_messages": 1 + random.below(4), "visibility_timeout": "1s", "wait": "1s"});
            let deliveries = match client.lease_with(QUEUE, &options) {
                Ok(deliveries) => deliveries,
                Err(error) => {
                    assert_will_pass(&error);
                    client = self.client();
                    continue;
                }
            };
            if self.drains.load(Ordering::SeqCst) {
                let since = *drain_begun.get_or_insert_with(Instant::now);
                let counts = client.counts(QUEUE);
                if deliveries.is_empty() && counts.as_ref().is_ok_and(|counts| *counts == Counts::default()) {
                    return;
                }
                assert!(since.elapsed() < DRAIN_MAX, "the queue does not drain: {counts:?}");
            }
            for delivery in &deliveries {
                // A session that failed once is of no use any more.
                let taken = session.take().map_or_else(|| self.connect(), Some);
                session = taken.and_then(|own| self.handle(own, delivery, &mut random));
            }
        }
    }

    fn connect(&self) -> Option<postgres::Client> {
        postgres::Client::connect(&format!("{}?application_name=worker", self.url), NoTls).ok()
    }

    /// Writes the row and completes the message; the session, if it goes on.
    fn handle(
        &self,
        mut session: postgres::Client,
        delivery: &Delivery,
        random: &mut Random,
    ) -> Option<postgres::Client> {
        self.pulse.beat();
        match write_and_complete(&mut session, delivery, random) {
            Ok(true) => {
                self.done.fetch_add(1, Ordering::SeqCst);
                return Some(session);
            }
            // It dies before it commits.
            Ok(false) => {}
            Err(error) => match state(&error) {
                UNIQUE_VIOLATION => panic!("{} came again although it is done", delivery.lease.message_id),
                // The lease is over, or is held by whoever's end the database has not noticed yet.
                "MP010" => return Some(session),
                "" | "57P01" | "57P02" | "57P03" | "08006" => {}
                other => panic!("{other}: {error}"),
            },
        }
        self.cut.fetch_add(1, Ordering::SeqCst);
        None
    }
}

/// `false`: it was left open.
fn write_and_complete(
    session: &mut postgres::Client,
    delivery: &Delivery,
    random: &mut Random,
) -> Result<bool, postgres::Error> {
    let mut transaction = session.transaction()?;
    transaction.execute("insert into ledger values ($1)", &[&delivery.lease.message_id])?;
    complete(&mut transaction, delivery)?;
    if random.chance(10) {
        std::mem::forget(transaction);
        return Ok(false);
    }
    transaction.commit().map(|()| true)
}

/// Sends by SQL; the message ids.
fn send_some(session: &mut postgres::Client) -> Vec<String> {
    let sql = format!(
        "select millpond.send('{QUEUE}', to_jsonb(n)) from generate_series(1, {MESSAGES_PER_KILL}) n"
    );
    session.query(&sql, &[]).expect("it is sent").iter().map(|row| row.get(0)).collect()
}

/// Ends the database in this way and starts it again.
pub(super) fn restart(cluster: &mut Cluster, end: fn(&mut Cluster) -> anyhow::Result<()>) {
    end(cluster).expect("it runs");
    cluster.run().expect("it can be started again");
}

/// What fails while something is gone says that it may be tried again.
pub(super) fn assert_will_pass(error: &CallError) {
    if let CallError::Refused { status, code, text } = error {
        let retryable = ["outcome_unknown", "shutting_down", "storage_unavailable"];
        assert!(*status == 503 && retryable.contains(&code.as_str()), "{text}");
    }
}
