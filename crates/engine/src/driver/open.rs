//! Opens a slot's environment, opens it again after a failure, and closes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_core::Command;
use millpond_core::id::Incarnation;
use millpond_core::time::Timestamp;
use millpond_store::{Lineage, Opened, Outage, Store, StoreError, StoreErrorKind};

use crate::EngineError;
use crate::clock::{Reading, StampClock};
use crate::commit::CommitFailure;
use crate::driver::slot::{Failed, Failure, OpenEnvironment, Phase, Slot, State};
use crate::driver::{Shared, lock, unavailable};
use crate::environment::{Doubt, Environment, Leftovers, PushNotice};

/// First wait before a store is opened again; doubled up to the longest.
const REOPEN_WAIT_MIN: Duration = Duration::from_millis(50);
const REOPEN_WAIT_MAX: Duration = Duration::from_secs(5);
/// Wait after a panic, which may well come again.
const PANIC_WAIT: Duration = Duration::from_secs(1);

impl Slot {
    /// Opens the environment, or notes when to try again.
    pub(super) fn open_environment(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let failed = match std::mem::replace(&mut state.phase, Phase::Closed) {
            Phase::Failed(failed) => Some(*failed),
            _ => None,
        };
        state.opening += 1;
        let hold = shared.factory.hold();
        match shared.factory.open(&self.name).and_then(finished) {
            Ok((mut store, opened)) => {
                let restored = opened.lineage == Lineage::Restored;
                if restored {
                    tracing::warn!(environment = %self.name, "opened a restored copy: leases found in it have ended");
                }
                let left = failed.as_ref().map(|failed| failed.left.incarnation()).unwrap_or_default();
                let reading = await_incarnation(shared, opened.environment.incarnation.max(left), restored);
                let clock = StampClock::new(opened.environment.stamp, reading);
                let now = Timestamp::from_millis(reading.wall_millis);
                let mut environment = Environment::new(shared.settings.environment, opened, now);
                // Before anything else: sends that come first may not eat what is kept for acks.
                let low = store.stats().is_ok_and(|stats| stats.space_low);
                environment.notify(Command::SetSpace { low });
                let again = failed.is_some();
                if let Some(mut failed) = failed {
                    environment.resume(failed.left);
                    let lasted = failed.outage.over(reading.monotonic).unwrap_or_default();
                    tracing::info!(environment = %self.name, ?lasted, "opened again");
                }
                *lock(&self.store) = Some((state.opening, store));
                state.space_low = low;
                state.armed = None;
                // Being opened is work: whoever was opened for something that is due is not idle.
                state.last_work = reading.monotonic;
                state.phase =
                    Phase::Open(Box::new(OpenEnvironment { environment, clock, hold, seen: Vec::new() }));
                self.set_failed(false);
                self.set_open(true);
                if again {
                    // What became of a commit that changed triggers may not have been known.
                    shared.notify_pushers(&self.name, PushNotice::Triggers);
                    // Last: who sees it counted sees it open.
                    shared.counters.reopened.fetch_add(1, Ordering::Release);
                }
                shared.closed.forget(&self.name);
            }
            Err(error) => {
                self.note_failure(shared, state, failed, &error);
                shared.counters.not_opened();
            }
        }
    }

    fn note_failure(&self, shared: &Shared, state: &mut State, before: Option<Failed>, error: &StoreError) {
        let now = shared.clock.read().monotonic;
        let mut failed = before.unwrap_or_else(|| Failed {
            left: Leftovers::default(),
            attempts: 0,
            since: now,
            retry_at: now,
            outage: Outage::default(),
            error: EngineError::ShuttingDown,
        });
        failed.attempts += 1;
        failed.retry_at = now + reopen_wait(failed.attempts, now);
        failed.error = unavailable(error);
        if let Some(lasted) = failed.outage.failed(now) {
            let attempts = failed.attempts;
            tracing::error!(environment = %self.name, %error, attempts, ?lasted, "store not opened");
        }
        state.phase = Phase::Failed(Box::new(failed));
        self.set_failed(true);
    }

    /// A commit or read failed: memory is dropped, callers learn what is known, the store is opened again.
    pub(super) fn fail(self: &Arc<Self>, shared: &Shared, state: &mut State, failure: Failure) {
        let Phase::Open(open) = std::mem::replace(&mut state.phase, Phase::Closed) else { return };
        self.set_open(false);
        self.set_failed(true);
        shared.counters.failed(&failure);
        // Before anybody is told: waiting begins with the failure.
        let now = shared.clock.read().monotonic;
        self.enough.store(0, Ordering::SeqCst);
        *lock(&self.store) = None;
        lock(&self.readers).clear();
        let (doubt, unknown, error) = match failure {
            Failure::Commit(CommitFailure { unknown, error }) => (Doubt::First, unknown, error),
            Failure::Read(error) => (Doubt::All, true, error),
            Failure::Panic => (
                Doubt::All,
                true,
                StoreError::new(StoreErrorKind::Unavailable, "a rule of the engine was broken"),
            ),
        };
        tracing::error!(environment = %self.name, %error, unknown, "store failed; environment is opened again");
        // That was told: attempts to open it that fail go on with it.
        let mut outage = Outage::default();
        let _: Option<Duration> = outage.failed(now);
        let mut left = open.environment.fail(doubt);
        let doubtful = unknown.then(|| EngineError::Unknown(error.to_string()));
        let later = unavailable(&error);
        for ticket in std::mem::take(&mut left.doubtful) {
            self.reply(shared, state, ticket, Err(doubtful.clone().unwrap_or_else(|| later.clone())));
        }
        for ticket in std::mem::take(&mut left.later) {
            self.reply(shared, state, ticket, Err(later.clone()));
        }
        let failed = Failed { left, attempts: 0, since: now, retry_at: now, outage, error: later };
        state.phase = Phase::Failed(Box::new(failed));
    }

