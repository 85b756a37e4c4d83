//! Nothing is lost: the server is killed again and again under four senders and four workers, at moments chosen by what
//! they have seen, and their journals have to add up.
//!
//! `MILLPOND_KILLS` sets how often (20), `MILLPOND_SEED` chooses the moments and the load. The threads' own timing does
//! not repeat, so a seed repeats a kind of run, not each step of it.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use millpond_blackbox::checker::check;
use millpond_blackbox::client::{CallError, Called, Client, Counts, Lease, event};
use millpond_blackbox::journal::{Journal, Pulse, Record, Settle, What};
use millpond_blackbox::random::{Random, seed};
use millpond_blackbox::server::Launch;
use serde_json::json;

const QUEUE: &str = "work";
const SENDERS: u64 = 4;
const WORKERS: u64 = 4;
const KILLS: u64 = 20;
const VISIBILITY: Duration = Duration::from_secs(1);
/// The drain takes seconds; the bound is for a run that hangs.
const DRAIN_MAX: Duration = Duration::from_secs(120);
const RESTART_MAX: Duration = Duration::from_secs(60);

#[test]
fn every_answered_send_is_acked_once_however_often_the_server_is_killed() {
    let kills = std::env::var("MILLPOND_KILLS").map_or(KILLS, |text| text.parse().expect("a number"));
    let seed = seed();
    eprintln!("MILLPOND_SEED={seed} MILLPOND_KILLS={kills}");
    let directory = tempfile::tempdir().expect("a directory can be made");
    let begun = Instant::now();
    let records = run(directory.path(), kills, seed);
    let (totals, breaches) = check(&records);
    eprintln!("{kills} kills in {:.1} s: {totals:?}", begun.elapsed().as_secs_f64());
    assert!(breaches.is_empty(), "MILLPOND_SEED={seed} MILLPOND_KILLS={kills}: {breaches:#?}");
    assert!(totals.sent as u64 > kills * 10, "too little happened between kills: {totals:?}");
    assert!(totals.perhaps_acked * 10 < totals.sent, "too little is known for sure: {totals:?}");
}

/// The load, the kills, the drain, and a last look at the counts; returns what all clients saw.
fn run(data_dir: &Path, kills: u64, seed: u64) -> Vec<Record> {
    let launch = Launch::of(data_dir);
    let mut server = launch.start();
    let spec = json!({"visibility_timeout": "1s", "max_deliveries": 100});
    server.client().create_queue(QUEUE, spec).expect("the queue is made");
    let run = Run::new(server.address());
    let mut random = Random::new(seed);
    let (server, records) = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for number in 0..SENDERS {
            let (own, run) = (random.fork(number), &run);
            threads.push(scope.spawn(move || run.send(number, own)));
        }
        for number in 0..WORKERS {
            let (own, run) = (random.fork(SENDERS + number), &run);
            threads.push(scope.spawn(move || run.work(own)));
        }
        for _ in 0..kills {
            // Long and short pauses alike, so that kills meet servers that have only just begun, too.
            let longest = [4, 100, 1_000, 4_000][random.below(4) as usize];
            run.pulse.wait_for(random.below(longest));
            let ended = server.kill();
            assert!(
                !ended.log.contains("restored"),
                "a restart was taken for a restored copy: {}",
                ended.log
            );
            server = launch.start();
            run.announce(server.address());
        }
        run.drains.store(true, Ordering::SeqCst);
        let journals = threads.into_iter().map(|thread| thread.join().expect("no client panics"));
        (server, journals.flat_map(|journal| journal.records).collect())
    });
    assert_eq!(server.client().counts(QUEUE).expect("counts"), Counts::default());
    server.stop();
    let server = launch.start();
    let mut client = server.client();
    assert_eq!(client.counts(QUEUE).expect("counts"), Counts::default(), "after a restart");
    assert!(client.lease(QUEUE, 100, 0).expect("a lease").is_empty());
    records
}

/// What all clients share.
struct Run {
    begun: Instant,
    pulse: Arc<Pulse>,
    /// How many servers there were, and where the present one is.
    server: Mutex<(u64, SocketAddr)>,
    restarted: Condvar,
    drains: AtomicBool,
}

/// A client and the server it talks to.
struct Seat<'a> {
    run: &'a Run,
    epoch: u64,
    client: Client,
    journal: Journal,
}

impl Run {
    fn new(address: SocketAddr) -> Self {
        Self {
            begun: Instant::now(),
            pulse: Arc::default(),
            server: Mutex::new((1, address)),
            restarted: Condvar::new(),
            drains: AtomicBool::new(false),
        }
    }

