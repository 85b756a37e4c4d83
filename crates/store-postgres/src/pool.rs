//! Connections that nobody uses right now. There are never more than threads that ask at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use millpond_store::{StoreError, StoreErrorKind};

use crate::row::get;
use crate::session::Session;
use crate::settings::PostgresSettings;
use crate::target::Target;

/// Where connections come from.
#[derive(Debug)]
pub(crate) struct Pool {
    target: Target,
    settings: PostgresSettings,
    free: Mutex<Free>,
}

/// Connections that are free, all of one generation.
#[derive(Debug, Default)]
struct Free {
    sessions: Vec<Session>,
    /// How often those that were free were forgotten: who was connected before that is not taken back.
    generation: u64,
}

impl Pool {
    pub(crate) fn new(target: Target, settings: PostgresSettings) -> Self {
        let target = target.for_writing(settings.connect_timeout);
        Self { target, settings, free: Mutex::default() }
    }

    pub(crate) fn settings(&self) -> &PostgresSettings {
        &self.settings
    }

    /// A connection that is free, or a new one.
    pub(crate) fn take(&self) -> Result<Session, StoreError> {
        let free = self.lock_free().sessions.pop();
        match free.filter(|session| !session.is_closed()) {
            Some(session) => Ok(session),
            None => self.connect(),
        }
    }

    /// A new connection, to a server that is no standby: what a standby shows may be of the past.
    pub(crate) fn connect(&self) -> Result<Session, StoreError> {
        self.connect_for(self.settings.answer_timeout)
    }

    /// The same, waiting no longer than this for any answer.
    pub(crate) fn connect_for(&self, answer_timeout: Duration) -> Result<Session, StoreError> {
        let generation = self.lock_free().generation;
        let settings = PostgresSettings { answer_timeout, ..self.settings.clone() };
        let session = Session::connect(&self.target, &settings)?.of_generation(generation);
        let context = "asking whether it is a standby";
        let rows = session.query("select pg_is_in_recovery()", &[], context)?;
        if rows.first().map_or(Ok(true), |row| get(row, 0))? {
            let what = "the database is read-only: it is a standby";
            return Err(StoreError::new(StoreErrorKind::Unavailable, what));
        }
        Ok(session)
    }

    /// A connection in order is free again.
    pub(crate) fn give(&self, session: Session) {
        let mut free = self.lock_free();
        if session.generation() == free.generation {
            free.sessions.push(session);
        }
    }

    /// One that failed speaks for all: those that are free, and those in use, are of the same server, which may be gone.
    pub(crate) fn forget_free(&self) {
        let mut free = self.lock_free();
        free.generation += 1;
        free.sessions.clear();
    }

    fn lock_free(&self) -> MutexGuard<'_, Free> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
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
