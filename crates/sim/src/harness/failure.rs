//! The end of a memory and the beginning of the next: failed commits, crashes, restores, other owners.

use millpond_core::Command;
use millpond_core::row::{SecretRow, TriggerRow};
use millpond_core::time::Timestamp;
use millpond_engine::CommitFailure;
use millpond_engine::clock::StampClock;
use millpond_engine::environment::{Doubt, Environment, EnvironmentSettings, Leftovers};
use millpond_store::{Lineage, StoreErrorKind};

use super::{Backup, Planned, World};
use crate::auditor::{Breach, Submitted, Verdict, demand};
use crate::clock::SimClock;
use crate::disk::Disk;
use crate::faults::{Fault, FaultyStore, NextFault};
use crate::io::Io;

/// An opening is tried so often when flushes fail.
const TRIES: usize = 5;

/// What an opening gives.
pub(super) struct Opening {
    pub(super) io: Io,
    pub(super) environment: Environment,
    pub(super) stamps: StampClock,
    pub(super) lineage: Lineage,
    pub(super) triggers: StoredTriggers,
}

/// Triggers and the secret, as they are stored.
pub(super) type StoredTriggers = (Vec<TriggerRow>, SecretRow);

/// Opens the environment as a driver does.
pub(super) fn open(
    disk: &dyn Disk,
    next_fault: &NextFault,
    clock: &SimClock,
    settings: EnvironmentSettings,
) -> Result<Opening, Breach> {
    let refused = |error| Breach(format!("it does not open: {error:?}"));
    let (store, opened) = disk.open().map_err(refused)?;
    let io = Io::new(Box::new(FaultyStore::new(store, next_fault.clone()))).map_err(refused)?;
    let reading = clock.read();
    let stamps = StampClock::new(opened.environment.stamp, reading);
    let lineage = opened.lineage;
    let triggers = (opened.triggers.clone(), opened.secret.clone());
    let environment = Environment::new(settings, opened, Timestamp::from_millis(reading.wall_millis));
    Ok(Opening { io, environment, stamps, lineage, triggers })
}

impl World {
    pub(super) fn carry_out_plan(&mut self, planned: Planned) -> Verdict {
        self.trace.note(|| format!("{planned:?}"));
        match planned {
            Planned::Backup => self.back_up(),
            Planned::Crash => {
                if self.disk.is_armed() {
                    self.crash()?;
                }
                if !self.disk.arm() {
                    return self.crash();
                }
            }
            Planned::Restore => return self.restore(),
            Planned::Takeover => {
                self.coverage.fault(Fault::Takeover);
                self.openings += 1;
                self.is_fenced = true;
                if let Err(error) = self.disk.open() {
                    self.trace.note(|| format!("the other owner failed: {:?}", error.kind));
                }
            }
        }
        Ok(())
    }

    fn back_up(&mut self) {
        self.disk.back_up();
        self.backups.push(Backup {
            auditor: self.auditor.clone(),
            unanswered: self.tickets.values().cloned().collect(),
            stamp: self.highest_stamp,
        });
    }

    /// Opens again. `Leftovers` is what the old memory leaves to its successor.
    fn reopen(&mut self) -> Result<(Lineage, Leftovers), Breach> {
        self.openings += 1;
        self.next_fault.set(None);
        self.pending_fault = None;
        self.is_fenced = false;
        self.io.release();
        let opened = self.try_open()?;
        self.disk.heal_flushes();
        self.io = opened.io;
        self.stamps = opened.stamps;
        self.opened_triggers = opened.triggers;
        let old = std::mem::replace(&mut self.environment, opened.environment);
        self.auditor.failed();
        self.workload.lose_uploads();
        self.index += 1;
        self.trace.note(|| format!("opened as {:?} at {:?}", opened.lineage, self.environment.stamp()));
        Ok((opened.lineage, old.fail(Doubt::First)))
    }

    /// As a driver, tries again after a flush that failed; whatever else fails is a breach.
    fn try_open(&self) -> Result<Opening, Breach> {
        let mut tries = 0;
        loop {
            tries += 1;
            let may_fail = self.disk.flushes_fail() && tries < TRIES;
            match open(&*self.disk, &self.next_fault, &self.clock, self.settings) {
                Err(_) if may_fail && !self.disk.has_failed() => {}
                other => return other,
            }
        }
    }

    fn compare(&mut self, lost: &[Submitted], now: Timestamp) -> Verdict {
        let dump = self.dump()?;
        self.auditor.note_taking(std::iter::empty());
        self.auditor.compare_triggers(&self.opened_triggers, lost, self.index)?;
        self.auditor.compare(&dump, lost, now, self.index)?;
        self.check()
    }

