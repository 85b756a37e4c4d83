//! Opens a slot's environment, opens it again after a failure, and closes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_core::time::Timestamp;
use millpond_store::{Lineage, StoreError};

use crate::EngineError;
use crate::clock::StampClock;
use crate::commit::CommitFailure;
use crate::driver::pools::{WriteJob, WriteWork};
use crate::driver::slot::{Failed, Failure, OpenEnvironment, Phase, Slot, State};
use crate::driver::{Shared, lock, unavailable};
use crate::environment::{Doubt, Environment, Leftovers};

/// First wait before a store is opened again; doubled up to the longest.
const REOPEN_WAIT_MIN: Duration = Duration::from_millis(50);
const REOPEN_WAIT_MAX: Duration = Duration::from_secs(5);

impl Slot {
    /// Opens the environment, or notes when to try again.
    pub(super) fn open_environment(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let failed = match std::mem::replace(&mut state.phase, Phase::Closed) {
            Phase::Failed(failed) => Some(*failed),
            _ => None,
        };
        state.opening += 1;
        match shared.factory.open(&self.name) {
            Ok((store, opened)) => {
                if opened.lineage == Lineage::Restored {
                    tracing::warn!(environment = %self.name, "opened a restored copy: leases found in it have ended");
                }
                let reading = shared.clock.read();
                let clock = StampClock::new(opened.environment.stamp, reading);
                let now = Timestamp::from_millis(reading.wall_millis);
                let mut environment = Environment::new(shared.settings.environment, opened, now);
                if let Some(failed) = failed {
                    environment.resume(failed.left);
                    shared.counters.reopened.fetch_add(1, Ordering::Relaxed);
                    tracing::info!(environment = %self.name, "opened again");
                }
                *lock(&self.store) = Some((state.opening, store));
                state.space_low = false;
                state.armed = None;
                state.phase = Phase::Open(Box::new(OpenEnvironment { environment, clock }));
                self.set_open(true);
                // It may have been opened again because there was no room.
                let (slot, opening) = (Arc::clone(self), state.opening);
                shared.write(self, WriteJob { slot, opening, work: WriteWork::Space });
            }
            Err(error) => self.note_failure(shared, state, failed, &error),
        }
    }

    fn note_failure(&self, shared: &Shared, state: &mut State, before: Option<Failed>, error: &StoreError) {
        let now = shared.clock.read().monotonic;
        let mut failed = before.unwrap_or_else(|| Failed {
            left: Leftovers::default(),
            attempts: 0,
            since: now,
            retry_at: now,
            error: String::new(),
        });
        failed.attempts += 1;
        failed.retry_at = now + reopen_wait(failed.attempts, now);
        failed.error = error.to_string();
        tracing::error!(environment = %self.name, %error, attempts = failed.attempts, "store not opened");
        state.phase = Phase::Failed(Box::new(failed));
    }

    /// A commit or read failed: memory is dropped, callers learn what is known, the store is opened again.
    pub(super) fn fail(self: &Arc<Self>, shared: &Shared, state: &mut State, failure: Failure) {
        let Phase::Open(open) = std::mem::replace(&mut state.phase, Phase::Closed) else { return };
        self.set_open(false);
        self.full.store(false, Ordering::SeqCst);
        *lock(&self.store) = None;
        lock(&self.readers).clear();
        let (doubt, unknown, error) = match failure {
            Failure::Commit(CommitFailure { unknown, error }) => (Doubt::First, unknown, error),
            Failure::Read(error) => (Doubt::All, true, error),
        };
        tracing::error!(environment = %self.name, %error, unknown, "store failed; environment is opened again");
        let mut left = open.environment.fail(doubt);
        let doubtful = unknown.then(|| EngineError::Unknown(error.to_string()));
        let later = unavailable(error);
        for ticket in std::mem::take(&mut left.doubtful) {
            self.reply(shared, state, ticket, Err(doubtful.clone().unwrap_or_else(|| later.clone())));
        }
        for ticket in std::mem::take(&mut left.later) {
            self.reply(shared, state, ticket, Err(later.clone()));
        }
        let now = shared.clock.read().monotonic;
        let failed = Failed { left, attempts: 0, since: now, retry_at: now, error: later.to_string() };
        state.phase = Phase::Failed(Box::new(failed));
    }

    /// While the store cannot be opened, callers that have waited long enough are told.
    pub(super) fn give_up_waiting(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let Phase::Failed(failed) = &mut state.phase else { return };
        let waited = shared.clock.read().monotonic.saturating_sub(failed.since);
        if waited < shared.settings.unavailable_wait {
            return;
        }
        failed.left.forget_callers();
        let error = failed.error.clone();
        let tickets: Vec<_> = state.callers.keys().copied().collect();
        for ticket in tickets {
            self.reply(shared, state, ticket, Err(EngineError::Unavailable(error.clone())));
        }
    }

    /// Closes the environment; the catalogue remembers when it has to be opened again.
    pub(super) fn close_environment(&self, shared: &Shared, state: &mut State) {
        let Phase::Open(open) = std::mem::replace(&mut state.phase, Phase::Closed) else { return };
        self.set_open(false);
        lock(&self.readers).clear();
        let next_due = open.environment.next_due_when_closed().map(Timestamp::as_millis);
        if let Some((_, store)) = lock(&self.store).take()
            && let Err(error) = store.close()
        {
            tracing::warn!(environment = %self.name, %error, "store not closed in order");
        }
        if let Err(error) = shared.factory.set_next_due(&self.name, next_due) {
            tracing::warn!(environment = %self.name, %error, "due time of a closed environment not stored");
        }
    }
}

/// Doubles from attempt to attempt, with half of it drawn by chance so that many servers do not come at once.
fn reopen_wait(attempts: u32, now: Duration) -> Duration {
    let doublings = attempts.saturating_sub(1).min(10);
    let wait = REOPEN_WAIT_MIN.saturating_mul(1 << doublings).min(REOPEN_WAIT_MAX);
    let draw = millpond_core::mix(u64::from(now.subsec_nanos()) ^ u64::from(attempts)) % 512;
    wait / 2 + wait.mul_f64(f64::from(u32::try_from(draw).unwrap_or(0)) / 1024.0)
}
