//! An environment's place in the engine: what was brought to it, and who runs it (`turn.rs`).
//!
//! Invariant: only the thread that has the turn touches the state; what is brought meanwhile makes it run again.

use std::collections::HashMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use millpond_core::id::CommitSequence;
use millpond_core::row::MessageContent;
use millpond_core::{ChangeSet, Command, Page, Rows};
use millpond_store::{ExternalPage, Outage, Store, StoreError, StoreReader};
use tokio::sync::oneshot;

use crate::clock::StampClock;
use crate::commit::CommitFailure;
use crate::driver::backup::CopyJob;
use crate::driver::pools::ReadJob;
use crate::driver::survey::{Asked, Seen};
use crate::driver::turn::Turn;
use crate::driver::{WeakShared, lock};
use crate::environment::{Environment, Leftovers, ReadId, Ticket};
use crate::{Answer, EngineError, EngineSettings};

pub(crate) type Reply = oneshot::Sender<Result<Answer, EngineError>>;

/// A command with its caller.
pub(crate) struct Mail {
    pub(crate) command: Command,
    pub(crate) sender: Reply,
    pub(crate) bytes: usize,
}

/// What threads bring back. Each names the opening it belongs to; those of an earlier one are ignored.
pub(crate) enum Event {
    Committed(CommitSequence, Result<(), CommitFailure>),
    Rows(ReadId, Result<Rows, StoreError>),
    Contents(ReadId, Result<Vec<Option<Arc<MessageContent>>>, StoreError>),
    Page(ReadId, Result<Page, StoreError>),
    External(ReadId, Result<ExternalPage, StoreError>),
    /// The store broke a promise in a way that only a panic tells.
    Panicked,
    Space(bool),
}

/// Why an environment's memory ends.
pub(crate) enum Failure {
    Commit(CommitFailure),
    Read(StoreError),
    /// A rule of the core or the engine was broken: nothing that memory says can be trusted.
    Panic,
}

/// What was brought since the last turn.
#[derive(Default)]
pub(crate) struct Brought {
    pub(crate) mails: Vec<(Ticket, Mail)>,
    pub(crate) notices: Vec<Command>,
    pub(crate) abandoned: Vec<Ticket>,
    pub(crate) events: Vec<(u64, Event)>,
    pub(crate) asked: Vec<Asked>,
    pub(crate) copies: Vec<CopyJob>,
    pub(crate) close: Vec<oneshot::Sender<()>>,
    /// External commands may have come.
    pub(crate) woken: bool,
    /// Close the environment if it is idle and this is still the same opening of it.
    pub(crate) close_if_idle: Option<u64>,
}

#[derive(Default)]
pub(crate) struct Inbox {
    pub(crate) brought: Brought,
    next_ticket: Ticket,
}

impl Inbox {
    /// Commands and notices that wait to be taken.
    fn waiting(&self) -> usize {
        self.brought.mails.len() + self.brought.notices.len() + self.brought.abandoned.len()
    }

    /// Nothing was brought that waits.
    fn is_empty(&self) -> bool {
        let Brought { mails, notices, close, woken, .. } = &self.brought;
        mails.is_empty() && notices.is_empty() && close.is_empty() && !woken
    }
}

/// What the running thread owns.
pub(crate) struct State {
    pub(crate) phase: Phase,
    pub(crate) callers: HashMap<Ticket, Caller>,
    /// Counts openings.
    pub(crate) opening: u64,
    pub(crate) closing: Vec<oneshot::Sender<()>>,
    pub(crate) space_low: bool,
    pub(crate) last_work: Duration,
    /// When the alarm that was set last goes off, by the monotonic clock. Not by the stamps: while they run slower than
    /// it, an alarm goes off before what it was set for is due, and another one is needed.
    pub(crate) armed: Option<Duration>,
}

pub(crate) struct Caller {
    pub(crate) sender: Reply,
    pub(crate) bytes: usize,
}

pub(crate) enum Phase {
    /// Nothing in memory.
    Closed,
    Open(Box<OpenEnvironment>),
    /// The store failed; it is opened again at `retry_at`.
    Failed(Box<Failed>),
}

pub(crate) struct OpenEnvironment {
    pub(crate) environment: Environment,
    pub(crate) clock: StampClock,
    /// The hold of the place under which it was opened.
    pub(crate) hold: Option<u64>,
    /// Looks whose commit is not durable yet.
    pub(crate) seen: Vec<Seen>,
}