    /// A turn ended in a panic: its environment is dropped like one whose store failed, and everybody who may have been
    /// touched by it is told so. The others go on.
    pub(super) fn survive_panic(self: &Arc<Self>, shared: &Shared) {
        let mut state = lock(&self.state);
        let state = &mut *state;
        self.fail(shared, state, Failure::Panic);
        if !matches!(state.phase, Phase::Failed(_)) {
            shared.counters.failed(&Failure::Panic);
            let error = StoreError::new(StoreErrorKind::Unavailable, "a rule of the engine was broken");
            self.note_failure(shared, state, None, &error);
        }
        let Phase::Failed(failed) = &mut state.phase else { return };
        failed.retry_at += PANIC_WAIT;
        let kept = failed.left.tickets();
        let lost: Vec<_> = state.callers.keys().filter(|ticket| !kept.contains(ticket)).copied().collect();
        for ticket in lost {
            let error = EngineError::Unknown("a rule of the engine was broken".to_owned());
            self.reply(shared, state, ticket, Err(error));
        }
        self.queue();
    }

    /// While the store cannot be opened, callers that have waited long enough are told.
    pub(super) fn give_up_waiting(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let Phase::Failed(failed) = &mut state.phase else { return };
        let waited = shared.clock.read().monotonic.saturating_sub(failed.since);
        let may_heal = !matches!(failed.error, EngineError::Corrupt(_));
        if failed.attempts == 0 || (may_heal && waited < shared.settings.unavailable_wait) {
            return;
        }
        failed.left.forget_callers();
        let error = failed.error.clone();
        let tickets: Vec<_> = state.callers.keys().copied().collect();
        for ticket in tickets {
            self.reply(shared, state, ticket, Err(error.clone()));
        }
    }

    /// Closes the environment; the catalogue remembers when it has to be opened again.
    pub(super) fn close_environment(&self, shared: &Shared, state: &mut State) {
        let Phase::Open(open) = std::mem::replace(&mut state.phase, Phase::Closed) else { return };
        self.set_open(false);
        let most = shared.settings.closed_entries;
        shared.closed.remember(&self.name, &open.environment, most);
        lock(&self.readers).clear();
        let next_due = open.environment.next_due_when_closed().map(Timestamp::as_millis);
        // Before it closes: one that is closed and was not given a time counts as due at once.
        if let Err(error) = shared.factory.set_next_due(&self.name, next_due) {
            tracing::warn!(environment = %self.name, %error, "due time of a closed environment not stored");
        }
        if let Some((_, store)) = lock(&self.store).take()
            && let Err(error) = store.close()
        {
            tracing::warn!(environment = %self.name, %error, "store not closed in order");
        }
    }
}

/// Refuses what an import has not finished: half of an environment looks like a whole one.
fn finished((store, opened): (Box<dyn Store>, Opened)) -> Result<(Box<dyn Store>, Opened), StoreError> {
    if opened.environment.incarnation != Incarnation::IMPORTING {
        return Ok((store, opened));
    }
    store.close()?;
    let context = "an import into it was broken off; `millpond import` of the same file goes on with it";
    Err(StoreError::new(StoreErrorKind::Corrupt, context))
}

/// Lets no environment be opened more often than incarnations are given by the clock: waits for the rest of the period,
/// unless the clock is behind for another reason. A restored copy does not know when its lost future was opened: that may
/// have been in this very period.
fn await_incarnation(shared: &Shared, last: Incarnation, restored: bool) -> Reading {
    let reading = shared.clock.read();
    let by_clock = Incarnation::by_clock(Timestamp::from_millis(reading.wall_millis));
    if last != by_clock && !restored {
        return reading;
    }
    let rest = Incarnation::PERIOD_MILLIS - reading.wall_millis.rem_euclid(Incarnation::PERIOD_MILLIS);
    std::thread::sleep(Duration::from_millis(rest.unsigned_abs()));
    shared.clock.read()
}

/// Doubles from attempt to attempt, with half of it drawn by chance so that many servers do not come at once.
fn reopen_wait(attempts: u32, now: Duration) -> Duration {
    let doublings = attempts.saturating_sub(1).min(10);
    let wait = REOPEN_WAIT_MIN.saturating_mul(1 << doublings).min(REOPEN_WAIT_MAX);
    let draw = millpond_core::mix(u64::from(now.subsec_nanos()) ^ u64::from(attempts)) % 512;
    wait / 2 + wait.mul_f64(f64::from(u32::try_from(draw).unwrap_or(0)) / 1024.0)
}
