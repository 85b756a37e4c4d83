//! One environment as a machine without threads, clocks or I/O: what comes in are commands and results, what goes out are
//! [`Action`]s. The driver (`driver.rs`) runs it on real threads, the simulator on its own clock.
//!
//! A round ([`Environment::step`], `rounds`) takes what is waiting, applies it command by command and seals one commit. The next
//! round may be applied while the last is being made durable, up to the pipeline's depth.
//!
//! Invariant: an answer leaves only when every change applied before it is durable (design-holes A7).

mod answers;
mod failure;
mod intake;
mod reads;
mod rounds;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use millpond_core::command::WaiterId;
use millpond_core::id::{CommitSequence, Sequence};
use millpond_core::row::MessageContent;
use millpond_core::time::Timestamp;
use millpond_core::{
    ChangeSet, Command, Core, CoreSettings, OpenState, Page, QueueReading, RowKey, Scan, ScanTicket, planted,
};
use millpond_store::{Lineage, Opened};

use crate::contents::Contents;
pub use answers::EnvironmentAnswer;
use answers::Held;
pub use failure::{Doubt, Leftovers};
use intake::Intake;
use reads::{ContentRead, OpenRead};

/// Bounds of an environment's engine; `Default` is what the documents state.
#[derive(Clone, Copy, Debug)]
pub struct EnvironmentSettings {
    /// Bounds of the core.
    pub core: CoreSettings,
    /// Commands of one round.
    pub batch_commands: usize,
    /// Bytes of the messages sent in one round.
    pub batch_bytes: usize,
    /// Commits under way at once. 1 to 3.
    pub pipeline_depth: usize,
    /// Bytes of contents kept in memory for leases that follow their send soon.
    pub contents_bytes: usize,
    /// Bytes of uploads' chunks that one round takes: other calls pass between. One chunk at least.
    pub upload_batch_bytes: usize,
}

impl Default for EnvironmentSettings {
    fn default() -> Self {
        Self {
            core: CoreSettings::default(),
            batch_commands: 1_024,
            batch_bytes: 4 * 1024 * 1024,
            pipeline_depth: 2,
            contents_bytes: 32 * 1024 * 1024,
            upload_batch_bytes: 1024 * 1024,
        }
    }
}

/// Commands that came within this time are followed by more: callers come back with what they do next as soon as they have
/// their answers, and must not find a round that is full of what was due.
const BUSY_AFTER_MAIL: Duration = Duration::from_millis(50);
/// While busy, one round in so many takes in a page of a sweep.
const SWEEP_EVERY_ROUNDS: u64 = 4;
/// A command that still needs rows after so many rounds of reading goes first in the next.
const READ_ROUNDS_MAX: u8 = 3;

/// What concerns those who push, once it is durable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PushNotice {
    /// Triggers, or the secret, changed, or the environment was opened and has some.
    Triggers,
    /// A topic was made for which there is a trigger.
    Topic(Box<str>),
}

/// Names a caller's command.
pub type Ticket = u64;

/// Names a read.
pub type ReadId = u64;

/// What the driver has to do.
#[derive(Debug)]
pub enum Action {
    /// Make this durable; commits go to the store in the order in which they come. Result: [`Environment::committed`].
    Commit(Box<ChangeSet>),
    /// Read rows by key. Result: [`Environment::rows_read`].
    Rows(ReadId, Vec<RowKey>),
    /// Read contents. Result: [`Environment::contents_read`].
    Contents(ReadId, Vec<Sequence>),
    /// Read a page. Result: [`Environment::page_read`].
    Scan(ReadId, Scan),
    /// Read so many external commands. Result: [`Environment::external_read`].
    External(ReadId, usize),
    /// A command has its durable answer.
    Answer(Ticket, EnvironmentAnswer),
    /// Whoever pushes has to look again.
    Push(PushNotice),
}

/// A command that waits to be applied.
#[derive(Debug)]
pub(crate) struct Mail {
    /// `None`: nobody waits for its answer.
    pub(crate) ticket: Option<Ticket>,
    pub(crate) command: Command,
    pub(crate) rounds: u8,
}

#[derive(Debug)]
struct InFlight {
    commit: CommitSequence,
    /// Commands of its round.
    commands: usize,
    answers: Vec<Held>,
    notices: Vec<PushNotice>,
}

