//! What the engine asks for, what it is told, and what breaks meanwhile.

use millpond_core::id::CommitSequence;
use millpond_engine::environment::{Action, Ticket};

use super::World;
use crate::auditor::Verdict;
use crate::clock::ClockFault;
use crate::faults::{Fault, draw_commit_fault};
use crate::io::{Event, Question};

impl World {
    pub(super) fn carry_out(&mut self, actions: Vec<Action>) -> Verdict {
        for action in actions {
            match action {
                Action::Commit(changes) => {
                    self.trace.note_commit(&changes);
                    self.auditor.told(&changes, self.index)?;
                    self.io.commit(*changes);
                }
                Action::Rows(id, keys) => {
                    self.trace.note(|| format!("read {id}: {keys:?}"));
                    self.io.ask(id, Question::Rows(keys));
                }
                Action::Contents(id, messages) => self.io.ask(id, Question::Contents(messages)),
                Action::Scan(id, scan) => {
                    self.trace.note(|| format!("read {id}: {scan:?}"));
                    self.io.ask(id, Question::Scan(scan));
                }
                Action::External(id, limit) => self.io.ask(id, Question::External(limit)),
                Action::Answer(ticket, answer) => self.answer(ticket, &answer)?,
                Action::Push(notice) => {
                    self.trace.note(|| format!("push: {notice:?}"));
                    self.coverage.notice(&notice);
                    self.auditor.told_pushers(&notice)?;
                }
            }
        }
        self.auditor.check_pushers_told(false)
    }

    pub(super) fn handle(&mut self, event: Event) -> Verdict {
        let mut actions = Vec::new();
        match event {
            Event::Committed(commit) => {
                self.trace.note(|| format!("durable {commit}"));
                self.trusts_clock = false;
                let survived = match self.pending_fault {
                    Some(Fault::CommitUnknownHappened) => true,
                    Some(Fault::FlushFailed) => !self.disk.flushes_fail(),
                    _ => false,
                };
                if survived && let Some(fault) = self.pending_fault.take() {
                    self.coverage.fault(fault);
                }
                self.environment.committed(commit, &mut actions);
                self.carry_out(actions)?;
                return self.check_copies(commit);
            }
            Event::Failed(failure) => return self.commit_failed(&failure),
            Event::Rows(id, rows) => self.environment.rows_read(id, rows),
            Event::Contents(id, contents) => self.environment.contents_read(id, contents, &mut actions),
            Event::External(id, page) => self.environment.external_read(id, page),
            Event::Page(id, page) => {
                self.trace.note(|| format!("page {id}: {} rows of {}", page.deliveries.len(), page.snapshot));
                self.environment.page_read(id, page);
            }
        }
        self.carry_out(actions)
    }

    /// What groups gave up in a commit that is durable is in queues, as it was.
    fn check_copies(&mut self, commit: CommitSequence) -> Verdict {
        let copies = self.auditor.copies_durable(commit, self.index, self.environment.stamp())?;
        if copies.is_empty() {
            return Ok(());
        }
        self.coverage.copies(copies.len());
        self.auditor.check_copied(&copies, &self.dump()?)
    }

    pub(super) fn break_something(&mut self) -> Verdict {
        if !self.faults_on {
            return Ok(());
        }
        let random = &mut self.streams.faults;
        if self.pending_fault.is_none() && random.chance(30) {
            self.pending_fault = draw_commit_fault(random);
            self.next_fault.set(self.pending_fault);
        }
        if self.pending_fault.is_none() && self.disk.fail_flushes() {
            self.trace.note(|| "flushes are to fail".to_owned());
            self.pending_fault = Some(Fault::FlushFailed);
        }
        if !self.trusts_clock && random.chance(14) {
            self.coverage.fault(match self.clock.disturb(random) {
                ClockFault::Back => Fault::ClockBack,
                ClockFault::Forward => Fault::ClockForward,
                ClockFault::Frozen => Fault::ClockFrozen,
            });
        }
        if random.chance(10) {
            self.clock.set_right();
        }
        if random.chance(20) {
            let waiting: Vec<Ticket> = self.tickets.keys().copied().collect();
            if let Some(&ticket) = random.pick(&waiting) {
                self.coverage.fault(Fault::Abandoned);
                self.trace.note(|| format!("#{ticket} is abandoned"));
                self.abandoned.insert(ticket);
                self.environment.abandon(ticket);
            }
        }
        while let Some(&(at, planned)) = self.plan.last() {
            if at > self.submitted {
                break;
            }
            self.plan.pop();
            self.carry_out_plan(planned)?;
        }
        Ok(())
    }
}
