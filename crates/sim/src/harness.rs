//! One seed, one world: clients, the engine of one environment, its store, and everything that goes wrong between them,
//! on a single thread.
//!
//! Phases: chaos, then everything heals and must drain: every lease resolves, every count ends at zero.

mod answers;
mod drain;
mod failure;
mod pages;
mod round;
mod walks;

use std::collections::{BTreeMap, BTreeSet};

use millpond_core::time::Timestamp;
use millpond_core::{Command, Stamp};
use millpond_engine::clock::StampClock;
use millpond_engine::environment::{Environment, EnvironmentSettings, Ticket};
use millpond_engine::{BulkDone, BulkWalk};
use millpond_store::MemoryDump;

use crate::auditor::{Auditor, Breach, Submitted, Verdict};
use crate::clock::SimClock;
use crate::coverage::Coverage;
use crate::disk::{Disk, mark_orphans};
use crate::faults::{Fault, NextFault};
use crate::invariants;
use crate::io::Io;
use crate::random::Streams;
use crate::settings::draw_settings;
use crate::trace::Trace;
use crate::workload::{Kind, Scene, Theme, Workload};

use failure::StoredTriggers;

/// Invariants are checked after so many steps.
const CHECK_EVERY: u64 = 24;
/// Somebody who watches looks after so many steps.
const LOOK_EVERY: u64 = 16;
/// A bulk verb is begun in so many of a thousand steps.
const WALK_CHANCE: u64 = 60;
/// Commands between two moments of rest.
const REST_EVERY: u64 = 150;

/// What was known when the data was copied.
struct Backup {
    auditor: Auditor,
    unanswered: Vec<Submitted>,
    stamp: Timestamp,
}

/// What is planned to happen once a number of commands was submitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Planned {
    Backup,
    Crash,
    Restore,
    Takeover,
}

/// One world.
pub(crate) struct World {
    streams: Streams,
    clock: SimClock,
    stamps: StampClock,
    highest_stamp: Timestamp,
    settings: EnvironmentSettings,
    disk: Box<dyn Disk>,
    /// Commands of the chaos phase.
    commands: u64,
    next_fault: NextFault,
    pending_fault: Option<Fault>,
    /// Another owner came, which the next commit will find out.
    is_fenced: bool,
    io: Io,
    environment: Environment,
    /// Triggers, as they were found at the last opening.
    opened_triggers: StoredTriggers,
    auditor: Auditor,
    workload: Workload,
    tickets: BTreeMap<Ticket, Submitted>,
    /// Tickets whose callers left.
    abandoned: BTreeSet<Ticket>,
    /// Bulk verbs under way, by the ticket of their present step.
    walks: BTreeMap<Ticket, BulkWalk>,
    /// What the last of them did.
    walked: Option<BulkDone>,
    next_ticket: Ticket,
    index: u64,
    steps: u64,
    submitted: u64,
    openings: u64,
    faults_on: bool,
    /// A restored copy has taken no commit yet: until its incarnation is stored, its clock is trusted (design-holes A2).
    trusts_clock: bool,
    plan: Vec<(u64, Planned)>,
    backups: Vec<Backup>,
    pub(crate) coverage: Coverage,
    pub(crate) trace: Trace,
}

fn make_plan(streams: &mut Streams, commands: u64) -> Vec<(u64, Planned)> {
    let random = &mut streams.faults;
    let mut plan: Vec<_> = (0..random.between(3, 5)).map(|_| Planned::Crash).collect();
    plan.extend((0..random.between(2, 4)).map(|_| Planned::Takeover));
    plan.extend((0..random.between(2, 4)).map(|_| Planned::Restore));
    let mut plan: Vec<_> = plan.into_iter().map(|what| (random.between(60, commands), what)).collect();
    let part = commands * 5 / 24;
    plan.extend((0..4).map(|number| {
        let begin = 40 + number * part;
        (random.between(begin, begin + part - 10), Planned::Backup)
    }));
    plan.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    plan
}

impl World {
    /// The world of a seed: so many commands over this disk.
    pub(crate) fn new(seed: u64, trace: Trace, disk: Box<dyn Disk>, commands: u64) -> Result<Self, Breach> {
        let mut streams = Streams::new(seed);
        let theme = Theme::draw(&mut streams.settings);
        let settings = draw_settings(&mut streams.settings, theme);
        let commands = commands * theme.halves();
        let clock = SimClock::default();
        let next_fault = NextFault::default();
        let plan = make_plan(&mut streams, commands);
        let opened = failure::open(&*disk, &next_fault, &clock, settings)?;
        Ok(Self {
            streams,
            stamps: opened.stamps,
            highest_stamp: Timestamp::ZERO,
            clock,
            settings,
            disk,
            commands,
            next_fault,
            pending_fault: None,
            is_fenced: false,
            io: opened.io,
            environment: opened.environment,
            opened_triggers: opened.triggers,
            auditor: Auditor::new(settings.core),
            workload: Workload::new(theme),
            tickets: BTreeMap::new(),
            abandoned: BTreeSet::new(),
            walks: BTreeMap::new(),
            walked: None,
            next_ticket: 1,
            index: 1,
            steps: 0,
            submitted: 0,
            openings: 1,
            faults_on: true,
            trusts_clock: false,
            plan,
            backups: Vec::new(),
            coverage: Coverage::expected(),
            trace,
        })
    }

