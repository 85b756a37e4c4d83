//! A world of transactions beside the owner: they send, and they settle leases along with what their handlers write, stay open over
//! the ends of these leases, commit late or roll back, while the owner fails, dies and is deposed.
//!
//! Its model (`beside/ledger.rs`) is small and strict: what was committed is delivered once and never again after its handler's writes
//! were committed. It stands beside the large one (`auditor.rs`), which knows nothing of such transactions.

mod failure;
mod ledger;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use millpond_core::command::CreateQueue;
use millpond_core::spec::QueueSpec;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Stamp};
use millpond_engine::clock::StampClock;
use millpond_engine::environment::{Action, Environment, EnvironmentSettings, Ticket};
use millpond_store::{MemoryBeside, MemoryDisk, StoreFactory};

use crate::auditor::{Breach, Verdict, demand};
use crate::clock::SimClock;
use crate::faults::NextFault;
use crate::invariants;
use crate::io::{Event, Io, Question};
use crate::random::Streams;
use crate::settings::draw_settings;
use crate::trace::Trace;
use crate::workload::Theme;

use ledger::{Hand, Ledger, Written};

const ENVIRONMENT: &str = "orgs/o/projects/p/envs/e";
pub(crate) const QUEUE: &str = "jobs";
/// Steps of the chaos phase.
const STEPS: u64 = 1_500;
/// Steps after which everything must have drained.
const DRAIN_STEPS: u64 = 60_000;
/// Invariants are checked after so many steps.
const CHECK_EVERY: u64 = 24;

/// What a run met, so that nobody takes a world in which nothing happens for one in which all is well.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    /// Messages that were sent by committed transactions.
    pub sent: u64,
    /// Leases that were settled by committed transactions.
    pub settled: u64,
    /// Transactions that ended after the lease that they settle had run out.
    pub late: u64,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
    /// Messages that were refused when they were taken in.
    pub refused: u64,
    /// Failures of the owner.
    pub failures: u64,
}

/// A transaction that is open.
pub(crate) struct Open {
    beside: MemoryBeside,
    written: Written,
}

/// The world.
pub(crate) struct World {
    streams: Streams,
    clock: SimClock,
    stamps: StampClock,
    settings: EnvironmentSettings,
    disk: MemoryDisk,
    next_fault: NextFault,
    io: Io,
    environment: Environment,
    tickets: BTreeMap<Ticket, Command>,
    next_ticket: Ticket,
    /// Wake-ups that the store gave, and those of them that have arrived.
    wakes: Arc<AtomicU64>,
    woken: u64,
    open: Vec<Open>,
    hands: Vec<Hand>,
    ledger: Ledger,
    steps: u64,
    pub(crate) met: Met,
    pub(crate) trace: Trace,
}

impl World {
    pub(crate) fn new(seed: u64, trace: Trace) -> Result<Self, Breach> {
        let mut streams = Streams::new(seed);
        let settings = draw_settings(&mut streams.settings, Theme::Queues);
        let mut settings = settings;
        // What is committed beside is never refused for lack of room; what is sent by calls is not of interest here.
        settings.core.messages = u64::MAX;
        settings.core.bytes = u64::MAX;
        settings.core.chunk_bytes = settings.core.chunk_bytes.max(60);
        let disk = MemoryDisk::new();
        let clock = SimClock::default();
        let next_fault = NextFault::default();
        let opening = failure::open(&disk, &next_fault, &clock, settings)?;
        let wakes = Arc::new(AtomicU64::new(0));
        let woken = Arc::clone(&wakes);
        disk.watch(Arc::new(move |_: &str| {
            woken.fetch_add(1, Ordering::SeqCst);
        }));
        Ok(Self {
            streams,
            clock,
            stamps: opening.stamps,
            settings,
            disk,
            next_fault,
            io: opening.io,
            environment: opening.environment,
            tickets: BTreeMap::new(),
            next_ticket: 1,
            wakes,
            woken: 0,
            open: Vec::new(),
            hands: Vec::new(),
            ledger: Ledger::default(),
            steps: 0,
            met: Met::default(),
            trace,
        })
    }

    /// Lives through chaos, and then until everything is done.
    pub(crate) fn live(&mut self) -> Verdict {
        let create = CreateQueue {
            name: QUEUE.into(),
            start: Default::default(),
            spec: QueueSpec { attempt_limit: None, retention: None, ..QueueSpec::default() },
            annotations: "{}".into(),
            validate_only: false,
        };
        self.submit(Command::CreateQueue(create));
        self.come_to_rest()?;
        self.allow_settle()?;
        self.come_to_rest()?;
        while self.steps < STEPS {
            self.act()?;
            self.break_something()?;
            self.step()?;
        }
        self.drain()
    }

