//! A round: what is waiting is applied, command by command, and sealed into one commit; answers go with it.

use std::sync::Arc;

use millpond_core::command::WaiterId;
use millpond_core::{ChangeSet, Command, DeliveryChange, Effect, Outcome, RowKey, Stamp, planted};

use super::answers::Wanted;
use super::reads::OpenRead;
use super::{
    Action, BUSY_AFTER_MAIL, Environment, InFlight, Mail, PushNotice, READ_ROUNDS_MAX, command_bytes,
};

impl Environment {
    /// One round at the time of `stamp`. Does nothing while the pipeline is full.
    pub fn step(&mut self, stamp: &Stamp, actions: &mut Vec<Action>) {
        if self.pipeline_is_full() {
            return;
        }
        self.rounds += 1;
        let mut answers = Vec::new();
        if !self.mailbox.is_empty() {
            self.mail_seen_at = stamp.now;
        }
        self.busy = stamp.now.since(self.mail_seen_at) < BUSY_AFTER_MAIL;
        self.core.set_busy(self.busy);
        self.absorb_pages(stamp);
        // What was seen on a page is answered before what is applied from now on.
        self.carry_out_effects(&mut answers);
        self.take_external(stamp, &mut answers, actions);
        if self.core.next_due().is_some_and(|due| due <= stamp.now) {
            self.apply(
                Mail { ticket: None, command: Command::Tick, rounds: 0 },
                stamp,
                &mut answers,
                actions,
            );
        }
        let commands = self.apply_mail(stamp, &mut answers, actions);
        self.carry_out_effects(&mut answers);
        let changes = self.core.seal();
        self.start_scans(actions);
        self.read_external(actions);
        self.send_off(changes, commands, answers, actions);
        self.claim_due_leases();
        self.begin_claim_reads(actions);
        let held = self.settings.contents_bytes;
        self.contents.shrink(held, self.durable);
    }

    /// Returns how many commands were applied.
    fn apply_mail(&mut self, stamp: &Stamp, answers: &mut Vec<Wanted>, actions: &mut Vec<Action>) -> usize {
        let mut bytes = 0;
        let mut batch = Vec::new();
        while let Some(mail) = self.mailbox.pop_front() {
            bytes += command_bytes(&mail.command);
            if self.has_to_wait(&mail.command) {
                self.held_back.push(mail);
                continue;
            }
            batch.push(mail);
            if batch.len() >= self.settings.batch_commands || bytes >= self.settings.batch_bytes {
                break;
            }
        }
        let mut batch = self.park_for_rows(batch, actions);
        batch.extend(self.take_chunks());
        let commands = batch.len();
        for mail in batch {
            self.apply(mail, stamp, answers, actions);
        }
        commands
    }

    /// As many chunks as one round takes.
    fn take_chunks(&mut self) -> Vec<Mail> {
        let mut bytes = 0;
        let mut taken = Vec::new();
        while (taken.is_empty() || bytes < self.settings.upload_batch_bytes)
            && let Some(mail) = self.chunks.pop_front()
        {
            bytes += command_bytes(&mail.command);
            taken.push(mail);
        }
        taken
    }

    /// Sets the commands aside that lack rows, and asks for all of these rows at once.
    fn park_for_rows(&mut self, batch: Vec<Mail>, actions: &mut Vec<Action>) -> Vec<Mail> {
        let mut missing = Vec::new();
        let mut parked = Vec::new();
        let mut rest = Vec::with_capacity(batch.len());
        for mail in batch {
            let lacks = self.core.missing(&mail.command);
            if lacks.is_empty() || mail.rounds >= READ_ROUNDS_MAX {
                rest.push(mail);
            } else {
                missing.extend(lacks);
                parked.push(mail);
            }
        }
        if !parked.is_empty() {
            self.read_rows(missing, parked, actions);
        }
        rest
    }

    fn read_rows(&mut self, mut keys: Vec<RowKey>, mut mails: Vec<Mail>, actions: &mut Vec<Action>) {
        // Who comes again reads everything anew: memory may have let go of one row while it waited for another.
        for mail in mails.iter().filter(|mail| mail.rounds > 0) {
            keys.extend(self.core.needed(&mail.command));
        }
        keys.sort_unstable();
        keys.dedup();
        for mail in &mut mails {
            mail.rounds = mail.rounds.saturating_add(1);
        }
        let read = self.begin_read(OpenRead::rows(self.durable));
        self.parked.insert(read, mails);
        if keys.iter().any(|key| matches!(key, RowKey::Claim(_))) {
            self.claim_reads.push((self.core.next_commit(), read, keys));
        } else {
            actions.push(Action::Rows(read, keys));
        }
    }

