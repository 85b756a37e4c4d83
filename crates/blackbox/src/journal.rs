//! What one client saw, in its own order, and a pulse that beats with each record, by which others time themselves.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::client::Lease;

/// If nothing happens for so long, the run is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// One thing that a client did or learnt.
#[derive(Clone, Debug)]
pub struct Record {
    /// Time since the run began.
    pub at: Duration,
    /// What it was.
    pub what: What,
}

/// What a record says. A tag is in the event's data; it names what the sender meant to send, once.
#[derive(Clone, Debug)]
pub enum What {
    /// A send of this is on its way, perhaps again, under the same idempotency key.
    SendBegun {
        /// What is sent.
        tag: String,
    },
    /// A send was answered.
    Sent {
        /// What was sent.
        tag: String,
        /// Under which id.
        message_id: String,
    },
    /// A message was handed out.
    Leased {
        /// What it is.
        tag: String,
        /// Its lease.
        lease: Lease,
        /// The lease doesn't end before this time: what the call asked for, counted from its start.
        held_until: Duration,
    },
    /// An ack or nack is on its way, perhaps again.
    SettleBegun {
        /// Of which lease.
        lease: Lease,
        /// Which of the two.
        settle: Settle,
    },
    /// An ack or nack was answered.
    Settled {
        /// Of which lease.
        lease: Lease,
        /// Which of the two.
        settle: Settle,
        /// It was refused because the lease was not held any more.
        stale: bool,
    },
}

/// How a lease is ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Settle {
    /// The message is done.
    Ack,
    /// The message is to be handed out again.
    Nack,
}

/// The journal of one client.
#[derive(Debug)]
pub struct Journal {
    /// What was noted so far.
    pub records: Vec<Record>,
    begun: Instant,
    pulse: Arc<Pulse>,
}

impl Journal {
    /// An empty journal in a run that began then.
    pub fn new(begun: Instant, pulse: Arc<Pulse>) -> Self {
        Self { records: Vec::new(), begun, pulse }
    }

    /// Time since the run began.
    pub fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Notes something that happens now.
    pub fn note(&mut self, what: What) {
        self.records.push(Record { at: self.now(), what });
        self.pulse.beat();
    }
}

/// Counts the records of all journals.
#[derive(Debug, Default)]
pub struct Pulse {
    count: Mutex<u64>,
    beaten: Condvar,
}

impl Pulse {
    /// Counts one more.
    pub fn beat(&self) {
        *self.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.beaten.notify_all();
    }

    /// Waits for so many further records.
    ///
    /// # Panics
    /// None come any more.
    pub fn wait_for(&self, more: u64) {
        let mut count = self.count.lock().unwrap_or_else(PoisonError::into_inner);
        let goal = *count + more;
        while *count < goal {
            let before = *count;
            let stuck = |count: &mut u64| *count == before;
            let waited = self.beaten.wait_timeout_while(count, SILENCE_MAX, stuck);
            let (now, waited) = waited.unwrap_or_else(PoisonError::into_inner);
            assert!(!waited.timed_out(), "no client has seen anything for {SILENCE_MAX:?}");
            count = now;
        }
    }
}
