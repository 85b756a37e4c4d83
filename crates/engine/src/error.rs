//! Why a command got no answer from the core.

/// A command that has no outcome. `effect` of each: nothing happened, except for [`EngineError::Unknown`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EngineError {
    /// What is stored of the environment cannot be used. It is looked at again from time to time.
    #[error("what is stored cannot be used: {0}")]
    Corrupt(String),
    /// There is no such environment.
    #[error("environment {0} does not exist")]
    EnvironmentNotFound(String),
    /// The store has no room for this.
    #[error("the store is full")]
    Full,
    /// More waits than the mailbox may hold.
    #[error("{what} waiting commands, limit {limit}")]
    Overloaded {
        /// Which bound: `commands` or `bytes`.
        what: &'static str,
        /// The bound.
        limit: usize,
    },
    /// The engine is going down.
    #[error("shutting down")]
    ShuttingDown,
    /// The store cannot be reached; the engine goes on trying.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The command may or may not have been applied.
    #[error("the outcome is unknown: {0}")]
    Unknown(String),
}