    pub(super) fn apply(
        &mut self,
        mail: Mail,
        stamp: &Stamp,
        answers: &mut Vec<Wanted>,
        actions: &mut Vec<Action>,
    ) {
        let Mail { ticket, mut command, rounds } = mail;
        if let Some(ticket) = ticket {
            match &mut command {
                Command::BeginUpload(begin) => begin.waiter = WaiterId(ticket),
                Command::Browse(browse) => browse.waiter = WaiterId(ticket),
                Command::Lease(lease) => lease.waiter = WaiterId(ticket),
                _ => {}
            }
        }
        match self.core.apply(&command, stamp) {
            Ok(Outcome::Waiting) => {
                if let Some(ticket) = ticket {
                    self.waiters.insert(WaiterId(ticket), (ticket, command));
                }
            }
            Ok(outcome) => {
                match &command {
                    Command::CancelWait(waiter) => {
                        self.waiters.remove(waiter);
                    }
                    Command::TakeExternal(page) => self.external_applied(page),
                    _ => {}
                }
                if let Some(ticket) = ticket {
                    answers.push(Wanted { ticket, outcome });
                }
            }
            Err(needs) => self.read_rows(needs.0, vec![Mail { ticket, command, rounds }], actions),
        }
    }

    fn carry_out_effects(&mut self, answers: &mut Vec<Wanted>) {
        for effect in self.core.take_effects() {
            let (waiter, outcome) = match effect {
                Effect::Answered { waiter, outcome } => (waiter, outcome),
                Effect::TriggersChanged => {
                    self.push_notices.push(PushNotice::Triggers);
                    continue;
                }
                Effect::TopicMade { topic } => {
                    self.push_notices.push(PushNotice::Topic(topic));
                    continue;
                }
            };
            match self.waiters.remove(&waiter) {
                Some((ticket, _)) => answers.push(Wanted { ticket, outcome }),
                // The caller has left in this very round: what it was granted goes back.
                None => self.undo(&outcome),
            }
        }
    }

    /// Takes back what an answer granted.
    fn undo(&mut self, outcome: &Outcome) {
        match outcome {
            Outcome::Leased(grants) if !grants.is_empty() => {
                let leases = grants.iter().map(millpond_core::outcome::Grant::lease).collect();
                self.notify(Command::Undo(leases));
            }
            Outcome::UploadBegun(Some(upload)) => self.notify(Command::CancelUpload(*upload)),
            _ => {}
        }
    }

    /// Hands the round's changes and answers on.
    fn send_off(
        &mut self,
        changes: Option<ChangeSet>,
        commands: usize,
        answers: Vec<Wanted>,
        actions: &mut Vec<Action>,
    ) {
        if let Some(changes) = &changes {
            self.keep_contents(changes);
        }
        let answers = self.attach_contents(answers, actions);
        let notices = std::mem::take(&mut self.push_notices);
        match changes {
            Some(changes) if planted!(AnswerBeforeCommit) => {
                let commit = changes.commit;
                self.commits.push_back(InFlight { commit, commands, answers: Vec::new(), notices });
                actions.push(Action::Commit(Box::new(changes)));
                self.release(answers, actions);
            }
            Some(changes) => {
                self.commits.push_back(InFlight { commit: changes.commit, commands, answers, notices });
                actions.push(Action::Commit(Box::new(changes)));
            }
            // Nothing changed: wait for what was applied before.
            None => match self.commits.back_mut() {
                Some(last) => {
                    last.answers.extend(answers);
                    last.notices.extend(notices);
                }
                None => {
                    self.release(answers, actions);
                    actions.extend(notices.into_iter().map(Action::Push));
                }
            },
        }
    }

    fn keep_contents(&mut self, changes: &ChangeSet) {
        for message in &changes.messages {
            self.contents.insert(changes.commit, message.sequence, Arc::clone(&message.content));
        }
        for copy in &changes.copies {
            if let Some(content) = self.contents.get(copy.from).cloned() {
                self.contents.insert(changes.commit, copy.to, content);
            }
        }
        for change in &changes.deliveries {
            if let DeliveryChange::Remove(sequence) = change {
                self.contents.remove(*sequence);
            }
        }
    }
}
