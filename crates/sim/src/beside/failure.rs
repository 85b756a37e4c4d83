//! What breaks in this world: commits, the process, and whoever owns it.

use millpond_core::Command;
use millpond_core::command::SettleAction;
use millpond_core::time::Timestamp;
use millpond_engine::CommitFailure;
use millpond_engine::clock::StampClock;
use millpond_engine::environment::{Doubt, Environment, EnvironmentSettings, Leftovers};
use millpond_store::{MemoryDisk, StoreErrorKind, StoreFactory};

use super::{ENVIRONMENT, World};
use crate::auditor::{Breach, Verdict, demand};
use crate::clock::SimClock;
use crate::faults::{FaultyStore, NextFault, draw_commit_fault};
use crate::io::Io;

/// What an opening gives.
pub(super) struct Opening {
    pub(super) io: Io,
    pub(super) environment: Environment,
    pub(super) stamps: StampClock,
}

pub(super) fn open(
    disk: &MemoryDisk,
    next_fault: &NextFault,
    clock: &SimClock,
    settings: EnvironmentSettings,
) -> Result<Opening, Breach> {
    let refused = |error| Breach(format!("it does not open: {error:?}"));
    let (store, opened) = disk.open(ENVIRONMENT).map_err(refused)?;
    let io = Io::new(Box::new(FaultyStore::new(store, next_fault.clone()))).map_err(refused)?;
    let reading = clock.read();
    let stamps = StampClock::new(opened.environment.stamp, reading);
    let environment = Environment::new(settings, opened, Timestamp::from_millis(reading.wall_millis));
    Ok(Opening { io, environment, stamps })
}

impl World {
    pub(super) fn break_something(&mut self) -> Verdict {
        let random = &mut self.streams.faults;
        if random.chance(15) {
            let fault = draw_commit_fault(random);
            self.next_fault.set(fault);
        }
        match random.below(400) {
            0 => self.crash(),
            1 => {
                // Another owner, who does nothing: the next commit finds out.
                let other = self.disk.open(ENVIRONMENT).map(drop);
                demand!(other.is_ok(), "the other owner does not open it: {other:?}");
                Ok(())
            }
            2 => {
                // Nothing runs for a while, and leases run out meanwhile.
                self.clock.pass(random.millis(5_000, 60_000));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Nothing breaks from now on.
    pub(super) fn heal(&mut self) -> Verdict {
        self.next_fault.set(None);
        self.crash()
    }

    fn reopen(&mut self) -> Result<Leftovers, Breach> {
        self.next_fault.set(None);
        self.io.release();
        // Generations are given by the clock: no two openings in one period.
        self.clock.pass(std::time::Duration::from_secs(1));
        let opened = open(&self.disk, &self.next_fault, &self.clock, self.settings)?;
        self.io = opened.io;
        self.stamps = opened.stamps;
        let old = std::mem::replace(&mut self.environment, opened.environment);
        self.ledger.era += 1;
        self.met.failures += 1;
        self.trace.note(|| "opened again".to_owned());
        Ok(old.fail(Doubt::First))
    }

    /// The process dies: callers hear nothing any more.
    fn crash(&mut self) -> Verdict {
        for _ in 0..self.streams.faults.below(3) {
            self.io.write();
        }
        self.reopen()?;
        let lost: Vec<_> = std::mem::take(&mut self.tickets).into_values().collect();
        lost.iter().for_each(|command| self.note_lost(command));
        Ok(())
    }

    pub(super) fn commit_failed(&mut self, failure: &CommitFailure) -> Verdict {
        self.trace.note(|| format!("failed: {:?}, unknown: {}", failure.error.kind, failure.unknown));
        demand!(failure.error.kind != StoreErrorKind::Corrupt, "a commit does not fit: {failure:?}");
        let left = self.reopen()?;
        for ticket in left.doubtful.iter().chain(&left.later) {
            if let Some(command) = self.tickets.remove(ticket) {
                self.note_lost(&command);
            }
        }
        self.environment.resume(left);
        Ok(())
    }

    /// A command may or may not have been carried out.
    fn note_lost(&mut self, command: &Command) {
        let Command::Settle(settle) = command else { return };
        for settlement in &settle.settlements {
            if settlement.action == SettleAction::Ack {
                self.ledger.doubt(&settlement.lease.message);
            }
        }
    }
}
