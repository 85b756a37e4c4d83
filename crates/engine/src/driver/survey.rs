//! Looks at the queues of environments, for who watches them. A look takes its turn like a command, but is no reason to
//! open an environment or to keep it open, and waits for nothing but the commits that were under way.
//!
//! What an environment that was idle had in its queues is remembered while it is closed: nobody changes it, and whoever
//! watches for messages that nobody works on must not lose sight of them because nobody does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use millpond_core::QueueReading;
use millpond_core::id::CommitSequence;
use tokio::sync::oneshot;

use crate::driver::slot::{Phase, Slot, State};
use crate::driver::{Shared, lock};
use crate::environment::Environment;

/// Queues of an environment, some or all of them, in the order of their names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Survey {
    /// The queues. Fewer than were asked for: there are no more.
    pub queues: Vec<QueueReading>,
    /// The store has no room for sends.
    pub space_low: bool,
}

/// Which queues to look at.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SurveyPage {
    /// Those behind this name; `None`: from the first on.
    pub after: Option<Box<str>>,
    /// At most so many.
    pub most: usize,
    /// Where the front of a ready order was not read since the environment was opened, have it read, for the next look.
    /// It stays in memory, some 16 KiB a queue.
    pub read_heads: bool,
}

/// Somebody who wants to look.
pub(crate) struct Asked {
    pub(crate) page: SurveyPage,
    pub(crate) sender: oneshot::Sender<Survey>,
}

/// What was seen; to be told when the commit is durable.
pub(crate) struct Seen {
    commit: CommitSequence,
    survey: Survey,
    sender: oneshot::Sender<Survey>,
}

impl Slot {
    /// Looks, and tells what was seen and is durable by now. Who asked while there is no environment is told by having
    /// what was asked dropped.
    pub(super) fn survey(self: &Arc<Self>, shared: &Shared, state: &mut State, asked: Vec<Asked>) {
        let Phase::Open(open) = &mut state.phase else { return };
        if asked.is_empty() && open.seen.is_empty() {
            return;
        }
        let mut actions = Vec::new();
        for Asked { page, sender } in asked {
            let after = page.after.as_deref();
            let (commit, queues) = open.environment.survey(after, page.most, page.read_heads, &mut actions);
            open.seen.push(Seen { commit, survey: Survey { queues, space_low: state.space_low }, sender });
        }
        let durable = open.environment.durable();
        for seen in open.seen.extract_if(.., |seen| seen.commit <= durable) {
            // Who asked may have given up.
            let _ = seen.sender.send(seen.survey);
        }
        self.carry_out(shared, state, &mut actions);
    }
}

/// Environments that were closed, with the queues in them. Bounded: an environment that has no room is not remembered.
#[derive(Debug, Default)]
pub(crate) struct ClosedSurveys {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    environments: HashMap<Box<str>, Arc<[QueueReading]>>,
    /// Environments and queues in them.
    entries: usize,
}

/// Entries that an environment takes.
fn entries(queues: &[QueueReading]) -> usize {
    queues.len() + 1
}

impl ClosedSurveys {
    /// Remembers an environment that is being closed.
    pub(crate) fn remember(&self, name: &str, environment: &Environment, most: usize) {
        let mut held = lock(&self.held);
        let room = most.saturating_sub(held.entries);
        let queues = environment.core().readings(None, room);
        let entries = entries(&queues);
        // A full page may not be all.
        if entries <= room {
            held.entries += entries;
            held.environments.insert(name.into(), queues.into());
        }
    }

    /// The environment is open again.
    pub(crate) fn forget(&self, name: &str) {
        let mut held = lock(&self.held);
        if let Some(queues) = held.environments.remove(name) {
            held.entries -= entries(&queues);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<Arc<[QueueReading]>> {
        lock(&self.held).environments.get(name).cloned()
    }

    pub(crate) fn names(&self) -> Vec<Box<str>> {
        lock(&self.held).environments.keys().cloned().collect()
    }
}

impl Shared {
    pub(crate) async fn survey(&self, environment: &str, page: SurveyPage) -> Option<Survey> {
        let slot = lock(&self.slots).get(environment).cloned()?;
        if !slot.is_open() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        slot.look(Asked { page, sender });
        receiver.await.ok()
    }

    pub(crate) fn names_open(&self) -> Vec<Box<str>> {
        self.slots().iter().filter(|slot| slot.is_open()).map(|slot| slot.name.clone()).collect()
    }
}