pub(crate) struct Failed {
    pub(crate) left: Leftovers,
    pub(crate) attempts: u32,
    pub(crate) since: Duration,
    pub(crate) retry_at: Duration,
    pub(crate) outage: Outage,
    pub(crate) error: EngineError,
}

/// After so many bytes of sends room is asked for without waiting for the next look: a second is enough to fill what is
/// kept free.
const SENT_BYTES: usize = 8 * 1024 * 1024;

pub(crate) struct Slot {
    pub(crate) name: Box<str>,
    pub(crate) writer: usize,
    pub(crate) shared: WeakShared,
    pub(crate) inbox: Mutex<Inbox>,
    pub(crate) state: Mutex<State>,
    pub(crate) store: Mutex<Option<(u64, Box<dyn Store>)>>,
    pub(crate) readers: Mutex<Vec<(u64, Box<dyn StoreReader>)>>,
    /// Bytes sent since room was last asked for.
    unmeasured: AtomicUsize,
    turn: Turn,
    /// Commands and bytes of sends taken in and not answered yet.
    taken_commands: AtomicUsize,
    taken_bytes: AtomicUsize,
    /// With fewer commands waiting than this nobody need run the slot: the end of a commit will.
    pub(crate) enough: AtomicUsize,
    open: AtomicBool,
    failed: AtomicBool,
    /// Copies that are made of it, or are about to.
    pub(crate) copies: Arc<AtomicUsize>,
    /// Since when its store does not say how much room there is.
    pub(crate) unmeasurable: Mutex<Outage>,
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Slot {
    pub(crate) fn new(name: &str, writer: usize, shared: WeakShared) -> Self {
        let state = State {
            phase: Phase::Closed,
            callers: HashMap::new(),
            opening: 0,
            closing: Vec::new(),
            space_low: false,
            last_work: Duration::ZERO,
            armed: None,
        };
        Self {
            name: name.into(),
            writer,
            shared,
            inbox: Mutex::new(Inbox::default()),
            state: Mutex::new(state),
            store: Mutex::new(None),
            readers: Mutex::new(Vec::new()),
            unmeasured: AtomicUsize::new(0),
            turn: Turn::new(),
            taken_commands: AtomicUsize::new(0),
            taken_bytes: AtomicUsize::new(0),
            enough: AtomicUsize::new(0),
            open: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            copies: Arc::default(),
            unmeasurable: Mutex::default(),
        }
    }

    /// Takes a command in, or refuses it if too much waits already. Returns with it how many wait to be taken.
    pub(crate) fn push(&self, mail: Mail, settings: &EngineSettings) -> Result<(Ticket, usize), EngineError> {
        let mut inbox = lock(&self.inbox);
        let (commands, bytes) = (&self.taken_commands, &self.taken_bytes);
        if commands.load(Ordering::Relaxed) >= settings.mailbox_commands {
            return Err(EngineError::Overloaded { what: "commands", limit: settings.mailbox_commands });
        }
        if mail.bytes > 0 && bytes.load(Ordering::Relaxed) + mail.bytes > settings.mailbox_bytes {
            return Err(EngineError::Overloaded { what: "bytes", limit: settings.mailbox_bytes });
        }
        commands.fetch_add(1, Ordering::Relaxed);
        bytes.fetch_add(mail.bytes, Ordering::Relaxed);
        let ticket = inbox.next_ticket;
        inbox.next_ticket += 1;
        inbox.brought.mails.push((ticket, mail));
        Ok((ticket, inbox.waiting()))
    }

    /// A command that was taken in needs no room any more. Without a lock: this is done for every answer, while callers
    /// bring the next commands.
    pub(crate) fn give_room(&self, bytes: usize) {
        self.taken_commands.fetch_sub(1, Ordering::Relaxed);
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Brings a command that nobody waits for.
    pub(crate) fn notify(self: &Arc<Self>, command: Command) {
        self.put(|brought| brought.notices.push(command));
    }

    /// External commands may have come. Never runs the slot here: whoever says so may be in the middle of the store.
    pub(crate) fn wake(self: &Arc<Self>) {
        lock(&self.inbox).brought.woken = true;
        self.queue();
    }

    /// Has something read. Without an engine nobody answers.
    pub(crate) fn read(&self, job: ReadJob) {
        if let Some(shared) = self.shared.upgrade() {
            shared.read(job);
        }
    }

    pub(crate) fn abandon(self: &Arc<Self>, ticket: Ticket) {
        self.put(|brought| brought.abandoned.push(ticket));
    }

    /// Brings somebody who wants to look.
    pub(crate) fn look(self: &Arc<Self>, asked: Asked) {
        lock(&self.inbox).brought.asked.push(asked);
        self.run_soon();
    }

    pub(crate) fn bring(&self, opening: u64, event: Event) {
        lock(&self.inbox).brought.events.push((opening, event));
    }

    /// Closes the environment once what was taken is answered.
    pub(crate) fn close(self: &Arc<Self>, closed: oneshot::Sender<()>) {
        lock(&self.inbox).brought.close.push(closed);
        self.run_soon();
    }

    pub(crate) fn close_if_idle(self: &Arc<Self>, opening: u64) {
        lock(&self.inbox).brought.close_if_idle = Some(opening);
        self.run_soon();
    }

    fn put(self: &Arc<Self>, bring: impl FnOnce(&mut Brought)) {
        let mut inbox = lock(&self.inbox);
        bring(&mut inbox.brought);
        let waiting = inbox.waiting();
        drop(inbox);
        self.poke(waiting);
    }

    /// Something was brought, and so many commands wait now: run the slot here if it is idle, unless the end of a commit
    /// will.
    pub(crate) fn poke(self: &Arc<Self>, waiting: usize) {
        if waiting >= self.enough.load(Ordering::SeqCst) {
            self.run_soon();
        }
    }

    /// Runs the slot here if it is idle, or leaves it to the threads that apply if it has to be opened first.
    pub(crate) fn run_soon(self: &Arc<Self>) {
        if self.open.load(Ordering::Acquire) {
            self.run_here();
        } else {
            self.queue();
        }
    }

    /// Runs the slot on this thread if it is idle; if another thread runs it, that one goes on.
    pub(crate) fn run_here(self: &Arc<Self>) {
        if self.turn.take() {
            self.run_turns();
        }
    }

    /// Leaves the slot to the threads that apply: it may have to be opened, which takes a while.
    pub(crate) fn queue(self: &Arc<Self>) {
        if self.turn.queue()
            && let Some(shared) = self.shared.upgrade()
        {
            let _ = shared.run.send(Arc::clone(self));
        }
    }

    /// Runs the slot on a thread that took it from the run queue.
    pub(crate) fn run_queued(self: &Arc<Self>) {
        if self.turn.take_queued() {
            self.run_turns();
        }
    }

    fn run_turns(self: &Arc<Self>) {
        loop {
            if let Some(shared) = self.shared.upgrade()
                && catch_unwind(AssertUnwindSafe(|| self.run(&shared))).is_err()
            {
                self.survive_panic(&shared);
            }
            if self.turn.end() {
                return;
            }
        }
    }

    /// Counts what a commit stored. `true`: it is time to ask for room.
    pub(crate) fn note_sent(&self, changes: &ChangeSet) -> bool {
        let messages: usize = changes.messages.iter().map(|message| message.content.held_bytes()).sum();
        let sent = messages + changes.chunks.iter().map(|chunk| chunk.data.len()).sum::<usize>();
        let unmeasured = self.unmeasured.fetch_add(sent, Ordering::Relaxed) + sent;
        let is_time = unmeasured >= SENT_BYTES;
        if is_time {
            self.unmeasured.store(0, Ordering::Relaxed);
        }
        is_time
    }

    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::Release);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(crate) fn set_failed(&self, failed: bool) {
        self.failed.store(failed, Ordering::Release);
    }

    /// Its store failed, and it is not open again.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Commands taken in and not answered yet.
    pub(crate) fn taken_commands(&self) -> usize {
        self.taken_commands.load(Ordering::Relaxed)
    }

    /// So many grants of one answer are taken back.
    pub(crate) fn count_undone(&self, grants: usize) {
        if let Some(shared) = self.shared.upgrade() {
            shared.counters.undone(grants);
        }
    }

    /// Closed, and nothing was brought to it.
    pub(crate) fn is_forgettable(&self) -> bool {
        let Ok(state) = self.state.try_lock() else { return false };
        matches!(state.phase, Phase::Closed)
            && self.taken_commands.load(Ordering::Relaxed) == 0
            && lock(&self.inbox).is_empty()
    }
}
