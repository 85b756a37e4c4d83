//! What clients do: one file a command, with what it looks like (`generate`) and what may be answered (`predict`).
//!
//! Both directions are matches without a default, so a command without a workload does not compile.

mod append_upload;
mod begin_upload;
mod browse;
mod cancel_upload;
mod cancel_wait;
mod close_data;
mod create_queue;
mod delete_message;
mod delete_queue;
mod delete_triggers;
mod finish_upload;
mod get_message;
mod get_queue;
mod kind;
mod large;
mod lease;
mod lease_message;
mod lease_state;
mod list_queues;
mod list_triggers;
mod move_messages;
mod named;
mod once;
mod open_data;
mod pause_queue;
mod purge_queue;
mod put_triggers;
mod report_trigger;
mod resume_queue;
mod revive;
mod send;
mod set_secret;
mod set_space;
mod settle;
mod tick;
mod undo;
mod update_queue;

use millpond_core::command::{BeginUpload, Browse, LeaseRef, Once, PinId, WaiterId};
use millpond_core::id::{MessageId, Sequence, UploadId};
use millpond_core::limits::MOVE_MESSAGES_MAX;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome};
use millpond_engine::BulkWalk;
use millpond_engine::environment::Ticket;

use crate::auditor::{Answered, Auditor, Life, Message, Token, Verdict};
use crate::names::{self, kind_of};
use crate::random::Random;

pub use kind::Kind;
pub use large::{bytes_of, data_of};
pub use named::Theme;
pub use settle::is_poisoned;

/// Pages that clients remember to have begun.
const PAGES_KEPT: usize = 6;

/// A lease that a consumer got.
#[derive(Clone, Debug)]
pub struct Hand {
    /// The queue it asked.
    pub queue: Box<str>,
    /// The lease.
    pub lease: LeaseRef,
}

/// An upload that a client has under way.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Its name.
    pub upload: UploadId,
    /// How it began.
    pub begin: BeginUpload,
    /// Chunks that were answered.
    pub appended: u32,
    /// Something was asked about it that has no answer yet.
    pub busy: bool,
}

/// Data in chunks that a client is reading.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Keeps the chunks.
    pub pin: PinId,
    /// Names the message.
    pub token: Token,
    /// Chunks that were read.
    pub next: u32,
}

/// A message that never was.
const NOBODY: MessageId = MessageId { sent_at: Timestamp::ZERO, sequence: Sequence(1 << 40), nonce: 1 };

/// What clients remember.
#[derive(Clone, Debug)]
pub struct Workload {
    /// What its world is about.
    pub theme: Theme,
    /// Names that queues may have.
    pub names: Vec<Box<str>>,
    /// How often an application was deployed: its messages are in partitions of their own.
    pub deployment: usize,
    /// Leases that were answered and not ended.
    pub hands: Vec<Hand>,
    /// Leases that were ended, or taken to be.
    pub retired: Vec<Hand>,
    /// Uploads under way.
    pub sendings: Vec<Sending>,
    /// Uploads that store nothing, because their key is remembered.
    pub repeats: Vec<BeginUpload>,
    /// Uploads that ended, or are taken to have.
    pub ended: Vec<UploadId>,
    /// Data that is being read.
    pub readings: Vec<Reading>,
    /// Pages that follow on one that was shown.
    pub pages: Vec<Browse>,
    /// Calls with a key.
    pub calls: Vec<Once>,
    /// Bulk verbs that were begun.
    pub walks: Vec<BulkWalk>,
    next_token: Token,
}

/// What a client sees when it decides what to do.
pub struct Scene<'a> {
    /// Chance.
    pub random: &'a mut Random,
    /// The model.
    pub auditor: &'a Auditor,
    /// What clients remember.
    pub workload: &'a mut Workload,
    /// Tickets of lease calls without an answer.
    pub waiting: &'a [Ticket],
}

impl Workload {
    /// Nothing was done yet.
    #[must_use]
    pub fn new(theme: Theme) -> Self {
        let names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"];
        Self {
            theme,
            names: names.map(Into::into).to_vec(),
            deployment: 0,
            hands: Vec::new(),
            retired: Vec::new(),
            sendings: Vec::new(),
            repeats: Vec::new(),
            ended: Vec::new(),
            readings: Vec::new(),
            pages: Vec::new(),
            calls: Vec::new(),
            walks: Vec::new(),
            next_token: 1,
        }
    }

