//! Leases granted to nobody (B13): long polls hang up at random while messages arrive. Every delivery that a message has
//! spent belongs to an answer that a client has in full; whatever was granted to a poll that was gone is undone.
//!
//! A client that only stops sending still receives, so it knows for each of its polls whether the whole answer was
//! written, and its count must be the server's to the last one. One that closes its end does not know; there the count
//! may be off by answers that were under way, and no message may end as a dead letter.
//!
//! Answers are read in any order, so they are put in the order of their generations at the end: a grant that was undone
//! gives its number of the delivery count to the next one.

use std::collections::{BTreeMap, HashMap};

use millpond_blackbox::client::{Client, Counts, Delivery, deliveries, event};
use millpond_blackbox::http::{Connection, Request, Response};
use millpond_blackbox::random::{Random, seed};
use millpond_blackbox::server::{Launch, Server};
use serde_json::json;

const QUEUE: &str = "work";
const POLLS: u64 = 10_000;
/// Waiting at once.
const WAITING: usize = 300;
const MAX_DELIVERIES: u64 = 5;
/// So often may the clients of a run give one message back.
const GIVEN_BACK_MAX: u64 = 4;
/// Of all polls that close, so many may have had an answer under way.
const UNDER_WAY_MAX: u64 = 30;
/// More than the kernel takes for a client that does not read, in events of the greatest size.
const LARGE_EVENTS: usize = 30;
const LARGE_EVENT_BYTES: usize = 250_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum HangUp {
    /// Stops sending, and takes what comes.
    StopSending,
    /// Closes the socket.
    Close,
}

#[test]
fn a_delivery_is_spent_by_a_whole_answer_and_by_nothing_else() {
    let outcome = run(HangUp::StopSending);
    assert_eq!((outcome.unexplained, outcome.undone), (0, 0), "{outcome:?}");
}

#[test]
fn polls_that_close_their_sockets_make_no_dead_letters() {
    let outcome = run(HangUp::Close);
    assert!(outcome.unexplained <= UNDER_WAY_MAX, "{outcome:?}");
}

#[test]
fn an_answer_that_was_cut_off_in_the_middle_spends_nothing() {
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).start();
    let mut client = server.client();
    let spec = json!({"visibility_timeout": "3600s", "max_deliveries": MAX_DELIVERIES});
    client.create_queue(QUEUE, spec).expect("the queue is made");
    let data = "x".repeat(LARGE_EVENT_BYTES);
    for number in 0..LARGE_EVENTS {
        client.send(QUEUE, &[event(&number.to_string(), &data)], None).expect("it is sent");
    }
    // Once more than there are deliveries to spend.
    for _ in 0..=MAX_DELIVERIES {
        let poll = ask(&server, LARGE_EVENTS);
        poll.wait_for_answer().expect("it begins");
    }
    let mut taken = 0;
    while taken < LARGE_EVENTS {
        let deliveries = client.lease(QUEUE, 100, 20).expect("an answer");
        assert!(!deliveries.is_empty(), "only {taken} came back: {:?}", client.counts(QUEUE));
        assert!(deliveries.iter().all(|delivery| delivery.delivery_count == 1));
        taken += deliveries.len();
    }
}

/// What a run amounted to.
#[derive(Default, Debug)]
struct Outcome {
    sent: u64,
    /// Messages in answers, each time.
    answered: u64,
    hung_up: u64,
    /// Polls that had an answer although they hung up.
    answered_late: u64,
    /// Deliveries that the server counts and no answer explains.
    unexplained: u64,
    /// Deliveries that are in a whole answer and that the server took back.
    undone: u64,
}

fn run(how: HangUp) -> Outcome {
    let seed = seed();
    eprintln!("MILLPOND_SEED={seed}");
    let directory = tempfile::tempdir().expect("a directory can be made");
    let server = Launch::of(directory.path()).start();
    let mut client = server.client();
    // What was under way when a socket closed may all be about one message.
    let max_deliveries = GIVEN_BACK_MAX + 1 + if how == HangUp::Close { UNDER_WAY_MAX } else { 0 };
    let spec = json!({"visibility_timeout": "5s", "max_deliveries": max_deliveries});
    client.create_queue(QUEUE, spec).expect("the queue is made");
    let mut crowd = Crowd {
        how,
        server: &server,
        client,
        random: Random::new(seed),
        sender: Connection::open(server.address()).expect("it connects"),
        polls: Vec::new(),
        seen: HashMap::new(),
        outcome: Outcome::default(),
    };
    for number in 0..POLLS {
        crowd.step(number);
    }
    crowd.drain();
    eprintln!("{how:?}: {:?}", crowd.outcome);
    let counts = crowd.client.counts(QUEUE).expect("counts");
    assert_eq!(counts, Counts::default(), "MILLPOND_SEED={seed}: {:?}", crowd.outcome);
    assert!(crowd.outcome.hung_up > POLLS / 2 && crowd.outcome.sent > POLLS / 10, "{:?}", crowd.outcome);
    let outcome = std::mem::take(&mut crowd.outcome);
    drop(crowd);
    server.stop();
    outcome
}

