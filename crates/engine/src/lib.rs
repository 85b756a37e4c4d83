//! Millpond's engine: keeps environments open, applies commands to them in batches, and answers when an outcome is durable.
//!
//! [`Engine`] is what servers and embedders use. Inside, [`environment::Environment`] is one environment as a machine
//! without threads or clocks; `driver.rs` runs it on threads.
//!
//! Invariant: an answer leaves only when every change applied before it in its environment is durable.

#![warn(missing_docs)]
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing))]

mod bulk;
pub mod clock;
mod commit;
mod contents;
mod driver;
pub mod environment;
mod error;
pub mod histogram;
mod receipt;
mod settings;

use std::path::Path;
use std::sync::Arc;

use millpond_core::command::Idempotency;
use millpond_core::row::MessageContent;
use millpond_core::time::Timestamp;
use millpond_core::{Command, Outcome, QueueReading, Rejection};
use millpond_store::{BackedUp, StoreFactory};
use tokio::sync::mpsc::UnboundedReceiver;

pub use bulk::{BulkDone, BulkStep, BulkWalk, Which};
use clock::{Clock, SystemClock};
pub use commit::{CommitFailure, commit};
use driver::Shared;
pub use driver::{BackupProgress, EngineMetrics, EngineStats, ExternalRefused, Failures, Survey, SurveyPage};
pub use environment::PushNotice;
pub use error::EngineError;
pub use receipt::{Pin, Receipt};
pub use settings::EngineSettings;

/// A handle on the engine; clones are cheap and name the same engine.
#[derive(Clone)]
pub struct Engine {
    shared: Arc<Shared>,
}

/// The durable answer to a command.
#[derive(Debug)]
pub struct Answer {
    /// What the core answered.
    pub outcome: Outcome,
    /// The contents of the messages granted or shown, in their order, or of the one whose data was asked for; empty if
    /// that has just left.
    pub contents: Vec<Arc<MessageContent>>,
    /// Present with grants and with an upload that begins: unless it is told that the answer was delivered, or the upload
    /// finished, they are taken back.
    pub receipt: Option<Receipt>,
    /// Present with data in chunks.
    pub pin: Option<Pin>,
}

impl Answer {
    /// To a lease call for which there is nothing.
    pub(crate) fn nothing() -> Self {
        Self { outcome: Outcome::Leased(Vec::new()), contents: Vec::new(), receipt: None, pin: None }
    }

    /// Keeps as many of the messages granted, from the first on, as fit into `most` bytes of contents, one at least; data in
    /// chunks does not count. The others go back into the queue, uncounted.
    pub fn keep_bytes(&mut self, most: usize) {
        let mut bytes = 0usize;
        let fits = self.contents.iter().take_while(|content| {
            bytes = bytes.saturating_add(content.held_bytes());
            bytes <= most
        });
        let keep = fits.count().max(1);
        self.keep(keep);
    }

    /// Keeps the first `count` of the messages granted. The others go back into the queue, uncounted.
    pub fn keep(&mut self, count: usize) {
        let Outcome::Leased(grants) = &mut self.outcome else { return };
        if count >= grants.len() {
            return;
        }
        let rest = grants.split_off(count);
        self.contents.truncate(count);
        if let Some(receipt) = &mut self.receipt {
            receipt.give_back(rest.iter().map(millpond_core::outcome::Grant::lease).collect());
        }
    }
}

impl Engine {
    /// Starts an engine over the environments of `factory`, on the machine's clocks.
    #[must_use]
    pub fn start(settings: EngineSettings, factory: Arc<dyn StoreFactory>) -> Self {
        Self::start_with_clock(settings, factory, Arc::new(SystemClock::default()))
    }

    /// Starts an engine on a clock of the caller's. Waits still end by the machine's clock: call [`Engine::nudge`] after
    /// moving the clock.
    #[must_use]
    pub fn start_with_clock(
        settings: EngineSettings,
        factory: Arc<dyn StoreFactory>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self { shared: Shared::start(settings, factory, clock) }
    }

    /// Applies a command to an environment (`orgs/…/projects/…/envs/…`) and waits until its outcome is durable.
    ///
    /// Dropping the future gives the command up: a waiting lease call leaves its queue, and what was granted to it
    /// is taken back.
    ///
    /// # Errors
    /// See [`EngineError`]. A refusal by a rule is no error but [`Outcome::Rejected`].
    pub async fn submit(&self, environment: &str, command: Command) -> Result<Answer, EngineError> {
        self.shared.submit(environment, command).await
    }