    fn announce(&self, address: SocketAddr) {
        let mut server = self.server.lock().expect("no client panics");
        *server = (server.0 + 1, address);
        self.restarted.notify_all();
    }

    fn seat(&self) -> Seat<'_> {
        let (epoch, address) = *self.server.lock().expect("no client panics");
        let journal = Journal::new(self.begun, Arc::clone(&self.pulse));
        Seat { run: self, epoch, client: Client::new(address), journal }
    }

    fn send(&self, number: u64, mut random: Random) -> Journal {
        let mut seat = self.seat();
        for call in 0.. {
            if self.drains.load(Ordering::SeqCst) {
                break;
            }
            let tags: Vec<String> =
                (0..=random.below(8)).map(|place| format!("{number}-{call}-{place}")).collect();
            let events: Vec<_> = tags.iter().map(|tag| event(tag, tag)).collect();
            let key = format!("{number}-{call}");
            let ids = seat.until_answered(|client, journal| {
                for tag in &tags {
                    journal.note(What::SendBegun { tag: tag.clone() });
                }
                client.send(QUEUE, &events, Some(&key))
            });
            assert_eq!(ids.len(), tags.len());
            for (tag, message_id) in tags.into_iter().zip(ids) {
                seat.journal.note(What::Sent { tag, message_id });
            }
        }
        seat.journal
    }

    fn work(&self, mut random: Random) -> Journal {
        let mut seat = self.seat();
        let mut drain_begun = None;
        loop {
            let leases = seat.lease(&mut random);
            if self.drains.load(Ordering::SeqCst) {
                let since = *drain_begun.get_or_insert_with(Instant::now);
                let counts = seat.until_answered(|client, _| client.counts(QUEUE));
                if leases.is_empty() && counts == Counts::default() {
                    return seat.journal;
                }
                assert!(since.elapsed() < DRAIN_MAX, "the queue does not drain: {counts:?}");
            }
            // Some are left to run out, some are given back.
            let kept: Vec<Lease> = leases.into_iter().filter(|_| !random.chance(1)).collect();
            let (nacked, acked): (Vec<_>, Vec<_>) = kept.into_iter().partition(|_| random.chance(5));
            seat.settle(Settle::Nack, &nacked);
            seat.settle(Settle::Ack, &acked);
        }
    }
}

impl Seat<'_> {
    /// Makes a call, again after each restart, until there is an answer.
    fn until_answered<T>(&mut self, mut call: impl FnMut(&mut Client, &mut Journal) -> Called<T>) -> T {
        loop {
            match call(&mut self.client, &mut self.journal) {
                Ok(result) => return result,
                Err(CallError::Unanswered(error)) => self.follow(&error),
                Err(refused) => panic!("refused: {refused:?}"),
            }
        }
    }

    /// Goes over to the server after the one that left a call unanswered.
    fn follow(&mut self, error: &std::io::Error) {
        let server = self.run.server.lock().expect("no client panics");
        let waited = self.run.restarted.wait_timeout_while(server, RESTART_MAX, |now| now.0 == self.epoch);
        let (server, waited) = waited.expect("no client panics");
        assert!(!waited.timed_out(), "a call failed and no kill explains it: {error}");
        self.epoch = server.0;
        self.client = Client::new(server.1);
    }

    fn lease(&mut self, random: &mut Random) -> Vec<Lease> {
        let (max, wait) = (1 + random.below(12), random.below(2));
        let mut begun = Duration::ZERO;
        let deliveries = self.until_answered(|client, journal| {
            begun = journal.now();
            client.lease(QUEUE, max, wait)
        });
        let mut leases = Vec::new();
        for delivery in deliveries {
            let tag = delivery.event["data"].as_str().expect("the tag").to_owned();
            let lease = delivery.lease.clone();
            self.journal.note(What::Leased { tag, lease, held_until: begun + VISIBILITY });
            leases.push(delivery.lease);
        }
        leases
    }

    fn settle(&mut self, settle: Settle, leases: &[Lease]) {
        if leases.is_empty() {
            return;
        }
        let stale: HashSet<Lease> = self
            .until_answered(|client, journal| {
                for lease in leases {
                    journal.note(What::SettleBegun { lease: lease.clone(), settle });
                }
                match settle {
                    Settle::Ack => client.ack(QUEUE, leases),
                    Settle::Nack => client.nack(QUEUE, leases),
                }
            })
            .into_iter()
            .collect();
        for lease in leases {
            let stale = stale.contains(lease);
            self.journal.note(What::Settled { lease: lease.clone(), settle, stale });
        }
    }
}
