//! Calls with an idempotency key that are no sends: done once within a day, answered alike ever after.

use millpond_core::Outcome;
use millpond_core::command::{Command, Idempotency, Once};
use millpond_core::id::MessageId;
use millpond_core::limits::IDEMPOTENCY_WINDOW_MAX;
use millpond_core::outcome::{Stale, Tally, WhyStale};
use millpond_core::row::DedupRow;
use millpond_core::time::Timestamp;
use millpond_store::MemoryDump;

use crate::auditor::doubt::Doubt;
use crate::auditor::{Answered, Auditor, Breach, Verdict, demand};

/// A call that the environment remembers.
#[derive(Clone, Debug)]
pub struct RememberedCall {
    /// What the key stands for.
    pub digest: u128,
    /// The first answer.
    pub answer: Outcome,
    /// Until when, at the earliest and at the latest.
    pub expires_at: (Timestamp, Timestamp),
}

impl RememberedCall {
    fn stored(row: &DedupRow) -> Self {
        let expires_at = (row.expires_at, row.expires_at);
        Self { digest: row.digest, answer: row.answer.outcome(), expires_at }
    }

    fn is_like(&self, row: &DedupRow) -> bool {
        self.digest == row.digest
            && self.answer == row.answer.outcome()
            && (self.expires_at.0..=self.expires_at.1).contains(&row.expires_at)
    }
}

/// Whether a call that was answered so is remembered.
fn is_remembered(command: &Command, outcome: &Outcome) -> bool {
    let validates = match command {
        Command::CreateQueue(create) => create.validate_only,
        Command::DeleteQueue(delete) => delete.validate_only,
        Command::UpdateQueue(update) => update.validate_only,
        _ => false,
    };
    let reads = matches!(command, Command::GetQueue { .. });
    !validates && !reads && !matches!(outcome, Outcome::Rejected(_))
}

/// The answer as it will be repeated: of messages brought back only the number.
fn remembered(command: &Command, outcome: &Outcome) -> Outcome {
    let tally = |before: Tally, done: usize, skipped: &Vec<MessageId>| {
        Outcome::Tallied(before.and(done, skipped.len()))
    };
    match (command, outcome) {
        (Command::MoveMessages(moves), Outcome::Moved { moved, skipped }) => {
            tally(moves.before, moved.len(), skipped)
        }
        (Command::Revive(revive), Outcome::Revived { revived, skipped }) => {
            tally(revive.before, revived.len(), skipped)
        }
        // Why leases were stale is not remembered.
        (_, Outcome::Settled { stale, sent }) => {
            let stale = stale.iter().map(|stale| Stale { why: WhyStale::Over, ..*stale });
            Outcome::Settled { stale: stale.collect(), sent: sent.clone() }
        }
        _ => outcome.clone(),
    }
}

impl Auditor {
    /// A call was answered as repeated.
    pub fn call_repeated(
        &self,
        idempotency: &Idempotency,
        first: &Outcome,
        answered: &Answered<'_>,
    ) -> Verdict {
        let key = &idempotency.key;
        let Some(known) = self.calls.get(key) else {
            return Err(Breach(format!("key {key} was answered as repeated, but is new")));
        };
        demand!(known.digest == idempotency.digest, "key {key} stands for two calls");
        demand!(known.answer == *first, "key {key} was answered {:?}, then {first:?}", known.answer);
        demand!(
            known.expires_at.1 > answered.submitted.stamp,
            "key {key} was remembered for more than a day"
        );
        Ok(())
    }

    /// Whether a key stands, or may stand, for another call.
    #[must_use]
    pub fn call_differs(&self, idempotency: &Idempotency, answered: &Answered<'_>) -> bool {
        self.calls.get(&idempotency.key).is_some_and(|known| {
            known.digest != idempotency.digest && known.expires_at.1 > answered.submitted.stamp
        })
    }

    /// A call is about to be done, so it must not have been done within a day.
    pub fn check_call_is_new(&self, idempotency: &Idempotency, answered: &Answered<'_>) -> Verdict {
        let known = self.calls.get(&idempotency.key);
        demand!(
            known.is_none_or(|known| known.expires_at.0 <= answered.stamp),
            "key {} was used twice within a day",
            idempotency.key
        );
        Ok(())
    }

    /// A call was done.
    pub fn call_done(&mut self, once: &Once, answered: &Answered<'_>) {
        if !is_remembered(&once.command, answered.outcome) {
            return;
        }
        let until = |stamp: Timestamp| stamp.plus(IDEMPOTENCY_WINDOW_MAX);
        let call = RememberedCall {
            digest: once.idempotency.digest,
            answer: remembered(&once.command, answered.outcome),
            expires_at: (until(answered.submitted.stamp), until(answered.stamp)),
        };
        self.calls.insert(once.idempotency.key.clone(), call);
    }

    /// What is stored of calls is what was answered, or belongs to lost ones, of which it is learnt.
    pub(super) fn compare_calls(&mut self, dump: &MemoryDump, doubt: &Doubt<'_>, now: Timestamp) -> Verdict {
        for row in dump.dedup.iter().filter(|row| row.key.queue.is_none()) {
            let key = &row.key.key;
            let known = self.calls.get(key);
            if known.is_some_and(|known| known.is_like(row)) {
                self.calls.insert(key.clone(), RememberedCall::stored(row));
                continue;
            }
            let is_lost =
                |once: &&&Once| once.idempotency.key == *key && once.idempotency.digest == row.digest;
            let free = known.is_none_or(|known| known.expires_at.0 <= now);
            let lost = doubt.calls.iter().find(is_lost);
            demand!(free && lost.is_some(), "key {key} is stored as {row:?}, known is {known:?}");
            self.calls.insert(key.clone(), RememberedCall::stored(row));
        }
        for (key, known) in &self.calls {
            let stored = dump.dedup.iter().any(|row| row.key.queue.is_none() && row.key.key == *key);
            demand!(
                stored || known.expires_at.0 <= now,
                "key {key} is forgotten before {:?}",
                known.expires_at
            );
        }
        Ok(())
    }
}