    /// Nothing breaks from now on. What is about to come comes now, or not at all: what waits for a commit might wait until
    /// time has passed that a reopened environment knows nothing of.
    pub(super) fn heal(&mut self) -> Verdict {
        self.faults_on = false;
        self.next_fault.set(None);
        self.pending_fault = None;
        self.disk.heal_flushes();
        if self.disk.is_armed() || self.is_fenced { self.crash() } else { Ok(()) }
    }

    /// The process dies. Of the commits under way some may have been written.
    pub(super) fn crash(&mut self) -> Verdict {
        self.coverage.fault(Fault::Crash);
        for _ in 0..self.streams.faults.below(3) {
            self.io.write();
        }
        if self.disk.has_failed() {
            self.coverage.fault(Fault::PowerLost);
        }
        self.disk.crash()?;
        let lost: Vec<Submitted> = std::mem::take(&mut self.tickets).into_values().collect();
        self.abandoned.clear();
        self.walks.clear();
        let (lineage, _) = self.reopen()?;
        self.compare(&lost, self.highest_stamp)?;
        demand!(lineage == Lineage::Restarted, "after a crash it opens as {lineage:?}");
        Ok(())
    }

    /// The process dies and an older copy of the data is put in place.
    fn restore(&mut self) -> Verdict {
        if self.backups.is_empty() {
            return self.crash();
        }
        if self.disk.is_armed() {
            self.crash()?;
        }
        self.coverage.fault(Fault::Restore);
        let index = self.streams.faults.size(0, self.backups.len() - 1);
        self.backups.truncate(index + 1);
        let Some(backup) = self.backups.last() else { return Ok(()) };
        self.disk.restore(index)?;
        let mut auditor = backup.auditor.clone();
        auditor.history = std::mem::take(&mut self.auditor.history);
        auditor.era = self.auditor.era;
        let (lost, now) = (backup.unanswered.clone(), backup.stamp);
        self.auditor = auditor;
        self.tickets.clear();
        self.abandoned.clear();
        self.walks.clear();
        self.workload.retired.append(&mut self.workload.hands);
        self.trusts_clock = true;
        self.clock.set_right();
        self.clock.pass_all_history(self.openings, self.highest_stamp);
        let (lineage, _) = self.reopen()?;
        self.compare(&lost, now)?;
        demand!(lineage != Lineage::New, "a restored copy opens as new");
        if lineage == Lineage::Restored {
            self.auditor.void_all_leases();
        }
        Ok(())
    }

    /// A commit failed: the engine opens again and goes on with what was not applied.
    pub(super) fn commit_failed(&mut self, failure: &CommitFailure) -> Verdict {
        self.trace.note(|| format!("failed: {:?}, unknown: {}", failure.error.kind, failure.unknown));
        if failure.error.kind != StoreErrorKind::Fenced
            && let Some(fault) = self.pending_fault
        {
            self.coverage.fault(fault);
        }
        demand!(failure.error.kind != StoreErrorKind::Corrupt, "a commit does not fit: {failure:?}");
        let left = match self.reopen() {
            Ok((_, left)) => left,
            Err(_) if self.disk.has_failed() => return self.crash(),
            Err(breach) => return Err(breach),
        };
        let mut lost: Vec<Submitted> = Vec::new();
        for (ticket, doubtful) in left
            .doubtful
            .iter()
            .map(|one| (one, failure.unknown))
            .chain(left.later.iter().map(|one| (one, false)))
        {
            let Some(submitted) = self.tickets.remove(ticket) else { continue };
            self.walks.remove(ticket);
            // Grants whose contents were being read are durable, and are taken back.
            if doubtful || matches!(submitted.command, Command::Lease(_) | Command::LeaseMessage(_)) {
                lost.push(submitted);
            }
            self.abandoned.remove(ticket);
        }
        lost.extend(self.abandoned.iter().filter_map(|ticket| self.tickets.get(ticket)).cloned());
        self.compare(&lost, self.highest_stamp)?;
        for submitted in &lost {
            if let Command::LeaseMessage(lease) = &submitted.command
                && !lease.reading.look
            {
                self.auditor.perhaps_taken_back(lease, self.index);
            }
        }
        self.environment.resume(left);
        let stamp = self.environment.stamp();
        for submitted in self.tickets.values_mut() {
            submitted.stamp = submitted.stamp.min(stamp);
        }
        Ok(())
    }
}
