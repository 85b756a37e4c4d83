//! One thread that wakes slots when something of theirs is due, and once a second looks after all of them: room in the
//! store, idle environments, closed environments in which something is due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use millpond_core::Command;
use millpond_store::Outage;

use crate::clock::Reading;
use crate::driver::pools::{WriteJob, WriteWork};
use crate::driver::slot::Phase;
use crate::driver::{Shared, Slot, lock};

/// How often slots are looked after.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// Closed environments opened in one go because something in them is due.
const DUE_ENVIRONMENTS: usize = 64;

struct Alarm {
    at: Instant,
    slot: Weak<Slot>,
}

impl PartialEq for Alarm {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}
impl Eq for Alarm {}
impl PartialOrd for Alarm {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Alarm {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

/// What the thread waits for.
#[derive(Default)]
struct Waited {
    alarms: BinaryHeap<Reverse<Alarm>>,
    /// Environments without a slot in which external commands wait.
    woken: Vec<Box<str>>,
}

#[derive(Default)]
pub(crate) struct Timer {
    waited: Mutex<Waited>,
    earlier: Condvar,
    /// Since when the store does not say what is due.
    due_unknown: Mutex<Outage>,
}

impl Timer {
    /// Runs the slot at `at`, by a clock that shows `now`.
    pub(super) fn arm(&self, slot: &Arc<Slot>, at: Duration, now: Duration) {
        let at = Instant::now() + at.saturating_sub(now);
        let mut waited = lock(&self.waited);
        let first = waited.alarms.peek().is_none_or(|Reverse(first)| at < first.at);
        waited.alarms.push(Reverse(Alarm { at, slot: Arc::downgrade(slot) }));
        drop(waited);
        if first {
            self.earlier.notify_one();
        }
    }

    /// External commands wait in an environment that has no slot.
    pub(super) fn look_at(&self, environment: &str) {
        lock(&self.waited).woken.push(environment.into());
        self.earlier.notify_one();
    }

    /// Waits until an alarm is due, an environment was woken or `until`, and answers the slots that are due, and the names.
    fn wait(&self, until: Instant) -> (Vec<Arc<Slot>>, Vec<Box<str>>) {
        let mut waited = lock(&self.waited);
        let now = Instant::now();
        let next = waited.alarms.peek().map_or(until, |Reverse(first)| first.at.min(until));
        if next > now && waited.woken.is_empty() {
            waited = match self.earlier.wait_timeout(waited, next - now) {
                Ok((guard, _)) => guard,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
        let now = Instant::now();
        let mut due = Vec::new();
        while waited.alarms.peek().is_some_and(|Reverse(first)| first.at <= now) {
            due.extend(waited.alarms.pop().and_then(|Reverse(alarm)| alarm.slot.upgrade()));
        }
        (due, std::mem::take(&mut waited.woken))
    }
}

pub(super) fn spawn(shared: &Arc<Shared>) {
    let weak = Arc::downgrade(shared);
    let started = thread::Builder::new().name("millpond-timer".into()).spawn(move || keep_time(&weak));
    if let Err(error) = started {
        tracing::error!(%error, "timer not started");
    }
}

fn keep_time(weak: &Weak<Shared>) {
    let mut look_after = Instant::now() + LOOK_AFTER;
    // Those of which the store did not say whether they are known: they are tried again.
    let mut doubtful: Vec<Box<str>> = Vec::new();
    loop {
        let Some(shared) = weak.upgrade() else { return };
        let (due, mut woken) = shared.timer.wait(look_after);
        due.iter().for_each(Slot::queue);
        if Instant::now() >= look_after {
            woken.append(&mut doubtful);
        }
        woken.sort_unstable();
        woken.dedup();
        doubtful.extend(woken.into_iter().filter(|name| !shared.is_closing() && !shared.wake_closed(name)));
        if Instant::now() >= look_after {
            look_after = Instant::now() + LOOK_AFTER;
            look_after_slots(&shared);
        }
    }
}

pub(super) fn look_after_slots(shared: &Arc<Shared>) {
    if shared.is_closing() {
        return;
    }
    let now = shared.clock.read();
    let mut open = Vec::new();
    for slot in shared.slots() {
        // A slot that is being worked on needs no looking after.
        let Ok(state) = slot.state.try_lock() else { continue };
        let idle = now.monotonic.saturating_sub(state.last_work);
        let opening = state.opening;
        match &state.phase {
            Phase::Open(_) => {
                drop(state);
                shared.write(&slot, WriteJob { slot: Arc::clone(&slot), opening, work: WriteWork::Space });
                open.push((idle, opening, slot));
            }
            Phase::Failed(_) => {
                drop(state);
                slot.queue();
            }
            Phase::Closed => {
                drop(state);
                shared.forget(&slot);
            }
        }
    }
    open.sort_by_key(|(idle, ..)| Reverse(*idle));
    let too_many = open.len().saturating_sub(shared.settings.environments_open);
    for (index, (idle, opening, slot)) in open.iter().enumerate() {
        if index < too_many || *idle >= shared.settings.idle_close {
            slot.close_if_idle(*opening);
        }
    }
    open_due(shared, now);
}

/// Opens closed environments in which something is due.
fn open_due(shared: &Arc<Shared>, now: Reading) {
    let due = shared.factory.due_environments(now.wall_millis, DUE_ENVIRONMENTS);
    let mut outage = lock(&shared.timer.due_unknown);
    match due {
        Ok(due) => {
            if let Some(lasted) = outage.over(now.monotonic) {
                tracing::info!(?lasted, "due environments known again");
            }
            for environment in due {
                if let Ok(slot) = shared.slot_blocking(&environment)
                    && !slot.is_open()
                {
                    slot.notify(Command::Tick);
                }
            }
        }
        Err(error) => {
            if let Some(lasted) = outage.failed(now.monotonic) {
                tracing::warn!(%error, ?lasted, "due environments not known");
            }
        }
    }
}