    pub(crate) fn submit(&mut self, command: Command) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.trace.note(|| format!("#{ticket} {command:?}"));
        self.environment.submit(ticket, command.clone());
        self.tickets.insert(ticket, command);
    }

    /// Time passes, something arrives, the owner goes on.
    pub(crate) fn step(&mut self) -> Verdict {
        self.steps += 1;
        self.clock.tick(&mut self.streams.latency);
        for _ in 0..self.streams.latency.below(6) {
            if let Some(event) = self.io.advance(&mut self.streams.latency) {
                self.handle(event)?;
            }
        }
        let wakes = self.wakes.load(Ordering::SeqCst);
        if wakes > self.woken && self.streams.latency.chance(400) {
            self.woken = wakes;
            self.trace.note(|| "woken".to_owned());
            self.environment.wake_external();
        }
        if self.streams.latency.chance(800) {
            let now = self.stamps.advance(self.clock.read());
            if self.environment.has_work(now) {
                let stamp = Stamp { now, entropy: self.streams.ids.bits() };
                let mut actions = Vec::new();
                self.environment.step(&stamp, &mut actions);
                self.trace.note(|| format!("round at {}", now.as_millis()));
                self.carry_out(actions)?;
            }
        }
        if self.steps.is_multiple_of(CHECK_EVERY) {
            invariants::check(&self.environment, &self.disk.dump(ENVIRONMENT), &self.settings)?;
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> Verdict {
        let mut actions = Vec::new();
        match event {
            Event::Committed(commit) => self.environment.committed(commit, &mut actions),
            Event::Failed(failure) => return self.commit_failed(&failure),
            Event::Rows(id, rows) => {
                self.trace.note(|| format!("rows {id}: claims {:?}", rows.claims));
                self.environment.rows_read(id, rows);
            }
            Event::Contents(id, contents) => self.environment.contents_read(id, contents, &mut actions),
            Event::Page(id, page) => self.environment.page_read(id, page),
            Event::External(id, page) => {
                self.trace.note(|| format!("intake {id}: {} of {}", page.commands.len(), page.snapshot));
                self.environment.external_read(id, page);
            }
        }
        self.carry_out(actions)
    }

    fn carry_out(&mut self, actions: Vec<Action>) -> Verdict {
        for action in actions {
            match action {
                Action::Commit(changes) => {
                    self.trace.note_commit(&changes);
                    self.trace.note(|| {
                        format!(
                            "  takes {:?}, claims end {:?}",
                            changes.external_taken, changes.claims_removed
                        )
                    });
                    self.io.commit(*changes);
                }
                Action::Rows(id, keys) => self.io.ask(id, Question::Rows(keys)),
                Action::Contents(id, messages) => self.io.ask(id, Question::Contents(messages)),
                Action::Scan(id, scan) => self.io.ask(id, Question::Scan(scan)),
                Action::External(id, limit) => self.io.ask(id, Question::External(limit)),
                Action::Answer(ticket, answer) => self.answered(ticket, &answer)?,
                Action::Push(_) => {}
            }
        }
        Ok(())
    }

    /// Until nothing is under way.
    fn come_to_rest(&mut self) -> Verdict {
        for _ in 0..DRAIN_STEPS {
            self.step()?;
            let now = self.stamps.advance(self.clock.read());
            let woken = self.wakes.load(Ordering::SeqCst) == self.woken;
            let quiet = self.environment.is_quiet() && self.io.is_idle() && woken;
            if quiet && self.tickets.is_empty() && !self.environment.has_work(now) {
                return Ok(());
            }
        }
        Err(Breach(format!("it never comes to rest: {:?}", self.tickets)))
    }

    /// Nothing breaks any more: transactions end, and everything must get done.
    fn drain(&mut self) -> Verdict {
        self.heal()?;
        while let Some(open) = self.open.pop() {
            self.end(open)?;
        }
        self.come_to_rest()?;
        let dump = self.disk.dump(ENVIRONMENT);
        demand!(dump.external.is_empty(), "left in the intake: {:?}", dump.external);
        for _ in 0..DRAIN_STEPS {
            if self.ledger.is_done() {
                break;
            }
            if self.tickets.is_empty() {
                self.finish_or_lease()?;
            }
            self.step()?;
        }
        self.come_to_rest()?;
        let dump = self.disk.dump(ENVIRONMENT);
        self.met.refused = self.ledger.settle_with(&dump)?;
        let left: Vec<_> = dump.claims.iter().collect();
        demand!(left.is_empty() || !self.ledger.is_done(), "keys of leases are left: {left:?}");
        invariants::check(&self.environment, &dump, &self.settings)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.environment.stamp()
    }
}
