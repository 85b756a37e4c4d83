//! A worker: takes messages, has a function work on them, and settles them.
//!
//! ```no_run
//! # async fn example(client: millpond_client::Client) -> Result<(), millpond_client::Error> {
//! use millpond_client::{CancellationToken, Delivery, Nack, Worker};
//!
//! let stop = CancellationToken::new(); // cancelled elsewhere, on a signal for example
//! let worker = Worker::new(client, "mail").concurrency(8);
//! let tally = worker.run(stop, async |delivery: Delivery| {
//!     let address: String = delivery.message.event.data_as()?;
//!     println!("writing to {address}");
//!     Ok::<(), Nack>(())
//! }).await?;
//! println!("{} done", tally.acked);
//! # Ok(())
//! # }
//! ```
//!
//! - While the function runs its lease is extended, at a third of the timeout, so a slow function keeps its message and a
//!   dead process gives it back soon.
//! - A lease that is lost all the same cancels [`Delivery::lost`]: somebody else may be at work on the message.
//! - Stopped, the worker takes nothing more, lets what runs finish, and gives back what it took and did not begin.
//!
//! The work is done at least once: a lease that was granted in the very moment of the stop comes back when it runs out.

mod holds;
mod patience;
mod run;
mod standing;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::client::Client;
use crate::error::Error;
use crate::message::LeasedMessage;
use crate::source::Source;

/// The longest wait of a lease call that the server takes.
const WAIT: Duration = Duration::from_secs(20);

/// Takes messages from one queue, or for one group of a topic. See the [module](self).
#[derive(Clone)]
pub struct Worker {
    client: Client,
    source: Source,
    concurrency: usize,
    visibility_timeout: Option<Duration>,
    until_empty: bool,
    give_up_after: Option<Duration>,
    abandon: CancellationToken,
    observer: Arc<dyn Fn(WorkerEvent<'_>) + Send + Sync>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Worker")
            .field("source", &self.source)
            .field("concurrency", &self.concurrency)
            .finish_non_exhaustive()
    }
}

impl Worker {
    /// A worker that has one message worked on at a time.
    pub fn new(client: Client, source: impl Into<Source>) -> Self {
        Self {
            client,
            source: source.into(),
            concurrency: 1,
            visibility_timeout: None,
            until_empty: false,
            give_up_after: None,
            abandon: CancellationToken::new(),
            observer: Arc::new(|_| {}),
        }
    }

    /// How many messages are worked on at once, 1 at least.
    #[must_use]
    pub fn concurrency(mut self, count: usize) -> Self {
        self.concurrency = count.max(1);
        self
    }

    /// How long leases last between extensions, 1 s to 12 h. Unless it is set, the timeout that the queue has when the
    /// worker begins; what the queue is given later counts for later workers.
    #[must_use]
    pub fn visibility_timeout(mut self, timeout: Duration) -> Self {
        self.visibility_timeout = Some(timeout);
        self
    }

    /// Ends when the queue is empty: nothing ready, delayed, or leased by anybody. Of a group, when it has had everything, of
    /// whichever partition.
    #[must_use]
    pub fn until_empty(mut self) -> Self {
        self.until_empty = true;
        self
    }

    /// Ends with an error when the server could not be reached, or took no calls, for so long. Unless it is set the
    /// worker goes on trying.
    #[must_use]
    pub fn give_up_after(mut self, patience: Duration) -> Self {
        self.give_up_after = Some(patience);
        self
    }

    /// Ends the run at once when the token is cancelled: functions are dropped where they wait, nothing more is settled, and
    /// the messages come back when their leases run out.
    #[must_use]
    pub fn abandon_on(mut self, token: CancellationToken) -> Self {
        self.abandon = token;
        self
    }

    /// Is told what happens. It must not block: while it does, no lease is extended.
    #[must_use]
    pub fn observe(mut self, observer: impl Fn(WorkerEvent<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Arc::new(observer);
        self
    }

    /// Works until `stop` is cancelled, or until the queue is empty if that was asked for.
    ///
    /// A function that returns `Ok` has its message acked; one that returns [`Nack`], or panics, has it nacked. A message
    /// whose function was told that the lease is lost counts as lost, whatever the function returns.
    ///
    /// # Errors
    /// The queue or group cannot be read at the start, a call is refused for good (`queue_not_found`, say), or the worker gave up. What
    /// ran was finished and settled, as far as that was possible.
    pub async fn run<F, Fut>(self, stop: CancellationToken, function: F) -> Result<Tally, Error>
    where
        F: Fn(Delivery) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Nack>> + Send + 'static,
    {
        run::run(&self, stop, Arc::new(function)).await
    }
}

/// A message to work on.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What it is.
    pub message: LeasedMessage,
    /// Cancelled when the lease is lost. The function should end soon then; what it returns no longer matters.
    pub lost: CancellationToken,
}

/// Why a message was not done. Any error becomes one by `?`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nack {
    /// For people.
    pub reason: String,
    /// When the message comes back; none is the queue's backoff.
    pub delay: Option<Duration>,
}

impl Nack {
    /// The message comes back by the queue's backoff.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into(), delay: None }
    }

    /// The message comes back after so long.
    #[must_use]
    pub fn after(mut self, delay: Duration) -> Self {
        self.delay = Some(delay);
        self
    }
}

impl<E: std::error::Error> From<E> for Nack {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// What a worker did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Messages whose work is done.
    pub acked: u64,
    /// Messages whose work failed.
    pub nacked: u64,
    /// Messages that were given back without being begun.
    pub returned: u64,
    /// Messages whose lease was lost before they were settled.
    pub lost: u64,
}

/// What a worker tells its observer.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum WorkerEvent<'a> {
    /// A message is done, and the server knows.
    Acked {
        /// Which.
        message_id: &'a str,
    },
    /// The lease of a message was lost: its function was told, or what it returned came too late.
    Lost {
        /// Which.
        message_id: &'a str,
    },
    /// A message failed, and the server knows.
    Nacked {
        /// Which.
        message_id: &'a str,
        /// What the function said.
        reason: &'a str,
    },
    /// Something is left in the queue, but it is paused. Only told by a worker that waits for it to be empty.
    Paused,
    /// So many leases were extended.
    Renewed {
        /// Which.
        leases: &'a [crate::message::Lease],
    },
    /// A message was taken and its function begins.
    Taken {
        /// Which.
        message: &'a LeasedMessage,
    },
    /// A call failed; the worker tries again.
    Trouble {
        /// Why.
        error: &'a Error,
    },
}
