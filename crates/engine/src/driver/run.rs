//! One turn of a slot: take what was brought, let the environment work, do what it asks for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use millpond_core::outcome::Grant;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, Stamp};
use millpond_store::{StoreError, StoreErrorKind};

use crate::driver::pools::{ReadJob, ReadWork, WriteJob, WriteWork};
use crate::driver::slot::{Brought, Caller, Event, Failure, Phase, Slot, State};
use crate::driver::{Shared, lock};
use crate::environment::{Action, EnvironmentAnswer, Ticket};
use crate::receipt::{Pin, Receipt};
use crate::{Answer, EngineError};

impl Slot {
    /// One turn. Only the thread that has the turn calls this.
    pub(super) fn run(self: &Arc<Self>, shared: &Shared) {
        self.enough.store(0, Ordering::SeqCst);
        let mut state = lock(&self.state);
        let state = &mut *state;
        let inbox = self.take_inbox();
        state.closing.extend(inbox.close);
        for (ticket, mail) in &inbox.mails {
            debug_assert!(!state.callers.contains_key(ticket), "ticket {ticket} of {} twice", mail.bytes);
        }
        // Who left before these commands came must not be seen by them; who left after bringing one of them comes after it.
        let (left_before, left_after): (Vec<_>, Vec<_>) =
            inbox.abandoned.iter().copied().partition(|ticket| state.callers.contains_key(ticket));
        let mut commands = Vec::with_capacity(inbox.mails.len());
        for (ticket, mail) in inbox.mails {
            state.callers.insert(ticket, Caller { sender: mail.sender, bytes: mail.bytes });
            commands.push((ticket, mail.command));
        }
        let woken = inbox.woken && !shared.is_closing();
        let wanted = woken || !commands.is_empty() || !inbox.notices.iter().all(is_about_memory);
        self.make_ready(shared, state, wanted);
        let mut actions = Vec::new();
        let mut failure = None;
        if let Phase::Open(open) = &mut state.phase {
            if woken {
                open.environment.wake_external();
            }
            left_before.iter().for_each(|&ticket| open.environment.abandon(ticket));
            for (ticket, command) in commands {
                open.environment.submit(ticket, command);
            }
            for command in inbox.notices {
                open.environment.notify(command);
            }
            left_after.iter().for_each(|&ticket| open.environment.abandon(ticket));
            self.let_go(&mut state.callers, &inbox.abandoned);
            failure = self.take_events(state, inbox.events, &mut actions);
            if failure.is_none() && shared.factory.hold() != open_hold(state) {
                failure = Some(Failure::Read(not_held()));
            }
        } else {
            self.keep_for_later(state, commands, inbox.notices, &inbox.abandoned);
            // After that, so that nothing is kept whose caller is told that nothing was done.
            self.give_up_waiting(shared, state);
        }
        if let Some(failure) = failure {
            self.carry_out(shared, state, &mut actions);
            self.fail(shared, state, failure);
            self.queue();
            return;
        }
        self.step(shared, state, &mut actions);
        self.survey(shared, state, inbox.asked);
        self.copy(shared, state, inbox.copies);
        self.finish(shared, state, inbox.close_if_idle);
    }

    /// Forgets callers that left: a lease call that leaves its queue gets no answer that would end its account here. A
    /// send gets one, and holds memory until then.
    fn let_go(&self, callers: &mut HashMap<Ticket, Caller>, left: &[Ticket]) {
        for ticket in left {
            if callers.get(ticket).is_some_and(|caller| caller.bytes == 0) {
                callers.remove(ticket);
                self.give_room(0);
            }
        }
    }

    fn take_inbox(&self) -> Brought {
        let mut inbox = lock(&self.inbox);
        std::mem::take(&mut inbox.brought)
    }

    /// Opens the environment if there is something to do for it.
    fn make_ready(self: &Arc<Self>, shared: &Shared, state: &mut State, wanted: bool) {
        let open = match &state.phase {
            Phase::Open(_) => false,
            Phase::Closed => wanted,
            Phase::Failed(failed) => shared.clock.read().monotonic >= failed.retry_at,
        };
        if open {
            self.open_environment(shared, state);
        }
    }

    fn keep_for_later(
        &self,
        state: &mut State,
        commands: Vec<(Ticket, Command)>,
        notices: Vec<Command>,
        abandoned: &[Ticket],
    ) {
        if let Phase::Failed(failed) = &mut state.phase {
            abandoned.iter().for_each(|&ticket| failed.left.abandon(ticket));
            for (ticket, command) in commands {
                failed.left.keep(Some(ticket), command);
            }
            for command in notices {
                failed.left.keep(None, command);
            }
        }
    }

