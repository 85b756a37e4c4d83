//! What can go wrong in a store, by what the caller may do about it.

use std::error::Error;

/// An error of a store. Backends map their driver's errors here and nowhere else.
#[derive(Debug, thiserror::Error)]
#[error("{context}: {kind}")]
pub struct StoreError {
    /// What the caller may do.
    pub kind: StoreErrorKind,
    /// What was being done.
    pub context: String,
    /// The driver's error.
    #[source]
    pub source: Option<Box<dyn Error + Send + Sync>>,
}

impl StoreError {
    /// An error without a cause below it.
    #[must_use]
    pub fn new(kind: StoreErrorKind, context: impl Into<String>) -> Self {
        Self { kind, context: context.into(), source: None }
    }

    /// With the error that caused it.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        self.source = Some(source.into());
        self
    }
}

/// Kinds of errors.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, thiserror::Error)]
pub enum StoreErrorKind {
    /// The store is closed.
    #[error("closed")]
    Closed,
    /// Nothing happened; the same again may work.
    #[error("conflict")]
    Conflict,
    /// What is stored contradicts itself. Reopening may help if the damage was in memory.
    #[error("corrupt")]
    Corrupt,
    /// Another owner has taken over, or the data went back in time. Nothing happened.
    #[error("fenced")]
    Fenced,
    /// No room. Nothing happened.
    #[error("full")]
    Full,
    /// Not reachable. Nothing happened.
    #[error("unavailable")]
    Unavailable,
    /// It may or may not have happened; [`crate::Store::resolve`] tells.
    #[error("outcome unknown")]
    Unknown,
}
