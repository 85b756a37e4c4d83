//! What clients do: one file a command, with what it looks like (`generate`) and what may be answered (`predict`).
//!
//! Both directions are matches without a default, so a command without a workload does not compile.

mod cancel_wait;
mod create_queue;
mod delete_queue;
mod get_queue;
mod lease;
mod list_queues;
mod once;
mod pause_queue;
mod purge_queue;
mod resume_queue;
mod send;
mod set_space;
mod settle;
mod tick;
mod undo;
mod update_queue;

use millpond_core::Command;
use millpond_core::command::{LeaseRef, Once, WaiterId};
use millpond_engine::environment::Ticket;

use crate::auditor::{Answered, Auditor, Token, Verdict};
use crate::random::Random;

/// Kinds of commands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// [`Command::CancelWait`]
    CancelWait,
    /// [`Command::CreateQueue`]
    CreateQueue,
    /// [`Command::DeleteQueue`]
    DeleteQueue,
    /// [`Command::GetQueue`]
    GetQueue,
    /// [`Command::Lease`]
    Lease,
    /// [`Command::ListQueues`]
    ListQueues,
    /// [`Command::Once`]
    Once,
    /// [`Command::PauseQueue`]
    PauseQueue,
    /// [`Command::PurgeQueue`]
    PurgeQueue,
    /// [`Command::ResumeQueue`]
    ResumeQueue,
    /// [`Command::Send`]
    Send,
    /// [`Command::SetSpace`]
    SetSpace,
    /// [`Command::Settle`]
    Settle,
    /// [`Command::Tick`]
    Tick,
    /// [`Command::Undo`]
    Undo,
    /// [`Command::UpdateQueue`]
    UpdateQueue,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::CancelWait,
        Self::CreateQueue,
        Self::DeleteQueue,
        Self::GetQueue,
        Self::Lease,
        Self::ListQueues,
        Self::Once,
        Self::PauseQueue,
        Self::PurgeQueue,
        Self::ResumeQueue,
        Self::Send,
        Self::SetSpace,
        Self::Settle,
        Self::Tick,
        Self::Undo,
        Self::UpdateQueue,
    ];

    /// The kind of a command.
    #[must_use]
    pub fn of(command: &Command) -> Self {
        match command {
            Command::CancelWait(_) => Self::CancelWait,
            Command::CreateQueue(_) => Self::CreateQueue,
            Command::DeleteQueue(_) => Self::DeleteQueue,
            Command::GetQueue { .. } => Self::GetQueue,
            Command::Lease(_) => Self::Lease,
            Command::ListQueues { .. } => Self::ListQueues,
            Command::Once(_) => Self::Once,
            Command::PauseQueue { .. } => Self::PauseQueue,
            Command::PurgeQueue { .. } => Self::PurgeQueue,
            Command::ResumeQueue { .. } => Self::ResumeQueue,
            Command::Send(_) => Self::Send,
            Command::SetSpace { .. } => Self::SetSpace,
            Command::Settle(_) => Self::Settle,
            Command::Tick => Self::Tick,
            Command::Undo(_) => Self::Undo,
            Command::UpdateQueue(_) => Self::UpdateQueue,
        }
    }

    /// How often a kind is chosen, in a thousand.
    fn weight(self) -> u64 {
        match self {
            Self::CancelWait => 10,
            Self::CreateQueue => 48,
            Self::DeleteQueue => 24,
            Self::GetQueue => 40,
            Self::Lease => 330,
            Self::ListQueues => 14,
            Self::Once => 110,
            Self::PauseQueue => 12,
            Self::PurgeQueue => 10,
            Self::ResumeQueue => 20,
            Self::Send => 260,
            Self::SetSpace => 14,
            Self::Settle => 230,
            Self::Tick => 12,
            Self::Undo => 14,
            Self::UpdateQueue => 28,
        }
    }

    /// One kind, by weight.
    pub fn draw(random: &mut Random) -> Self {
        let mut left = random.below(Self::ALL.iter().map(|kind| kind.weight()).sum());
        for kind in Self::ALL {
            if left < kind.weight() {
                return kind;
            }
            left -= kind.weight();
        }
        Self::Lease
    }
}

