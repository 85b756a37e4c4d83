//! A store whose commits wait while a test holds them.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex};

use millpond_core::ChangeSet;
use millpond_core::id::CommitSequence;
use millpond_store::{Opened, Resolution, Store, StoreError, StoreFactory, StoreReader, StoreStats};
use millpond_test_stores::TestStore;

/// The store that tests run on, behind a gate; a clone is another handle.
#[derive(Clone, Default)]
pub(crate) struct GatedDisk {
    store: TestStore,
    gates: Arc<Mutex<HashMap<String, Arc<Gate>>>>,
}

#[derive(Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    held: bool,
    /// A commit waits.
    begun: bool,
}

/// Lets commits through when it is dropped.
pub(crate) struct Held(Arc<Gate>);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state.lock().expect("no panic").held = false;
        self.0.changed.notify_all();
    }
}

impl GatedDisk {
    /// From now on commits of this environment wait.
    pub(crate) fn hold(&self, environment: &str) -> Held {
        let gate = self.gate(environment);
        *gate.state.lock().expect("no panic") = State { held: true, begun: false };
        Held(gate)
    }

    /// Waits until a commit waits.
    pub(crate) async fn begun(&self, environment: &str) {
        let gate = self.gate(environment);
        while !gate.state.lock().expect("no panic").begun {
            tokio::task::yield_now().await;
        }
    }

    fn gate(&self, environment: &str) -> Arc<Gate> {
        let mut gates = self.gates.lock().expect("no panic");
        Arc::clone(gates.entry(environment.to_owned()).or_default())
    }
}

struct GatedStore {
    store: Box<dyn Store>,
    gate: Arc<Gate>,
}

impl Store for GatedStore {
    fn commit(&mut self, changes: &ChangeSet) -> Result<(), StoreError> {
        let mut state = self.gate.state.lock().expect("no panic");
        state.begun = true;
        drop(self.gate.changed.wait_while(state, |state| state.held).expect("no panic"));
        self.store.commit(changes)
    }

    fn resolve(&mut self, commit: CommitSequence) -> Result<Resolution, StoreError> {
        self.store.resolve(commit)
    }

    fn reader(&mut self) -> Result<Box<dyn StoreReader>, StoreError> {
        self.store.reader()
    }

    fn stats(&mut self) -> Result<StoreStats, StoreError> {
        self.store.stats()
    }

    fn close(self: Box<Self>) -> Result<(), StoreError> {
        self.store.close()
    }
}

impl StoreFactory for GatedDisk {
    fn open(&self, environment: &str) -> Result<(Box<dyn Store>, Opened), StoreError> {
        let (store, opened) = self.store.open(environment)?;
        Ok((Box::new(GatedStore { store, gate: self.gate(environment) }), opened))
    }

    fn create_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.store.create_environment(environment)
    }

    fn has_environment(&self, environment: &str) -> Result<bool, StoreError> {
        self.store.has_environment(environment)
    }

    fn set_next_due(&self, environment: &str, next_due: Option<i64>) -> Result<(), StoreError> {
        self.store.set_next_due(environment, next_due)
    }

    fn due_environments(&self, now: i64, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.due_environments(now, limit)
    }
}