    /// A token that no message had.
    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        self.next_token
    }

    /// A consumer got a lease.
    pub fn take(&mut self, queue: &str, lease: LeaseRef) {
        self.hands.push(Hand { queue: queue.into(), lease });
    }

    /// The engine has lost its memory: uploads are gone with it, and nobody's chunks are kept.
    pub fn lose_uploads(&mut self) {
        self.ended.extend(self.sendings.drain(..).map(|sending| sending.upload));
        self.readings.clear();
    }

    /// Takes an upload that waits for its client, if there is one.
    fn draw_sending(&mut self, random: &mut Random) -> Option<usize> {
        let free: Vec<usize> = (0..self.sendings.len()).filter(|&at| !self.sendings[at].busy).collect();
        random.pick(&free).copied()
    }

    /// Somebody may want to see what comes behind a page.
    pub fn look_on(&mut self, command: &Command, outcome: &Outcome) {
        if let Command::Browse(look) = command {
            self.pages.extend(browse::next(look, outcome));
            let most = self.pages.len().saturating_sub(PAGES_KEPT);
            self.pages.drain(..most);
        }
    }

    /// A lease to do something with: mostly one that is held, now and then one that is not.
    fn draw_hand(&mut self, random: &mut Random, keep: bool) -> Option<Hand> {
        if self.hands.is_empty() || random.chance(60) {
            return random.pick(&self.retired).cloned();
        }
        let mut index = random.size(0, self.hands.len() - 1);
        // Who reads in a group is quick, most of the time: what it asks for late only ever tells that it is late.
        let of_group = |at: &usize| kind_of(&self.hands[*at].queue) == names::Kind::Group;
        let late: Vec<usize> = (0..self.hands.len()).rev().filter(of_group).take(5).collect();
        if random.chance(500) {
            index = random.pick(&late).copied().unwrap_or(index);
        }
        if keep {
            return self.hands.get(index).cloned();
        }
        let hand = self.hands.swap_remove(index);
        self.retired.push(hand.clone());
        Some(hand)
    }
}

impl Scene<'_> {
    /// Some messages of a queue, for the most part such as are known to be dead letters.
    fn dead_letters(&mut self, wanted: impl Fn(&Message) -> bool) -> (Box<str>, Vec<MessageId>) {
        let known = self.auditor.messages.values().filter(|message| message.life == Life::Alive);
        let dead: Vec<_> =
            known.filter(|message| wanted(message)).map(|message| (message.id, message.queue)).collect();
        let first = self.random.pick(&dead).copied().filter(|_| !self.random.chance(100));
        let queue = first.and_then(|(_, number)| self.auditor.queues.get(&number));
        let queue = queue.map(|queue| queue.name.clone()).unwrap_or_else(|| self.queue());
        let mut messages: Vec<MessageId> = first.iter().map(|(id, _)| *id).collect();
        let own: Vec<MessageId> = dead
            .iter()
            .filter(|(_, number)| Some(*number) == first.map(|(_, own)| own))
            .map(|(id, _)| *id)
            .collect();
        for _ in 0..self.random.below(4) {
            if self.random.chance(700) {
                messages.extend(self.random.pick(&own));
            } else {
                messages.push(self.message().message);
            }
        }
        match self.random.below(150) {
            0 => messages = vec![NOBODY; MOVE_MESSAGES_MAX + 1],
            1 => messages.push(NOBODY),
            _ => {}
        }
        (queue, messages)
    }

    /// A command of a kind.
    pub fn generate(&mut self, kind: Kind) -> Command {
        match kind {
            Kind::AppendUpload => append_upload::generate(self),
            Kind::BeginUpload => begin_upload::generate(self),
            Kind::Browse => browse::generate(self),
            Kind::CancelUpload => cancel_upload::generate(self),
            Kind::CancelWait => cancel_wait::generate(self),
            Kind::CloseData => close_data::generate(self),
            Kind::CreateQueue => create_queue::generate(self),
            Kind::DeleteMessage => delete_message::generate(self),
            Kind::DeleteQueue => delete_queue::generate(self),
            Kind::DeleteTriggers => delete_triggers::generate(self),
            Kind::FinishUpload => finish_upload::generate(self),
            Kind::GetMessage => get_message::generate(self),
            Kind::GetQueue => get_queue::generate(self),
            Kind::Lease => lease::generate(self),
            Kind::LeaseMessage => lease_message::generate(self),
            Kind::LeaseState => lease_state::generate(self),
            Kind::ListQueues => list_queues::generate(self),
            Kind::ListTriggers => list_triggers::generate(),
            Kind::MoveMessages => move_messages::generate(self),
            Kind::Once => once::generate(self),
            Kind::OpenData => open_data::generate(self),
            Kind::PauseQueue => pause_queue::generate(self),
            Kind::PurgeQueue => purge_queue::generate(self),
            Kind::PutTriggers => put_triggers::generate(self),
            Kind::ReportTrigger => report_trigger::generate(self),
            Kind::ResumeQueue => resume_queue::generate(self),
            Kind::Revive => revive::generate(self),
            Kind::Send => send::generate(self),
            Kind::SetSecret => set_secret::generate(self),
            Kind::SetSpace => set_space::generate(self),
            Kind::Settle => settle::generate(self),
            Kind::Tick => tick::generate(),
            Kind::Undo => undo::generate(self),
            Kind::UpdateQueue => update_queue::generate(self),
        }
    }
}

