//! Does a call once: the same key again gets the first answer, as long as it is remembered. Checks in order: key, a
//! call that waits, key seen before, number of keys, then those of the call. What is remembered is part of the commit of
//! the work.

use crate::apply::Stop;
use crate::change::RowKey;
use crate::command::{Command, Idempotency, Once};
use crate::limits;
use crate::outcome::{Outcome, Rejection};
use crate::planted;
use crate::remembered::Remembered;
use crate::row::{DedupKey, DedupRow};
use crate::stamp::Stamp;
use crate::state::Core;

/// Under what a call is remembered that is no send.
pub(super) fn call_key(idempotency: &Idempotency) -> DedupKey {
    DedupKey { queue: None, key: idempotency.key.clone() }
}

impl Core {
    pub(super) fn once(&mut self, once: &Once, stamp: &Stamp) -> Result<Outcome, Stop> {
        let Once { idempotency, command } = once;
        check_key(&idempotency.key)?;
        if let Command::BeginUpload(_) | Command::Browse(_) | Command::Lease(_) | Command::LeaseMessage(_) =
            **command
        {
            // It may have to wait, and what it was granted cannot be given to two.
            let limit = "no key on a call that waits";
            return Err(Rejection::out_of_range("idempotency-key", &idempotency.key, limit).into());
        }
        let key = call_key(idempotency);
        if let Some(row) = self.remembered(&key, idempotency.digest, stamp)? {
            return Ok(Outcome::Repeated(Box::new(row.answer.outcome())));
        }
        let outcome = self.dispatch(command, stamp)?;
        if let Some(answer) = Remembered::of(command, &outcome) {
            let expires_at = stamp.now.plus(limits::IDEMPOTENCY_WINDOW_MAX);
            self.remember(DedupRow { key, digest: idempotency.digest, answer, expires_at });
        }
        Ok(outcome)
    }

    /// What is remembered under a key, if it stands for the same call; `None`: it is free.
    pub(super) fn remembered(
        &self,
        key: &DedupKey,
        digest: u128,
        stamp: &Stamp,
    ) -> Result<Option<&DedupRow>, Stop> {
        let row = self.remembered_under(key, stamp)?;
        let any = |row: &DedupRow| matches!(&row.answer, Remembered::Sent(sent) if sent.is_external());
        if row.is_some_and(|row| row.digest != digest && !any(row)) {
            return Err(Rejection::IdempotencyKeyReused { key: key.key.clone() }.into());
        }
        Ok(row)
    }

    /// What is remembered under a key, whatever call that was; `None`: it is free.
    pub(super) fn remembered_under(&self, key: &DedupKey, stamp: &Stamp) -> Result<Option<&DedupRow>, Stop> {
        let Some(resident) = self.dedup.get(key) else {
            return Err(Stop::Needs(vec![RowKey::Dedup(key.clone())]));
        };
        if let Some(row) = resident.row.as_ref().filter(|row| row.expires_at > stamp.now) {
            return Ok(Some(row));
        }
        let limit = self.settings.dedup_keys;
        if resident.row.is_none() && self.environment.dedup_count >= limit {
            return Err(Rejection::DedupLimit { limit }.into());
        }
        Ok(None)
    }

    /// Remembers an answer. Its key is in memory and free.
    pub(super) fn remember(&mut self, row: DedupRow) {
        if row.key.queue.is_none() && planted!(CallRowLost) {
            return;
        }
        let replaces = self.dedup.get(&row.key).is_some_and(|resident| resident.row.is_some());
        if !replaces {
            self.environment.dedup_count += 1;
        }
        let commit = self.next_commit();
        self.sweeps.note_dedup_expiry(row.expires_at, commit);
        self.touch_dedup(row.key.clone(), Some(row));
    }
}

/// Whether a key is one.
pub(super) fn check_key(key: &str) -> Result<(), Rejection> {
    let length = key.len();
    if (1..=limits::IDEMPOTENCY_KEY_BYTES_MAX).contains(&length) {
        return Ok(());
    }
    let limit = format!("1 to {} bytes", limits::IDEMPOTENCY_KEY_BYTES_MAX);
    Err(Rejection::out_of_range("idempotency-key", length, limit))
}
