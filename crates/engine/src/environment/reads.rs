//! Reads under way. A read may miss what was committed after it began, so memory keeps every later change until the
//! answer has been taken in (design-holes A6).

use std::collections::HashMap;
use std::sync::Arc;

use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::{Claim, Page, RowKey, Rows, ScanTicket, Stamp};

use crate::environment::answers::Held;
use crate::environment::{Action, Environment, ReadId, SWEEP_EVERY_ROUNDS};

/// A read under way.
#[derive(Debug)]
pub(super) struct OpenRead {
    /// What was durable when it began.
    pub(super) began_at: Option<CommitSequence>,
    pub(super) ticket: Option<ScanTicket>,
}

impl OpenRead {
    pub(super) fn rows(durable: CommitSequence) -> Self {
        Self { began_at: Some(durable), ticket: None }
    }

    /// The intake has no rows that memory could know better.
    pub(super) fn external() -> Self {
        Self { began_at: None, ticket: None }
    }

    fn page(durable: CommitSequence, ticket: ScanTicket) -> Self {
        Self { began_at: Some(durable), ticket: Some(ticket) }
    }
}

/// A read of contents, and the answers that wait for it.
#[derive(Debug)]
pub(super) struct ContentRead {
    pub(super) asked: Vec<Sequence>,
    pub(super) users: usize,
    pub(super) result: Option<HashMap<Sequence, Option<Arc<MessageContent>>>>,
    pub(super) held: Vec<Held>,
}

impl ContentRead {
    pub(super) fn new(asked: Vec<Sequence>, users: usize) -> Self {
        Self { asked, users, result: None, held: Vec::new() }
    }
}

impl Environment {
    pub(super) fn begin_read(&mut self, read: OpenRead) -> ReadId {
        let id = self.next_read;
        self.next_read += 1;
        self.reads.insert(id, read);
        id
    }

    pub(super) fn start_scans(&mut self, actions: &mut Vec<Action>) {
        for wanted in self.core.take_scans() {
            let read = self.begin_read(OpenRead::page(self.durable, wanted.ticket));
            actions.push(Action::Scan(read, wanted.scan));
        }
    }

    /// Asks for claims on leases that ran out.
    pub(super) fn claim_due_leases(&mut self) {
        let claims: Vec<_> = self.core.take_claims().into_iter().map(RowKey::Claim).collect();
        if !claims.is_empty() {
            let read = self.begin_read(OpenRead::rows(self.durable));
            self.claim_reads.push((self.core.next_commit(), read, claims));
        }
    }

    /// Begins reads of claims once the leases are durable that they are about: one that is not might never be, and its key would be
    /// stored for ever. Whoever settles from beside does not see it before that either.
    pub(super) fn begin_claim_reads(&mut self, actions: &mut Vec<Action>) {
        let last = self.commits.back().map_or(self.durable, |last| last.commit);
        let durable = self.durable;
        for (commit, read, keys) in std::mem::take(&mut self.claim_reads) {
            // A round that changed nothing has no commit.
            if commit.min(last) <= durable {
                actions.push(Action::Rows(read, keys));
            } else {
                self.claim_reads.push((commit.min(last), read, keys));
            }
        }
    }

    /// Rows that commands wait for were read; these commands go first in the next round. Of claims on leases that ran out memory is told.
    pub fn rows_read(&mut self, id: ReadId, rows: Rows) {
        if self.reads.remove(&id).is_none() {
            return;
        }
        if rows.claims.iter().any(|(_, claim)| *claim == Claim::Settled) {
            self.wake_external();
        }
        self.core.absorb_rows(rows);
        for mail in self.parked.remove(&id).unwrap_or_default().into_iter().rev() {
            self.mailbox.push_front(mail);
        }
    }

    /// A page was read. It is taken in by the next round, or, if it is a sweep's, when commands leave room.
    pub fn page_read(&mut self, id: ReadId, page: Page) {
        let Some(ticket) = self.reads.get(&id).and_then(|read| read.ticket) else { return };
        let pages = if ticket.is_sweep() { &mut self.sweep_pages } else { &mut self.pages };
        pages.push_back((id, ticket, page));
    }

    pub(super) fn absorb_pages(&mut self, stamp: &Stamp) {
        let mut pages = std::mem::take(&mut self.pages);
        let room = !self.busy || self.rounds.is_multiple_of(SWEEP_EVERY_ROUNDS);
        if room {
            pages.extend(self.sweep_pages.pop_front());
        }
        for (id, ticket, page) in pages {
            self.core.absorb(ticket, page, stamp);
            self.reads.remove(&id);
        }
        self.settle();
    }
}