/// Many clients in one thread.
struct Crowd<'a> {
    how: HangUp,
    server: &'a Server,
    client: Client,
    random: Random,
    sender: Connection,
    /// In the order in which they began to wait.
    polls: Vec<Connection>,
    /// Generation and delivery count of each answer that a message was in.
    seen: HashMap<String, BTreeMap<u64, u64>>,
    outcome: Outcome,
}

impl Crowd<'_> {
    /// One more poll; perhaps a message; perhaps one or two polls that hang up.
    fn step(&mut self, number: u64) {
        self.polls.push(ask(self.server, 2));
        if self.random.chance(25) {
            self.send(&number.to_string());
        }
        while self.polls.len() > WAITING || self.random.chance(35) && !self.polls.is_empty() {
            let chosen = self.random.below(self.polls.len() as u64);
            let poll = self.polls.remove(chosen as usize);
            self.hang_up(poll);
        }
        for _ in 0..2.min(self.polls.len()) {
            let chosen = self.random.below(self.polls.len() as u64) as usize;
            if self.polls[chosen].has_answer().expect("the server answers") {
                let mut poll = self.polls.remove(chosen);
                let response = poll.receive().expect("a whole answer");
                self.take(&response, true);
            }
        }
    }

    /// Sends a message. The first poll in line is about to get it, and hangs up half the time.
    fn send(&mut self, id: &str) {
        let body = json!({"events": [event(id, id)]}).to_string();
        let headers = [("content-type", "application/json")];
        let target = format!("/v1/queues/{QUEUE}:send");
        let request = Request { method: "POST", target: &target, headers: &headers, body: body.as_bytes() };
        self.sender.send(&request).expect("it is sent");
        if !self.polls.is_empty() && self.random.chance(50) {
            let poll = self.polls.remove(0);
            self.hang_up(poll);
        }
        assert_eq!(self.sender.receive().expect("an answer").status, 200);
        self.outcome.sent += 1;
    }

    fn hang_up(&mut self, mut poll: Connection) {
        self.outcome.hung_up += 1;
        let response = match self.how {
            HangUp::StopSending => poll.hang_up(),
            HangUp::Close => match poll.has_answer().expect("the server answers") {
                true => Some(poll.receive().expect("a whole answer")),
                false => None,
            },
        };
        if let Some(response) = response {
            self.outcome.answered_late += 1;
            self.take(&response, false);
        }
    }

    /// Counts what an answer holds. Half of those that hung up give it back, so that it is delivered again.
    fn take(&mut self, response: &Response, stays: bool) {
        let body = serde_json::from_slice(&response.body).expect("JSON");
        assert_eq!(response.status, 200, "{body}");
        let (mut acked, mut nacked) = (Vec::new(), Vec::new());
        for delivery in deliveries(&body) {
            self.note(&delivery);
            let often = delivery.delivery_count > GIVEN_BACK_MAX;
            let give_back = !stays && !often && self.random.chance(50);
            if give_back { &mut nacked } else { &mut acked }.push(delivery.lease);
        }
        // A stale one comes back, and is counted then.
        if !acked.is_empty() {
            self.client.ack(QUEUE, &acked).expect("an answer");
        }
        if !nacked.is_empty() {
            self.client.nack(QUEUE, &nacked).expect("an answer");
        }
    }

    fn note(&mut self, delivery: &Delivery) {
        self.outcome.answered += 1;
        let leases = self.seen.entry(delivery.lease.message_id.clone()).or_default();
        let before = leases.insert(delivery.lease.generation, delivery.delivery_count);
        assert_eq!(before, None, "{delivery:?} was granted twice");
    }

    /// All that are left hang up; what is left in the queue is taken.
    fn drain(&mut self) {
        for poll in std::mem::take(&mut self.polls) {
            self.hang_up(poll);
        }
        loop {
            let left = self.client.lease(QUEUE, 100, 6).expect("an answer");
            if left.is_empty() {
                break;
            }
            for delivery in &left {
                self.note(delivery);
            }
            let leases: Vec<_> = left.into_iter().map(|delivery| delivery.lease).collect();
            assert!(self.client.ack(QUEUE, &leases).expect("an answer").is_empty());
        }
        assert_eq!(self.seen.len() as u64, self.outcome.sent, "each message was in an answer");
        for leases in self.seen.values() {
            let mut counted = 0;
            for count in leases.values() {
                self.outcome.unexplained += count.saturating_sub(counted + 1);
                self.outcome.undone += (counted + 1).saturating_sub(*count);
                counted = *count;
            }
        }
    }
}

/// A connection on which a lease call waits.
fn ask(server: &Server, max_messages: usize) -> Connection {
    let mut poll = Connection::open(server.address()).expect("it connects");
    let headers = [("content-type", "application/json")];
    let body = json!({"max_messages": max_messages, "wait": "20s"}).to_string();
    let target = format!("/v1/queues/{QUEUE}:lease");
    let request = Request { method: "POST", target: &target, headers: &headers, body: body.as_bytes() };
    poll.send(&request).expect("it is sent");
    poll
}