/// A lease that a consumer got.
#[derive(Clone, Debug)]
pub struct Hand {
    /// The queue it asked.
    pub queue: Box<str>,
    /// The lease.
    pub lease: LeaseRef,
}

/// What clients remember.
#[derive(Clone, Debug)]
pub struct Workload {
    /// Names that queues may have.
    pub names: Vec<Box<str>>,
    /// Leases that were answered and not ended.
    pub hands: Vec<Hand>,
    /// Leases that were ended, or taken to be.
    pub retired: Vec<Hand>,
    /// Calls with a key.
    pub calls: Vec<Once>,
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

impl Default for Workload {
    fn default() -> Self {
        let names = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"];
        Self {
            names: names.map(Into::into).to_vec(),
            hands: Vec::new(),
            retired: Vec::new(),
            calls: Vec::new(),
            next_token: 1,
        }
    }
}

impl Workload {
    /// A token that no message had.
    pub fn token(&mut self) -> Token {
        self.next_token += 1;
        self.next_token
    }

    /// A consumer got a lease.
    pub fn take(&mut self, queue: &str, lease: LeaseRef) {
        self.hands.push(Hand { queue: queue.into(), lease });
    }

    /// A lease to do something with: mostly one that is held, now and then one that is not.
    fn draw_hand(&mut self, random: &mut Random, keep: bool) -> Option<Hand> {
        if self.hands.is_empty() || random.chance(60) {
            return random.pick(&self.retired).cloned();
        }
        let index = random.size(0, self.hands.len() - 1);
        if keep {
            return self.hands.get(index).cloned();
        }
        let hand = self.hands.swap_remove(index);
        self.retired.push(hand.clone());
        Some(hand)
    }
}

impl Scene<'_> {
    /// The name of a queue that is there, or now and then of one that may not be.
    pub fn queue(&mut self) -> Box<str> {
        let known: Vec<_> = self.auditor.names.keys().cloned().collect();
        if !known.is_empty() && !self.random.chance(25) {
            return self.random.pick(&known).cloned().unwrap_or_default();
        }
        self.random.pick(&self.workload.names).cloned().unwrap_or_default()
    }

    /// A command of a kind.
    pub fn generate(&mut self, kind: Kind) -> Command {
        match kind {
            Kind::CancelWait => cancel_wait::generate(self),
            Kind::CreateQueue => create_queue::generate(self),
            Kind::DeleteQueue => delete_queue::generate(self),
            Kind::GetQueue => get_queue::generate(self),
            Kind::Lease => lease::generate(self),
            Kind::ListQueues => list_queues::generate(self),
            Kind::Once => once::generate(self),
            Kind::PauseQueue => pause_queue::generate(self),
            Kind::PurgeQueue => purge_queue::generate(self),
            Kind::ResumeQueue => resume_queue::generate(self),
            Kind::Send => send::generate(self),
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
        Command::CancelWait(WaiterId(_)) => cancel_wait::predict(answered),
        Command::CreateQueue(create) => create_queue::predict(auditor, create, answered),
        Command::DeleteQueue(delete) => delete_queue::predict(auditor, delete, answered),
        Command::GetQueue { queue } => get_queue::predict(auditor, queue, answered),
        Command::Lease(lease) => lease::predict(auditor, lease, answered),
        Command::ListQueues { after, descending, limit } => {
            list_queues::predict(auditor, after.as_deref(), *descending, *limit, answered)
        }
        Command::Once(once) => once::predict(auditor, once, answered),
        Command::PauseQueue { queue } => pause_queue::predict(auditor, queue, answered),
        Command::PurgeQueue { queue } => purge_queue::predict(auditor, queue, answered),
        Command::ResumeQueue { queue } => resume_queue::predict(auditor, queue, answered),
        Command::Send(send) => send::predict(auditor, send, answered),
        Command::SetSpace { low } => set_space::predict(auditor, *low, answered),
        Command::Settle(settle) => settle::predict(auditor, settle, answered),
        Command::Tick => tick::predict(answered),
        Command::Undo(leases) => undo::predict(auditor, leases, answered),
        Command::UpdateQueue(update) => update_queue::predict(auditor, update, answered),
    }
}
