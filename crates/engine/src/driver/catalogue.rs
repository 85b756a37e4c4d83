//! Questions about environments that are not open. The store may have to ask a database, so they are asked from a thread of
//! their own: whoever serves callers waits for nothing but answers.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use crossbeam_channel::{Sender, unbounded};
use millpond_store::{StoreError, StoreFactory};
use tokio::sync::oneshot;

use crate::EngineError;
use crate::driver::{Shared, Slot, lock, unavailable};

type Question = Box<dyn FnOnce(&dyn StoreFactory) + Send>;

/// The thread that asks, and what need not be asked again.
pub(crate) struct Catalogue {
    questions: Sender<Question>,
    /// Environments that there are: none is ever removed.
    known: Mutex<HashSet<Box<str>>>,
}

impl Catalogue {
    /// The thread ends with this.
    pub(crate) fn start(factory: &Arc<dyn StoreFactory>) -> Self {
        let (questions, asked) = unbounded::<Question>();
        let factory = Arc::clone(factory);
        super::pools::start("catalogue", move || {
            for question in &asked {
                question(factory.as_ref());
            }
        });
        Self { questions, known: Mutex::default() }
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn StoreFactory) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, EngineError> {
        let (sender, receiver) = oneshot::channel();
        let question = Box::new(move |factory: &dyn StoreFactory| drop(sender.send(question(factory))));
        if self.questions.send(question).is_err() {
            return Err(EngineError::ShuttingDown);
        }
        let answer = receiver.await.map_err(|_| EngineError::ShuttingDown)?;
        answer.map_err(|error| unavailable(&error))
    }

    fn is_known(&self, environment: &str) -> bool {
        lock(&self.known).contains(environment)
    }

    fn note(&self, environment: &str) {
        lock(&self.known).insert(environment.into());
    }
}

impl Shared {
    /// The slot of a known environment.
    pub(crate) async fn slot(self: &Arc<Self>, environment: &str) -> Result<Arc<Slot>, EngineError> {
        if let Some(slot) = self.slot_at_hand(environment) {
            return Ok(slot);
        }
        let name = environment.to_owned();
        let known = self.catalogue.ask(move |factory| factory.has_environment(&name)).await?;
        self.known_slot(environment, known)
    }

    /// The same for a thread that may wait for the store.
    pub(crate) fn slot_blocking(self: &Arc<Self>, environment: &str) -> Result<Arc<Slot>, EngineError> {
        if let Some(slot) = self.slot_at_hand(environment) {
            return Ok(slot);
        }
        let known = self.factory.has_environment(environment).map_err(|error| unavailable(&error))?;
        self.known_slot(environment, known)
    }

    fn slot_at_hand(self: &Arc<Self>, environment: &str) -> Option<Arc<Slot>> {
        let slot = lock(&self.slots).get(environment).cloned();
        slot.or_else(|| self.catalogue.is_known(environment).then(|| self.make_slot(environment)))
    }

    fn known_slot(self: &Arc<Self>, environment: &str, known: bool) -> Result<Arc<Slot>, EngineError> {
        if !known {
            return Err(EngineError::EnvironmentNotFound(environment.to_owned()));
        }
        self.catalogue.note(environment);
        Ok(self.make_slot(environment))
    }

    fn make_slot(self: &Arc<Self>, environment: &str) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        let writer = slots.len() % self.writers.len().max(1);
        let slot = slots
            .entry(environment.into())
            .or_insert_with(|| Arc::new(Slot::new(environment, writer, Arc::downgrade(self))));
        Arc::clone(slot)
    }

    pub(crate) async fn create_environment(&self, environment: &str) -> Result<bool, EngineError> {
        if self.is_closing() {
            return Err(EngineError::ShuttingDown);
        }
        let name = environment.to_owned();
        let is_new = self.catalogue.ask(move |factory| factory.create_environment(&name)).await?;
        self.catalogue.note(environment);
        Ok(is_new)
    }
}
