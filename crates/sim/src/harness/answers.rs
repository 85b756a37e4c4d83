//! Answers on their way to clients, who may be gone.

use millpond_core::command::LeaseRef;
use millpond_core::outcome::Grant;
use millpond_core::{Command, Outcome, Stamp};
use millpond_engine::environment::{EnvironmentAnswer, Ticket};

use super::World;
use crate::auditor::{Answered, Breach, Submitted, Verdict, demand};
use crate::faults::Fault;
use crate::workload::predict;

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
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.environment.submit(ticket, Command::GetQueue { queue: name.into() });
        let stamp = Stamp { now: self.environment.stamp(), entropy: 0 };
        let mut actions = Vec::new();
        self.environment.step(&stamp, &mut actions);
        for action in actions {
            if let millpond_engine::environment::Action::Answer(_, answer) = action
                && let Outcome::Queue(view) = answer.outcome
            {
                return Ok(Some(*view));
            }
        }
        Err(Breach(format!("{name} could not be looked at")))
    }
}
