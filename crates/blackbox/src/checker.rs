//! Holds the journals of all clients against what was promised.
//!
//! Answers bind, silence does not: an ack that was never answered may have happened, so a message that is gone after it
//! is not lost, and one that comes back after it is no breach. Everything else has to add up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::journal::{Record, Settle, What};

/// The server's clock is read before its answers are and counts in milliseconds.
const CLOCK_SLACK: Duration = Duration::from_millis(20);

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Breach {
    /// Acked under two leases.
    AckedTwice { message_id: String, generations: [u64; 2] },
    /// Handed out although its ack was answered.
    CameBack { message_id: String, acked: u64, leased: u64 },
    /// One number for two leases.
    GenerationReused { message_id: String, generation: u64 },
    /// Handed out while an earlier lease was held.
    HeldTwice { message_id: String, generations: [u64; 2] },
    /// Sent, answered, and never acked.
    Lost { tag: String, message_id: String },
    /// Handed out, but nobody sent it.
    Phantom { tag: String },
    /// Stored twice, or under another id than was answered.
    SentTwice { tag: String, message_ids: BTreeSet<String> },
}

/// What a run amounted to.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    /// Messages whose send was answered.
    pub sent: usize,
    /// Messages handed out, counted each time.
    pub leased: usize,
    /// Messages with an answered ack.
    pub acked: usize,
    /// Messages whose ack was never answered for sure but that are gone.
    pub perhaps_acked: usize,
    /// Settles that came too late.
    pub stale: usize,
}

/// One message, as all clients saw it.
#[derive(Default)]
struct Seen {
    tag: String,
    leases: BTreeMap<u64, Held>,
    reused: Vec<u64>,
}

/// One lease of it.
#[derive(Default)]
struct Held {
    answered: Duration,
    held_until: Duration,
    acks_begun: usize,
    is_acked: bool,
    /// The first settle of either kind; from then on the lease may be over.
    settle_begun: Option<Duration>,
}

/// Looks for breaches in the records of all clients, in any order.
pub fn check(records: &[Record]) -> (Totals, Vec<Breach>) {
    let mut breaches = Vec::new();
    let mut begun = BTreeSet::new();
    let mut ids: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let mut answered = BTreeMap::new();
    for record in records {
        match &record.what {
            What::SendBegun { tag } => drop(begun.insert(tag.as_str())),
            What::Sent { tag, message_id } => {
                ids.entry(tag).or_default().insert(message_id.clone());
                answered.insert(message_id.as_str(), tag.as_str());
            }
            What::Leased { tag, lease, .. } => {
                ids.entry(tag).or_default().insert(lease.message_id.clone());
            }
            What::SettleBegun { .. } | What::Settled { .. } => {}
        }
    }
    let seen = gather(records);
    for (tag, message_ids) in ids {
        if !begun.contains(tag) {
            breaches.push(Breach::Phantom { tag: tag.to_owned() });
        }
        if message_ids.len() > 1 {
            breaches.push(Breach::SentTwice { tag: tag.to_owned(), message_ids });
        }
    }
    for (message_id, message) in &seen {
        check_leases(message_id, message, &mut breaches);
    }
    let mut totals = Totals { sent: answered.len(), ..Totals::default() };
    for (message_id, tag) in answered {
        let message = seen.get(message_id);
        let leases = || message.into_iter().flat_map(|message| message.leases.values());
        if leases().any(|lease| lease.is_acked) {
            totals.acked += 1;
        } else if leases().any(|lease| lease.acks_begun > 1) {
            totals.perhaps_acked += 1;
        } else {
            breaches.push(Breach::Lost { tag: tag.to_owned(), message_id: message_id.to_owned() });
        }
    }
    totals.leased = seen.values().map(|message| message.leases.len()).sum();
    totals.stale =
        records.iter().filter(|record| matches!(record.what, What::Settled { stale: true, .. })).count();
    (totals, breaches)
}

fn gather(records: &[Record]) -> BTreeMap<&str, Seen> {
    let mut seen: BTreeMap<&str, Seen> = BTreeMap::new();
    for record in records {
        let (lease, tag) = match &record.what {
            What::Leased { lease, tag, .. } => (lease, Some(tag)),
            What::SettleBegun { lease, .. } | What::Settled { lease, .. } => (lease, None),
            What::SendBegun { .. } | What::Sent { .. } => continue,
        };
        let message = seen.entry(&lease.message_id).or_default();
        if let Some(tag) = tag {
            message.tag.clone_from(tag);
            if message.leases.get(&lease.generation).is_some_and(|held| !held.answered.is_zero()) {
                message.reused.push(lease.generation);
            }
        }
        let held = message.leases.entry(lease.generation).or_default();
        match &record.what {
            What::Leased { held_until, .. } => {
                (held.answered, held.held_until) = (record.at.max(Duration::from_nanos(1)), *held_until);
            }
            What::SettleBegun { settle, .. } => {
                held.acks_begun += usize::from(*settle == Settle::Ack);
                held.settle_begun = Some(held.settle_begun.map_or(record.at, |first| first.min(record.at)));
            }
            What::Settled { settle, stale, .. } => held.is_acked |= *settle == Settle::Ack && !stale,
            What::SendBegun { .. } | What::Sent { .. } => {}
        }
    }
    seen
}

fn check_leases(message_id: &str, message: &Seen, breaches: &mut Vec<Breach>) {
    let id = || message_id.to_owned();
    for generation in &message.reused {
        breaches.push(Breach::GenerationReused { message_id: id(), generation: *generation });
    }
    let acked: Vec<u64> =
        message.leases.iter().filter(|(_, held)| held.is_acked).map(|(number, _)| *number).collect();
    if let [first, second, ..] = acked[..] {
        breaches.push(Breach::AckedTwice { message_id: id(), generations: [first, second] });
    }
    let last = message.leases.keys().next_back().copied().unwrap_or(0);
    if let Some(acked) = acked.first().filter(|acked| **acked < last) {
        breaches.push(Breach::CameBack { message_id: id(), acked: *acked, leased: last });
    }
    let numbers = message.leases.iter().zip(message.leases.iter().skip(1));
    for ((first, earlier), (second, later)) in numbers {
        let over = earlier.settle_begun.unwrap_or(Duration::MAX).min(earlier.held_until);
        if later.answered + CLOCK_SLACK < over {
            breaches.push(Breach::HeldTwice { message_id: id(), generations: [*first, *second] });
        }
    }
}

#[cfg(test)]
#[path = "checker/tests.rs"]
mod tests;
