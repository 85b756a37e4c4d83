//! Answers on their way to clients, who may be gone.

use millpond_core::command::LeaseRef;
use millpond_core::outcome::Grant;
use millpond_core::{Command, Outcome, Stamp};
use millpond_engine::environment::{Action, EnvironmentAnswer, Ticket};

use super::World;
use crate::auditor::{Answered, Breach, Submitted, Verdict, demand};
use crate::faults::Fault;
use crate::workload::predict;

/// At rest an answer has to come within so many rounds: one for each page of what is stored, and a few.
const ROUNDS_TO_ANSWER: usize = 2_000;

impl World {
    /// An answer leaves the engine.
    pub(super) fn answer(&mut self, ticket: Ticket, answer: &EnvironmentAnswer) -> Verdict {
        let Some(submitted) = self.tickets.remove(&ticket) else {
            return Err(Breach(format!("#{ticket} was answered out of turn: {:?}", answer.outcome)));
        };
        self.index += 1;
        self.trace.note(|| format!("#{ticket} -> {:?}", answer.outcome));
        self.coverage.outcome(&answer.outcome);
        let answered = Answered {
            submitted: &submitted,
            outcome: &answer.outcome,
            contents: &answer.contents,
            index: self.index,
            stamp: self.environment.stamp(),
        };
        if let Outcome::Leased(grants) = &answer.outcome {
            for grant in grants {
                self.auditor.unseen.remove(&(grant.message, grant.generation));
            }
        }
        predict(&mut self.auditor, &answered)?;
        self.workload.look_on(&submitted.command, &answer.outcome);
        self.walk_on(&submitted, &answer.outcome);
        if let Outcome::Leased(grants) = &answer.outcome
            && !grants.is_empty()
        {
            self.hand_over(&submitted, grants);
        }
        self.abandoned.remove(&ticket);
        Ok(())
    }

    /// Grants reach their consumer, or go back.
    fn hand_over(&mut self, submitted: &Submitted, grants: &[Grant]) {
        let Command::Lease(lease) = &submitted.command else { return };
        let leases: Vec<LeaseRef> = grants.iter().map(Grant::lease).collect();
        let gone = self.abandoned.contains(&submitted.ticket);
        if gone || (self.faults_on && self.streams.faults.chance(40)) {
            if !gone {
                self.coverage.fault(Fault::Undelivered);
            }
            self.submit(Command::Undo(leases));
            return;
        }
        for lease_ref in leases {
            self.workload.take(&lease.queue, lease_ref);
        }
    }

    /// Asks for every queue and compares its counts with the model. Nothing is under way.
    pub(super) fn compare_counts(&mut self) -> Verdict {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        for name in names {
            let Some(view) = self.look_at(&name)? else { continue };
            let Some(number) = self.auditor.names.get(&name) else { continue };
            let counters = view.counters;
            let alive = |message: &&crate::auditor::Message| {
                message.queue == *number && message.life == crate::auditor::Life::Alive
            };
            let known = self.auditor.messages.values().filter(alive).count();
            let bytes = self.auditor.messages.values().filter(alive).map(|one| one.content.size_bytes());
            let bytes = u64::try_from(bytes.sum::<usize>()).unwrap_or(u64::MAX);
            let counted_bytes = counters.waiting_bytes + counters.leased_bytes + counters.dead_bytes;
            demand!(counted_bytes == bytes, "{name} counts {counters:?}, {bytes} bytes are known");
            let counted = counters.ready + counters.delayed + counters.leased + counters.dead;
            demand!(
                usize::try_from(counted).is_ok_and(|counted| counted == known),
                "{name} counts {counters:?}, {known} messages are known"
            );
        }
        Ok(())
    }

    /// Asks for a queue at the present stamp, at rest: the answer comes at once.
    pub(super) fn look_at(
        &mut self,
        name: &str,
    ) -> Result<Option<millpond_core::outcome::QueueView>, Breach> {
        match self.ask(Command::GetQueue { queue: name.into() })?.outcome {
            Outcome::Queue(view) => Ok(Some(*view)),
            other => Err(Breach(format!("{name} could not be looked at: {other:?}"))),
        }
    }

    /// Asks at the present stamp, at rest, for what changes nothing. Reads are served at once.
    pub(super) fn ask(&mut self, command: Command) -> Result<EnvironmentAnswer, Breach> {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.environment.submit(ticket, command.clone());
        let stamp = Stamp { now: self.environment.stamp(), entropy: 0 };
        for _ in 0..ROUNDS_TO_ANSWER {
            let mut actions = Vec::new();
            self.environment.step(&stamp, &mut actions);
            while let Some(action) = actions.pop() {
                match action {
                    Action::Answer(_, answer) => return Ok(answer),
                    Action::Commit(changes) => {
                        return Err(Breach(format!("{command:?} changes something: {changes:?}")));
                    }
                    Action::Contents(id, messages) => {
                        let contents = self.io.contents_now(&messages)?;
                        self.environment.contents_read(id, contents, &mut actions);
                    }
                    Action::Rows(id, keys) => {
                        let rows = self.io.rows_now(&keys)?;
                        self.environment.rows_read(id, rows);
                    }
                    Action::Scan(id, scan) => {
                        let page = self.io.page_now(&scan)?;
                        self.environment.page_read(id, page);
                    }
                }
            }
        }
        Err(Breach(format!("{command:?} is not answered at rest")))
    }
}
