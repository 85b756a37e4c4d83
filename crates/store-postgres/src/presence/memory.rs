//! What this process saw durable, by which it knows a database that lacks it (design-holes A4).

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millpond_core::id::CommitSequence;
use millpond_store::StoreError;

use crate::lineage::Seen;
use crate::row::{self, get, unsigned};
use crate::session::Session;
use crate::text;

/// What was seen last of each environment that this process has opened.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// With whether it is known to be lost.
    environments: Mutex<HashMap<String, (Seen, bool)>>,
}

impl Memory {
    /// What was seen last of an environment.
    pub(crate) fn of(&self, name: &str) -> Option<Seen> {
        self.lock().get(name).map(|(seen, _)| *seen)
    }

    /// An environment was opened: what was seen before is of another epoch, be it a later one of a database that went back.
    pub(crate) fn begin(&self, name: &str, seen: Seen) {
        self.lock().insert(name.to_owned(), (seen, false));
    }

    /// Remembers what was seen durable.
    pub(crate) fn note(&self, name: &str, seen: Seen) {
        if let Some((known, _)) = self.lock().get_mut(name).filter(|(known, _)| known.epoch == seen.epoch) {
            *known = seen;
        }
    }

    /// Whether a database lacks anything that was seen durable, and that was not known to be lost.
    pub(super) fn is_lost(&self, session: &Session) -> Result<bool, StoreError> {
        let before = self.lock().clone();
        let names: Vec<_> = before.keys().map(|name| text::stored(name)).collect();
        let sql = "select e.name, h.epoch, h.commit_seq from environment e cross join lateral (select n.* from head n \
                   where n.environment = e.number order by n.commit_seq desc limit 1) h where e.name = any($1)";
        let mut there = HashMap::new();
        for row in &session.query(sql, &[&names], "looking for what was there")? {
            let stored = Seen { epoch: get(row, 1)?, commit: CommitSequence(unsigned(row, 2)?) };
            there.insert(String::from(row::text(row, 0)?), stored);
        }
        let is_there = |name: &String, seen: &Seen| {
            there.get(name).is_some_and(|stored| (stored.epoch, stored.commit) >= (seen.epoch, seen.commit))
        };
        let mut is_news = false;
        for (name, (seen, was_known)) in before.iter().filter(|(name, (seen, _))| !is_there(name, seen)) {
            is_news |= !was_known;
            if let Some((_, is_known)) = self.lock().get_mut(name).filter(|(now, _)| now == seen) {
                *is_known = true;
            }
        }
        Ok(is_news)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (Seen, bool)>> {
        self.environments.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
