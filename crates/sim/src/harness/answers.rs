//! Answers on their way to clients, who may be gone.

use millpond_core::command::LeaseRef;
use millpond_core::outcome::{DataView, Grant};
use millpond_core::{Command, Outcome, Rejection, Stamp};
use millpond_engine::environment::{Action, EnvironmentAnswer, Ticket};
use millpond_store::MemoryDump;

use super::World;
use crate::auditor::{Answered, Breach, Submitted, Verdict, demand, token_of};
use crate::faults::Fault;
use crate::names::{Kind, kind_of};
use crate::workload::{Hand, Reading, Sending, data_of, predict};

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
        self.coverage.outcome(&submitted.command, &answer.outcome);
        let answered = Answered {
            submitted: &submitted,
            outcome: &answer.outcome,
            contents: &answer.contents,
            index: self.index,
            stamp: self.environment.stamp(),
        };
        if let Outcome::Leased(grants) = &answer.outcome {
            for grant in grants {
                let reader = self.auditor.reader_of(grant.delivery);
                self.auditor.unseen.remove(&(reader, grant.message, grant.generation));
            }
        }
        let taking = self.tickets.values().filter_map(|one| match &one.command {
            Command::LeaseMessage(lease) if !lease.reading.look => {
                Some((lease.queue.clone(), lease.message, one.index))
            }
            _ => None,
        });
        self.auditor.note_taking(taking);
        if self.auditor.takes_reservation(&submitted.command, &answer.outcome) {
            self.coverage.reservation();
        }
        predict(&mut self.auditor, &answered)?;
        self.workload.look_on(&submitted.command, &answer.outcome);
        self.walk_on(&submitted, &answer.outcome);
        match &answer.outcome {
            Outcome::Leased(grants) if !grants.is_empty() => self.hand_over(&submitted, grants),
            outcome => self.go_on(&submitted, outcome),
        }
        self.abandoned.remove(&ticket);
        Ok(())
    }

    /// Grants reach their consumer, or go back.
    fn hand_over(&mut self, submitted: &Submitted, grants: &[Grant]) {
        let (queue, look) = match &submitted.command {
            Command::Lease(lease) => (lease.queue.clone(), lease.reading.look),
            Command::LeaseMessage(lease) => (lease.queue.clone(), lease.reading.look),
            _ => return,
        };
        let leases: Vec<LeaseRef> = grants.iter().map(Grant::lease).collect();
        let gone = self.abandoned.contains(&submitted.ticket);
        if gone || (self.faults_on && self.streams.faults.chance(40)) {
            if !gone {
                self.coverage.fault(Fault::Undelivered);
            }
            self.submit(Command::Undo(leases));
            return;
        }
        for lease in leases {
            if look {
                self.workload.retired.push(Hand { queue: queue.clone(), lease });
            } else {
                self.workload.take(&queue, lease);
            }
        }
    }

    /// Who sends or reads in chunks learns how it went. What is given to somebody who has left is taken back, as a driver
    /// does.
    fn go_on(&mut self, submitted: &Submitted, outcome: &Outcome) {
        let gone = self.abandoned.contains(&submitted.ticket);
        match (&submitted.command, outcome) {
            (Command::BeginUpload(_), Outcome::UploadBegun(Some(upload))) if gone => {
                self.submit(Command::CancelUpload(*upload));
            }
            (Command::BeginUpload(begin), Outcome::UploadBegun(upload)) => match upload {
                Some(upload) => {
                    let (upload, begin) = (*upload, begin.clone());
                    self.workload.sendings.push(Sending { upload, begin, appended: 0, busy: false });
                }
                None => self.workload.repeats.push(begin.clone()),
            },
            (Command::AppendUpload(append), outcome) => {
                let sendings = &mut self.workload.sendings;
                let Some(at) = sendings.iter().position(|one| one.upload == append.upload) else { return };
                sendings[at].busy = false;
                match outcome {
                    Outcome::Done => sendings[at].appended += 1,
                    Outcome::Rejected(Rejection::UploadLost) => {
                        self.workload.ended.push(sendings.swap_remove(at).upload);
                    }
                    _ => {}
                }
            }
            (Command::FinishUpload(finish), Outcome::Rejected(_)) => {
                if let Some(upload) = finish.upload {
                    self.submit(Command::CancelUpload(upload));
                }
            }
            (Command::OpenData(open), Outcome::Data(DataView { pin: Some(pin), .. })) => {
                let message = self.auditor.message(&open.message).filter(|_| !gone);
                let token = message.map(|message| token_of(&message.content));
                match token {
                    Some(token) => self.workload.readings.push(Reading { pin: *pin, token, next: 0 }),
                    None => drop(self.submit(Command::CloseData(*pin))),
                }
            }
            _ => {}
        }
    }

    /// A reader takes the next chunk, or has had enough.
    pub(super) fn read_on(&mut self) -> Verdict {
        let count = self.workload.readings.len();
        if count == 0 {
            return Ok(());
        }
        let at = self.streams.latency.size(0, count - 1);
        let Reading { pin, token, next } = self.workload.readings[at];
        let expected = data_of(token, next, &self.settings.core);
        let left = expected.is_empty() || self.streams.latency.chance(40);
        if left {
            self.workload.readings.swap_remove(at);
            self.submit(Command::CloseData(pin));
            return Ok(());
        }
        // A disk without power reads nothing.
        let Some(found) = self.io.chunk(pin.sequence, next) else { return Ok(()) };
        demand!(found.as_ref() == Some(&expected), "chunk {next} of message {token} is read as {found:?}");
        self.coverage.chunk_read();
        self.workload.readings[at].next += 1;
        Ok(())
    }

    /// Everybody stops reading.
    pub(super) fn close_readings(&mut self) {
        for reading in std::mem::take(&mut self.workload.readings) {
            self.submit(Command::CloseData(reading.pin));
        }
    }

    /// Asks for every queue and compares its counts with the model. Nothing is under way.
    pub(super) fn compare_counts(&mut self, dump: &MemoryDump) -> Verdict {
        let names: Vec<_> = self.auditor.names.keys().cloned().collect();
        let amounts = self.auditor.amounts(dump);
        for name in names {
            let Some(view) = self.look_at(&name)? else { continue };
            let Some(number) = self.auditor.names.get(&name) else { continue };
            let counters = view.counters;
            let now = self.environment.stamp();
            self.auditor.check_why_of_group(&view, (now, now))?;
            if kind_of(&name) != Kind::Queue {
                let known = amounts.get(number).copied().unwrap_or_default();
                let counted = [counters.ready, counters.delayed, counters.leased];
                demand!(counted == known, "{name} counts {counters:?}, known are {known:?}");
                continue;
            }
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
                    Action::Push(notice) => {
                        return Err(Breach(format!("{command:?} tells of {notice:?}")));
                    }
                    Action::External(id, limit) => {
                        let page = self.io.external_now(limit)?;
                        self.environment.external_read(id, page);
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
