//! What a run has met, and how often: a simulation that never reaches a rule proves nothing about it.

use std::collections::BTreeMap;
use std::fmt;

use millpond_core::Command;
use millpond_core::command::{SettleAction, Settlement};
use millpond_core::outcome::{Outcome, Rejection};
use millpond_engine::environment::Action;
use millpond_engine::{BulkDone, PushNotice};

use crate::faults::Fault;
use crate::names::{self, kind_of};
use crate::workload::Kind;

/// Occurrences by name.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    counts: BTreeMap<String, u64>,
}

/// What is counted of readers.
const CHUNK_READ: &str = "chunk read";

/// Calls of groups that waited, and what came back to them.
const GROUP_WAITED: &str = "group waited";
const GROUP_AGAIN: &str = "group again";

/// What has to occur of groups.
const OF_GROUPS: [&str; 12] = [
    "group looked at",
    "group pinned",
    "group unpinned",
    GROUP_AGAIN,
    GROUP_WAITED,
    "message looked at",
    "message taken",
    "stale Acked",
    "stale Over",
    "stale Returned",
    "stale Taken",
    "stale Unknown",
];

/// What has to occur of pushes.
const OF_PUSHES: [&str; 11] = [
    "call ended",
    "copy made",
    "group pushed",
    "group read with what has no partition",
    "lease reserved",
    "notice of a topic",
    "notice of triggers",
    "reservation taken",
    "secret kept",
    "secret replaced",
    "triggers of a deployment put",
];

/// Outcomes that have to occur.
const OUTCOMES: [&str; 36] = [
    "Browsed empty",
    "Browsed some",
    "Browsed with more",
    "Bulk done",
    "Bulk done none",
    "Bulk refused",
    "Bulk repeated",
    "Data in chunks",
    "Data whole",
    "Done",
    "LeaseHeld",
    "LeaseHeld not",
    "Leased empty",
    "Leased some",
    "Message",
    "MessageDeleted",
    "Moved none",
    "Moved some",
    "Purged",
    "Queue",
    "QueueDeleted",
    "Queues",
    "Repeated Purged",
    "Repeated Queue",
    "Repeated QueueDeleted",
    "Repeated Settled",
    "Revived none",
    "Revived some",
    "Secret",
    "Sent",
    "Sent repeated",
    "Settled",
    "Triggers",
    "Undone",
    "UploadBegun",
    "UploadBegun remembered",
];

/// Rejections that have to occur.
const REJECTIONS: [&str; 30] = [
    "AlreadySettled",
    "BeyondExpiry",
    "ByteLimit",
    "ConcurrencyReached",
    "DeadLetterQueueInvalid",
    "DeadLettersElsewhere",
    "DedupLimit",
    "EtagMismatch",
    "IdempotencyKeyReused",
    "LeaseStale",
    "MessageDelayed",
    "MessageLeased",
    "MessageLimit",
    "MessageNotFound",
    "OutOfRange",
    "Paused",
    "QueueAlreadyExists",
    "QueueInUse",
    "QueueLimit",
    "QueueNotFound",
    "RunLimit",
    "StorageFull",
    "TriggerAlreadyExists",
    "TriggerLimit",
    "TriggerNotFound",
    "TriggerOverlaps",
    "Unsuited",
    "UploadLimit",
    "UploadLost",
    "WaiterLimit",
];

