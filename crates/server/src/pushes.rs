//! What this server needs of the part that pushes, whichever that is.
//!
//! A server without one keeps triggers and pushes nothing.

use std::pin::Pin;
use std::time::Duration;

use millpond_api::Fault;
use millpond_core::id::{MessageId, Uid};
use millpond_core::time::Timestamp;
use millpond_push::record::{Ended, Record, Statistics};
use millpond_push::token::{Claims, TokenError};
use millpond_push::{Pusher, Target};

pub use millpond_api::push::PushOutcome;

/// Pushes messages by triggers.
pub trait Pushes: Send + Sync {
    /// What became of the pushes of a trigger since the server was started. `None`: there is none of this identity in this
    /// environment, as far as is known here.
    fn statistics(&self, environment: &str, trigger: Uid) -> Option<PushStatistics>;

    /// Whether a target may be pushed to. It is an `http` or `https` URL with a host, without user name and fragment.
    fn check_target(&self, target: &str) -> Result<(), TargetRefusal>;

    /// Triggers of an environment were made or removed, or the secret replaced. Ends when what was removed is pushed no
    /// more, and what is new is known.
    fn changed<'a>(&'a self, environment: &'a str) -> Changed<'a>;

    /// What a token says that came with a push.
    fn verify<'a>(&'a self, environment: &'a str, token: &'a str) -> Verified<'a>;
}

/// See [`Pushes::verify`].
pub type Verified<'a> = Pin<Box<dyn Future<Output = Result<Claims, TokenError>> + Send + 'a>>;

impl Pushes for Pusher {
    fn statistics(&self, environment: &str, trigger: Uid) -> Option<PushStatistics> {
        Some(shown(&Pusher::statistics(self, environment, trigger)?))
    }

    fn check_target(&self, target: &str) -> Result<(), TargetRefusal> {
        let url = Target::parse(target).map_err(|fault| TargetRefusal::Malformed(expected(&fault)))?;
        self.allowed()
            .check_literal(&url)
            .map_err(|fault| TargetRefusal::NotAllowed(format!("expected {}", expected(&fault))))
    }

    fn changed<'a>(&'a self, environment: &'a str) -> Changed<'a> {
        Box::pin(Pusher::changed(self, environment))
    }

    fn verify<'a>(&'a self, environment: &'a str, token: &'a str) -> Verified<'a> {
        Box::pin(Pusher::verify(self, environment, token))
    }
}

fn expected(fault: &Fault) -> String {
    fault.expected.to_string()
}

fn shown(statistics: &Statistics) -> PushStatistics {
    let totals = statistics.totals;
    let parts = [
        totals.succeeded,
        totals.failed,
        totals.broken,
        totals.gave_up,
        totals.unreachable,
        totals.unwritable,
    ];
    PushStatistics {
        total: parts.iter().sum(),
        succeeded: totals.succeeded,
        failed: totals.failed,
        broken: totals.broken,
        gave_up: totals.gave_up,
        unreachable: totals.unreachable,
        unwritable: totals.unwritable,
        in_flight: u64::try_from(statistics.in_flight).unwrap_or(u64::MAX),
        duration_p50_ms: statistics.percentile(50).map(millis),
        duration_p99_ms: statistics.percentile(99).map(millis),
        last: statistics.last.iter().map(record).collect(),
    }
}

fn record(record: &Record) -> PushRecord {
    let (outcome, status, error) = match &record.ended {
        Ended::Broken { error } => (PushOutcome::Broken, None, Some(error)),
        Ended::Failed { status, body } => (PushOutcome::Failed, Some(*status), Some(body)),
        Ended::GaveUp => (PushOutcome::GaveUp, None, None),
        Ended::Succeeded { status } => (PushOutcome::Succeeded, Some(*status), None),
        Ended::Unreachable { error } => (PushOutcome::Unreachable, None, Some(error)),
        Ended::Unwritable { error } => (PushOutcome::Unwritable, None, Some(error)),
    };
    PushRecord {
        at: record.at,
        message: record.message,
        delivery_count: record.delivery_count,
        inline: record.inline,
        duration_ms: millis(record.duration),
        outcome,
        status,
        error: error.filter(|error| !error.is_empty()).cloned(),
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// See [`Pushes::changed`].
pub type Changed<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Why a target may not be pushed to. Each completes a sentence that begins with the target.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TargetRefusal {
    /// It cannot be one: `expected …`.
    Malformed(String),
    /// The operator does not allow it.
    NotAllowed(String),
}

/// Pushes of a trigger since the server was started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PushStatistics {
    /// Pushes that ended: the sum of the next six.
    pub total: u64,
    /// The answer was 2xx.
    pub succeeded: u64,
    /// The answer was another one.
    pub failed: u64,
    /// The connection broke before an answer.
    pub broken: u64,
    /// There was no answer while the lease lasted.
    pub gave_up: u64,
    /// There was no connection.
    pub unreachable: u64,
    /// The message cannot be written as a push.
    pub unwritable: u64,
    /// Pushes that have no answer yet.
    pub in_flight: u64,
    /// Half of the last pushes that reached their target took at most so many milliseconds. `None`: none did.
    pub duration_p50_ms: Option<u64>,
    /// Of a hundred of them 99 did.
    pub duration_p99_ms: Option<u64>,
    /// The last ones, newest first: at most [`PUSHES_KEPT_MAX`](millpond_api::limits::PUSHES_KEPT_MAX).
    pub last: Vec<PushRecord>,
}

/// One push.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PushRecord {
    /// When it ended.
    pub at: Timestamp,
    /// The message.
    pub message: MessageId,
    /// Deliveries of the message to the group, this one included.
    pub delivery_count: u32,
    /// The data went with it.
    pub inline: bool,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// What became of it.
    pub outcome: PushOutcome,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// What went wrong: how an answer that is not 2xx begins, or why there was none.
    pub error: Option<String>,
}

/// What every target is, allowed or not.
pub(crate) fn check_form(target: &str) -> Result<(), TargetRefusal> {
    Target::parse(target).map(drop).map_err(|fault| TargetRefusal::Malformed(expected(&fault)))
}