/// The engine of one environment.
#[derive(Debug)]
pub struct Environment {
    settings: EnvironmentSettings,
    core: Core,
    mailbox: VecDeque<Mail>,
    /// Chunks of uploads; a line of their own, so that nobody waits behind all of them.
    chunks: VecDeque<Mail>,
    /// Commands that wait for rows, with the read that brings them.
    parked: BTreeMap<ReadId, Vec<Mail>>,
    /// Calls that wait inside the core: for messages, for pages to look at, or for an upload's turn.
    waiters: BTreeMap<WaiterId, (Ticket, Command)>,
    commits: VecDeque<InFlight>,
    durable: CommitSequence,
    reads: BTreeMap<ReadId, OpenRead>,
    next_read: ReadId,
    content_reads: BTreeMap<ReadId, ContentRead>,
    /// What the round has for those who push.
    push_notices: Vec<PushNotice>,
    pages: VecDeque<(ReadId, ScanTicket, Page)>,
    sweep_pages: VecDeque<(ReadId, ScanTicket, Page)>,
    intake: Intake,
    /// Reads of claims that were not begun, each with the commit that has to be durable first.
    claim_reads: Vec<(CommitSequence, ReadId, Vec<RowKey>)>,
    /// Commands that would end a lease by time, while leases wait for the intake.
    held_back: Vec<Mail>,
    contents: Contents,
    rounds: u64,
    /// When a round last found commands.
    mail_seen_at: Timestamp,
    /// Commands came lately: what is due goes slower.
    busy: bool,
}

impl Environment {
    /// Takes over what a store opened.
    #[must_use]
    pub fn new(settings: EnvironmentSettings, opened: Opened, now: Timestamp) -> Self {
        let mut core = Core::open(
            settings.core,
            OpenState {
                commit: opened.commit,
                environment: opened.environment,
                queues: opened.queues,
                segments: opened.segments,
                runs: opened.runs,
                triggers: opened.triggers,
                secret: opened.secret,
                low_water: opened.low_water,
                restored: opened.lineage == Lineage::Restored,
                now,
            },
        );
        core.set_leases_wait(true);
        Self {
            settings,
            core,
            mailbox: VecDeque::new(),
            chunks: VecDeque::new(),
            parked: BTreeMap::new(),
            waiters: BTreeMap::new(),
            commits: VecDeque::new(),
            durable: opened.commit,
            reads: BTreeMap::new(),
            next_read: 0,
            content_reads: BTreeMap::new(),
            push_notices: Vec::new(),
            pages: VecDeque::new(),
            sweep_pages: VecDeque::new(),
            intake: Intake::unread(now),
            claim_reads: Vec::new(),
            held_back: Vec::new(),
            contents: Contents::default(),
            rounds: 0,
            mail_seen_at: Timestamp::ZERO,
            busy: false,
        }
    }

    /// Puts a command into the mailbox.
    pub fn submit(&mut self, ticket: Ticket, command: Command) {
        let is_chunk = matches!(command, Command::AppendUpload(_));
        let line = if is_chunk { &mut self.chunks } else { &mut self.mailbox };
        line.push_back(Mail { ticket: Some(ticket), command, rounds: 0 });
    }

    /// Puts a command into the mailbox whose answer nobody waits for.
    pub fn notify(&mut self, command: Command) {
        self.mailbox.push_back(Mail { ticket: None, command, rounds: 0 });
    }

    /// The caller of a command no longer waits. A call that waits in the core leaves it.
    pub fn abandon(&mut self, ticket: Ticket) {
        self.notify(Command::CancelWait(WaiterId(ticket)));
    }

    /// The last stamp.
    #[must_use]
    pub fn stamp(&self) -> Timestamp {
        self.core.environment().stamp
    }

    /// When there is something to do by itself; a time in the past means at once.
    #[must_use]
    pub fn next_due(&self) -> Option<Timestamp> {
        self.core.next_due()
    }

    /// When the environment, once closed, has to be opened again by itself.
    #[must_use]
    pub fn next_due_when_closed(&self) -> Option<Timestamp> {
        self.core.next_due_when_closed()
    }

    /// Whether a step would find something to do at `now`.
    #[must_use]
    pub fn has_work(&self, now: Timestamp) -> bool {
        if self.pipeline_is_full() {
            return false;
        }
        let due = self.core.next_due().is_some_and(|due| due <= now);
        let pages = !self.pages.is_empty() || !self.sweep_pages.is_empty() || self.intake.has_work();
        self.wants_mail() == 0 || pages || due
    }

    fn pipeline_is_full(&self) -> bool {
        self.commits.len() >= self.settings.pipeline_depth
    }

