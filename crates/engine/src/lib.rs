//! Engine.

pub mod clock;
mod commit;
mod contents;
pub mod environment;
mod error;
mod receipt;

use std::sync::Arc;

use millpond_core::row::MessageContent;
use millpond_core::{Command, Outcome};

pub use commit::{CommitFailure, commit};
pub use error::EngineError;
pub use receipt::Receipt;

/// A handle on the engine; clones are cheap and name the same engine.
#[derive(Clone)]
pub struct Engine {}

/// The durable answer to a command.
#[derive(Debug)]
pub struct Answer {
    /// What the core answered.
    pub outcome: Outcome,
    /// The contents of the messages granted, in the order of the grants.
    pub contents: Vec<Arc<MessageContent>>,
    /// Present with grants: unless it is told that the answer was delivered, the grants are taken back.
    pub receipt: Option<Receipt>,
}

impl Engine {
    /// Applies a command to an environment (`orgs/…/projects/…/envs/…`) and waits until its outcome is durable.
    ///
    /// Dropping the future gives the command up: a waiting lease call leaves its queue, and what was granted to it
    /// is taken back.
    ///
    /// # Errors
    /// See [`EngineError`]. A refusal by a rule is no error but [`Outcome::Rejected`].
    pub async fn submit(&self, environment: &str, command: Command) -> Result<Answer, EngineError> {
        let _ = (environment, command);
        Err(EngineError::ShuttingDown)
    }

    /// Makes an environment. `false`: it was there.
    ///
    /// # Errors
    /// `Unavailable`, `Full`.
    pub async fn create_environment(&self, environment: &str) -> Result<bool, EngineError> {
        let _ = environment;
        Err(EngineError::ShuttingDown)
    }

    /// Stops taking commands, answers what was taken, and closes every environment.
    pub async fn shut_down(&self) {}
}
