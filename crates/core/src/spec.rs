//! What a queue promises, as data: every policy in which the systems served differ is a field here.
//!
//! The core reads these fields; no surface decides a queue rule for itself.

use std::time::Duration;

/// The policies of one queue. `Default` is the native API's queue (Sylphx rules). They can be changed; each counts when it
/// is looked at, so a change concerns later sends (`delay`, `retention`), leases (`concurrency_max`, `leased_max`,
/// `visibility_timeout`), ends of leases (`at_limit`, `attempt_limit`, `backoff`, `lost_lease`) and acks
/// (`finished_retention`), and by `fresh_first` and `order` messages that become ready later.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueSpec {
    /// What happens to a message that is out of attempts.
    pub at_limit: AtLimit,
    /// How many attempts a message has, and what counts as one; `None`: no limit.
    pub attempt_limit: Option<AttemptLimit>,
    /// How long a failed message waits before it is ready again, unless the nack says.
    pub backoff: Option<Backoff>,
    /// At most so many deliveries leased at once, exactly, across restarts; `None`: no limit.
    pub concurrency_max: Option<u32>,
    /// Delay of a send that names none.
    pub delay: Duration,
    /// How long a finished message stays readable; zero: it leaves at once.
    pub finished_retention: Duration,
    /// Never-delivered messages before retried ones.
    pub fresh_first: bool,
    /// Bound on leases held at once, so that memory has one (design-holes B7).
    pub leased_max: u32,
    /// What a lease that ran out means.
    pub lost_lease: LostLease,
    /// By what time the ready messages are ordered.
    pub order: Order,
    /// How long a message lives from its send; `None`: for ever.
    pub retention: Option<Duration>,
    /// How long a lease lasts unless the lease says.
    pub visibility_timeout: Duration,
}

impl QueueSpec {
    /// A topic that is made by being used, and its groups: Vercel's rules. Messages are tried until they expire, new ones before those
    /// that came back.
    #[must_use]
    pub fn topic() -> Self {
        Self {
            at_limit: AtLimit::Drop,
            attempt_limit: None,
            fresh_first: true,
            retention: Some(crate::limits::TOPIC_RETENTION_DEFAULT),
            visibility_timeout: Duration::from_secs(60),
            ..Self::default()
        }
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        Self {
            at_limit: AtLimit::DeadLetterSet,
            attempt_limit: Some(AttemptLimit { max: 5, counts: Counted::Deliveries }),
            backoff: None,
            concurrency_max: None,
            delay: Duration::ZERO,
            finished_retention: Duration::ZERO,
            fresh_first: false,
            leased_max: crate::limits::LEASED_DEFAULT,
            lost_lease: LostLease { backs_off: false, in_a_row_max: None, spends_attempt: true },
            order: Order::Visible,
            retention: Some(crate::limits::RETENTION_DEFAULT),
            visibility_timeout: Duration::from_secs(30),
        }
    }
}

/// A bound on attempts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AttemptLimit {
    /// At this count the message is out of attempts. At least 1.
    pub max: u32,
    /// Which count.
    pub counts: Counted,
}

/// Which of a delivery's counts a limit looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counted {
    /// Leases granted.
    Deliveries,
    /// Attempts spent.
    Failures,
}

/// What becomes of a message out of attempts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AtLimit {
    /// It is removed.
    Drop,
    /// It stays in the queue's own dead-letter set.
    DeadLetterSet,
    /// It moves to another queue of the environment, with counts of zero; if that queue is gone, `otherwise`.
    MoveTo {
        /// Name of the queue that takes it.
        queue: Box<str>,
        /// What happens when there is no such queue.
        otherwise: Gone,
    },
}

/// What becomes of a message whose dead-letter queue no longer exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Gone {
    /// It is removed.
    Drop,
    /// It stays in its queue's own dead-letter set.
    DeadLetterSet,
}

/// Wait before the next attempt: initial × factor^(failures − 1), at most `max`, × U(jitter).
/// The random number comes from the stamp.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Backoff {
    /// Wait after the first failure.
    pub initial: Duration,
    /// What each further failure multiplies it by, in thousandths (2,000 doubles).
    pub factor_permille: u32,
    /// Upper bound, before jitter.
    pub max: Duration,
    /// Lowest and highest multiplier, in thousandths; (1,000, 1,000) is no jitter.
    pub jitter_permille: (u32, u32),
}

impl Backoff {
    /// Always the same.
    #[must_use]
    pub fn fixed(wait: Duration) -> Self {
        Self { initial: wait, factor_permille: 1_000, max: wait, jitter_permille: (1_000, 1_000) }
    }
}

/// What a lease that ran out without an answer means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LostLease {
    /// The message waits as after a failure; otherwise it is ready at once.
    pub backs_off: bool,
    /// So many in a row put the message out of attempts, whatever else counts.
    pub in_a_row_max: Option<u32>,
    /// It spends an attempt.
    pub spends_attempt: bool,
}

/// The time that orders ready messages of equal priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// When the message became visible (Runlot, Sylphx, Vercel).
    Visible,
    /// When it was sent: a retried message keeps its place (pg-boss).
    Sent,
}

/// The policies of a trigger. They lie over those of its group for what the trigger reads.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TriggerSpec {
    /// How long a message waits whose push failed: 1 ms to 24 h.
    pub retry_after: Duration,
    /// For how long nothing is pushed after the trigger was made: 0 to 24 h.
    pub initial_delay: Duration,
    /// After so many deliveries a message leaves the group; at least 1. `None`: it is tried until it expires.
    pub max_deliveries: Option<u32>,
    /// At most so many deliveries of the group leased at once, whoever holds them; at least 1. `None`: no limit of its own.
    pub max_concurrency: Option<u32>,
    /// Name of the queue that takes messages out of deliveries; `None`: they only leave the group.
    pub dead_letter_queue: Option<Box<str>>,
    /// How long a push's lease lasts: 1 s to 12 h.
    pub lease: Duration,
}

impl Default for TriggerSpec {
    fn default() -> Self {
        Self {
            retry_after: Duration::from_secs(60),
            initial_delay: Duration::ZERO,
            max_deliveries: None,
            max_concurrency: None,
            dead_letter_queue: None,
            lease: Duration::from_secs(300),
        }
    }
}

impl TriggerSpec {
    /// A group's policies for what the trigger reads.
    #[must_use]
    pub fn over(&self, group: &QueueSpec) -> QueueSpec {
        QueueSpec {
            at_limit: match &self.dead_letter_queue {
                Some(queue) => AtLimit::MoveTo { queue: queue.clone(), otherwise: Gone::Drop },
                None => AtLimit::Drop,
            },
            attempt_limit: self.max_deliveries.map(|max| AttemptLimit { max, counts: Counted::Deliveries }),
            backoff: Some(Backoff::fixed(self.retry_after)),
            ..group.clone()
        }
    }
}
