//! Connections that nobody uses right now. There are never more than threads that ask at once.

use std::sync::{Mutex, PoisonError};

use millpond_store::{StoreError, StoreErrorKind};

use crate::session::Session;
use crate::settings::PostgresSettings;
use crate::target::Target;

/// Where connections come from.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    settings: PostgresSettings,
    free: Mutex<Vec<Session>>,
}

impl Pool {
    pub(crate) fn new(target: Target, settings: PostgresSettings) -> Self {
        Self { target, settings, free: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &PostgresSettings {
        &self.settings
    }

    /// A connection that is free, or a new one.
    pub(crate) fn take(&self) -> Result<Session, StoreError> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match free.filter(|session| !session.is_closed()) {
            Some(session) => Ok(session),
            None => self.connect(),
        }
    }

    /// A new connection.
    pub(crate) fn connect(&self) -> Result<Session, StoreError> {
        Session::connect(&self.target, &self.settings)
    }

    /// A connection in order is free again.
    pub(crate) fn give(&self, session: Session) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }

    /// One that failed speaks for all: those that are free are of the same server, which may be gone.
    pub(crate) fn forget_free(&self) {
        self.free.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Runs work that changes nothing, or can be done twice: once more on a new connection if one that was free turns out to
    /// be broken.
    pub(crate) fn with<T>(
        &self,
        mut work: impl FnMut(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut session = self.take()?;
        let result = match work(&mut session) {
            Err(error) if error.kind == StoreErrorKind::Unavailable => {
                drop(session);
                self.forget_free();
                session = self.connect()?;
                work(&mut session)
            }
            result => result,
        };
        match &result {
            Err(error) if error.kind == StoreErrorKind::Unavailable => drop(session),
            _ => self.give(session),
        }
        result
    }
}
