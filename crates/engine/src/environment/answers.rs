//! Answers on their way out: they wait for their commit and, with messages in them, for the contents of these.

use std::sync::Arc;

use millpond_core::id::Sequence;
use millpond_core::outcome::Rejection;
use millpond_core::row::MessageContent;
use millpond_core::{Command, Outcome};

use crate::environment::reads::ContentRead;
use crate::environment::{Action, Environment, ReadId, Ticket};

/// A durable answer.
#[derive(Debug)]
pub struct EnvironmentAnswer {
    /// What the core answered.
    pub outcome: Outcome,
    /// The contents of the messages granted or shown, in their order, or of the one whose data was asked for.
    pub contents: Vec<Arc<MessageContent>>,
}

/// An answer as the round made it.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Outcome,
}

/// An answer that waits for its commit.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) ticket: Ticket,
    pub(crate) outcome: Outcome,
    contents: Vec<Option<Arc<MessageContent>>>,
    /// The read that brings what is missing in `contents`.
    read: Option<ReadId>,
}

/// The messages whose contents go with an answer.
fn carried(outcome: &Outcome) -> Vec<Sequence> {
    match outcome {
        Outcome::Browsed(page) if page.contents => page.deliveries.iter().map(|row| row.sequence).collect(),
        Outcome::Data(view) => vec![view.message.sequence],
        Outcome::Leased(grants) => grants.iter().map(|grant| grant.message.sequence).collect(),
        Outcome::Message(row) => vec![row.sequence],
        _ => Vec::new(),
    }
}

/// Takes the messages out of an answer that are gone by now: there is nothing to hand out or to show.
fn take_out_missing(outcome: &mut Outcome, contents: &[Option<Arc<MessageContent>>]) {
    let mut present = contents.iter().map(Option::is_some);
    let mut is_present = || present.next().unwrap_or(false);
    match outcome {
        Outcome::Browsed(page) => page.deliveries.retain(|_| is_present()),
        Outcome::Leased(grants) => grants.retain(|_| is_present()),
        Outcome::Message(row) if !is_present() => {
            *outcome = Outcome::Rejected(Rejection::MessageNotFound { message: row.message_id() });
        }
        _ => {}
    }
}

impl Environment {
    /// Finds the contents of what was granted or is shown; asks the store for those that memory lacks, one read for the round.
    pub(super) fn attach_contents(&mut self, answers: Vec<Wanted>, actions: &mut Vec<Action>) -> Vec<Held> {
        let mut missing: Vec<Sequence> = Vec::new();
        let mut held = Vec::with_capacity(answers.len());
        let read = self.next_read;
        let mut users = 0;
        for Wanted { ticket, outcome } in answers {
            let before = missing.len();
            let carried = carried(&outcome);
            let mut contents = Vec::with_capacity(carried.len());
            for sequence in carried {
                let known = self.content_of(sequence).cloned();
                if known.is_none() {
                    missing.push(sequence);
                }
                contents.push(known);
            }
            let lacks = missing.len() > before;
            users += usize::from(lacks);
            held.push(Held { ticket, outcome, contents, read: lacks.then_some(read) });
        }
        if users > 0 {
            self.next_read += 1;
            // Many may look at the same messages.
            missing.sort_unstable();
            missing.dedup();
            self.content_reads.insert(read, ContentRead::new(missing.clone(), users));
            actions.push(Action::Contents(read, missing));
        }
        held
    }

    /// The commit of these answers is durable: they leave, unless they still lack contents.
    pub(super) fn release(&mut self, answers: Vec<Held>, actions: &mut Vec<Action>) {
        for answer in answers {
            let waits = answer.read.and_then(|read| self.content_reads.get_mut(&read));
            match waits {
                Some(read) if read.result.is_none() => read.held.push(answer),
                _ => self.emit(answer, actions),
            }
        }
    }

    fn emit(&mut self, mut answer: Held, actions: &mut Vec<Action>) {
        if let Some(id) = answer.read
            && let Some(read) = self.content_reads.get_mut(&id)
        {
            fill(&mut answer, read);
            read.users -= 1;
            if read.users == 0 {
                self.content_reads.remove(&id);
            }
        }
        let Held { ticket, mut outcome, contents, .. } = answer;
        if contents.iter().any(Option::is_none) {
            self.take_back_missing(&outcome, &contents);
            take_out_missing(&mut outcome, &contents);
        }
        let contents = contents.into_iter().flatten().collect();
        actions.push(Action::Answer(ticket, EnvironmentAnswer { outcome, contents }));
    }

    /// A topic's message may have left while a group was granted it: nobody gets that grant.
    fn take_back_missing(&mut self, outcome: &Outcome, contents: &[Option<Arc<MessageContent>>]) {
        let Outcome::Leased(grants) = outcome else { return };
        let gone = grants.iter().zip(contents).filter(|(_, content)| content.is_none());
        let leases: Vec<_> = gone.map(|(grant, _)| grant.lease()).collect();
        if !leases.is_empty() {
            self.notify(Command::Undo(leases));
        }
    }

    /// Contents that were missing were read.
    pub fn contents_read(
        &mut self,
        id: ReadId,
        result: Vec<Option<Arc<MessageContent>>>,
        actions: &mut Vec<Action>,
    ) {
        let Some(read) = self.content_reads.get_mut(&id) else { return };
        read.result = Some(read.asked.iter().copied().zip(result).collect());
        for answer in std::mem::take(&mut read.held) {
            self.emit(answer, actions);
        }
    }
}

fn fill(answer: &mut Held, read: &ContentRead) {
    let Some(result) = &read.result else { return };
    for (sequence, slot) in carried(&answer.outcome).into_iter().zip(&mut answer.contents) {
        if slot.is_none() {
            *slot = result.get(&sequence).cloned().flatten();
        }
    }
}