    /// Takes in what threads brought back. `Some`: the store failed.
    fn take_events(
        &self,
        state: &mut State,
        events: Vec<(u64, Event)>,
        actions: &mut Vec<Action>,
    ) -> Option<Failure> {
        let opening = state.opening;
        let Phase::Open(open) = &mut state.phase else { return None };
        let environment = &mut open.environment;
        for (of, event) in events {
            if of != opening {
                continue;
            }
            match event {
                Event::Committed(commit, Ok(())) => environment.committed(commit, actions),
                Event::Committed(_, Err(failure)) => return Some(Failure::Commit(failure)),
                Event::Panicked => return Some(Failure::Panic),
                Event::Rows(read, Ok(rows)) => environment.rows_read(read, rows),
                Event::Contents(read, Ok(contents)) => environment.contents_read(read, contents, actions),
                Event::Page(read, Ok(page)) => environment.page_read(read, page),
                Event::External(read, Ok(page)) => environment.external_read(read, page),
                Event::External(_, Err(error))
                | Event::Rows(_, Err(error))
                | Event::Contents(_, Err(error))
                | Event::Page(_, Err(error)) => {
                    return Some(Failure::Read(error));
                }
                Event::Space(low) => {
                    if state.space_low != low {
                        state.space_low = low;
                        environment.notify(Command::SetSpace { low });
                    }
                }
            }
        }
        None
    }

    /// Rounds, until there is nothing to do or the pipeline is full.
    fn step(self: &Arc<Self>, shared: &Shared, state: &mut State, actions: &mut Vec<Action>) {
        self.carry_out(shared, state, actions);
        loop {
            let Phase::Open(open) = &mut state.phase else { return };
            let reading = shared.clock.read();
            let now = open.clock.advance(reading);
            if !open.environment.has_work(now) {
                return;
            }
            state.last_work = reading.monotonic;
            let entropy = entropy(reading.monotonic, now);
            open.environment.step(&Stamp { now, entropy }, actions);
            self.carry_out(shared, state, actions);
        }
    }

    pub(super) fn carry_out(self: &Arc<Self>, shared: &Shared, state: &mut State, actions: &mut Vec<Action>) {
        let opening = state.opening;
        // Somebody else may have had the place meanwhile (design-holes A7): what memory says is of the past.
        let held = actions.is_empty() || shared.factory.hold() == open_hold(state);
        for action in actions.drain(..) {
            let slot = Arc::clone(self);
            let read = |work| shared.read(ReadJob { slot: Arc::clone(&slot), opening, work });
            match action {
                Action::Answer(ticket, _) if !held => {
                    let error = EngineError::Unknown(not_held().to_string());
                    self.reply(shared, state, ticket, Err(error));
                }
                Action::Answer(ticket, answer) => {
                    let answer = self.seal_answer(opening, answer);
                    self.reply(shared, state, ticket, Ok(answer));
                }
                Action::Commit(changes) => {
                    let commands = match &state.phase {
                        Phase::Open(open) => open.environment.commands_under_way(),
                        Phase::Closed | Phase::Failed(_) => 0,
                    };
                    let handed_over_at = shared.clock.read().monotonic;
                    let work = WriteWork::Commit { changes, commands, handed_over_at };
                    shared.write(self, WriteJob { slot, opening, work });
                }
                Action::Push(notice) => shared.notify_pushers(&self.name, notice),
                Action::Contents(id, messages) => read(ReadWork::Contents(id, messages)),
                Action::Rows(id, keys) => read(ReadWork::Rows(id, keys)),
                Action::External(id, limit) => read(ReadWork::External(id, limit)),
                Action::Scan(id, scan) => read(ReadWork::Scan(id, scan)),
            }
        }
    }

    fn seal_answer(self: &Arc<Self>, opening: u64, answer: EnvironmentAnswer) -> Answer {
        let EnvironmentAnswer { outcome, contents } = answer;
        let slot = || Arc::clone(self);
        let receipt = match &outcome {
            Outcome::Leased(grants) if !grants.is_empty() => {
                Some(Receipt::of_leases(slot(), grants.iter().map(Grant::lease).collect()))
            }
            Outcome::UploadBegun(Some(upload)) => Some(Receipt::of_upload(slot(), *upload)),
            _ => None,
        };
        let pin = match &outcome {
            Outcome::Data(view) => view.pin.map(|pin| Pin::new(slot(), opening, pin)),
            _ => None,
        };
        Answer { outcome, contents, receipt, pin }
    }