    /// Lives through all phases.
    pub(crate) fn live(&mut self) -> Verdict {
        self.trace.note(|| format!("{:?}, settings {:?}", self.workload.theme, self.settings));
        while self.auditor.names.len() < self.workload.theme.names_to_begin_with() {
            self.submit_kind(Kind::CreateQueue);
            self.rest()?;
        }
        let mut next_rest = REST_EVERY;
        while self.submitted < self.commands {
            self.step(true)?;
            if self.submitted >= next_rest {
                next_rest += REST_EVERY;
                self.rest()?;
            }
        }
        self.heal()?;
        self.rest()?;
        self.drain()
    }

    /// One step: time passes, clients act, something arrives, something may break.
    fn step(&mut self, busy: bool) -> Verdict {
        self.steps += 1;
        self.clock.tick(&mut self.streams.latency);
        if busy {
            for _ in 0..self.streams.workload.below(4) {
                let kind = Kind::draw(&mut self.streams.workload, self.workload.theme);
                self.submit_kind(kind);
            }
            if self.streams.workload.chance(WALK_CHANCE) {
                self.start_a_walk();
            }
            self.break_something()?;
            if self.disk.has_failed() {
                return self.crash();
            }
        }
        for _ in 0..self.streams.latency.below(6) {
            if let Some(event) = self.io.advance(&mut self.streams.latency) {
                self.handle(event)?;
            }
            if self.disk.has_failed() {
                return self.crash();
            }
        }
        if self.streams.latency.chance(800) {
            self.step_environment()?;
        }
        if busy && self.streams.latency.chance(300) {
            self.read_on()?;
        }
        if self.steps.is_multiple_of(LOOK_EVERY) {
            self.look()?;
        }
        if self.steps.is_multiple_of(CHECK_EVERY) {
            self.check()?;
        }
        Ok(())
    }

    /// Looks at all queues, as who asks for metrics does. What it has read changes memory, and nothing else.
    fn look(&mut self) -> Verdict {
        let mut actions = Vec::new();
        let (_, queues) = self.environment.survey(None, usize::MAX, true, &mut actions);
        if let Some(queue) =
            queues.iter().find(|queue| queue.counters.ready == 0 && queue.ready_since.is_some())
        {
            return Err(Breach(format!("none is ready, and one has been for long: {queue:?}")));
        }
        self.coverage.look(&actions);
        self.carry_out(actions)
    }

    fn step_environment(&mut self) -> Verdict {
        let now = self.stamps.advance(self.clock.read());
        self.highest_stamp = self.highest_stamp.max(now);
        if !self.environment.has_work(now) {
            return Ok(());
        }
        let stamp = Stamp { now, entropy: self.streams.ids.bits() };
        let mut actions = Vec::new();
        self.environment.step(&stamp, &mut actions);
        self.trace.note(|| format!("round at {}", now.as_millis()));
        self.carry_out(actions)
    }

    /// All that is stored.
    fn dump(&self) -> Result<MemoryDump, Breach> {
        let mut dump = self.disk.dump()?;
        mark_orphans(&mut dump);
        Ok(dump)
    }

    /// The invariants of memory, against all that is stored.
    fn check(&mut self) -> Verdict {
        invariants::check(&self.environment, &self.dump()?, &self.settings)
    }

    fn submit_kind(&mut self, kind: Kind) {
        let waits = |one: &&Submitted| matches!(one.command, Command::Browse(_) | Command::Lease(_));
        let waiting = self.tickets.values().filter(waits);
        let waiting: Vec<Ticket> = waiting.map(|one| one.ticket).collect();
        let mut scene = Scene {
            random: &mut self.streams.workload,
            auditor: &self.auditor,
            workload: &mut self.workload,
            waiting: &waiting,
        };
        let command = scene.generate(kind);
        if let Command::CancelWait(waiter) = &command
            && waiting.contains(&waiter.0)
        {
            self.abandoned.insert(waiter.0);
        }
        self.submit(command);
    }

    fn submit(&mut self, command: Command) -> Ticket {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.index += 1;
        self.submitted += 1;
        self.coverage.command(Kind::of(&command));
        self.trace.note(|| format!("#{ticket} {command:?}"));
        let stamp = self.environment.stamp();
        self.environment.submit(ticket, command.clone());
        self.tickets.insert(ticket, Submitted { ticket, command, index: self.index, stamp });
        ticket
    }

    /// Waits until nothing is under way and compares everything.
    fn rest(&mut self) -> Verdict {
        self.close_readings();
        for round in 0.. {
            if round > 20_000 {
                return Err(Breach(format!("it never comes to rest: {:?}", self.tickets.values().next())));
            }
            self.step(false)?;
            let now = self.stamps.advance(self.clock.read());
            let owed = self.tickets.keys().any(|ticket| !self.abandoned.contains(ticket));
            let reads = !self.workload.readings.is_empty();
            let quiet = self.environment.is_quiet() && self.io.is_idle();
            let still = quiet && !reads && !self.environment.has_work(now);
            if reads {
                // Asked for before, answered since.
                self.close_readings();
            }
            if !owed && still {
                break;
            }
            if owed && still {
                return Err(Breach(format!("never answered: {:?}", self.tickets.values().next())));
            }
        }
        // Of those who left, a call may have been granted something on its way out.
        let left: Vec<Submitted> = std::mem::take(&mut self.tickets).into_values().collect();
        self.abandoned.clear();
        self.walks.clear();
        self.index += 1;
        self.auditor.check_pushers_told(true)?;
        self.auditor.note_taking(std::iter::empty());
        let dump = self.dump()?;
        self.auditor.compare(&dump, &left, self.environment.stamp(), self.index)?;
        self.auditor.compare_chunks(&dump, self.environment.stamp(), true)?;
        self.check()?;
        if self.faults_on {
            self.compare_pages(&dump)?;
        }
        self.compare_counts(&dump)
    }
}