    /// So many more commands make a round worth its commit; 0: there is one to take now. `usize::MAX`: the pipeline is
    /// full.
    ///
    /// A flush costs the same for one command as for hundreds. While a commit is under way, callers whose answers it
    /// holds are about to come back: a round of the few that came first would make all others wait for its flush. So a
    /// round waits until it has as much as the commit before it, or until that commit has ended.
    #[must_use]
    pub fn wants_mail(&self) -> usize {
        if self.pipeline_is_full() {
            return usize::MAX;
        }
        let worth = self.commits.back().map_or(1, |last| last.commands.max(1));
        worth.saturating_sub(self.mailbox.len() + self.chunks.len())
    }

    /// What was taken is applied and durable.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        let mail = !self.mailbox.is_empty() || !self.chunks.is_empty() || !self.held_back.is_empty();
        !mail && self.parked.is_empty() && self.commits.is_empty()
    }

    /// Nothing is waiting, under way or owed to anybody, and nobody sends or reads chunks.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.is_quiet() && !self.core.has_uploads_or_readers()
    }

    /// Nothing is waiting, under way or owed to anybody at this moment.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        let reads = !self.reads.is_empty() || !self.content_reads.is_empty();
        self.is_settled() && self.waiters.is_empty() && !reads && self.intake.is_quiet()
    }

    /// The core, to look at.
    #[must_use]
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// Calls that wait for what others do, by ticket; pages come by themselves.
    pub fn waiting(&self) -> impl Iterator<Item = (Ticket, &Command)> + '_ {
        let lasting = self.waiters.values().filter(|(_, command)| !matches!(command, Command::Browse(_)));
        lasting.map(|(ticket, command)| (*ticket, command))
    }

    /// The last commit that is durable.
    #[must_use]
    pub fn durable(&self) -> CommitSequence {
        self.durable
    }

    /// Commands of the last round whose commit is under way.
    #[must_use]
    pub fn commands_under_way(&self) -> usize {
        self.commits.back().map_or(0, |last| last.commands)
    }

    /// A look at up to `most` queues behind `after`, and the commit at which they are so: nobody may see them before that
    /// is durable. `read_heads`: see [`Core::survey`].
    pub fn survey(
        &mut self,
        after: Option<&str>,
        most: usize,
        read_heads: bool,
        actions: &mut Vec<Action>,
    ) -> (CommitSequence, Vec<QueueReading>) {
        let readings =
            if read_heads { self.core.survey(after, most) } else { self.core.readings(after, most) };
        self.start_scans(actions);
        (self.commits.back().map_or(self.durable, |last| last.commit), readings)
    }

    /// A commit is durable.
    pub fn committed(&mut self, commit: CommitSequence, actions: &mut Vec<Action>) {
        let Some(done) = self.commits.pop_front() else { return };
        assert_eq!(done.commit, commit, "commits finish in order");
        self.durable = commit;
        self.intake.forget_taken(commit);
        self.settle();
        self.begin_claim_reads(actions);
        self.release(done.answers, actions);
        actions.extend(done.notices.into_iter().map(Action::Push));
    }

    /// Lets memory go of what is durable and visible to every read under way.
    fn settle(&mut self) {
        let oldest_read = self.reads.values().filter_map(|read| read.began_at).min();
        let oldest_read = oldest_read.filter(|_| !planted!(RefillWithoutOverlay));
        let settled = oldest_read.map_or(self.durable, |began| began.min(self.durable));
        self.core.durable(settled);
    }

    pub(crate) fn content_of(&self, sequence: Sequence) -> Option<&Arc<MessageContent>> {
        self.contents.get(sequence)
    }
}

/// What a message that is moved or revived counts for, so that a round has only a few pages of them.
const MOVED_BYTES: usize = 1_024;

/// Bytes of a command that count against the bounds of mailbox and round.
#[must_use]
pub fn command_bytes(command: &Command) -> usize {
    let sent = |send: &millpond_core::command::Send| {
        send.messages.iter().map(|message| message.content.held_bytes()).sum::<usize>()
    };
    match command {
        Command::AppendUpload(append) => append.data.len(),
        Command::MoveMessages(moves) => moves.messages.len() * MOVED_BYTES,
        Command::Revive(revive) => revive.messages.len() * MOVED_BYTES,
        Command::Once(once) => command_bytes(&once.command),
        Command::Send(send) => sent(send),
        Command::Settle(settle) => settle.sends.iter().map(sent).sum(),
        _ => 0,
    }
}