    pub(super) fn reply(
        &self,
        shared: &Shared,
        state: &mut State,
        ticket: Ticket,
        answer: Result<Answer, EngineError>,
    ) {
        let Some(caller) = state.callers.remove(&ticket) else { return };
        shared.counters.commands.fetch_add(1, Ordering::Relaxed);
        self.give_room(caller.bytes);
        // If the caller has left, the answer is dropped here, and with its receipt the grants go back.
        let _ = caller.sender.send(answer);
    }

    /// Arms the timer, notes how much mail makes another turn worth it, closes what is to be closed.
    fn finish(self: &Arc<Self>, shared: &Shared, state: &mut State, close_if_idle: Option<u64>) {
        if !state.closing.is_empty() {
            self.end_waits(shared, state);
        }
        match &state.phase {
            Phase::Open(open) => {
                let environment = &open.environment;
                self.enough.store(environment.wants_mail(), Ordering::SeqCst);
                let close = if state.closing.is_empty() {
                    close_if_idle == Some(state.opening)
                        && environment.is_idle()
                        && self.copies.load(Ordering::Acquire) == 0
                } else {
                    environment.is_settled()
                };
                // Grants whose answer nobody took may just have been brought back, or external commands have come.
                let brought = lock(&self.inbox);
                let woken = brought.brought.woken && !shared.is_closing();
                let nothing = brought.brought.notices.is_empty() && !woken;
                drop(brought);
                if close && state.callers.is_empty() && nothing {
                    self.close_environment(shared, state);
                } else {
                    self.arm(shared, state);
                }
            }
            Phase::Failed(failed) if state.closing.is_empty() => {
                shared.timer.arm(self, failed.retry_at, shared.clock.read().monotonic);
            }
            Phase::Failed(_) => {
                state.phase = Phase::Closed;
                self.set_failed(false);
                state.callers.clear();
            }
            Phase::Closed => {}
        }
        if matches!(state.phase, Phase::Closed) {
            for closed in state.closing.drain(..) {
                let _ = closed.send(());
            }
        }
    }

    /// Answers waiting calls with nothing: the engine goes down.
    fn end_waits(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let Phase::Open(open) = &mut state.phase else { return };
        let is_lease = |command: &Command| matches!(command, Command::Lease(_));
        let waiting: Vec<(Ticket, bool)> =
            open.environment.waiting().map(|(ticket, command)| (ticket, is_lease(command))).collect();
        for &(ticket, _) in &waiting {
            open.environment.abandon(ticket);
        }
        for &(ticket, is_lease) in &waiting {
            let answer = if is_lease { Ok(Answer::nothing()) } else { Err(EngineError::ShuttingDown) };
            self.reply(shared, state, ticket, answer);
        }
        if !waiting.is_empty() {
            let mut actions = Vec::new();
            self.step(shared, state, &mut actions);
        }
    }

    fn arm(self: &Arc<Self>, shared: &Shared, state: &mut State) {
        let Phase::Open(open) = &mut state.phase else { return };
        let Some(due) = open.environment.next_due() else { return };
        let reading = shared.clock.read();
        let now = open.clock.advance(reading);
        let at = reading.monotonic + due.since(now);
        // An alarm that is past has gone off.
        if state.armed.is_some_and(|armed| armed <= at && armed > reading.monotonic) {
            return;
        }
        state.armed = Some(at);
        shared.timer.arm(self, at, reading.monotonic);
    }
}

/// The hold under which the environment was opened.
fn open_hold(state: &State) -> Option<u64> {
    match &state.phase {
        Phase::Open(open) => open.hold,
        Phase::Closed | Phase::Failed(_) => None,
    }
}

fn not_held() -> StoreError {
    let what = "the store could not be reached in time: another server may own it now";
    StoreError::new(StoreErrorKind::Unavailable, what)
}

/// Random bits for a stamp: the process's random seed, mixed with what the clocks show.
fn entropy(monotonic: Duration, now: Timestamp) -> u64 {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::LazyLock;
    static SEED: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    SEED.hash_one((monotonic, now.as_millis()))
}

/// What is ended by it is in memory, so an environment that is closed has none of it.
fn is_about_memory(notice: &Command) -> bool {
    matches!(notice, Command::CancelUpload(_) | Command::CancelWait(_) | Command::CloseData(_))
}