fn name_of(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Browsed(page) if page.next.is_some() => "Browsed with more",
        Outcome::Browsed(page) if page.deliveries.is_empty() => "Browsed empty",
        Outcome::Browsed(_) => "Browsed some",
        Outcome::Data(view) if view.pin.is_some() => "Data in chunks",
        Outcome::Data(_) => "Data whole",
        Outcome::Done => "Done",
        Outcome::LeaseHeld(Some(_)) => "LeaseHeld",
        Outcome::LeaseHeld(None) => "LeaseHeld not",
        Outcome::Leased(grants) if grants.is_empty() => "Leased empty",
        Outcome::Leased(_) => "Leased some",
        Outcome::Message(_) => "Message",
        Outcome::MessageDeleted => "MessageDeleted",
        Outcome::Moved { moved, .. } if moved.is_empty() => "Moved none",
        Outcome::Moved { .. } => "Moved some",
        Outcome::Purged(_) => "Purged",
        Outcome::Queue(_) => "Queue",
        Outcome::QueueDeleted(_) => "QueueDeleted",
        Outcome::Queues { .. } => "Queues",
        Outcome::Rejected(_) => "Rejected",
        Outcome::Repeated(_) => "Repeated",
        Outcome::Revived { revived, .. } if revived.is_empty() => "Revived none",
        Outcome::Revived { .. } => "Revived some",
        Outcome::Secret(_) => "Secret",
        Outcome::Sent(sent) if sent.repeated => "Sent repeated",
        Outcome::Sent(_) => "Sent",
        Outcome::Settled { .. } => "Settled",
        Outcome::Tallied(_) => "Tallied",
        Outcome::Triggers(_) => "Triggers",
        Outcome::Undone(_) => "Undone",
        Outcome::UploadBegun(None) => "UploadBegun remembered",
        Outcome::UploadBegun(Some(_)) => "UploadBegun",
        Outcome::Waiting => "Waiting",
    }
}
/// A look at queues of which something had to be read.
const LOOK_THAT_READS: &str = "look that reads";

impl Coverage {
    /// Everything that has to occur, at zero.
    #[must_use]
    pub fn expected() -> Self {
        let mut coverage = Self::default();
        for kind in Kind::ALL {
            coverage.add(format!("command {kind:?}"), 0);
        }
        for outcome in OUTCOMES {
            coverage.add(format!("outcome {outcome}"), 0);
        }
        for rejection in REJECTIONS {
            coverage.add(format!("rejection {rejection}"), 0);
        }
        for fault in Fault::ALL {
            coverage.add(format!("fault {fault:?}"), 0);
        }
        for name in OF_GROUPS.into_iter().chain(OF_PUSHES) {
            coverage.add(name.to_owned(), 0);
        }
        coverage.add(CHUNK_READ.to_owned(), 0);
        coverage.add(LOOK_THAT_READS.to_owned(), 0);
        coverage
    }

    /// Everything that has to occur where the disk loses power.
    #[must_use]
    pub fn expected_with_power_cuts() -> Self {
        let mut coverage = Self::expected();
        for fault in Fault::OF_DISK {
            coverage.add(format!("fault {fault:?}"), 0);
        }
        coverage
    }

    fn add(&mut self, name: String, times: u64) {
        *self.counts.entry(name).or_default() += times;
    }

    /// A command was submitted.
    pub fn command(&mut self, kind: Kind) {
        self.add(format!("command {kind:?}"), 1);
    }

    /// Somebody looked, and this was asked for.
    pub fn look(&mut self, actions: &[Action]) {
        self.add(LOOK_THAT_READS.to_owned(), u64::from(!actions.is_empty()));
    }

    /// A fault happened.
    pub fn fault(&mut self, fault: Fault) {
        self.add(format!("fault {fault:?}"), 1);
    }

    /// Groups gave up so many messages, which went to queues.
    pub fn copies(&mut self, made: usize) {
        self.add("copy made".to_owned(), u64::try_from(made).unwrap_or(0));
    }

    /// Those who push were told something.
    pub fn notice(&mut self, notice: &PushNotice) {
        let of = if *notice == PushNotice::Triggers { "triggers" } else { "a topic" };
        self.add(format!("notice of {of}"), 1);
    }

    /// A reader got a chunk.
    pub fn chunk_read(&mut self) {
        self.add(CHUNK_READ.to_owned(), 1);
    }

    /// An answer came.
    pub fn outcome(&mut self, command: &Command, outcome: &Outcome) {
        if let Outcome::Rejected(rejection) = outcome {
            return self.rejection(rejection);
        }
        self.of_groups(command, outcome);
        self.of_pushes(command, outcome);
        let name = match outcome {
            Outcome::Repeated(first) => format!("outcome Repeated {}", name_of(first)),
            outcome => format!("outcome {}", name_of(outcome)),
        };
        self.add(name, 1);
    }

