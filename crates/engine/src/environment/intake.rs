//! Takes in what was written beside the owner: reads the intake page by page, applies each page as a whole and in order, and names
//! what it took in the commit that has what came of it.
//!
//! No wake-up is lost: whoever wakes makes a read wanted, and a read that is wanted is begun after that, whatever was under way. And
//! what is taken by a commit under way is on every page that does not see that commit: it lies over the page, and is passed over
//! (design-holes A6).

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_core::external::{External, ExternalId};
use millpond_core::id::CommitSequence;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Stamp, planted};
use millpond_store::ExternalPage;

use super::answers::Wanted;
use super::reads::OpenRead;
use super::{Action, Environment, Mail, ReadId};

/// Commands of one page, beside those that commits under way take, and the rest of the transactions that they are of.
const PAGE_COMMANDS: usize = 256;
/// After an opening leases wait for the intake to be read to its end, but no longer than this: it may be filled faster than it is
/// read. Settlements are safe all the same, by their claims.
const LEASES_WAIT_MAX: Duration = Duration::from_secs(3);

/// How far the intake is read.
#[derive(Debug)]
pub(super) struct Intake {
    /// Something may have come since the last read was begun.
    wanted: bool,
    reading: Option<ReadId>,
    page: Option<ExternalPage>,
    /// A page is being applied; it may be waiting for rows.
    applying: bool,
    /// Nothing is known to be behind the page that is being applied.
    last: bool,
    /// What commits take that a read may not have seen.
    taken: BTreeMap<ExternalId, CommitSequence>,
    /// Leases wait until then; `None`: they do not any more.
    leases_wait_until: Option<Timestamp>,
}

impl Intake {
    /// Of an environment that is opened: what it has is not known.
    pub(super) fn unread(now: Timestamp) -> Self {
        Self {
            wanted: true,
            reading: None,
            page: None,
            applying: false,
            last: false,
            taken: BTreeMap::new(),
            leases_wait_until: Some(now.plus(LEASES_WAIT_MAX)),
        }
    }

    /// Whether a step would begin a read or apply a page.
    pub(super) fn has_work(&self) -> bool {
        self.page.is_some() || self.may_read()
    }

    /// Not while commits under way take a lot: a page would have all that again.
    fn may_read(&self) -> bool {
        self.wanted
            && self.taken.len() <= PAGE_COMMANDS
            && self.reading.is_none()
            && self.page.is_none()
            && !self.applying
    }

    /// What is durable by now is on no page that is read from now on.
    pub(super) fn forget_taken(&mut self, durable: CommitSequence) {
        if self.reading.is_none() && self.page.is_none() {
            self.taken.retain(|_, commit| *commit > durable);
        }
    }

    /// Nothing is known to wait.
    pub(super) fn is_quiet(&self) -> bool {
        !self.wanted && self.reading.is_none() && self.page.is_none() && !self.applying
    }
}

impl Environment {
    /// External commands may have come.
    pub fn wake_external(&mut self) {
        self.intake.wanted = true;
    }

    /// A page of the intake was read. It is taken in by the next round.
    pub fn external_read(&mut self, id: ReadId, page: ExternalPage) {
        if self.reads.remove(&id).is_none() || self.intake.reading != Some(id) {
            return;
        }
        self.intake.reading = None;
        if planted!(WakeLost) {
            self.intake.wanted = false;
        }
        self.intake.page = Some(page);
    }

    /// Begins to read what waits.
    pub(super) fn read_external(&mut self, actions: &mut Vec<Action>) {
        if !self.intake.may_read() {
            return;
        }
        // Before the read: who wakes from now on may be missed by it.
        self.intake.wanted = false;
        let id = self.begin_read(OpenRead::external());
        self.intake.reading = Some(id);
        actions.push(Action::External(id, PAGE_COMMANDS + self.intake.taken.len()));
    }

    /// Applies the page that was read, before anything ends by time.
    pub(super) fn take_external(
        &mut self,
        stamp: &Stamp,
        answers: &mut Vec<Wanted>,
        actions: &mut Vec<Action>,
    ) {
        if self.intake.leases_wait_until.is_some_and(|until| until <= stamp.now) {
            self.let_leases_end();
        }
        let Some(page) = self.intake.page.take() else { return };
        self.intake.taken.retain(|_, commit| *commit > page.snapshot);
        self.intake.last = !page.more;
        self.intake.wanted |= page.more;
        let taken = &self.intake.taken;
        let fresh = page.commands.into_iter().filter(|external| !taken.contains_key(&external.id));
        let fresh: Vec<External> = fresh.collect();
        self.intake.forget_taken(self.durable);
        self.intake.applying = true;
        if fresh.is_empty() {
            return self.external_applied(&fresh);
        }
        let command = Command::TakeExternal(fresh);
        self.apply(Mail { ticket: None, command, rounds: 0 }, stamp, answers, actions);
    }

    /// A page was applied: it is part of the commit to come.
    pub(super) fn external_applied(&mut self, page: &[External]) {
        let commit = self.core.next_commit();
        self.intake.taken.extend(page.iter().map(|external| (external.id, commit)));
        self.intake.applying = false;
        if self.intake.last {
            self.let_leases_end();
        }
    }

    fn let_leases_end(&mut self) {
        if self.intake.leases_wait_until.take().is_some() {
            self.core.set_leases_wait(false);
            for mail in std::mem::take(&mut self.held_back).into_iter().rev() {
                self.mailbox.push_front(mail);
            }
        }
    }

    /// Whoever leases ends leases that are over first, and would be told that there is nothing, or be refused, if it did not.
    pub(super) fn has_to_wait(&self, command: &Command) -> bool {
        let leases = matches!(command, Command::Lease(_) | Command::LeaseMessage(_));
        leases && self.intake.leases_wait_until.is_some()
    }
}