/// Checks an answer against the model, and lets the model learn from it.
///
/// # Errors
/// A breach of what was promised.
pub fn predict(auditor: &mut Auditor, answered: &Answered<'_>) -> Verdict {
    match &answered.submitted.command {
        Command::AppendUpload(append) => append_upload::predict(auditor, append, answered),
        Command::BeginUpload(begin) => begin_upload::predict(auditor, begin, answered),
        Command::CancelUpload(upload) => cancel_upload::predict(auditor, *upload, answered),
        Command::CloseData(_) => close_data::predict(answered),
        Command::FinishUpload(finish) => finish_upload::predict(auditor, finish, answered),
        Command::OpenData(open) => open_data::predict(auditor, open, answered),
        Command::Browse(look) => browse::predict(auditor, look, answered),
        Command::CancelWait(WaiterId(_)) => cancel_wait::predict(answered),
        Command::CreateQueue(create) => create_queue::predict(auditor, create, answered),
        Command::DeleteMessage(wanted) => delete_message::predict(auditor, wanted, answered),
        Command::DeleteQueue(delete) => delete_queue::predict(auditor, delete, answered),
        Command::DeleteTriggers(of) => delete_triggers::predict(auditor, of, answered),
        Command::GetMessage(wanted) => get_message::predict(auditor, wanted, answered),
        Command::GetQueue { queue } => get_queue::predict(auditor, queue, answered),
        Command::Lease(lease) => lease::predict(auditor, lease, answered),
        Command::LeaseMessage(lease) => lease_message::predict(auditor, lease, answered),
        Command::LeaseState { queue, lease } => lease_state::predict(auditor, (queue, *lease), answered),
        Command::ListQueues { listed, after, descending, limit } => {
            let page =
                list_queues::Page { listed, after: after.as_deref(), descending: *descending, limit: *limit };
            list_queues::predict(auditor, &page, answered)
        }
        Command::ListTriggers => list_triggers::predict(auditor, answered),
        Command::MoveMessages(moves) => move_messages::predict(auditor, moves, answered),
        Command::Once(once) => once::predict(auditor, once, answered),
        Command::PauseQueue { queue } => pause_queue::predict(auditor, queue, answered),
        Command::PurgeQueue { queue, target } => purge_queue::predict(auditor, queue, *target, answered),
        Command::PutTriggers(put) => put_triggers::predict(auditor, put, answered),
        Command::ReportTrigger { id, uid, trouble } => {
            report_trigger::predict(auditor, (id, *uid, trouble.as_ref()), answered)
        }
        Command::ResumeQueue { queue } => resume_queue::predict(auditor, queue, answered),
        Command::Revive(again) => revive::predict(auditor, again, answered),
        Command::Send(send) => send::predict(auditor, send, answered),
        Command::SetSecret(set) => set_secret::predict(auditor, set, answered),
        Command::SetSpace { low } => set_space::predict(auditor, *low, answered),
        Command::Settle(settle) => settle::predict(auditor, settle, answered),
        Command::TakeExternal(_) | Command::Tick => tick::predict(answered),
        Command::Undo(leases) => undo::predict(auditor, leases, answered),
        Command::UpdateQueue(update) => update_queue::predict(auditor, update, answered),
    }
}
