//! Dispatch: one file per command under `apply/`.
//!
//! A command either changes nothing of its own and says which rows it needs, or is applied whole. Checks come first, in the order
//! that each file documents; changes follow, and cannot fail. What is due where messages come from may be worked off before the checks:
//! that would have happened without the command as well.

mod append_upload;
mod begin_upload;
mod browse;
mod cancel_upload;
mod claim;
mod create_queue;
mod delete_message;
mod delete_queue;
mod finish_upload;
mod get_message;
mod idempotency;
mod lease;
mod lease_group;
mod lease_message;
mod list_queues;
mod move_messages;
mod open_data;
mod pause_queue;
mod purge_queue;
mod retire;
mod retry;
mod revive;
mod send;
mod settle;
mod take_external;
mod tick;
mod triggers;
mod undo;
mod update_queue;
mod view;

use crate::apply::idempotency::call_key;
pub(crate) use crate::apply::retire::Retirement;
use crate::change::RowKey;
use crate::command::{Command, Send};
use crate::outcome::{Outcome, Rejection};
use crate::stamp::Stamp;
use crate::state::Core;

/// Rows that memory lacks; nothing was changed. The engine reads them, hands them to [`Core::absorb_rows`] and
/// applies the command again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Needs(pub Vec<RowKey>);

/// Why a command stops before it changes anything.
#[derive(Debug)]
pub(crate) enum Stop {
    Needs(Vec<RowKey>),
    Rejected(Rejection),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(rejection)
    }
}

impl Core {
    /// Applies one command at the time of `stamp`.
    ///
    /// # Errors
    /// [`Needs`], with nothing changed, if rows are missing in memory.
    pub fn apply(&mut self, command: &Command, stamp: &Stamp) -> Result<Outcome, Needs> {
        self.set_stamp(stamp);
        let done = self.dispatch(command, stamp);
        // What was due may have been worked off on the way to a refusal.
        self.serve_stirred(stamp);
        match done {
            Ok(outcome) => Ok(outcome),
            Err(Stop::Rejected(rejection)) => Ok(Outcome::Rejected(rejection)),
            Err(Stop::Needs(keys)) => Err(Needs(keys)),
        }
    }

    fn dispatch(&mut self, command: &Command, stamp: &Stamp) -> Result<Outcome, Stop> {
        match command {
            Command::AppendUpload(append) => self.append_upload(append, stamp),
            Command::BeginUpload(begin) => self.begin_upload(begin, stamp),
            Command::Browse(browse) => self.browse(browse),
            Command::CancelUpload(upload) => Ok(self.cancel_upload(*upload, stamp)),
            Command::CancelWait(waiter) => Ok(self.cancel_wait(*waiter, stamp)),
            Command::CloseData(pin) => Ok(self.close_data(*pin)),
            Command::CreateQueue(create) => self.create_queue(create, stamp),
            Command::DeleteMessage(wanted) => self.delete_message(wanted, stamp),
            Command::DeleteQueue(delete) => self.delete_queue(delete),
            Command::DeleteTriggers(of) => self.delete_triggers(of),
            Command::FinishUpload(finish) => self.finish_upload(finish, stamp),
            Command::GetMessage(wanted) => self.get_message(wanted, stamp),
            Command::GetQueue { queue } => self.get_queue(queue, stamp),
            Command::Lease(lease) => self.lease(lease, stamp),
            Command::LeaseMessage(lease) => self.lease_message(lease, stamp),
            Command::LeaseState { queue, lease } => self.lease_state(queue, lease, stamp),
            Command::ListTriggers => Ok(self.list_triggers()),
            Command::ListQueues { listed, after, descending, limit } => {
                self.list_queues(listed, after.as_deref(), *descending, *limit, stamp)
            }
            Command::MoveMessages(moves) => self.move_messages(moves, stamp),
            Command::Once(once) => self.once(once, stamp),
            Command::OpenData(open) => self.open_data(open, stamp),
            Command::PauseQueue { queue } => self.pause_queue(queue, stamp),
            Command::PurgeQueue { queue, target } => self.purge_queue(queue, *target, stamp),
            Command::PutTriggers(put) => self.put_triggers(put, stamp),
            Command::ReportTrigger { id, uid, trouble } => {
                Ok(self.report_trigger(id, *uid, trouble.as_ref()))
            }
            Command::ResumeQueue { queue } => self.resume_queue(queue, stamp),
            Command::Revive(revive) => self.revive(revive, stamp),
            Command::Send(send) => self.send(send, stamp),
            Command::SetSecret(set) => self.set_secret(set, stamp),
            Command::SetSpace { low } => {
                self.space_low = *low;
                Ok(Outcome::Done)
            }
            Command::Settle(settle) => self.settle(settle, stamp),
            Command::TakeExternal(page) => self.take_external(page, stamp),
            Command::Tick => Ok(self.tick(stamp)),
            Command::Undo(leases) => self.undo(leases, stamp),
            Command::UpdateQueue(update) => self.update_queue(update, stamp),
        }
    }

    /// Rows that the command is known to need, whether memory has them or not. Who had to read for a command before
    /// reads all of them: memory lets go of some while it waits for others.
    #[must_use]
    pub fn needed(&self, command: &Command) -> Vec<RowKey> {
        let key_of = |send: &Send| self.dedup_key(send).map(RowKey::Dedup);
        match command {
            Command::BeginUpload(begin) => {
                let key = begin.key.as_ref().and_then(|key| self.dedup_key_of(&begin.queue, key));
                key.map(RowKey::Dedup).into_iter().collect()
            }
            Command::DeleteMessage(wanted) | Command::GetMessage(wanted) => {
                self.rows_of(std::iter::once(&wanted.message)).collect()
            }
            Command::LeaseMessage(lease) => self.rows_of(std::iter::once(&lease.message)).collect(),
            Command::LeaseState { lease, .. } => self.rows_of_leases(std::iter::once(lease)).collect(),
            Command::FinishUpload(finish) => key_of(&finish.send).into_iter().collect(),
            Command::MoveMessages(moves) => self.rows_of(moves.messages.iter()).collect(),
            Command::Once(once) => {
                let key = RowKey::Dedup(call_key(&once.idempotency));
                std::iter::once(key).chain(self.needed(&once.command)).collect()
            }
            Command::OpenData(open) => self.rows_of(std::iter::once(&open.message)).collect(),
            Command::Revive(revive) => self.rows_of(revive.messages.iter()).collect(),
            Command::Send(send) => key_of(send).into_iter().collect(),
            Command::Settle(settle) => {
                let keys = settle.sends.iter().filter_map(|send| self.dedup_key(send)).map(RowKey::Dedup);
                let leases = settle.settlements.iter().map(|settlement| &settlement.lease);
                self.rows_of_leases(leases).chain(keys).collect()
            }
            Command::TakeExternal(page) => self.rows_of_external(page).collect(),
            Command::Undo(leases) => self.rows_of_leases(leases.iter()).collect(),
            _ => Vec::new(),
        }
    }

    /// Rows that the command is known to need and memory lacks: what the engine reads ahead for a whole batch.
    #[must_use]
    pub fn missing(&self, command: &Command) -> Vec<RowKey> {
        self.needed(command).into_iter().filter(|key| self.lacks(key)).collect()
    }
}