    /// How groups are read, and why their leases are not held.
    fn of_groups(&mut self, command: &Command, outcome: &Outcome) {
        match (command, outcome) {
            (Command::Lease(lease), Outcome::Leased(grants))
                if kind_of(&lease.queue) == names::Kind::Group && !grants.is_empty() =>
            {
                let reading = &lease.reading;
                let pinned = if reading.partition.is_some() { "pinned" } else { "unpinned" };
                self.add(format!("group {}", if reading.look { "looked at" } else { pinned }), 1);
                self.add(GROUP_WAITED.to_owned(), u64::from(!lease.wait.is_zero()));
                let again = grants.iter().filter(|grant| grant.delivery_count > 1).count();
                self.add(GROUP_AGAIN.to_owned(), u64::try_from(again).unwrap_or(0));
            }
            (Command::LeaseMessage(lease), Outcome::Leased(_)) => {
                self.add(format!("message {}", if lease.reading.look { "looked at" } else { "taken" }), 1);
            }
            (Command::Settle(settle), Outcome::Settled { stale, .. }) => {
                for stale in stale {
                    let of = settle.settlements.iter().find(|one| one.lease == stale.lease);
                    if of.is_some_and(|one| kind_of(&one.queue) == names::Kind::Group) {
                        self.add(format!("stale {:?}", stale.why), 1);
                    }
                }
            }
            _ => {}
        }
    }

    fn of_pushes(&mut self, command: &Command, outcome: &Outcome) {
        let mut met = |name: &str, times: usize| self.add(name.to_owned(), u64::try_from(times).unwrap_or(0));
        match (command, outcome) {
            (Command::Lease(lease), Outcome::Leased(grants)) if !grants.is_empty() => {
                let reading = &lease.reading;
                met("group pushed", usize::from(reading.pushes));
                let both = reading.unpinned && reading.partition.is_some();
                met("group read with what has no partition", usize::from(both));
            }
            (Command::PutTriggers(put), Outcome::Triggers(_)) => {
                met("triggers of a deployment put", usize::from(put.deployment.is_some()));
            }
            (Command::SetSecret(set), Outcome::Secret(secret)) => {
                let name = if set.secret == secret.current { "secret replaced" } else { "secret kept" };
                met(name, 1);
            }
            (Command::Settle(settle), Outcome::Settled { stale, .. }) => {
                let done = |one: &&Settlement| stale.iter().all(|stale| stale.lease != one.lease);
                let done = || settle.settlements.iter().filter(done);
                met("call ended", done().filter(|one| one.action == SettleAction::EndCall).count());
                met("lease reserved", done().filter(|one| one.action == SettleAction::Reserve).count());
            }
            _ => {}
        }
    }

    /// A reservation was taken by who asked for its message.
    pub fn reservation(&mut self) {
        self.add("reservation taken".to_owned(), 1);
    }

    /// A bulk verb came to its end.
    pub fn bulk(&mut self, done: &Result<BulkDone, Rejection>) {
        match done {
            Ok(totals) if totals.repeated => self.add("outcome Bulk repeated".to_owned(), 1),
            Ok(totals) if totals.tally.done > 0 => self.add("outcome Bulk done".to_owned(), 1),
            Ok(_) => self.add("outcome Bulk done none".to_owned(), 1),
            Err(_) => self.add("outcome Bulk refused".to_owned(), 1),
        }
    }

    fn rejection(&mut self, rejection: &Rejection) {
        let text = format!("{rejection:?}");
        let name = text.split([' ', '(', '{']).next().unwrap_or_default();
        self.add(format!("rejection {name}"), 1);
    }

    /// Adds what another run met.
    pub fn merge(&mut self, other: &Self) {
        for (name, times) in &other.counts {
            self.add(name.clone(), *times);
        }
    }

    /// How often something occurred.
    #[must_use]
    pub fn times(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    /// What occurred less often than `least`.
    #[must_use]
    pub fn below(&self, least: u64) -> Vec<String> {
        let few = self.counts.iter().filter(|(_, times)| **times < least);
        few.map(|(name, times)| format!("{name}: {times}")).collect()
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, times) in &self.counts {
            writeln!(f, "{times:>10}  {name}")?;
        }
        Ok(())
    }
}
