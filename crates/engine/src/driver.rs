//! Runs environments on threads: a few that apply, a few that commit, a few that read, one that keeps time.
//!
//! Each environment has a slot (`driver/slot.rs`) that at most one thread runs at a time. Whoever brings something to a
//! slot runs it at once if it is idle, or leaves it to the thread that is running it.

mod backup;
mod catalogue;
mod counters;
mod open;
mod pools;
mod run;
mod slot;
mod survey;
mod timer;
mod turn;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crossbeam_channel::Sender;
use millpond_core::Command;
use millpond_store::{StoreError, StoreErrorKind, StoreFactory};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::environment::{PushNotice, command_bytes};
use crate::{Answer, EngineError, EngineSettings};
pub use backup::BackupProgress;
use catalogue::Catalogue;
use counters::Counters;
pub use counters::{EngineMetrics, EngineStats, ExternalRefused, Failures};
use pools::{Pools, WriteJob};
pub(crate) use pools::{ReadJob, ReadWork};
use slot::Mail;
pub(crate) use slot::Slot;
use survey::ClosedSurveys;
pub use survey::{Survey, SurveyPage};
use timer::Timer;

/// Takes a lock that a panic may have poisoned: whoever panicked has dropped, or is about to drop, the environment whose
/// data it guards (`open.rs`, `survive_panic`).
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whoever pushes, and is told of an environment.
type Pusher = UnboundedSender<(Box<str>, PushNotice)>;

pub(crate) struct Shared {
    pub(crate) settings: EngineSettings,
    pub(crate) factory: Arc<dyn StoreFactory>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) counters: Counters,
    pub(crate) closed: ClosedSurveys,
    catalogue: Catalogue,
    slots: Mutex<HashMap<Box<str>, Arc<Slot>>>,
    run: Sender<Arc<Slot>>,
    writers: Vec<Sender<WriteJob>>,
    readers: Sender<ReadJob>,
    /// A thread of its own, which leaves the others to those who only read.
    claimer: Sender<ReadJob>,
    timer: Timer,
    pushers: Mutex<Vec<Pusher>>,
    closing: AtomicBool,
}

impl Shared {
    pub(crate) fn start(
        settings: EngineSettings,
        factory: Arc<dyn StoreFactory>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        let pools = Pools::new(&settings);
        let shared = Arc::new(Self {
            settings,
            catalogue: Catalogue::start(&factory),
            factory,
            clock,
            counters: Counters::default(),
            closed: ClosedSurveys::default(),
            slots: Mutex::new(HashMap::new()),
            run: pools.run.0.clone(),
            writers: pools.writers.iter().map(|(sender, _)| sender.clone()).collect(),
            readers: pools.readers.0.clone(),
            claimer: pools.claimer.0.clone(),
            timer: Timer::default(),
            pushers: Mutex::default(),
            closing: AtomicBool::new(false),
        });
        pools.spawn(&settings);
        timer::spawn(&shared);
        let weak = Arc::downgrade(&shared);
        shared.factory.watch(Arc::new(move |environment: &str| {
            if let Some(shared) = weak.upgrade() {
                shared.wake(environment);
            }
        }));
        shared
    }

    pub(crate) async fn submit(
        self: &Arc<Self>,
        environment: &str,
        command: Command,
    ) -> Result<Answer, EngineError> {
        if self.is_closing() {
            return Err(EngineError::ShuttingDown);
        }
        let slot = self.slot(environment).await?;
        let (sender, receiver) = oneshot::channel();
        let bytes = command_bytes(&command);
        let taken = slot.push(Mail { command, sender, bytes }, &self.settings);
        let (ticket, waiting) = taken.inspect_err(|error| self.counters.refused(error))?;
        let mut guard = Abandon { slot: &slot, ticket: Some(ticket) };
        slot.poke(waiting);
        let answer = receiver.await;
        guard.ticket = None;
        answer.unwrap_or(Err(EngineError::ShuttingDown))
    }

    /// External commands wait in an environment. Waits for nothing: the store may be in the middle of something.
    fn wake(&self, environment: &str) {
        let slot = lock(&self.slots).get(environment).cloned();
        match slot {
            Some(slot) => slot.wake(),
            None => self.timer.look_at(environment),
        }
    }

    /// The same, where the store may be asked whether there is such an environment. `false`: it did not say.
    fn wake_closed(self: &Arc<Self>, environment: &str) -> bool {
        match self.slot_blocking(environment) {
            Ok(slot) => slot.wake(),
            Err(EngineError::EnvironmentNotFound(_)) => {}
            Err(_) => return false,
        }
        true
    }

    /// Tells of what concerns those who push, from now on; of environments that are open and have triggers at once.
    pub(crate) fn watch_pushes(&self) -> UnboundedReceiver<(Box<str>, PushNotice)> {
        let (sender, receiver) = unbounded_channel();
        // Before those that are open are listed: none may be opened between.
        lock(&self.pushers).push(sender.clone());
        for name in self.names_open() {
            // The receiver is here.
            let _ = sender.send((name, PushNotice::Triggers));
        }
        receiver
    }

    pub(crate) fn notify_pushers(&self, environment: &str, notice: PushNotice) {
        lock(&self.pushers).retain(|pusher| pusher.send((environment.into(), notice.clone())).is_ok());
    }

    /// It has been told to shut down: nothing is opened any more by itself.
    fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) fn slots(&self) -> Vec<Arc<Slot>> {
        lock(&self.slots).values().cloned().collect()
    }

    /// Forgets a slot that is closed and that nobody uses.
    fn forget(&self, slot: &Arc<Slot>) {
        let mut slots = lock(&self.slots);
        // One count for the map, one for the caller: nobody else can bring anything to it.
        if Arc::strong_count(slot) <= 2 && slot.is_forgettable() {
            slots.remove(&*slot.name);
        }
    }

    pub(crate) fn nudge(self: &Arc<Self>) {
        timer::look_after_slots(self);
        for slot in self.slots() {
            slot.run_soon();
        }
    }

    pub(crate) async fn shut_down(&self) {
        self.closing.store(true, Ordering::Release);
        let mut closed = Vec::new();
        for slot in self.slots() {
            let (sender, receiver) = oneshot::channel();
            slot.close(sender);
            closed.push(receiver);
        }
        for receiver in closed {
            // An error means that the slot is gone, and so closed.
            let _ = receiver.await;
        }
    }

    fn write(&self, slot: &Slot, job: WriteJob) {
        if let Some(writer) = self.writers.get(slot.writer) {
            // The threads live as long as the engine: the channel cannot be closed.
            let _ = writer.send(job);
        }
    }

    pub(crate) fn read(&self, job: ReadJob) {
        let readers = if job.work.claims() { &self.claimer } else { &self.readers };
        let _ = readers.send(job);
    }
}

pub(crate) fn unavailable(error: &StoreError) -> EngineError {
    match error.kind {
        StoreErrorKind::Corrupt => EngineError::Corrupt(error.to_string()),
        StoreErrorKind::Full => EngineError::Full,
        _ => EngineError::Unavailable(error.to_string()),
    }
}

/// Gives a command up when its caller leaves.
struct Abandon<'a> {
    slot: &'a Arc<Slot>,
    ticket: Option<u64>,
}

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            self.slot.abandon(ticket);
        }
    }
}

pub(crate) type WeakShared = Weak<Shared>;