    /// Makes dead letters of a queue's own set ready again, in place: all that `which` names and that were dead when the
    /// call began. Works in commits of at most 1,000 messages; a future that is dropped stops after the one under way, and
    /// what was done by then stays done. Under an idempotency key it is done once; what it did is remembered in the commit of
    /// the last page.
    ///
    /// # Errors
    /// As [`Engine::submit`]; what was done before stays done. A refusal, of the first step or of a later one, is the
    /// inner error.
    pub async fn replay(
        &self,
        environment: &str,
        queue: &str,
        which: Which,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<BulkDone, Rejection>, EngineError> {
        self.walk(environment, BulkWalk::replay(queue, which).once(idempotency)).await
    }

    /// Moves dead letters of a queue, and messages that came to it as dead letters and are ready or delayed, to the queue
    /// `to`, or each to the one that it came from. Otherwise like [`Engine::replay`].
    ///
    /// # Errors
    /// As [`Engine::replay`].
    pub async fn redrive(
        &self,
        environment: &str,
        queue: &str,
        to: Option<&str>,
        which: Which,
        idempotency: Option<Idempotency>,
    ) -> Result<Result<BulkDone, Rejection>, EngineError> {
        self.walk(environment, BulkWalk::redrive(queue, to, which).once(idempotency)).await
    }

    async fn walk(
        &self,
        environment: &str,
        mut walk: BulkWalk,
    ) -> Result<Result<BulkDone, Rejection>, EngineError> {
        let mut step = walk.begin();
        loop {
            match step {
                BulkStep::Submit(command) => {
                    let answer = self.submit(environment, command).await?;
                    step = walk.go_on(answer.outcome);
                }
                BulkStep::Done(done) => return Ok(done),
            }
        }
    }

    /// Makes an environment. `false`: it was there.
    ///
    /// # Errors
    /// `Unavailable`, `Full`.
    pub async fn create_environment(&self, environment: &str) -> Result<bool, EngineError> {
        self.shared.create_environment(environment).await
    }

    /// Looks after all environments now, as is done once a second: room, idle ones, what is due in closed ones; and lets
    /// every open one look at its clock.
    pub fn nudge(&self) {
        self.shared.nudge();
    }

    /// What the engine has done since it was started.
    #[must_use]
    pub fn stats(&self) -> EngineStats {
        self.shared.stats()
    }

    /// What an operator watches of the engine.
    #[must_use]
    pub fn metrics(&self) -> EngineMetrics {
        self.shared.metrics()
    }

    /// What the wall clock shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.shared.clock.read().wall_millis)
    }

    /// Environments that are open, in no order.
    #[must_use]
    pub fn environments_open(&self) -> Vec<Box<str>> {
        self.shared.names_open()
    }

    /// Environments whose last state is remembered although they are closed (see [`Engine::closed_survey`]), in no order.
    #[must_use]
    pub fn environments_remembered(&self) -> Vec<Box<str>> {
        self.shared.closed.names()
    }

    /// Looks at a page of an environment's queues, as they are durable. `None`: it is not open, or its store fails while
    /// that is awaited. Neither opens it nor keeps it open. Waits for the commits that are under way.
    pub async fn survey(&self, environment: &str, page: SurveyPage) -> Option<Survey> {
        self.shared.survey(environment, page).await
    }

    /// All queues of an environment as they were when it was closed, which is how they are. `None`: it is open, was not
    /// opened since the engine was started, or there was no room to remember it (`closed_entries`).
    #[must_use]
    pub fn closed_survey(&self, environment: &str) -> Option<Arc<[QueueReading]>> {
        self.shared.closed.get(environment)
    }

    /// Tells of triggers and topics that change, by environment, from now on, and of all environments that are open by now.
    #[must_use]
    pub fn watch_pushes(&self) -> UnboundedReceiver<(Box<str>, PushNotice)> {
        self.shared.watch_pushes()
    }

    /// Makes a backup of environments, all of them if none is named, in a directory that is not there yet, while they go on.
    /// Each is in it as it was at some moment behind its name's turn: with all that was answered before the call. A future that is
    /// dropped leaves nothing.
    ///
    /// # Errors
    /// `EnvironmentNotFound`; those of the store, also if it makes no backups. Nothing of the backup is left then.
    pub async fn back_up(
        &self,
        to: &Path,
        environments: &[String],
        progress: &mut (dyn FnMut(BackupProgress) + Send),
    ) -> Result<Vec<BackedUp>, EngineError> {
        self.shared.back_up(to, environments, progress).await
    }

    /// Stops taking commands, answers waiting lease calls with nothing, finishes what was taken, and closes every
    /// environment.
    pub async fn shut_down(&self) {
        self.shared.shut_down().await;
    }
}
